//! Flow control: a bound on the memory for unexpected messages, which arrive before their receive is posted.
//!
//! # Accounting
//!
//! An unexpected message costs its receiver an entry in a queue, whatever its length, and its payload if that
//! came with it. So each message counts as [`ENVELOPE_BYTES`] plus its eager payload. A rendezvous request
//! counts as [`ENVELOPE_BYTES`] alone.
//!
//! Between two processes at most a *window* of these bytes may be on its way or queued. The windows towards
//! one process add up to `TUTTI_UNEXPECTED_BYTES`. Each has at least [`LEAST_WINDOW`] bytes, so the sum is
//! larger in very large jobs. One half of the bound is divided among the peers from the start. The other half
//! is a [`Reserve`] at the receiver, which grants more to peers that request it. When the reserve runs low,
//! grants are taken back as their messages are consumed.
//!
//! # The sender
//!
//! Without room for the payload, it sends a rendezvous request. Without room for that either, it withholds
//! the message (`p2p::withheld`) and informs the receiver once. It sends withheld messages in order as credit
//! arrives. The receiver returns credit when a quarter of the window has been consumed. It does so earlier if
//! a sender reports that it has no room.
//!
//! # Progress
//!
//! A message must arrive once a receive for it is posted, credit or not (MPI-5 section 3.5). The window may
//! be full of messages that the program receives only later: in another order, by tag, or in another
//! communicator. A receiver that knows a peer to withhold messages therefore sends it every posted receive
//! that may match, in the order of posting. The *sender* matches: it claims the first receive that fits a
//! withheld message, for the first such message. The claim takes no room in the unexpected queue. The
//! receiver accepts the message, or declines it if another message was matched first. Hence
//!
//! - The matching order is that of section 3.5. All earlier messages have arrived before the claim, as the
//!   link keeps order, or they do not fit. While a claim is undecided nothing else leaves, so a declined
//!   message keeps its position. The receiver accepts a claim only for the receive that it would have matched
//!   itself.
//! - A standard send may wait until its receive is posted, as the standard allows. A synchronous send waits
//!   in any case. The receive of a ready send is posted, so the message is claimed. A buffered send waits in
//!   the sender's own buffer. A probe is answered with the message that the sender would claim
//!   (`p2p::pulling`).
//! - All memory is bounded. The windows bound unexpected messages, the receiver's posted receives bound the
//!   requests at the sender, and the program's own requests bound the withheld messages.
//!
//! Messages of one-sided communication are never withheld: the target processes each on arrival, without a
//! receive, and the origin bounds their number. Announcements of partitioned messages are not counted. There
//! is one for each channel, not for each message, and both ends keep it as long as the channel exists.

/// Memory of an unexpected message besides its payload, in bytes. It covers the entry in the queue and a
/// share of the unused memory of queues and allocator.
pub const ENVELOPE_BYTES: u64 = 128;
/// Smallest window towards a process.
pub const LEAST_WINDOW: u64 = 4 * ENVELOPE_BYTES;

/// Returns the bytes of the window that an eager message with this payload takes.
#[inline]
pub const fn eager_cost(payload: u64) -> u64 {
    payload + ENVELOPE_BYTES
}

/// Returns the initial window between two processes in bytes, if `peers` processes share `bound` bytes.
pub fn initial_window(bound: u64, peers: u64) -> u64 {
    (bound / 2 / peers.max(1)).max(LEAST_WINDOW)
}

/// State of a window at the sender, for one peer.
#[derive(Debug)]
pub struct SendWindow {
    free: u64,
    /// Free bytes while messages are withheld. They are kept apart so that new messages queue behind these.
    aside: u64,
    is_closed: bool,
    /// True if more room was requested from the peer, which has not replied.
    has_asked: bool,
}

/// State of a window at the receiver, for one peer.
#[derive(Debug)]
pub struct ReceiveWindow {
    least: u64,
    size: u64,
    quarter: u64,
    consumed: u64,
}

/// Bytes that a receiver may grant beyond the initial windows of all peers.
#[derive(Debug)]
pub struct Reserve {
    free: u64,
    bound: u64,
    step: u64,
}

