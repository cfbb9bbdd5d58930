//! Sending side of the stream in one direction: queued datagrams, datagrams under way, losses and
//! repetitions.

use std::collections::VecDeque;
use std::time::Duration;

use super::pace::{Pace, WINDOW};
use super::packet::Acknowledgement;
use super::pool::Pool;

/// A datagram is lost when so many that were sent later have arrived.
const OVERTAKEN: u64 = 3;
/// A datagram that was sent so often without being named by so many acknowledgements is lost each time for a
/// reason.
const SWALLOWED: u32 = 8;
const UNMOVED: u32 = 3;
/// Number of datagrams that leave at once, whatever the pace, even if some before them seem to be lost.
const AT_ONCE: usize = 32;
/// A record of more datagrams goes by the pace: such come in long rows, which would flood a slow line.
const SHORT: usize = 16;

#[derive(Debug)]
struct Outgoing {
    /// All but what is known only when it is sent (see `packet::seal`).
    content: Vec<u8>,
    /// Time of the last transmission, followed by the number of transmissions.
    sent_at: Duration,
    times: u32,
    arrived: bool,
    /// To be sent again.
    lost: bool,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// Number of the first datagram that is not known to have arrived: that of `packets[0]`.
    first: u64,
    /// First that was never sent.
    next: u64,
    /// Sequence number below which the receiver has room.
    limit: u64,
    /// Sequence number below which datagrams are sent as soon as they are queued.
    promised: u64,
    packets: VecDeque<Outgoing>,
    under_way: u32,
    lost: u32,
    pace: Pace,
    /// Time at which the oldest datagram under way counts as lost.
    timer: Option<Duration>,
    /// Time since which no answer has come although a datagram was sent.
    unanswered: Option<Duration>,
    /// Number of acknowledgements since the repetition of the first datagram that do not cover it.
    unmoved: u32,
}

/// Result of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of newly acknowledged datagrams.
    pub arrived: u32,
    /// True if the peer acknowledges datagrams that were never sent.
    pub absurd: bool,
}

impl Sender {
    pub(super) fn new() -> Sender {
        Sender {
            first: 0,
            next: 0,
            limit: u64::from(WINDOW),
            promised: 0,
            packets: VecDeque::new(),
            under_way: 0,
            lost: 0,
            pace: Pace::new(),
            timer: None,
            unanswered: None,
            unmoved: 0,
        }
    }

    /// Returns true if all that was queued has arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns true if a record of this many datagrams is accepted now. A short record is accepted if pace
    /// and receiver let it leave at once. A long one is accepted while at most one other is under way. With
    /// nothing under way any record is accepted: its first datagrams request room from the receiver.
    pub(super) fn takes(&self, datagrams: usize) -> bool {
        if datagrams > SHORT {
            return self.packets.len() <= datagrams;
        }
        let unknown = self.packets.len() + datagrams;
        let is_slow = unknown > AT_ONCE.max(self.pace.window() as usize);
        let has_room = self.next + datagrams as u64 <= self.limit;
        self.packets.is_empty() || self.all_left() && has_room && !is_slow
    }

    /// Returns true if every queued datagram was sent at least once.
    pub(super) fn all_left(&self) -> bool {
        self.next == self.sequence()
    }

    /// Lets the queued datagrams leave at once if they are few and the receiver has room.
    pub(super) fn promise(&mut self) {
        if self.sequence() - self.next <= SHORT as u64 {
            self.promised = self.sequence().min(self.limit);
        }
    }

