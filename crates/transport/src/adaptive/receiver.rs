//! Receiving side of the stream in one direction: accepts datagrams in any order, delivers whole records in
//! order, and decides when to acknowledge.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pace::WINDOW;
use super::packet::{Acknowledgement, Fragment, Kind};
use crate::link::Header;

/// An answer, if there is one, takes the acknowledgement along.
const ACKNOWLEDGE_AFTER: Duration = Duration::from_micros(100);
/// Number of datagrams after which an acknowledgement is due.
const ACKNOWLEDGE_EVERY: u32 = 2;

/// A fragment that is kept.
#[derive(Debug)]
struct Early {
    kind: Kind,
    first: Option<(Header, u32)>,
    last: bool,
    payload: Vec<u8>,
}

/// A record whose end has not come.
#[derive(Debug)]
struct Partial {
    kind: Kind,
    header: Header,
    bytes: usize,
    payload: Vec<u8>,
    datagrams: u16,
}

/// A whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole<'a> {
    pub kind: Kind,
    pub header: Header,
    pub payload: &'a [u8],
    /// Number of datagrams of the record.
    pub datagrams: u16,
}

/// Outcome of the arrival of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The datagram was new.
    New,
    /// The datagram had arrived before.
    Duplicate,
    /// The receiver has no room for the datagram now.
    Beyond,
    /// The datagram does not fit to earlier ones, or is part of a record that is too long.
    Absurd,
}

#[derive(Debug)]
pub(super) struct Receiver {
    /// Sequence number below which all datagrams have arrived.
    next: u64,
    early: BTreeMap<u64, Early>,
    partial: Option<Partial>,
    /// Window of the last acknowledgement.
    told: u16,
    /// New datagrams since the last acknowledgement, followed by the time at which the next one is due.
    unacknowledged: u32,
    acknowledge_at: Option<Duration>,
}

impl Receiver {
    pub(super) fn new() -> Receiver {
        Receiver {
            next: 0,
            early: BTreeMap::new(),
            partial: None,
            told: WINDOW,
            unacknowledged: 0,
            acknowledge_at: None,
        }
    }

    /// Takes a datagram of the stream, and hands over the records that are whole by it. `window`: how many
    /// datagrams find room; `record_bytes`: the longest record.
    pub(super) fn take(
        &mut self,
        now: Duration,
        sequence: u64,
        fragment: &Fragment<'_>,
        (window, record_bytes): (u16, usize),
        whole: &mut impl FnMut(Whole<'_>),
    ) -> Arrival {
        if sequence < self.next || self.early.contains_key(&sequence) {
            self.acknowledge_at = Some(now);
            return Arrival::Duplicate;
        }
        if sequence - self.next >= u64::from(window) {
            self.acknowledge_at = Some(now);
            return Arrival::Beyond;
        }
        if sequence > self.next {
            self.acknowledge_at = Some(now);
            let Fragment { kind, first, last, payload } = *fragment;
            self.early.insert(sequence, Early { kind, first, last, payload: payload.to_vec() });
            return Arrival::New;
        }
        if !self.join(fragment, record_bytes, whole) {
            return Arrival::Absurd;
        }
        self.next += 1;
        self.unacknowledged += 1;
        let filled = !self.early.is_empty();
        while let Some(early) = self.early.remove(&self.next) {
            let Early { kind, first, last, payload } = &early;
            let fragment = Fragment { kind: *kind, first: *first, last: *last, payload };
            if !self.join(&fragment, record_bytes, whole) {
                return Arrival::Absurd;
            }
            self.next += 1;
            self.unacknowledged += 1;
        }
        let soon = !filled && self.unacknowledged < ACKNOWLEDGE_EVERY;
        let when = if soon { now + ACKNOWLEDGE_AFTER } else { now };
        self.acknowledge_at = Some(self.acknowledge_at.map_or(when, |already| already.min(when)));
        Arrival::New
    }

    /// Appends the next fragment to the partial record. Returns false if it cannot be the next one.
    fn join(&mut self, fragment: &Fragment<'_>, limit: usize, whole: &mut impl FnMut(Whole<'_>)) -> bool {
        match (fragment.first, &mut self.partial) {
            (Some((header, bytes)), None) => {
                if bytes as usize > limit {
                    return false;
                }
                if fragment.last {
                    whole(Whole { kind: fragment.kind, header, payload: fragment.payload, datagrams: 1 });
                    return true;
                }
                let mut payload = Vec::with_capacity(bytes as usize);
                payload.extend_from_slice(fragment.payload);
                let kind = fragment.kind;
                self.partial = Some(Partial { kind, header, bytes: bytes as usize, payload, datagrams: 1 });
                true
            }
            (None, Some(partial)) => {
                let bytes = partial.payload.len() + fragment.payload.len();
                let ends = bytes == partial.bytes;
                if bytes > partial.bytes || ends != fragment.last || partial.kind != fragment.kind {
                    return false;
                }
                partial.payload.extend_from_slice(fragment.payload);
                partial.datagrams = partial.datagrams.saturating_add(1);
                if ends {
                    let Partial { kind, header, payload, datagrams, .. } =
                        self.partial.take().expect("it was matched");
                    whole(Whole { kind, header, payload: &payload, datagrams });
                }
                true
            }
            _ => false,
        }
    }

    /// Returns the acknowledgement to send. `window` is the number of datagrams for which there is room.
    pub(super) fn acknowledgement(&self, window: u16) -> Acknowledgement {
        let selective = self
            .early
            .keys()
            .map(|sequence| sequence - self.next - 1)
            .filter(|&bit| bit < 64)
            .fold(0, |all, bit| all | 1 << bit);
        Acknowledgement { below: self.next, selective, window }
    }

    /// Notes that the acknowledgement with this window was sent.
    pub(super) fn acknowledged(&mut self, window: u16) {
        self.told = window;
        self.unacknowledged = 0;
        self.acknowledge_at = None;
    }

    /// Returns the time at which an acknowledgement is due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.acknowledge_at
    }

    /// Makes an acknowledgement due now.
    pub(super) fn acknowledge_now(&mut self, now: Duration) {
        self.acknowledge_at = Some(now);
    }

    /// Notes that there is room for `window` datagrams again. Returns true if an acknowledgement is due
    /// because the sender may be waiting for room.
    pub(super) fn widened(&mut self, now: Duration, window: u16) -> bool {
        let worth = self.told < WINDOW / 2 && window >= WINDOW / 2;
        if worth {
            self.acknowledge_at = Some(now);
        }
        worth
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        let early: usize = self.early.values().map(|early| early.payload.len() + size_of::<Early>()).sum();
        early + self.partial.as_ref().map_or(0, |partial| partial.payload.capacity())
    }
}
