//! Sending end of a stream to a group: keeps datagrams until all members have them, and tracks which members
//! receive.
//!
//! A member is *opening* until it reports that it listens; then it *hears*. A member that multicast
//! repeatedly fails to reach is *leaving* until it acknowledges that, and then *deaf*: its messages take
//! another route, and later it is tried again. While a member is opening or leaving nothing is sent, so that
//! each message reaches it by exactly one route, and in order.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;
use std::time::Duration;

use super::control::{MulticastControl, Path};
use super::counters::MulticastCounters;
use super::packet::{
    FIRST, FRONT_BYTES, HEADER_BYTES, LAST, LONGEST_BYTES, Member, PACKET_BYTES, PAYLOAD_BYTES,
};
use super::seal::Seal;
use crate::adaptive::tag::TAG_BYTES;
use crate::link::{Full, Header, Peer};

/// Nothing is heard of a member for so long: it is asked. Longer each time without an answer that helps.
const ASK: Duration = Duration::from_millis(2);
const ASK_SELDOM: Duration = Duration::from_millis(50);
/// Time to wait for further members that lack the same datagrams.
const GATHER: Duration = Duration::from_micros(100);
/// Number of times in a row that a member lacks everything until it counts as deaf.
const STRIKES: u32 = 4;
/// Number of missing datagrams from which a time counts twice.
const MANY: u64 = 32;
/// Delay until a deaf member is tried again. It doubles each time, up to the second value.
const DEAF: Duration = Duration::from_millis(500);
const DEAF_LONGEST: Duration = Duration::from_secs(60);
/// Datagrams of one call to the system: the segments of a batch are no more than what an interface takes.
pub(super) const BATCH: u64 = 36;
/// Number of receivers that report to the sender, or to one receiver.
const FAN_IN: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Opening,
    Hears,
    Leaving,
    Deaf { again: Duration },
}

/// A member, as the sender sees it.
#[derive(Debug)]
struct Receiver {
    peer: Peer,
    standing: Standing,
    /// First datagram for which the member was opened.
    first: u64,
    /// Number from which on datagrams are not for the member, if it is leaving or deaf.
    end: Option<u64>,
    /// Number before which the member has all datagrams.
    has: u64,
    /// Number before which the member was asked for a report that it has not given.
    asked: Option<u64>,
    /// Time since which the member has been silent.
    silent: Duration,
    patience: Duration,
    strikes: u32,
    pause: Duration,
    /// Number of repairs for the member since it last made progress without one.
    repaired: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub number: u32,
    group: SocketAddrV4,
    members: Vec<Receiver>,
    window: u64,
    /// Datagrams by number, modulo their count.
    room: Box<[u8]>,
    lengths: Box<[u16]>,
    /// The first one kept, the first one that has not left, the next one to be made.
    first: u64,
    sent: u64,
    next: u64,
    /// Missing datagrams: how many members lack them, and the first of these. Followed by the time since
    /// which there are any.
    lacked: BTreeMap<u64, (u32, usize)>,
    lacked_since: Duration,
    /// Datagrams that are to be multicast again.
    again: VecDeque<u64>,
    words: VecDeque<(Peer, MulticastControl)>,
    /// True if all members report directly, as some member receives nothing.
    straight: bool,
    scratch: Vec<u8>,
    /// Time of the last use of the stream.
    pub used: Duration,
}

/// Datagrams for one send call on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Datagrams one after the other.
    pub bytes: &'a [u8],
    /// Length of each datagram, except for the last one.
    pub each: usize,
}

