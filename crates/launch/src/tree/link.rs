//! Connection between a parent and a child after the handshake: typed messages in frames, and heartbeats.
//!
//! Each end sends at least one frame every `interval`. It gives the other end up after `limit` without bytes.
//! TCP's retransmission bridges an interruption of the network that is shorter.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use tutti_seal::Outgoing;

use super::frame::{self, Malformed, Reader};
use super::handshake::Agreed;

/// Times of the heartbeats of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Maximum time between two frames that this end sends.
    pub interval: Duration,
    /// Maximum time without bytes from the other end.
    pub limit: Duration,
}

/// Protocol state of a connection that sends `Out` and receives `In`.
#[derive(Debug)]
pub struct Link<Out, In> {
    outgoing_seal: Outgoing,
    reader: Reader,
    pace: Pace,
    heard: Duration,
    said: Duration,
    /// Bytes to write. The owner of the socket removes them from the front.
    pub outgoing: VecDeque<u8>,
    scratch: Vec<u8>,
    types: PhantomData<fn(Out) -> In>,
}

impl<Out: Serialize, In: DeserializeOwned> Link<Out, In> {
    /// Creates a link that begins now.
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

    /// Changes the heartbeat times. A child learns them from the plan.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Queues a message for the other end.
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

    /// Takes bytes that arrived, and appends the messages in them.
    ///
    /// # Errors
    /// Fails if the other end did not send these bytes.
    pub fn receive(&mut self, bytes: &[u8], now: Duration, messages: &mut Vec<In>) -> Result<(), Malformed> {
        self.reader.feed(bytes);
        while let Some(payload) = self.reader.next_frame()? {
            let message: Option<In> = postcard::from_bytes(payload).map_err(|_| Malformed)?;
            messages.extend(message);
            self.heard = now;
        }
        // A long frame may take longer than the limit, so its bytes count as a sign of life.
        self.heard = self.heard.max(now);
        Ok(())
    }

    /// Queues a heartbeat if this end has sent nothing for an interval.
    pub fn speak(&mut self, now: Duration) {
        if self.said + self.pace.interval <= now {
            self.put(None, now);
        }
    }

    /// Performs the actions that are due. Returns false if the other end has been silent for too long.
    #[must_use]
    pub fn tick(&mut self, now: Duration) -> bool {
        self.speak(now);
        now < self.heard + self.pace.limit
    }

    /// Returns the time at which [`Link::tick`] must be called next.
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
            // The direction to the child is cut most of the time.
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
