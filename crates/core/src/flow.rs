//! Flow control: a bound on what a receiver keeps of messages for which no receive was posted.
//!
//! What is counted. A message that nobody waits for costs its receiver an entry in the unexpected queue, whatever its
//! length, and its payload if that came with it. So each counts as [`ENVELOPE_BYTES`] and its eager payload; a rendezvous
//! request as the former alone. Between two processes at most a *window* of that may be on its way or kept; all windows
//! towards a process together are `TUTTI_UNEXPECTED_BYTES` (and [`LEAST_WINDOW`] a peer, should there be so many peers that their
//! shares are smaller). One half of the bound is divided among the peers from the start. The other half is a
//! [`Reserve`] at the receiver, from which it grants more to those who say that they are short of it; when that runs
//! low, grants are taken back as their messages are consumed.
//!
//! What the sender does. Without room for the payload it sends a rendezvous request; without room for that either it
//! withholds the message (`p2p::withheld`), tells the receiver once that it does so, and sends what it withholds, in order,
//! as credit comes. The receiver gives credit back when a quarter of the window has been consumed, or earlier when it
//! runs dry.
//!
//! Why nothing stands still. A message must come, credit or not, once a receive for it is posted (MPI-5 section 3.5,
//! progress): the window may be full of messages that the program receives only afterwards, in another order, by tag
//! or in another communicator. So a receiver that knows a peer to withhold messages hands it every receive that is posted and may be
//! for it, in the order in which they were posted, and the *sender* matches: it claims the first such receive that a withheld
//! message fits, for the first such message. The claim takes no room in the unexpected queue: the receiver takes the message, or
//! declines it if another message has got there first. Hence
//!
//! - the matching order is that of section 3.5: all that was sent earlier has arrived before the claim (the link keeps
//!   order), or does not fit; while a claim is not decided, nothing else leaves, so that what is declined
//!   has lost no place; and the receiver takes a claim only for the receive that it would have matched itself;
//! - a standard send may wait until its receive is posted, as the standard allows; a synchronous send waits in any
//!   case; the receive of a ready send is posted, so that it is pulled; a buffered send waits in the sender's
//!   own buffer; a probe is answered with what the sender would claim (`p2p::pulling`);
//! - what the receiver keeps is bounded by the windows, what the sender keeps of receives by those that the receiver has posted, and
//!   what it withholds by the requests that its own program holds.
//!
//! Messages of one-sided communication are never withheld: their target takes each in as it comes, without a receive,
//! and their origin bounds how many are under way. Announcements of partitioned messages are not counted: they are one a
//! channel, not one a message, and both ends keep it as long as it exists.

/// What the receiver keeps of a message besides its payload: the entry in the queue and its share of what queues and
/// allocator leave unused.
pub const ENVELOPE_BYTES: u64 = 128;
/// Smallest window towards a process.
pub const LEAST_WINDOW: u64 = 4 * ENVELOPE_BYTES;

/// What an eager message with so much payload counts.
#[inline]
pub const fn eager_cost(payload: u64) -> u64 {
    payload + ENVELOPE_BYTES
}

/// The window between two processes to begin with, when `peers` of them share the bound.
pub fn initial_window(bound: u64, peers: u64) -> u64 {
    (bound / 2 / peers.max(1)).max(LEAST_WINDOW)
}

/// The sender's side towards one peer.
#[derive(Debug)]
pub struct SendWindow {
    free: u64,
    /// What is free while messages are withheld: others then have to queue behind them.
    aside: u64,
    is_closed: bool,
    /// The peer was told that there is not enough, and has not answered.
    has_asked: bool,
}

/// The receiver's side towards one peer.
#[derive(Debug)]
pub struct ReceiveWindow {
    least: u64,
    size: u64,
    quarter: u64,
    consumed: u64,
}

/// What a receiver may grant beyond the windows that all peers have from the start.
#[derive(Debug)]
pub struct Reserve {
    free: u64,
    bound: u64,
    step: u64,
}

impl SendWindow {
    /// A window of that size, all free.
    pub fn new(bytes: u64) -> SendWindow {
        SendWindow { free: bytes, aside: 0, is_closed: false, has_asked: false }
    }

    /// Takes room for a message; false if there is too little, or others wait.
    #[inline]
    pub fn admit(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free;
        if fits {
            self.free -= bytes;
        }
        fits
    }

    /// Takes room for a message that was withheld.
    pub fn admit_withheld(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.aside;
        if fits {
            self.aside -= bytes;
        }
        fits
    }

    /// Gives back room that was taken for a message that could not be sent.
    #[inline]
    pub fn give_back(&mut self, bytes: u64) {
        let place = if self.is_closed { &mut self.aside } else { &mut self.free };
        *place += bytes;
    }

    /// The receiver has consumed so much, or grants it.
    pub fn credit(&mut self, bytes: u64) {
        self.has_asked = false;
        self.give_back(bytes);
    }

    /// Messages are withheld from now on.
    pub fn close(&mut self) {
        self.aside += std::mem::take(&mut self.free);
        self.is_closed = true;
    }

    /// No message is withheld any more.
    pub fn open(&mut self) {
        self.free += std::mem::take(&mut self.aside);
        self.is_closed = false;
    }

    /// There was not enough room: whether the receiver is to be asked for more now.
    pub fn asks(&mut self) -> bool {
        !std::mem::replace(&mut self.has_asked, true)
    }
}

impl ReceiveWindow {
    /// The receiver's side of a window of that size.
    pub fn new(bytes: u64) -> ReceiveWindow {
        ReceiveWindow { least: bytes, size: bytes, quarter: bytes / 4, consumed: 0 }
    }

    /// A message has left the queue: the credit to send now, if it is worth a packet.
    #[inline]
    pub fn consume(&mut self, bytes: u64, reserve: &mut Reserve) -> Option<u64> {
        self.consumed += bytes;
        if self.consumed < self.quarter { None } else { self.settle(reserve) }
    }

    /// The credit for all that was consumed, if there is some.
    #[cold]
    pub fn settle(&mut self, reserve: &mut Reserve) -> Option<u64> {
        let consumed = std::mem::take(&mut self.consumed);
        let kept = if reserve.is_low() { consumed.min(self.size - self.least) } else { 0 };
        self.resize(self.size - kept);
        reserve.free += kept;
        Some(consumed - kept).filter(|credit| *credit > 0)
    }

    /// The sender is short of room: what it gets now, of what was consumed and of the reserve.
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
    /// Half of the bound, in grants that hold some eager messages of `eager` bytes.
    pub fn new(bound: u64, eager: u64) -> Reserve {
        Reserve { free: bound / 2, bound, step: 4 * eager_cost(eager) }
    }

    /// A grant for a peer whose window began with so much. Half of what is left stays for others.
    fn take(&mut self, window: u64) -> u64 {
        let granted = window.max(self.step).min(self.free / 2);
        let granted = if granted < ENVELOPE_BYTES { 0 } else { granted };
        self.free -= granted;
        granted
    }

    /// Whether grants are to be taken back.
    fn is_low(&self) -> bool {
        self.free < self.bound / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const EAGER: u64 = 16 << 10;

    /// One of several senders, and what the receiver keeps of its messages.
    struct Pair {
        sender: SendWindow,
        receiver: ReceiveWindow,
        kept: VecDeque<u64>,
    }

    /// Senders that send whenever they may, to a receiver that consumes a message of any of them now and then: how many
    /// bytes it has kept at most, and the fewest messages of a sender that were admitted.
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