impl Outgoing {
    pub fn new(now: Duration, number: u32, group: SocketAddrV4, to: &[Peer], window: u64) -> Outgoing {
        let slots = window.max(datagrams(LONGEST_BYTES));
        let mut stream = Outgoing {
            number,
            group,
            members: to.iter().map(|peer| Receiver::new(*peer)).collect(),
            window,
            room: vec![0; slots as usize * PACKET_BYTES].into(),
            lengths: vec![0; slots as usize].into(),
            first: 0,
            sent: 0,
            next: 0,
            lacked: BTreeMap::new(),
            lacked_since: Duration::ZERO,
            again: VecDeque::new(),
            words: VecDeque::new(),
            straight: false,
            scratch: Vec::new(),
            used: now,
        };
        (0..to.len()).for_each(|place| stream.open(now, place));
        stream
    }

    pub fn is_for(&self, to: &[Peer]) -> bool {
        self.members.len() == to.len() && self.members.iter().zip(to).all(|(one, peer)| one.peer == *peer)
    }

    /// Returns true if all members have everything, and their states are settled.
    pub fn is_at_rest(&self) -> bool {
        let rests = |member: &Receiver| matches!(member.standing, Standing::Hears | Standing::Deaf { .. });
        self.first == self.next && self.words.is_empty() && self.members.iter().all(rests)
    }

    /// Returns true if some do not hear.
    pub fn has_deaf(&self) -> bool {
        self.members.iter().any(|member| matches!(member.standing, Standing::Deaf { .. } | Standing::Leaving))
    }

    /// Sends a record to the group: see [`crate::Link::multicast`].
    pub fn send(
        &mut self,
        now: Duration,
        (sender, seal): (&Member, &Seal),
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
        rest: &mut Vec<Peer>,
    ) -> Result<(), Full> {
        self.used = now;
        for place in 0..self.members.len() {
            self.try_again(now, place);
        }
        let waits = |member: &Receiver| match member.standing {
            Standing::Opening | Standing::Leaving => true,
            // What it was to get by multicast comes before what it gets otherwise.
            Standing::Deaf { .. } => member.has < member.end.unwrap_or(0),
            Standing::Hears => false,
        };
        if self.members.iter().any(waits) {
            return Err(Full);
        }
        let count = datagrams(bytes);
        let is_heard = self.members.iter().any(|member| member.standing == Standing::Hears);
        if is_heard && self.next != self.first && self.next - self.first + count > self.window {
            return Err(Full);
        }
        rest.extend(self.members.iter().filter(|one| one.standing != Standing::Hears).map(|one| one.peer));
        if !is_heard {
            return Ok(());
        }
        self.scratch.clear();
        self.scratch.extend(header.0.iter().flat_map(|word| word.to_le_bytes()));
        self.scratch.resize(HEADER_BYTES + bytes, 0);
        fill(&mut self.scratch[HEADER_BYTES..]);
        for (place, payload) in (0..).zip(self.scratch.chunks(PAYLOAD_BYTES)) {
            let kind = if place == 0 { FIRST } else { 0 } | if place + 1 == count { LAST } else { 0 };
            let slot = (self.next % self.lengths.len() as u64) as usize;
            let room = &mut self.room[slot * PACKET_BYTES..][..PACKET_BYTES];
            room[FRONT_BYTES..FRONT_BYTES + payload.len()].copy_from_slice(payload);
            let length = sender.seal(seal, room, (self.number, self.next, kind), payload.len());
            self.lengths[slot] = length as u16;
            self.next += 1;
        }
        self.members
            .iter_mut()
            .filter(|member| member.has + count == self.next)
            .for_each(|one| one.silent = now);
        Ok(())
    }

