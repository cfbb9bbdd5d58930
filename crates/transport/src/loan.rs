//! Memory that a link may read and write by itself: long messages that need no copy on their way.
//!
//! The sender of a message lends its memory and sends a [`Loan`] to the receiver. The receiver reads it once,
//! straight into its own memory, whenever it wants and as much as it wants. Then the link returns the loan.
//! Nothing is copied into memory of the link on either side. See [`crate::Link::lend`].

use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// Bytes in a logical row, wherever in memory they lie.
pub trait Pieces: Debug + Send + Sync {
    /// Returns the number of bytes.
    fn bytes(&self) -> u64;

    /// Calls `use_memory` with the memory of the bytes `position..position + bytes`, as much of it as one
    /// call to the system takes, but at least one byte if there are any.
    fn read(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&[IoSlice<'_>]));

    /// Calls `use_memory` like [`Pieces::read`], with memory to be written.
    fn write(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&mut [IoSliceMut<'_>]));
}

/// Memory of a message. It stays valid as long as the link holds it.
pub type Memory = Arc<dyn Pieces>;

/// Description of lent memory, as sent to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loan {
    /// Name of the loan; never 0.
    pub name: u64,
    /// Address of the memory for a network that reads by itself.
    pub address: u64,
    /// Key of the memory for such a network.
    pub key: u64,
    /// Number of runs of the memory. 1: they are at that address. More: a list of them is there. 0: the owner
    /// sends the memory on request, by its name.
    pub runs: u64,
}

impl Loan {
    /// Describes a loan that is requested from its owner by name.
    pub fn named(name: u64) -> Loan {
        Loan { name, address: 0, key: 0, runs: 0 }
    }
}

/// Stores `bytes` in `memory`, beginning at `position`.
pub(crate) fn store(memory: &Memory, mut position: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let mut stored = 0;
        memory.write(position, bytes.len() as u64, &mut |runs| {
            for run in runs {
                let count = run.len().min(bytes.len() - stored);
                run[..count].copy_from_slice(&bytes[stored..stored + count]);
                stored += count;
            }
        });
        assert!(stored > 0, "memory covers what it was lent for");
        position += stored as u64;
        bytes = &bytes[stored..];
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Bytes that are handed out in runs of some length, at most some runs at a time.
    #[derive(Debug)]
    pub(crate) struct InRuns {
        pub bytes: Mutex<Vec<u8>>,
        pub run: usize,
        pub runs: usize,
    }

    impl InRuns {
        pub(crate) fn new(bytes: Vec<u8>, run: usize, runs: usize) -> Arc<InRuns> {
            Arc::new(InRuns { bytes: Mutex::new(bytes), run, runs })
        }
    }

    impl Pieces for InRuns {
        fn bytes(&self) -> u64 {
            self.bytes.lock().unwrap().len() as u64
        }

        fn read(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&[IoSlice<'_>])) {
            let all = self.bytes.lock().unwrap();
            let part = &all[position as usize..][..bytes as usize];
            use_memory(&part.chunks(self.run).take(self.runs).map(IoSlice::new).collect::<Vec<_>>());
        }

        fn write(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&mut [IoSliceMut<'_>])) {
            let mut all = self.bytes.lock().unwrap();
            let part = &mut all[position as usize..][..bytes as usize];
            use_memory(
                &mut part.chunks_mut(self.run).take(self.runs).map(IoSliceMut::new).collect::<Vec<_>>(),
            );
        }
    }

    fn check(position: usize, count: usize, run: usize, runs: usize) {
        let bytes: Vec<u8> = (0..count as u8).collect();
        let memory = InRuns::new(vec![77; position + count], run, runs);
        store(&(Arc::clone(&memory) as Memory), position as u64, &bytes);
        let expected: Vec<u8> = std::iter::repeat_n(77, position).chain(bytes).collect();
        assert_eq!(*memory.bytes.lock().unwrap(), expected);
    }

    #[test]
    fn bytes_are_stored_over_several_runs() {
        check(0, 0, 1, 1);
        check(3, 10, 100, 1);
        check(3, 10, 4, 1);
        check(0, 200, 7, 3);
    }
}