impl SendWindow {
    /// Returns a window of this size, all of it free.
    pub fn new(bytes: u64) -> SendWindow {
        SendWindow { free: bytes, aside: 0, is_closed: false, has_asked: false }
    }

    /// Takes room for a message. Returns false if there is too little, or if messages are withheld.
    #[inline]
    pub fn admit(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free;
        if fits {
            self.free -= bytes;
        }
        fits
    }

    /// Takes room for a message that was withheld. Returns false if there is too little.
    pub fn admit_withheld(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.aside;
        if fits {
            self.aside -= bytes;
        }
        fits
    }

    /// Returns room that was taken for a message that could not be sent.
    #[inline]
    pub fn give_back(&mut self, bytes: u64) {
        let place = if self.is_closed { &mut self.aside } else { &mut self.free };
        *place += bytes;
    }

    /// Adds bytes that the receiver has consumed or granted.
    pub fn credit(&mut self, bytes: u64) {
        self.has_asked = false;
        self.give_back(bytes);
    }

    /// Closes the window for new messages, because messages are withheld.
    pub fn close(&mut self) {
        self.aside += std::mem::take(&mut self.free);
        self.is_closed = true;
    }

    /// Opens the window for new messages, because no message is withheld any more.
    pub fn open(&mut self) {
        self.free += std::mem::take(&mut self.aside);
        self.is_closed = false;
    }

    /// Notes that room was missing. Returns true if the receiver must be asked now, false if a request is
    /// pending.
    pub fn asks(&mut self) -> bool {
        !std::mem::replace(&mut self.has_asked, true)
    }
}

impl ReceiveWindow {
    /// Returns the receiver's side of a window of this size.
    pub fn new(bytes: u64) -> ReceiveWindow {
        ReceiveWindow { least: bytes, size: bytes, quarter: bytes / 4, consumed: 0 }
    }

    /// Counts a message that has left the queue. Returns the credit to send now, if it is worth a packet.
    #[inline]
    pub fn consume(&mut self, bytes: u64, reserve: &mut Reserve) -> Option<u64> {
        self.consumed += bytes;
        if self.consumed < self.quarter { None } else { self.settle(reserve) }
    }

    /// Returns the credit for all consumed bytes, or None if there is none.
    #[cold]
    pub fn settle(&mut self, reserve: &mut Reserve) -> Option<u64> {
        let consumed = std::mem::take(&mut self.consumed);
        let kept = if reserve.is_low() { consumed.min(self.size - self.least) } else { 0 };
        self.resize(self.size - kept);
        reserve.free += kept;
        Some(consumed - kept).filter(|credit| *credit > 0)
    }

    /// Returns the credit for a sender that is short of room: consumed bytes and a grant from the reserve.
    pub fn grant(&mut self, reserve: &mut Reserve) -> Option<u64> {
        let granted = reserve.take(self.least);
        self.resize(self.size + granted);
        let consumed = std::mem::take(&mut self.consumed);
        Some(consumed + granted).filter(|credit| *credit > 0)
    }

    fn resize(&mut self, size: u64) {
        self.size = size;
        self.quarter = size / 4;
    }
}

impl Reserve {
    /// Returns a reserve of half the bound. Its grants hold several eager messages of `eager` bytes.
    pub fn new(bound: u64, eager: u64) -> Reserve {
        Reserve { free: bound / 2, bound, step: 4 * eager_cost(eager) }
    }

    /// Takes a grant for a peer with this initial window. At least half of the free bytes remain for other
    /// peers.
    fn take(&mut self, window: u64) -> u64 {
        let granted = window.max(self.step).min(self.free / 2);
        let granted = if granted < ENVELOPE_BYTES { 0 } else { granted };
        self.free -= granted;
        granted
    }

