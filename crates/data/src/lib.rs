//! MPI datatypes and reduction operators (MPI-5 chapters 5 and 6.9), without a line of FFI.
//!
//! A [`Datatype`] is what a constructor said ([`Envelope`] and [`Contents`] say it again), the facts
//! that follow from it (size, bounds, signature) and, once committed, a small program that names the
//! runs of memory in packed order. Everything that moves data walks that program: [`Datatype::pack`],
//! [`Datatype::unpack`], [`Datatype::segments`], [`copy`], external32 and reductions over derived types.
//!
//! Deliberately absent: handles and names set by users (abi), messages, files.
//!
//! # What is where
//!
//! Datatypes (MPI-5 chapter 5) and reduction operators (section 6.9). Entry points: `Datatype`
//! (constructors `create_*`, `commit`, `contiguous`, `pack`, `unpack`, `segments`, `pack_external`,
//! `signature_hash`, `envelope`, `contents`), `Cursor`, `copy`, `Op`, `Reducer` (`apply`, `apply_into`,
//! `apply_many`, `apply_many_streaming`), `copy::{copy, copy_small, copy_streaming}` for raw memory. A
//! constructor's meaning is written once (`expand`) and read twice: as facts (size, bounds, signature) and
//! as a shape, the normalised program of memory runs that every mover walks from any packed position
//! without state. All reductions are one loop (`simd`): a chunk of all operands goes into registers, is
//! combined from right to left, and is then written, cached or past the caches; so the result may be any of
//! the operands, and the bits do not depend on sizes, addresses or vector width. Absent: handles, user-set
//! names and attributes, FFI, I/O, allocation while moving data.
#![deny(unsafe_code)]

mod construct;
mod copies;
pub mod copy;
mod darray;
mod datatype;
mod decode;
mod expand;
#[cfg(target_arch = "x86_64")]
mod extended;
// Where `long double` is a binary128.
#[cfg(not(target_arch = "x86_64"))]
#[path = "extended_quad.rs"]
mod extended;
mod external;
mod facts;
mod fortran;
mod inverse;
mod kernels;
mod layout;
mod meaning;
mod moving;
mod nontemporal;
mod normal;
mod op;
mod order;
mod predefined;
mod quad;
mod reduce;
mod shape;
mod signature;
mod simd;
mod tiles;
mod tiling;
mod walk;

pub use darray::{Darray, Distribution};
pub use datatype::{Datatype, Form};
pub use decode::{Combiner, Contents, Envelope};
pub use inverse::Succession;
pub use layout::Segment;
pub use moving::{Cursor, copy};
pub use op::{Op, UserFunction};
pub use order::Order;
pub use reduce::Reducer;
pub use tiles::Tiles;
pub use tiling::Tiling;

#[cfg(test)]
mod tests;
