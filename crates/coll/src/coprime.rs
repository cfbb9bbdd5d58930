//! Strides that visit every place of a ring once.

/// Returns the least number from `least` (1 or more) on that has no divisor in common with `places`. Steps of
/// this length around `places` places visit all of them before one repeats.
pub(crate) fn coprime_from(least: u64, places: u64) -> u64 {
    (least..)
        .find(|&stride| divisor(stride, places) == 1)
        .expect("consecutive numbers include one that is coprime to places")
}

/// Returns the greatest common divisor of two numbers.
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
