//! Flow control of eager messages: a bound on what an unready receiver has to keep.
//!
//! Between two processes at most a window of eager payload may be on its way or kept unexpected; beyond it
//! the sender offers its messages (rendezvous), so their bytes stay in its own memory. The receiver gives
//! credit back when a quarter of the window has been consumed, in one packet. The bound on what a
//! process keeps is therefore its number of peers times the window, which is chosen so that this is the
//! setting `TUTTI_UNEXPECTED_BYTES`.

/// The sender's side towards one peer.
#[derive(Debug)]
pub struct SendWindow {
    free: u64,
}

/// The receiver's side towards one peer.
#[derive(Debug)]
pub struct ReceiveWindow {
    quarter: u64,
    consumed: u64,
}

/// Size of the window between two processes, when `peers` of them share the bound.
pub fn window_bytes(bound: u64, peers: u64, eager: u64) -> u64 {
    (bound / peers.max(1)).max(4 * eager.max(64))
}

impl SendWindow {
    /// A window of that size, all free.
    pub fn new(bytes: u64) -> SendWindow {
        SendWindow { free: bytes }
    }

    /// Takes room for a message; false when it must be offered instead.
    #[inline]
    pub fn admit(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free;
        if fits {
            self.free -= bytes;
        }
        fits
    }

    /// Gives back room that was taken for a message that could not be sent, or that the receiver consumed.
    pub fn credit(&mut self, bytes: u64) {
        self.free += bytes;
    }
}

impl ReceiveWindow {
    /// The receiver's side of a window of that size.
    pub fn new(bytes: u64) -> ReceiveWindow {
        ReceiveWindow { quarter: bytes / 4, consumed: 0 }
    }

    /// A message has left for its user's buffer: the credit to send now, if it is worth a packet.
    #[inline]
    pub fn consume(&mut self, bytes: u64) -> Option<u64> {
        self.consumed += bytes;
        (self.consumed >= self.quarter).then(|| std::mem::take(&mut self.consumed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_never_stalls_for_good_and_never_overruns() {
        let bytes = window_bytes(1 << 20, 4, 16 << 10);
        let (mut sender, mut receiver) = (SendWindow::new(bytes), ReceiveWindow::new(bytes));
        let mut kept = std::collections::VecDeque::new();
        let (mut eager, mut held) = (0, 0u64);
        for round in 0..10_000u64 {
            let size = (round * 7919) % (16 << 10);
            if sender.admit(size) {
                kept.push_back(size);
                held += size;
                eager += 1;
            }
            assert!(held <= bytes);
            if round % 3 != 0 {
                continue;
            }
            while let Some(size) = kept.pop_front() {
                held -= size;
                if let Some(credit) = receiver.consume(size) {
                    sender.credit(credit);
                }
            }
        }
        assert!(eager > 9_000, "{eager} of 10000 were eager");
    }

    #[test]
    fn the_window_holds_some_messages_whatever_the_bound() {
        assert_eq!(window_bytes(64 << 20, 8, 16 << 10), 8 << 20);
        assert_eq!(window_bytes(0, 1000, 16 << 10), 64 << 10);
    }
}