    /// Hands out what is to be sent until `wire` or `tell` says false.
    pub fn transmit(
        &mut self,
        now: Duration,
        wire: &mut impl FnMut(Batch<'_>) -> bool,
        tell: &mut impl FnMut(Peer, u32, &MulticastControl) -> bool,
        counters: &mut MulticastCounters,
    ) {
        self.ask(now);
        while let Some((peer, word)) = self.words.front() {
            if !tell(*peer, self.number, word) {
                break;
            }
            self.words.pop_front();
        }
        if !self.lacked.is_empty() && now >= self.lacked_since + GATHER {
            self.repair(tell, counters);
        }
        while let Some(&number) = self.again.front() {
            if number >= self.first && !wire(Batch { bytes: self.datagram(number), each: PACKET_BYTES }) {
                return;
            }
            counters.repeated += u64::from(number >= self.first);
            self.again.pop_front();
        }
        self.sent = self.sent.max(self.first);
        while self.sent < self.next {
            let slots = self.lengths.len() as u64;
            let slot = self.sent % slots;
            let most = BATCH.min(self.next - self.sent).min(slots - slot);
            let full =
                (0..most).take_while(|more| self.length(self.sent + more) == PACKET_BYTES).count() as u64;
            let count = (full + 1).min(most);
            let last = self.length(self.sent + count - 1);
            let bytes = (count as usize - 1) * PACKET_BYTES + last;
            let batch = &self.room[slot as usize * PACKET_BYTES..][..bytes];
            if !wire(Batch { bytes: batch, each: PACKET_BYTES }) {
                return;
            }
            self.sent += count;
            counters.sent += count;
            counters.batches += 1;
        }
    }

    /// Handles a control message of a member. Records that have to take another route to it are appended to
    /// `back`.
    pub fn said(
        &mut self,
        now: Duration,
        from: Peer,
        word: MulticastControl,
        back: &mut VecDeque<(Peer, Header, Vec<u8>)>,
        counters: &mut MulticastCounters,
    ) -> bool {
        let Some(place) = self.members.iter().position(|member| member.peer == from) else { return false };
        let member = &mut self.members[place];
        let opening = member.standing == Standing::Opening;
        match word {
            MulticastControl::Opened { first } if opening && first == member.first => {
                (member.standing, member.has, member.end) = (Standing::Hears, first, None);
                (member.strikes, member.silent, member.asked) = (0, now, None);
            }
            MulticastControl::Refused { first } if opening && first == member.first => {
                (member.has, member.end) = (first, Some(first));
                member.fall_silent(now);
                self.go_straight();
                counters.demoted += 1;
            }
            MulticastControl::Have { next } if self.straight => self.has(now, place, next),
            MulticastControl::Have { next } => self.all_have(now, place, next),
            MulticastControl::Lack { next, ranges } => self.lacks(now, place, next, &ranges, counters),
            MulticastControl::Left { end }
                if member.standing == Standing::Leaving && member.end == Some(end) =>
            {
                member.fall_silent(now);
            }
            MulticastControl::Decline { end }
                if matches!(member.standing, Standing::Hears | Standing::Leaving) =>
            {
                if member.end.is_none_or(|known| end <= known) && end >= self.first {
                    self.hand_back(from, end, place, back);
                    let member = &mut self.members[place];
                    (member.has, member.end) = (end, Some(end));
                    member.fall_silent(now);
                    counters.declined += 1;
                    self.go_straight();
                    self.forget();
                }
            }
            MulticastControl::Opened { .. }
            | MulticastControl::Refused { .. }
            | MulticastControl::Left { .. }
            | MulticastControl::Decline { .. } => {}
            _ => return false,
        }
        true
    }

    /// Returns the time at which something is due. `has_room` is true if the wire takes unsent datagrams.
    pub fn deadline(&self, has_room: bool) -> Option<Duration> {
        let unsent = !self.again.is_empty() || self.sent < self.next;
        if !self.words.is_empty() || has_room && unsent {
            return Some(Duration::ZERO);
        }
        let gathers = (!self.lacked.is_empty()).then_some(self.lacked_since + GATHER);
        let asks = self.members.iter().filter(|one| self.owes(one) && one.asked.is_none());
        gathers.into_iter().chain(asks.map(|one| one.silent + one.patience)).min()
    }

    fn open(&mut self, now: Duration, place: usize) {
        let member = &mut self.members[place];
        (member.standing, member.first, member.has) = (Standing::Opening, self.next, self.next);
        (member.end, member.silent) = (Some(self.next), now);
        let quarter = (self.window / 4).max(1) as u32;
        let (peer, way) = (member.peer, self.way_of(place));
        self.words
            .push_back((peer, MulticastControl::Open { first: self.next, quarter, group: self.group, way }));
    }

    /// Returns the route of a member's acknowledgements.
    fn way_of(&self, place: usize) -> Path {
        if self.straight {
            return Path::default();
        }
        let rank = |place: usize| self.members[place].peer.0;
        let parent = place.checked_sub(FAN_IN).map(|behind| rank(behind / FAN_IN));
        Path { parent, children: self.children(place).map(rank).collect() }
    }

    /// Returns the indices of the members that report to the member at `place`.
    fn children(&self, place: usize) -> std::ops::Range<usize> {
        let first = (place + 1) * FAN_IN;
        first.min(self.members.len())..(first + FAN_IN).min(self.members.len())
    }

    /// Notes the report of a member for itself and all members below it.
    fn all_have(&mut self, now: Duration, place: usize, next: u64) {
        self.has(now, place, next);
        for child in self.children(place) {
            self.all_have(now, child, next);
        }
    }

    fn go_straight(&mut self) {
        if !std::mem::replace(&mut self.straight, true) {
            self.words.extend(self.members.iter().map(|member| (member.peer, MulticastControl::Straight)));
        }
    }

    /// Opens the stream for a deaf member again when its time has come.
    fn try_again(&mut self, now: Duration, place: usize) {
        let member = &self.members[place];
        if let Standing::Deaf { again } = member.standing
            && now >= again
            && member.has >= member.end.unwrap_or(0)
        {
            self.open(now, place);
        }
    }

    /// Returns true if a member lacks datagrams that are for it.
    fn owes(&self, member: &Receiver) -> bool {
        member.standing != Standing::Opening && member.has < member.end.unwrap_or(self.next).min(self.sent)
    }

    fn has(&mut self, now: Duration, place: usize, next: u64) {
        let end = self.members[place].end.unwrap_or(self.next);
        let member = &mut self.members[place];
        if next <= member.has || next > end {
            return;
        }
        // What came without repairs came by multicast.
        let came = next - member.has;
        if came > member.repaired {
            (member.strikes, member.patience) = (0, ASK);
        }
        member.repaired = member.repaired.saturating_sub(came);
        (member.has, member.silent) = (next, now);
        self.forget();
    }

    fn lacks(
        &mut self,
        now: Duration,
        place: usize,
        next: u64,
        ranges: &[(u32, u32)],
        counters: &mut MulticastCounters,
    ) {
        self.has(now, place, next);
        let (first, sent) = (self.first, self.sent);
        let member = &mut self.members[place];
        let end = member.end.unwrap_or(u64::MAX).min(sent);
        let asked = member.asked.take();
        let lacks_all = |end: u64| matches!(ranges, [(0, count)] if next + u64::from(*count) >= end);
        member.silent = now;
        if asked.is_some() && ranges.is_empty() {
            member.patience = (member.patience * 2).min(ASK_SELDOM);
        }
        if self.lacked.is_empty() {
            self.lacked_since = now;
        }
        let mut count = 0;
        for &(start, length) in ranges {
            let start = next.saturating_add(start.into());
            for number in (start..start.saturating_add(length.into()).min(end)).filter(|one| *one >= first) {
                let entry = self.lacked.entry(number).or_insert((0, place));
                entry.0 += u32::from(entry.0 == 0 || entry.1 != place);
                count += 1;
            }
        }
        member.repaired += count;
        counters.lacked += count;
        if count > 0 && asked.is_some_and(lacks_all) {
            member.strikes += if count >= MANY { 2 } else { 1 };
            if member.strikes >= STRIKES && member.standing == Standing::Hears {
                (member.standing, member.end) = (Standing::Leaving, Some(self.next));
                self.words.push_back((member.peer, MulticastControl::Leave { end: self.next }));
                self.go_straight();
                counters.demoted += 1;
            }
        }
    }

    /// Sends what is lacked: to one by itself, to several by multicast, unless these are about to be given
    /// up.
    fn repair(
        &mut self,
        tell: &mut impl FnMut(Peer, u32, &MulticastControl) -> bool,
        counters: &mut MulticastCounters,
    ) {
        while let Some((&number, &(count, place))) = self.lacked.first_key_value() {
            if number >= self.first {
                if count > 1 && self.members.iter().all(|member| member.standing != Standing::Leaving) {
                    self.again.push_back(number);
                } else {
                    let bytes = self.datagram(number);
                    let payload = bytes[FRONT_BYTES..bytes.len() - TAG_BYTES].to_vec();
                    let word = MulticastControl::Repair { number, kind: bytes[FRONT_BYTES - 1], payload };
                    let lacks = |member: &&Receiver| count > 1 && member.has <= number;
                    let those =
                        self.members.iter().filter(lacks).chain((count == 1).then_some(&self.members[place]));
                    for member in those {
                        if !tell(member.peer, self.number, &word) {
                            return;
                        }
                        counters.repaired += 1;
                    }
                }
            }
            self.lacked.pop_first();
        }
    }

    fn ask(&mut self, now: Duration) {
        for place in 0..self.members.len() {
            let member = &self.members[place];
            if self.owes(member) && member.asked.is_none() && now >= member.silent + member.patience {
                let end = member.end.unwrap_or(self.next).min(self.sent);
                self.words.push_back((member.peer, MulticastControl::Ask { end }));
                self.members[place].asked = Some(end);
            }
        }
    }

    /// Drops the datagrams that all members have.
    fn forget(&mut self) {
        let least = |member: &Receiver| match member.end {
            Some(end) if member.has >= end => u64::MAX,
            _ => member.has,
        };
        let least = self.members.iter().map(least).min().unwrap_or(u64::MAX);
        self.first = least.min(self.next).max(self.first);
        self.lacked = self.lacked.split_off(&self.first);
    }

    /// Hands back the messages from `end` on, for one member.
    fn hand_back(&mut self, to: Peer, end: u64, place: usize, back: &mut VecDeque<(Peer, Header, Vec<u8>)>) {
        let until = self.members[place].end.unwrap_or(self.next);
        let mut message = Vec::new();
        for number in end..until {
            let bytes = self.datagram(number);
            message.extend_from_slice(&bytes[FRONT_BYTES..bytes.len() - TAG_BYTES]);
            if bytes[FRONT_BYTES - 1] & LAST != 0 {
                let payload = message.split_off(HEADER_BYTES);
                let (words, _) = message.as_chunks::<8>();
                let word = |place: usize| u64::from_le_bytes(words[place]);
                back.push_back((to, Header([word(0), word(1), word(2)]), payload));
                message.clear();
            }
        }
    }

    fn length(&self, number: u64) -> usize {
        usize::from(self.lengths[(number % self.lengths.len() as u64) as usize])
    }

    fn datagram(&self, number: u64) -> &[u8] {
        let slot = (number % self.lengths.len() as u64) as usize;
        &self.room[slot * PACKET_BYTES..][..usize::from(self.lengths[slot])]
    }
}

impl Receiver {
    fn new(peer: Peer) -> Receiver {
        Receiver {
            peer,
            standing: Standing::Opening,
            first: 0,
            end: Some(0),
            has: 0,
            asked: None,
            silent: Duration::ZERO,
            patience: ASK,
            strikes: 0,
            pause: DEAF,
            repaired: 0,
        }
    }

    fn fall_silent(&mut self, now: Duration) {
        self.standing = Standing::Deaf { again: now + self.pause };
        self.pause = (self.pause * 2).min(DEAF_LONGEST);
        (self.strikes, self.patience) = (0, ASK);
    }
}

/// Datagrams of a message of so many bytes.
fn datagrams(bytes: usize) -> u64 {
    (HEADER_BYTES + bytes).div_ceil(PAYLOAD_BYTES) as u64
}
