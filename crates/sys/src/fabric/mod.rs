//! libfabric (libfabric.so.1, version 1.15 and newer), loaded only when asked for.
//!
//! libmpi_abi.so must start fast and work where libfabric is not installed, so nothing links to it. Symbols
//! are asked for by their version, which fixes the layout of the structures in `raw`. Objects keep what they
//! were made from alive; an object may be used by one thread at a time together with everything of its domain
//! (FI_THREAD_DOMAIN), so none of them is `Send`: whoever owns a whole domain may declare the whole to be.
//!
//! Loading takes long where libfabric was built with providers for InfiniPath and Omni-Path (Debian: two
//! constructors measure the clock for 100 ms each, and the verbs provider searches /proc/kallsyms twice, 70 ms each).
//! Their constructors also take the signals of a crash over; that is undone.
//! Package: libfabric1 (Debian, Ubuntu).

pub mod devices;
mod endpoint;
mod info;
mod library;
mod memory;
mod queue;
mod raw;
#[cfg(test)]
mod tests;

use std::fmt;

pub use endpoint::{Endpoint, PIECES, PassiveEndpoint, Receiver, SharedReceive};
pub use info::{EndpointKind, Info, Query};
pub use library::version;
pub use memory::{AddressVector, Domain, Fabric, PeerAddress, RegisteredRegion, Rights};
pub use queue::{Completion, CompletionFailure, CompletionQueue, ConnectionChange, EventQueue, Wakeup};
pub use raw::OperationContext;

/// What went wrong, with the provider and the operation of libfabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// libfabric.so.1 cannot be loaded.
    NotInstalled(String),
    /// The library lacks something of version 1.15.
    Incompatible(&'static str),
    /// No provider can do what was asked for.
    NoProvider(String),
    /// A call failed.
    Failed {
        /// For example `tcp`.
        provider: String,
        /// For example `connect`.
        operation: &'static str,
        /// A number of errno.h, or one above 255 of libfabric's own.
        code: i32,
        /// libfabric's words for it.
        text: String,
    },
}

/// The result of a call into libfabric.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotInstalled(why) => write!(f, "libfabric.so.1 cannot be loaded: {why}"),
            Error::Incompatible(symbol) => {
                write!(f, "libfabric.so.1 has no {symbol}: 1.15 or newer is needed")
            }
            Error::NoProvider(wanted) => write!(f, "libfabric has no provider for {wanted}"),
            Error::Failed { provider, operation, code, text } => {
                write!(f, "{operation} of libfabric's provider {provider}: {text} ({code})")
            }
        }
    }
}

impl std::error::Error for Error {}

/// The error `code` (positive or negative) of an operation.
#[cold]
fn failed(provider: &str, operation: &'static str, code: i32) -> Error {
    let code = code.wrapping_abs();
    Error::Failed { provider: provider.to_string(), operation, code, text: library::text_of(code) }
}

/// The result of a call that a table has (`Some`) or lacks (`None`): 0 or more is well.
fn checked(provider: &str, operation: &'static str, result: Option<i32>) -> Result<i32> {
    match result {
        Some(value) if value >= 0 => Ok(value),
        Some(code) => Err(failed(provider, operation, code)),
        None => Err(failed(provider, operation, libc::ENOSYS)),
    }
}

/// The result of posting: whether there was room for it.
#[inline]
fn posted(provider: &str, operation: &'static str, result: Option<isize>) -> Result<bool> {
    match result {
        Some(0) => Ok(true),
        Some(code) if code == -(libc::EAGAIN as isize) => Ok(false),
        other => checked(provider, operation, other.map(|code| code as i32)).map(|_| true),
    }
}
