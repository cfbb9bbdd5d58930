//! Format of active messages between an origin and a target whose memory it cannot reach. The target executes
//! the messages of one origin in the order of sending.
//!
//! A message has a header of eight words of 32 bits: kind, operator, basic type, number of runs, reply (two
//! words), two unused. The runs of the target's memory follow as pairs (offset, bytes), then the data in
//! packed order. A message that cannot be decoded means that the peer is broken.

use tutti_base::{Error, ErrorClass, Result};
use tutti_transport::exposure::Entry;

/// Kind of a request, or the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names of the functions of the standard, where nothing else is said")]
pub enum WindowRequestKind {
    Put = 1,
    Get = 2,
    Accumulate = 3,
    /// MPI_Get_accumulate and MPI_Fetch_and_op.
    Fetch = 4,
    /// MPI_Compare_and_swap. The data are the compare value, followed by the new value.
    Swap = 5,
    /// Request for a reply after all earlier operations of the origin are complete.
    Flush = 6,
    LockShared = 7,
    LockExclusive = 8,
    Unlock = 9,
    Post = 10,
    Complete = 11,
    /// Reply, with data if the request was for data.
    Reply = 12,
}

/// Active message: a request to a target, or its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active<'a> {
    /// Kind of the message.
    pub kind: WindowRequestKind,
    /// Handle of the operator of an accumulate.
    pub op: u32,
    /// Handle of the basic datatype of its items.
    pub basic: u32,
    /// Number of the request that expects a reply; 0 if none does.
    pub reply: u64,
    /// Runs of the target's memory, as offsets in the window.
    pub runs: Vec<Entry>,
    /// Data in packed order.
    pub data: &'a [u8],
}

const HEAD_BYTES: usize = 32;
const RUN_BYTES: usize = 16;

impl<'a> Active<'a> {
    /// Returns a message without data and runs.
    pub fn bare(kind: WindowRequestKind, reply: u64) -> Active<'static> {
        Active { kind, op: 0, basic: 0, reply, runs: Vec::new(), data: &[] }
    }

    /// Encodes the message. `fill` writes `data_bytes` bytes of data; `data` is ignored.
    pub fn encode(&self, data_bytes: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.runs.len() * RUN_BYTES + data_bytes);
        let words = [self.kind as u32, self.op, self.basic, self.runs.len() as u32];
        words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(self.reply.to_le_bytes());
        out.extend([0; 8]);
        for run in &self.runs {
            out.extend(run.offset.to_le_bytes());
            out.extend(run.bytes.to_le_bytes());
        }
        let start = out.len();
        out.resize(start + data_bytes, 0);
        fill(&mut out[start..]);
        out
    }

    /// Decodes a message from its bytes.
    ///
    /// # Errors
    /// `Intern` for a message that no origin sends.
    pub fn decode(bytes: &'a [u8]) -> Result<Active<'a>> {
        let broken =
            || Error::new(ErrorClass::Intern, "a message of one-sided communication that makes no sense");
        let number = |at: usize| {
            bytes
                .get(at..at + 8)
                .and_then(|piece| piece.try_into().ok())
                .map(u64::from_le_bytes)
                .ok_or_else(broken)
        };
        let (first, second, reply) = (number(0)?, number(8)?, number(16)?);
        let kind = KINDS.into_iter().find(|kind| *kind as u32 == first as u32).ok_or_else(broken)?;
        let count = (second >> 32) as usize;
        let start = count.checked_mul(RUN_BYTES).map(|runs| runs + HEAD_BYTES).ok_or_else(broken)?;
        let data = bytes.get(start..).ok_or_else(broken)?;
        let run = |index: usize| {
            let at = HEAD_BYTES + index * RUN_BYTES;
            Ok(Entry { offset: number(at)?, bytes: number(at + 8)? })
        };
        let runs: Vec<Entry> = (0..count).map(run).collect::<Result<_>>()?;
        let total = runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.bytes)).ok_or_else(broken)?;
        let fits = match kind {
            WindowRequestKind::Put => data.len() as u64 == total,
            // MPI_NO_OP has none.
            WindowRequestKind::Accumulate | WindowRequestKind::Fetch => {
                data.is_empty() || data.len() as u64 == total
            }
            WindowRequestKind::Swap => data.len() as u64 == 2 * total,
            _ => true,
        };
        if !fits {
            return Err(broken());
        }
        Ok(Active { kind, op: (first >> 32) as u32, basic: second as u32, reply, runs, data })
    }

    /// Returns the number of bytes of all runs.
    pub fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.bytes as usize).sum()
    }
}

const KINDS: [WindowRequestKind; 12] = [
    WindowRequestKind::Put,
    WindowRequestKind::Get,
    WindowRequestKind::Accumulate,
    WindowRequestKind::Fetch,
    WindowRequestKind::Swap,
    WindowRequestKind::Flush,
    WindowRequestKind::LockShared,
    WindowRequestKind::LockExclusive,
    WindowRequestKind::Unlock,
    WindowRequestKind::Post,
    WindowRequestKind::Complete,
    WindowRequestKind::Reply,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &Active<'_>) {
        let bytes = message.encode(message.data.len(), |room| room.copy_from_slice(message.data));
        assert_eq!(Active::decode(&bytes).as_ref(), Ok(message));
        if message.kind == WindowRequestKind::Put {
            assert!((0..bytes.len()).all(|length| Active::decode(&bytes[..length]).is_err()));
        }
    }

    #[test]
    fn messages_survive_the_wire() {
        let run = |offset, bytes| Entry { offset, bytes };
        KINDS
            .into_iter()
            .filter(|kind| *kind != WindowRequestKind::Put)
            .for_each(|kind| check(&Active::bare(kind, u64::MAX)));
        let runs = vec![run(1 << 46, 3), run(0, 2)];
        check(&Active {
            kind: WindowRequestKind::Put,
            op: 0,
            basic: 0,
            reply: 0,
            runs: runs.clone(),
            data: b"abcde",
        });
        check(&Active { kind: WindowRequestKind::Fetch, op: 0x3c, basic: 0x251, reply: 9, runs, data: b"" });
    }

    #[test]
    fn foreign_bytes_are_an_error() {
        assert!(Active::decode(&[]).is_err() && Active::decode(&[0; 32]).is_err());
        let mut bytes = Active::bare(WindowRequestKind::Get, 1).encode(0, |_| ());
        bytes[12..16].fill(0xff);
        assert!(Active::decode(&bytes).is_err());
    }
}