    /// Returns true if grants are to be taken back.
    fn is_low(&self) -> bool {
        self.free < self.bound / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const EAGER: u64 = 16 << 10;

    /// Sender and receiver of one pair, with the messages that the receiver keeps.
    struct Pair {
        sender: SendWindow,
        receiver: ReceiveWindow,
        kept: VecDeque<u64>,
    }

    /// Simulates senders that send whenever they may, and a receiver that consumes messages of each in turn.
    /// Returns the maximum number of bytes that it has kept, and the smallest number of messages admitted
    /// from a sender.
    fn check(bound: u64, peers: u64, rounds: u64) -> (u64, u64) {
        let window = initial_window(bound, peers);
        let mut reserve = Reserve::new(bound, EAGER);
        let mut pairs: Vec<Pair> = (0..peers)
            .map(|_| Pair {
                sender: SendWindow::new(window),
                receiver: ReceiveWindow::new(window),
                kept: VecDeque::new(),
            })
            .collect();
        let (mut most, mut admitted) = (0, vec![0; peers as usize]);
        for round in 0..rounds {
            for (number, pair) in pairs.iter_mut().enumerate() {
                let cost = eager_cost((round * 7919 + number as u64 * 31) % EAGER);
                let cost = if pair.sender.admit(cost) { Some(cost) } else { None };
                let cost = cost.or_else(|| pair.sender.admit(ENVELOPE_BYTES).then_some(ENVELOPE_BYTES));
                admitted[number] += u64::from(cost.is_some());
                pair.kept.extend(cost);
                if cost.is_none()
                    && pair.sender.asks()
                    && let Some(credit) = pair.receiver.grant(&mut reserve)
                {
                    pair.sender.credit(credit);
                }
            }
            most = most.max(pairs.iter().flat_map(|pair| &pair.kept).sum());
            let pair = &mut pairs[(round % peers) as usize];
            while let Some(cost) = pair.kept.pop_front() {
                if let Some(credit) = pair.receiver.consume(cost, &mut reserve) {
                    pair.sender.credit(credit);
                }
            }
        }
        (most, admitted.into_iter().min().unwrap_or(0))
    }

    #[test]
    fn no_sender_stalls_for_good_and_all_together_keep_the_bound() {
        for (bound, peers) in [(1 << 20, 1), (1 << 20, 4), (64 << 20, 64), (1 << 20, 300), (0, 5)] {
            let (most, fewest) = check(bound, peers, 20_000);
            assert!(most <= bound.max(peers * LEAST_WINDOW), "{most} bytes of {peers} peers, bound {bound}");
            let turns = 20_000 / peers;
            assert!(
                fewest > turns / 2,
                "{fewest} messages of a sender, which had {turns} turns, bound {bound}"
            );
        }
    }

    #[test]
    fn grants_are_taken_back_when_the_reserve_is_low() {
        let mut reserve = Reserve::new(1 << 20, EAGER);
        let mut windows: Vec<ReceiveWindow> = (0..20).map(|_| ReceiveWindow::new(1 << 12)).collect();
        for window in &mut windows {
            window.grant(&mut reserve);
        }
        assert!(reserve.is_low());
        let granted = windows[0].size;
        assert!(granted > 4 * EAGER);
        assert_eq!(windows[0].consume(granted, &mut reserve), Some(1 << 12), "the rest stays here");
        assert_eq!(windows[0].consume(1 << 12, &mut reserve), Some(1 << 12));
        windows[1].consume(granted, &mut reserve);
        assert!(!reserve.is_low());
    }

    #[test]
    fn what_is_withheld_goes_before_what_is_not() {
        let mut window = SendWindow::new(1000);
        assert!(window.admit(600) && !window.admit(600));
        window.close();
        assert!(!window.admit(1) && window.admit_withheld(100) && !window.admit_withheld(500));
        assert!(window.asks() && !window.asks());
        window.credit(600);
        assert!(!window.admit(1) && window.admit_withheld(500) && window.asks());
        window.open();
        assert!(window.admit(400) && !window.admit(1));
    }

    #[test]
    fn every_peer_has_room_for_some_messages() {
        assert_eq!(initial_window(64 << 20, 8), 4 << 20);
        assert_eq!(initial_window(0, 1000), LEAST_WINDOW);
    }
}
