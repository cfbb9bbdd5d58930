//! State that the members of a file share: the shared file pointer, and the lock of atomic mode (MPI-5
//! sections 14.4.4 and 14.6.1).
//!
//! Both are in a window in the memory of the first member. Ranks of its host access them directly, ranks of
//! other hosts by active messages. No lock of the file system and no hidden file is used. So nothing stays
//! behind after a crash, and file systems without locks work as well.
//!
//! # Safety
//! The window allocates its memory itself; the address that is given for it is none.
#![allow(unsafe_code)]

use std::sync::Arc;

use tutti_base::Result;
use tutti_core::buffer::Buffer;
use tutti_core::communicator::Communicator;
use tutti_core::lanes::{FirstLaneCell, LaneGuard};
use tutti_core::process::Process;
use tutti_core::window::access::Target;
use tutti_core::window::create::{self, WindowPart};
use tutti_core::window::memory::Base;
use tutti_core::window::{Flavor, LockKind, Window};
use tutti_data::Datatype;

/// Rank of the member whose memory contains the pointer and the lock.
const KEEPER: i32 = 0;
/// The shared pointer: one word of 64 bits.
const POINTER_BYTES: u64 = 8;
/// MPI_INT64_T.
const INT64: u32 = 0x258;

/// Shared pointer and lock of one file.
#[derive(Debug)]
pub enum Common {
    /// State of a file that one process has opened alone.
    Alone(FirstLaneCell<i64>),
    /// State of a file that several processes have opened.
    Shared(Arc<Window>),
}

impl Common {
    /// Creates the state for the members of `comm`, all of which must call this.
    ///
    /// # Errors
    /// Fails with `NoMem` at all members if there is not enough memory.
    pub fn new(held: &mut LaneGuard, process: &'static Process, comm: &Arc<Communicator>) -> Result<Common> {
        if comm.size() == 1 {
            return Ok(Common::Alone(FirstLaneCell::new(0)));
        }
        let bytes = if comm.rank().0 == KEEPER as u32 { POINTER_BYTES } else { 0 };
        // SAFETY: see the module's Safety section.
        let nowhere = unsafe { Base::new(std::ptr::null_mut()) };
        let part = WindowPart { base: nowhere, bytes, unit: 1 };
        let window = create::create(held, process, comm, Flavor::Allocate, part, &Default::default())?;
        Ok(Common::Shared(window))
    }

    /// Frees the state; all members must call this.
    ///
    /// # Errors
    /// Fails if a message fails.
    pub fn free(&self, held: &mut LaneGuard, process: &'static Process) -> Result<()> {
        match self {
            Common::Alone(_) => Ok(()),
            Common::Shared(window) => window.free(held, process),
        }
    }

    /// Returns the shared file pointer, in etypes.
    ///
    /// # Errors
    /// Fails if a message fails.
    pub fn position(&self, held: &mut LaneGuard, process: &'static Process) -> Result<i64> {
        self.change(held, process, |position| position)
    }

    /// Puts the shared pointer somewhere.
    ///
    /// # Errors
    /// Fails if a message fails.
    pub fn set_position(&self, held: &mut LaneGuard, process: &'static Process, position: i64) -> Result<()> {
        self.change(held, process, |_| position).map(drop)
    }

    /// Moves the shared pointer on; where it was.
    ///
    /// # Errors
    /// Fails if a message fails.
    pub fn advance(&self, held: &mut LaneGuard, process: &'static Process, etypes: i64) -> Result<i64> {
        self.change(held, process, |position| position.saturating_add(etypes))
    }

    /// Changes the shared pointer atomically, and returns its old value.
    fn change(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        new: impl Fn(i64) -> i64,
    ) -> Result<i64> {
        let window = match self {
            Common::Alone(position) => {
                let mut position = position.borrow_mut(held);
                let before = *position;
                *position = new(before);
                return Ok(before);
            }
            Common::Shared(window) => window,
        };
        let datatype = Datatype::predefined(INT64).expect("the number of MPI_INT64_T");
        let target = Target { rank: KEEPER, displacement: 0, count: 1, datatype };
        window.lock(held, process, LockKind::Exclusive, KEEPER, 0)?;
        let found = Buffer::owned(vec![0; POINTER_BYTES as usize]);
        let result = window.get(held, process, &found, target, false).and_then(|_| {
            window.flush(held, || Ok(process), Some(KEEPER))?;
            let mut bytes = [0; POINTER_BYTES as usize];
            found.pack(0, &mut bytes);
            let before = i64::from_le_bytes(bytes);
            let after = new(before);
            if after != before {
                window.put(held, process, &Buffer::owned(after.to_le_bytes().to_vec()), target)?;
            }
            Ok(before)
        });
        window.unlock(held, process, KEEPER)?;
        result
    }

    /// Does something while no other member does (or, where all only read, while none writes).
    ///
    /// # Errors
    /// Fails if a message fails.
    pub fn locked<R>(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        write: bool,
        work: impl FnOnce(&mut LaneGuard) -> R,
    ) -> Result<R> {
        let Common::Shared(window) = self else { return Ok(work(held)) };
        let kind = if write { LockKind::Exclusive } else { LockKind::Shared };
        window.lock(held, process, kind, KEEPER, 0)?;
        let result = work(held);
        window.unlock(held, process, KEEPER)?;
        Ok(result)
    }
}
