//! One edge of the tree once both ends trust each other: typed messages in frames, and heartbeats.
//!
//! Each end says something at least every `interval`, and gives the other up after `limit` of silence. A cable that is out for less than
//! that is repaired by TCP's own retransmission.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use tutti_seal::Outgoing;

use super::frame::{self, Malformed, Reader};
use super::handshake::Agreed;

/// How often to speak and how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Longest time without a word of ours.
    pub interval: Duration,
    /// Longest time without a word of the other end.
    pub limit: Duration,
}

/// Sends `Out`, receives `In`.
#[derive(Debug)]
pub struct Link<Out, In> {
    outgoing_seal: Outgoing,
    reader: Reader,
    pace: Pace,
    heard: Duration,
    said: Duration,
    /// Bytes to write; the owner of the socket takes them away from the front.
    pub outgoing: VecDeque<u8>,
    scratch: Vec<u8>,
    types: PhantomData<fn(Out) -> In>,
}

impl<Out: Serialize, In: DeserializeOwned> Link<Out, In> {
    /// A link that begins now.
    pub fn new(agreed: Agreed, pace: Pace, now: Duration) -> Link<Out, In> {
        Link {
            outgoing_seal: agreed.outgoing,
            reader: Reader::new(agreed.incoming),
            pace,
            heard: now,
            said: now,
            outgoing: VecDeque::new(),
            scratch: Vec::new(),
            types: PhantomData,
        }
    }

    /// Changes the pace: a child learns it from the plan.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Queues a message.
    pub fn send(&mut self, message: &Out, now: Duration) {
        self.put(Some(message), now);
    }

    fn put(&mut self, message: Option<&Out>, now: Duration) {
        let payload =
            postcard::to_stdvec(&message).expect("messages hold plain data, which can be written to memory");
        self.scratch.clear();
        frame::put(&mut self.outgoing_seal, &payload, &mut self.scratch);
        self.outgoing.extend(&self.scratch);
        self.said = now;
    }

    /// Takes bytes that arrived; appends the messages in them.
    ///
    /// # Errors
    /// If they are not what the other end sends.
    pub fn receive(&mut self, bytes: &[u8], now: Duration, messages: &mut Vec<In>) -> Result<(), Malformed> {
        self.reader.feed(bytes);
        while let Some(payload) = self.reader.next_frame()? {
            let message: Option<In> = postcard::from_bytes(payload).map_err(|_| Malformed)?;
            messages.extend(message);
            self.heard = now;
        }
        // A long frame may take longer than the limit: bytes are a sign of life as well.
        self.heard = self.heard.max(now);
        Ok(())
    }

    /// Says that this end is there, if it has said nothing for long.
    pub fn speak(&mut self, now: Duration) {
        if self.said + self.pace.interval <= now {
            self.put(None, now);
        }
    }

    /// Does what is due; false when the other end has been silent for too long.
    #[must_use]
    pub fn tick(&mut self, now: Duration) -> bool {
        self.speak(now);
        now < self.heard + self.pace.limit
    }

    /// When [`Link::tick`] has something to do.
    pub fn deadline(&self) -> Duration {
        (self.said + self.pace.interval).min(self.heard + self.pace.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::handshake::{Admitting, Joining};

    const PACE: Pace = Pace { interval: Duration::from_secs(1), limit: Duration::from_secs(5) };

    fn pair() -> (Link<u32, String>, Link<String, u32>) {
        let (joining, hello) = Joining::new([9; 32], 1, [1; 32]);
        let (admitting, challenge) = Admitting::new([9; 32], &hello, &[2; 32]).unwrap();
        let (proof, child) = joining.prove(&challenge).unwrap();
        let parent = admitting.admit(&proof).unwrap();
        (Link::new(child, PACE, Duration::ZERO), Link::new(parent, PACE, Duration::ZERO))
    }

    fn carry<A: Serialize, B: DeserializeOwned, C: Serialize, D: DeserializeOwned>(
        from: &mut Link<A, B>,
        to: &mut Link<C, D>,
        now: Duration,
    ) -> Vec<D> {
        let (bytes, mut got) = (from.outgoing.drain(..).collect::<Vec<u8>>(), Vec::new());
        to.receive(&bytes, now, &mut got).unwrap();
        got
    }

    #[test]
    fn messages_pass_both_ways() {
        let (mut child, mut parent) = pair();
        child.send(&7, Duration::ZERO);
        child.send(&8, Duration::ZERO);
        assert_eq!(carry(&mut child, &mut parent, Duration::ZERO), [7, 8]);
        parent.send(&"word".to_string(), Duration::ZERO);
        assert_eq!(carry(&mut parent, &mut child, Duration::ZERO), ["word"]);
    }

    #[test]
    fn silence_is_broken_or_noticed() {
        let (mut child, mut parent) = pair();
        assert_eq!(child.deadline(), PACE.interval);
        for second in 1..20 {
            let now = Duration::from_secs(second);
            assert!(child.tick(now) && parent.tick(now));
            assert!(!child.outgoing.is_empty() && !parent.outgoing.is_empty());
            assert_eq!(carry(&mut child, &mut parent, now), Vec::<u32>::new());
            // Cut for a while.
            if second % 4 == 0 {
                carry(&mut parent, &mut child, now);
            }
        }
        assert!(!child.tick(Duration::from_secs(16) + PACE.limit));
    }

    #[test]
    fn what_is_no_message_is_malformed() {
        let (mut child, mut parent) = pair();
        child.send(&1, Duration::ZERO);
        child.outgoing[5] ^= 1;
        let bytes: Vec<u8> = child.outgoing.drain(..).collect();
        assert_eq!(parent.receive(&bytes, Duration::ZERO, &mut Vec::new()), Err(Malformed));
    }
}
