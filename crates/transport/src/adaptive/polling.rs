//! How often the datagram endpoint is looked at (yu-2006 section 3.4, progress rules): at every poll as long
//! as something is under way there, and less and less often where only connections carry traffic.

/// One of so many polls, at most and at least.
const MOST: u32 = 32;
const LEAST: u32 = 1;

#[derive(Debug)]
pub(super) struct Polling {
    every: u32,
    left: u32,
}

impl Default for Polling {
    fn default() -> Polling {
        Polling { every: LEAST, left: 0 }
    }
}

impl Polling {
    /// Returns true if it is time. `idle`: nothing is under way by datagrams, and there are connections.
    #[inline]
    pub(super) fn due(&mut self, idle: bool) -> bool {
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
    }
}
