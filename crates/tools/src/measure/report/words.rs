//! Sizes, times and ratios for people.

/// Formats a size: 8, 1K, 4M.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "-".to_string(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Formats a time in microseconds with a suitable unit.
pub fn time(us: f64) -> String {
    match us {
        _ if us < 10.0 => format!("{us:.2} us"),
        _ if us < 1e4 => format!("{us:.0} us"),
        _ => format!("{:.1} ms", us / 1e3),
    }
}

/// Formats a ratio with three digits.
pub(super) fn short(ratio: f64) -> String {
    match ratio {
        _ if ratio < 10.0 => format!("{ratio:.2}"),
        _ if ratio < 100.0 => format!("{ratio:.1}"),
        _ => format!("{ratio:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!([0, 8, 1000, 1024, 4 << 20].map(size), ["-", "8", "1000", "1K", "4M"]);
        assert_eq!([0.25, 12.3, 54_321.0].map(time), ["0.25 us", "12 us", "54.3 ms"]);
    }
}
