//! How often the datagram endpoint is looked at (yu-2006 section 3.4, progress rules): at every poll as long
//! as something is under way there, and less and less often where only connections carry traffic.

/// One of so many polls, at most and at least.
const MOST: u32 = 32;
const LEAST: u32 = 1;
/// Polls that may pass after it is known that there is no datagram: about those between two sleeps.
const NONE_FOR: u32 = 8;

#[derive(Debug)]
pub(super) struct Polling {
    every: u32,
    left: u32,
    /// Number of the next polls that need not ask, whatever is under way.
    none: u32,
}

impl Default for Polling {
    fn default() -> Polling {
        Polling { every: LEAST, left: 0, none: 0 }
    }
}

impl Polling {
    /// Returns true if it is time. `idle`: nothing is under way by datagrams, and there are connections.
    #[inline]
    pub(super) fn due(&mut self, idle: bool) -> bool {
        if self.none > 0 {
            self.none -= 1;
            return false;
        }
        if !idle {
            *self = Polling::default();
            return true;
        }
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.every = (self.every * 2).min(MOST);
        self.left = self.every - 1;
        true
    }

    /// Notes that no datagram had arrived a moment ago, so the next polls need not ask.
    pub(super) fn none_now(&mut self) {
        self.none = NONE_FOR;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_datagram_endpoint_is_polled_less_often_when_idle() {
        let mut polling = Polling::default();
        assert!((0..100).all(|_| polling.due(false)));
        let looks = (0..320).filter(|_| polling.due(true)).count();
        assert!((10..=15).contains(&looks), "{looks}");
        assert!(polling.due(false));
        polling.none_now();
        let asked: Vec<bool> = (0..=NONE_FOR).map(|_| polling.due(false)).collect();
        assert_eq!(asked.iter().position(|due| *due), Some(NONE_FOR as usize));
    }
}
