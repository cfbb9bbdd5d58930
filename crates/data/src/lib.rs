//! MPI datatypes and reduction operators (MPI-5 chapters 5 and 6.9), without a line of FFI.
//!
//! A [`Datatype`] is what a constructor said ([`Envelope`] and [`Contents`] say it again), the facts
//! that follow from it (size, bounds, signature) and, once committed, a small program that names the
//! runs of memory in packed order. Everything that moves data walks that program: [`Datatype::pack`],
//! [`Datatype::unpack`], [`Datatype::segments`], [`copy`], external32 and reductions over derived types.
//!
//! Deliberately absent: handles and names set by users (abi), messages, files.
#![deny(unsafe_code)]

mod construct;
mod copies;
pub mod copy;
mod darray;
mod datatype;
mod decode;
mod expand;
mod extended;
mod external;
mod facts;
mod fortran;
mod inverse;
mod kernels;
mod layout;
mod nontemporal;
mod op;
mod predefined;
mod quad;
mod reduce;
mod shape;
mod signature;
mod simd;
mod tiling;
mod walk;

pub use darray::{Darray, Distribution};
pub use datatype::{Datatype, Form, Order};
pub use decode::{Combiner, Contents, Envelope};
pub use inverse::Succession;
pub use layout::{Cursor, Segment, copy};
pub use op::{Op, UserFunction};
pub use reduce::Reducer;
pub use tiling::Tiling;

#[cfg(test)]
mod tests;