    /// Returns the sequence number of the next datagram to be queued.
    pub(super) fn sequence(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Returns the sequence number of the first datagram that was never sent.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns true if all below `sequence` have arrived.
    pub(super) fn has_arrived(&self, sequence: u64) -> bool {
        sequence < self.first
    }

    /// Returns the number of times that the first datagram was sent.
    pub(super) fn attempts(&self) -> u32 {
        self.packets.front().map_or(0, |packet| packet.times)
    }

    pub(super) fn push(&mut self, content: Vec<u8>) {
        let sent_at = Duration::ZERO;
        self.packets.push_back(Outgoing { content, sent_at, times: 0, arrived: false, lost: false });
    }

    /// Notes that a datagram of the peer has arrived.
    pub(super) fn heard(&mut self) {
        self.unanswered = None;
    }

    pub(super) fn acknowledge(&mut self, now: Duration, what: &Acknowledgement, pool: &mut Pool) -> Progress {
        if what.below > self.next {
            return Progress { arrived: 0, absurd: true };
        }
        self.widen(what.below + u64::from(what.window.min(WINDOW)));
        let mut sample = None;
        let mut latest = Duration::ZERO;
        let mut progress = Progress::default();
        let highest = match what.selective {
            0 => what.below,
            bits => what.below + 1 + u64::from(bits.ilog2()),
        };
        for (sequence, packet) in (self.first..self.next).zip(&mut self.packets) {
            let bit = sequence.wrapping_sub(what.below.wrapping_add(1));
            let there = sequence < what.below || bit < 64 && what.selective >> bit & 1 == 1;
            if !there || packet.arrived {
                continue;
            }
            packet.arrived = true;
            progress.arrived += 1;
            if packet.lost {
                packet.lost = false;
                self.lost -= 1;
            } else {
                self.under_way -= 1;
            }
            if packet.times == 1 {
                latest = latest.max(packet.sent_at);
                sample = Some(now.saturating_sub(packet.sent_at));
            }
        }
        self.unmoved += u32::from(self.attempts() > 1);
        while self.packets.front().is_some_and(|packet| packet.arrived) {
            self.unmoved = 0;
            self.first += 1;
            pool.give(self.packets.pop_front().expect("there is a first one").content);
        }
        if progress.arrived > 0 {
            sample.into_iter().for_each(|time| self.pace.measured(time));
            self.pace.arrived(progress.arrived);
            self.find_lost(highest, latest);
            self.timer = (self.under_way > 0).then(|| now + self.pace.timeout());
        }
        progress
    }

    /// Extends the receiver's room to the datagrams below `limit`. Datagrams that were sent without certain
    /// room are sent again.
    fn widen(&mut self, limit: u64) {
        if limit <= self.limit {
            return;
        }
        let probes = self.limit.max(self.first)..self.next;
        self.limit = limit;
        for sequence in probes {
            let packet = &mut self.packets[(sequence - self.first) as usize];
            if !packet.arrived && !packet.lost {
                packet.lost = true;
                self.lost += 1;
                self.under_way -= 1;
            }
        }
    }

    /// Marks datagrams as lost that were sent well before one that has arrived.
    fn find_lost(&mut self, highest: u64, latest: Duration) {
        let reordering = self.pace.reordering();
        for (sequence, packet) in (self.first..self.next).zip(&mut self.packets) {
            let overtaken = match packet.times {
                1 => sequence + OVERTAKEN <= highest,
                _ => packet.sent_at + reordering < latest,
            };
            if overtaken && !packet.arrived && !packet.lost {
                packet.lost = true;
                self.lost += 1;
                self.under_way -= 1;
                self.pace.lost(sequence, self.next);
            }
        }
    }

    /// Returns index and content of the next datagram to send.
    pub(super) fn due(&self) -> Option<(usize, &[u8])> {
        let promised = self.next < self.promised;
        if self.under_way >= self.pace.window() && !promised {
            return None;
        }
        let index = if self.lost > 0 && !promised {
            self.packets.iter().position(|packet| packet.lost)?
        } else {
            let probe = self.next >= self.limit && self.under_way == 0;
            if self.next >= self.limit && !probe {
                return None;
            }
            (self.next - self.first) as usize
        };
        self.packets.get(index).map(|packet| (index, packet.content.as_slice()))
    }

    /// Notes that the datagram at `index` was sent. Returns true if it was sent before.
    pub(super) fn sent(&mut self, now: Duration, index: usize) -> bool {
        let packet = &mut self.packets[index];
        packet.sent_at = now;
        packet.times += 1;
        if packet.lost {
            packet.lost = false;
            self.lost -= 1;
        } else {
            self.next += 1;
        }
        self.under_way += 1;
        let again = packet.times > 1;
        let timeout = self.pace.timeout();
        self.timer.get_or_insert(now + timeout);
        self.unanswered.get_or_insert(now);
        again
    }

    /// Returns the time at which [`Sender::expire`] is due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.timer
    }

    /// Counts all datagrams under way as lost if nothing came in time. Returns true if it was time for that.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        if self.timer.is_none_or(|timer| now < timer) {
            return false;
        }
        for packet in &mut self.packets {
            if packet.times > 0 && !packet.arrived && !packet.lost {
                packet.lost = true;
                self.lost += 1;
                self.under_way -= 1;
            }
        }
        self.pace.timed_out(self.next);
        self.timer = None;
        true
    }

    /// Returns for how long nothing has arrived although something was sent. None if nothing is unanswered.
    pub(super) fn silent(&self, now: Duration) -> Option<Duration> {
        Some(now.saturating_sub(self.unanswered?))
    }

    /// Bytes of a datagram that does not arrive, while others do or the peer answers, which has room for it:
    /// something on the way takes it out.
    pub(super) fn swallowed(&self) -> Option<usize> {
        let first = self.packets.front()?;
        let is_taken_out = first.times >= SWALLOWED && self.unmoved >= UNMOVED && self.first < self.limit;
        is_taken_out.then_some(first.content.len())
    }

    /// Returns true if a datagram of more than so many bytes was sent again, and has not arrived.
    pub(super) fn repeats_long(&self, bytes: usize) -> bool {
        self.packets.front().is_some_and(|first| first.times > 1 && first.content.len() > bytes)
    }

    /// Sends all datagrams under way again at once, as they now take another route.
    pub(super) fn repeat_all(&mut self, now: Duration) {
        if self.timer.is_some() {
            self.timer = Some(now);
        }
    }

    /// Forgets all that is queued. What was never sent leaves no gap; what was keeps its number, empty of
    /// meaning.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        self.packets.drain(..).for_each(|packet| pool.give(packet.content));
        self.first = self.next;
        self.promised = self.next;
        self.under_way = 0;
        self.lost = 0;
        self.timer = None;
        self.unanswered = None;
        self.unmoved = 0;
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        self.packets.iter().map(|packet| packet.content.capacity()).sum::<usize>()
            + self.packets.capacity() * size_of::<Outgoing>()
    }
}
