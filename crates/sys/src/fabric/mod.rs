//! libfabric (libfabric.so.1, version 1.15 and newer), loaded only on request.
//!
//! libmpi_abi.so must start fast and work without libfabric, so nothing links to it. Symbols are looked up
//! with their version, which fixes the layout of the structures in `raw`. An object keeps the objects alive
//! from which it was made. All objects of a domain may be used by only one thread at a time
//! (FI_THREAD_DOMAIN). So none of them is `Send`; the owner of a whole domain may declare the whole to be.
//!
//! Loading takes long where libfabric was built with providers for InfiniPath and Omni-Path. On Debian, two
//! constructors measure the clock for 100 ms each, and the verbs provider searches /proc/kallsyms twice, 70
//! ms each. Their constructors also install handlers for the signals of a crash, which is undone.
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

/// Error of libfabric, with the provider and the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// libfabric.so.1 cannot be loaded.
    NotInstalled(String),
    /// The library lacks a symbol of version 1.15.
    Incompatible(&'static str),
    /// No provider meets the requirements.
    NoProvider(String),
    /// A call of libfabric failed.
    Failed {
        /// Name of the provider, for example `tcp`.
        provider: String,
        /// Name of the operation, for example `connect`.
        operation: &'static str,
        /// Error number of errno.h, or one above 255 of libfabric's own.
        code: i32,
        /// Description of the error by libfabric.
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

/// Creates the error for `code` (positive or negative) of an operation.
#[cold]
fn failed(provider: &str, operation: &'static str, code: i32) -> Error {
    let code = code.wrapping_abs();
    Error::Failed { provider: provider.to_string(), operation, code, text: library::text_of(code) }
}

/// Checks the result of an operation. A value of 0 or more is success; `None` means that the provider lacks
/// the operation.
fn checked(provider: &str, operation: &'static str, result: Option<i32>) -> Result<i32> {
    match result {
        Some(value) if value >= 0 => Ok(value),
        Some(code) => Err(failed(provider, operation, code)),
        None => Err(failed(provider, operation, libc::ENOSYS)),
    }
}

/// Checks the result of posting an operation. Returns false if there was no room for it.
#[inline]
fn posted(provider: &str, operation: &'static str, result: Option<isize>) -> Result<bool> {
    match result {
        Some(0) => Ok(true),
        Some(code) if code == -(libc::EAGAIN as isize) => Ok(false),
        other => checked(provider, operation, other.map(|code| code as i32)).map(|_| true),
    }
}
