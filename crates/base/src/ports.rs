//! The range of ports that a job is confined to, as firewalls require.

use std::fmt;
use std::str::FromStr;

/// Ports from `low` to `high`, both included; none of them is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    low: u16,
    high: u16,
}

impl PortRange {
    /// Creates a range of ports, or returns `None` if it is empty or contains port 0.
    pub fn new(low: u16, high: u16) -> Option<PortRange> {
        (low > 0 && low <= high).then_some(PortRange { low, high })
    }

    /// Returns the lowest and the highest port of the range.
    pub fn bounds(self) -> (u16, u16) {
        (self.low, self.high)
    }

    /// Returns all ports once, beginning at a place that `number` selects. Processes with different numbers
    /// rarely try the same port first.
    pub fn beginning_anywhere(self, number: u64) -> impl Iterator<Item = u16> {
        let count = u64::from(self.high - self.low) + 1;
        // Below 2^16 added to the low end of a range of that length.
        (0..count).map(move |at| self.low + ((number % count + at) % count) as u16)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

/// Error for a text that is no range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRange;

impl FromStr for PortRange {
    type Err = NoRange;

    fn from_str(text: &str) -> Result<PortRange, NoRange> {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse().map_err(|_| NoRange);
        PortRange::new(port(low)?, port(high)?).ok_or(NoRange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(u16, u16)>) {
        assert_eq!(text.parse().map(PortRange::bounds).ok(), expected, "{text:?}");
    }

    #[test]
    fn ranges_are_read_or_refused() {
        check("40000-40010", Some((40000, 40010)));
        check(" 1 - 65535", Some((1, 65535)));
        check("7", Some((7, 7)));
        for wrong in ["", "-", "0-9", "9-8", "1-65536", "a-b", "1-2-3"] {
            check(wrong, None);
        }
    }

    #[test]
    fn every_port_comes_once() {
        let range = PortRange::new(65530, 65535).unwrap();
        for number in [0, 3, 5, 6, u64::MAX] {
            let mut all: Vec<u16> = range.beginning_anywhere(number).collect();
            all.sort_unstable();
            assert_eq!(all, (65530..=65535).collect::<Vec<_>>());
        }
    }
}
