//! Receiving end of a stream: puts datagrams in order and messages together, reports what has arrived and
//! what is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::control::{MOST_RANGES, MulticastControl, Path};
use super::packet::{FIRST, HEADER_BYTES, LAST, LONGEST_BYTES};
use crate::link::{Header, KEEP, Peer, Sink, Verdict};

/// A datagram that is late by less may only have been overtaken.
const OVERTAKEN: Duration = Duration::from_micros(300);
/// A message that its owner has left for so long makes the stream stand still: what follows goes another way.
const HELD: Duration = Duration::from_millis(20);
/// Datagrams further ahead than this are absurd.
const FURTHEST: u64 = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Incoming {
    from: Peer,
    /// The first datagram that is not here.
    next: u64,
    /// Number from which on datagrams are not for this process.
    limit: Option<u64>,
    /// Datagrams that came early.
    early: BTreeMap<u64, (u8, Box<[u8]>)>,
    /// Received part of the message whose datagrams come next, or all of a message that was left.
    message: Vec<u8>,
    /// Time at which the complete message was left.
    held: Option<Duration>,
    quarter: u64,
    /// Member to which this receiver reports, unless it is the sender; and the members that report to this
    /// receiver, with their reports.
    parent: Option<Peer>,
    children: Vec<(Peer, u64)>,
    /// Number last reported, for this receiver and all that report to it.
    told: u64,
    /// Number before which the sender has asked for a report.
    asked: Option<u64>,
    /// Time since which something is missing, and the number before which everything was requested.
    gap: Option<Duration>,
    lacked: u64,
    /// Control messages to be sent.
    words: Vec<MulticastControl>,
}

/// Outcome of the arrival of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Taken,
    Again,
    Absurd,
}

impl Incoming {
    pub fn new(from: Peer) -> Incoming {
        Incoming {
            from,
            next: 0,
            limit: Some(0),
            early: BTreeMap::new(),
            message: Vec::new(),
            held: None,
            quarter: 1,
            parent: None,
            children: Vec::new(),
            told: 0,
            asked: None,
            gap: None,
            lacked: 0,
            words: Vec::new(),
        }
    }

    /// Starts to receive for the sender, and reports whether this process listens.
    pub fn open(&mut self, first: u64, (quarter, way): (u32, Path), listens: bool, sink: &mut impl Sink) {
        self.release(sink);
        if !listens {
            self.words.push(MulticastControl::Refused { first });
            return;
        }
        self.message.clear();
        self.early.clear();
        (self.next, self.told, self.lacked, self.limit) = (first, first, first, None);
        self.quarter = u64::from(quarter).max(1);
        self.parent = way.parent.map(Peer);
        self.children = way.children.into_iter().map(|child| (Peer(child), first)).collect();
        self.words.push(MulticastControl::Opened { first });
    }

    /// Notes the report of another receiver, for itself and all that report to it.
    pub fn gathered(&mut self, from: Peer, next: u64) {
        if let Some((_, has)) = self.children.iter_mut().find(|(child, _)| *child == from) {
            *has = next.max(*has);
        }
    }

    /// Sends later reports directly to the sender.
    pub fn go_straight(&mut self) {
        self.parent = None;
        self.children.clear();
        self.words.retain(|word| !matches!(word, MulticastControl::Gathered { .. }));
        // It may not have heard any of it.
        self.told = 0;
    }

    /// Returns the receiver of a control message.
    pub fn addressee(&self, word: &MulticastControl) -> Peer {
        let up = matches!(word, MulticastControl::Gathered { .. });
        self.parent.filter(|_| up).unwrap_or(self.from)
    }

    /// Ends the part of the stream for this process at this number. Records that take another route come
    /// after what has arrived.
    pub fn leave(&mut self, end: u64, sink: &mut impl Sink) {
        if self.next >= end {
            self.release(sink);
        }
        let limit = self.limit.map_or(end, |known| known.min(end));
        self.limit = Some(limit);
        self.early.split_off(&limit);
        self.words.push(MulticastControl::Left { end });
    }

    pub fn ask(&mut self, end: u64) {
        self.asked = Some(end);
    }

    /// Takes a datagram, from the network or as a repair.
    pub fn take(
        &mut self,
        now: Duration,
        number: u64,
        (kind, payload): (u8, &[u8]),
        sink: &mut impl Sink,
    ) -> Fate {
        if number < self.next || self.limit.is_some_and(|limit| number >= limit) {
            return Fate::Again;
        }
        if number - self.next >= FURTHEST {
            return Fate::Absurd;
        }
        if number > self.next || self.held.is_some() {
            if self.early.insert(number, (kind, payload.into())).is_some() {
                return Fate::Again;
            }
            if self.gap.is_none() && self.held.is_none() {
                self.gap = Some(now);
            }
            return Fate::Taken;
        }
        if !self.append(kind, payload) {
            return Fate::Absurd;
        }
        self.deliver(now, kind, sink);
        self.go_on(now, sink);
        Fate::Taken
    }

