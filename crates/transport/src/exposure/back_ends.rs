//! Choice of the back end by which a process exposes its memory.
//!
//! XPMEM comes first, for it maps memory in place. Then follow process_vm_readv and process_vm_writev, then
//! KNEM, which registers each exposure. The owner chooses and the record contains its choice, so peers need
//! not agree.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::OnceLock;

use tutti_base::config::{Config, CopyBy, SingleCopy as Setting};
use tutti_sys::cma;

use crate::single_copy::{CopyError, CrossMemoryAttach, Knem, Lent, RemoteSegment, SingleCopy, Xpmem};

/// A way to reach a peer's private memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BackEnd {
    /// process_vm_readv and process_vm_writev.
    Attach = 0,
    /// XPMEM.
    Xpmem = 1,
    /// KNEM.
    Knem = 2,
}

/// Reason for which memory cannot be exposed in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// TUTTI_SINGLE_COPY=never.
    Off,
    /// The system does not permit it.
    Refused(CopyError),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Off => f.write_str("TUTTI_SINGLE_COPY is never"),
            Unavailable::Refused(error) => error.fmt(f),
        }
    }
}

static ATTACH: CrossMemoryAttach = CrossMemoryAttach::allowed();
static NONE: OutOfReach = OutOfReach;

/// Copier for a peer whose memory cannot be reached from here: every operation fails.
#[derive(Debug)]
struct OutOfReach;

impl SingleCopy for OutOfReach {
    fn probe(&self, _: Lent, _: u64, _: u64) -> Result<(), CopyError> {
        Err(CopyError::Refused)
    }

    fn read(&self, _: Lent, _: &[RemoteSegment], _: &mut [IoSliceMut<'_>]) -> Result<usize, CopyError> {
        Err(CopyError::Refused)
    }

    fn write(&self, _: Lent, _: &[RemoteSegment], _: &[IoSlice<'_>]) -> Result<usize, CopyError> {
        Err(CopyError::Refused)
    }
}

/// Refuses everything.
pub(super) fn none() -> &'static dyn SingleCopy {
    &NONE
}

impl BackEnd {
    /// Returns the back end that a process with these settings uses.
    pub(super) fn choose(config: &Config) -> Result<BackEnd, Unavailable> {
        if config.messages.single_copy == Setting::Never {
            return Err(Unavailable::Off);
        }
        cma::allow_peers();
        let wanted: &[BackEnd] = match config.memory.copy_by {
            CopyBy::Auto => &[BackEnd::Xpmem, BackEnd::Attach, BackEnd::Knem],
            CopyBy::Attach => &[BackEnd::Attach],
            CopyBy::Xpmem => &[BackEnd::Xpmem],
            CopyBy::Knem => &[BackEnd::Knem],
        };
        let works = |back_end: &BackEnd| match back_end {
            BackEnd::Attach => cma::permitted(),
            BackEnd::Xpmem => xpmem().as_ref().map(|_| ()).map_err(|error| *error),
            BackEnd::Knem => knem().as_ref().map(|_| ()).map_err(|error| *error),
        };
        let found = wanted.iter().copied().find(|back_end| works(back_end).is_ok());
        found.ok_or_else(|| {
            // What cross memory attach lacks is what can be helped.
            let reason = wanted.iter().rev().find_map(|back_end| works(back_end).err());
            Unavailable::Refused(cma::permitted().err().or(reason).unwrap_or(CopyError::Refused))
        })
    }

    /// Returns the back end with this number in a record. Unknown numbers give cross memory attach.
    pub(super) fn from_number(number: u32) -> BackEnd {
        match number {
            1 => BackEnd::Xpmem,
            2 => BackEnd::Knem,
            _ => BackEnd::Attach,
        }
    }

    /// Returns the copier of this back end. Without its device in this process that is cross memory attach,
    /// whose own errors then explain the failure.
    pub(super) fn copier(self) -> &'static dyn SingleCopy {
        match self {
            BackEnd::Attach => &ATTACH,
            BackEnd::Xpmem => xpmem().as_ref().map_or(&ATTACH, |copier| copier as &dyn SingleCopy),
            BackEnd::Knem => knem().as_ref().map_or(&ATTACH, |copier| copier as &dyn SingleCopy),
        }
    }
}

fn xpmem() -> &'static Result<Xpmem, CopyError> {
    static XPMEM: OnceLock<Result<Xpmem, CopyError>> = OnceLock::new();
    XPMEM.get_or_init(|| Xpmem::open().map_err(CopyError::from))
}

fn knem() -> &'static Result<Knem, CopyError> {
    static KNEM: OnceLock<Result<Knem, CopyError>> = OnceLock::new();
    KNEM.get_or_init(|| Knem::open().map_err(CopyError::from))
}
