//! Strides by which all places of a ring come once.

/// The least number from `least` (1 or more) on that has no divisor in common with `places`: places that
/// follow each other at this distance, counted round, are all different until all have come.
pub(crate) fn coprime_from(least: u64, places: u64) -> u64 {
    (least..)
        .find(|&stride| divisor(stride, places) == 1)
        .expect("of numbers that follow each other one has none in common")
}

/// The greatest common divisor.
fn divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(least: u64, places: u64, expected: u64) {
        assert_eq!(coprime_from(least, places), expected, "{least} {places}");
    }

    #[test]
    fn the_least_one_is_found() {
        check(1, 0, 1);
        check(1, 1, 1);
        check(2, 6, 5);
        check(3, 8, 3);
        check(4, 8, 5);
        check(10, 30, 11);
    }
}