    /// Offers a message that was left again.
    pub fn poll(&mut self, now: Duration, sink: &mut impl Sink) -> bool {
        let Some(since) = self.held else { return false };
        let is_long = now >= since + HELD && self.limit.is_none();
        if is_long {
            // This one is kept, whatever room it takes; those behind it are not.
            let end = self.next;
            self.limit = Some(end);
            self.early.clear();
            self.words.push(MulticastControl::Decline { end });
        }
        let is_over = self.limit.is_some_and(|limit| self.next >= limit);
        if !self.hand_over(sink, is_long || is_over) {
            return false;
        }
        self.held = None;
        self.go_on(now, sink);
        true
    }

    /// Returns true if a message waits for its owner.
    pub fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the control messages that are due now.
    pub fn words(&mut self, now: Duration) -> Vec<MulticastControl> {
        let mut words = std::mem::take(&mut self.words);
        let asked = self.asked.take();
        let is_due = self.gap.is_some_and(|since| now >= since + OVERTAKEN);
        if asked.is_some() || is_due {
            let end = asked.unwrap_or(0).max(self.early.keys().next_back().map_or(0, |last| last + 1));
            let from = if asked.is_some() { self.next } else { self.lacked.max(self.next) };
            let ranges = if self.held.is_some() { Vec::new() } else { self.missing(from, end) };
            self.lacked = self.lacked.max(end);
            // What comes late from now on is asked for by the sender.
            self.gap = None;
            if asked.is_some() || !ranges.is_empty() {
                if self.parent.is_none() && self.children.is_empty() {
                    self.told = self.next;
                }
                words.push(MulticastControl::Lack { next: self.next, ranges });
            }
        }
        let next = self.children.iter().map(|(_, has)| *has).fold(self.next, u64::min);
        if next >= self.told + self.quarter {
            self.told = next;
            words.push(match self.parent {
                Some(_) => MulticastControl::Gathered { origin: self.from.0, next },
                None => MulticastControl::Have { next },
            });
        }
        words
    }

    /// Takes a control message back for which there was no room.
    pub fn unsaid(&mut self, word: MulticastControl) {
        self.words.push(word);
    }

    /// Returns true if nothing comes any more, unless the stream is opened again.
    pub fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.next >= limit) && self.held.is_none() && self.words.is_empty()
    }

    /// Returns the time of the next control message or action.
    pub fn deadline(&self) -> Option<Duration> {
        let gap = self.gap.map(|since| since + OVERTAKEN);
        let held = self.held.filter(|_| self.limit.is_none()).map(|since| since + HELD);
        gap.into_iter().chain(held).min()
    }

    /// Gives its owner a message that was left, to be kept.
    fn release(&mut self, sink: &mut impl Sink) {
        if self.held.take().is_some() {
            self.hand_over(sink, true);
            self.message.clear();
        }
    }

    fn missing(&self, from: u64, end: u64) -> Vec<(u32, u32)> {
        let mut ranges = Vec::new();
        let mut number = from.max(self.next);
        let end = end.min(self.limit.unwrap_or(end));
        let mut early = self.early.range(number.min(end)..end).map(|(number, _)| *number).peekable();
        while number < end && ranges.len() < MOST_RANGES {
            let until = early.peek().copied().unwrap_or(end);
            if until > number {
                ranges.push(((number - self.next) as u32, (until - number) as u32));
            }
            number = until;
            while early.next_if_eq(&number).is_some() {
                number += 1;
            }
        }
        ranges
    }

    /// Takes a datagram into the message; false if it does not belong there.
    fn append(&mut self, kind: u8, payload: &[u8]) -> bool {
        let fits = (kind & FIRST != 0) == self.message.is_empty()
            && self.message.len() + payload.len() <= HEADER_BYTES + LONGEST_BYTES;
        if fits {
            self.message.extend_from_slice(payload);
            self.next += 1;
        }
        fits && (!self.message.is_empty())
    }

    fn deliver(&mut self, now: Duration, kind: u8, sink: &mut impl Sink) {
        if kind & LAST != 0 && !self.hand_over(sink, false) {
            self.held = Some(now);
        }
    }

    fn hand_over(&mut self, sink: &mut impl Sink, keep: bool) -> bool {
        let Some((words, payload)) = self.message.split_first_chunk::<HEADER_BYTES>() else {
            self.message.clear();
            return true;
        };
        let (words, _) = words.as_chunks::<8>();
        let mut header = Header([0; 3]);
        header.0.iter_mut().zip(words).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        header.0[0] |= if keep { KEEP } else { 0 };
        let is_taken = sink.arrived(self.from, header, payload) == Verdict::Taken;
        if is_taken {
            self.message.clear();
        }
        is_taken
    }

    /// Takes what came early and is next now.
    fn go_on(&mut self, now: Duration, sink: &mut impl Sink) {
        while self.held.is_none()
            && let Some((kind, payload)) = self.early.remove(&self.next)
        {
            if !self.append(kind, &payload) {
                break;
            }
            self.deliver(now, kind, sink);
        }
        if self.early.is_empty() {
            self.gap = None;
        } else if self.gap.is_none() && self.held.is_none() && self.lacked <= self.next {
            self.gap = Some(now);
        }
    }
}
