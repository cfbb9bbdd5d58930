//! MPI datatypes and reduction operators (MPI-5 chapters 5 and 6.9), without a line of FFI.
//!
//! A [`Datatype`] has three parts: the arguments of its constructor ([`Envelope`] and [`Contents`] return
//! them), the facts that follow from them (size, bounds, signature) and, once committed, a small program. The
//! program names the runs of memory in packed order. Everything that moves data walks it from any packed
//! position, without state: [`Datatype::pack`], [`Datatype::unpack`], [`Datatype::segments`], external32 and
//! reductions over derived types.
//!
//! The meaning of a constructor is written once (`expand`) and read twice: as facts, and as a shape, from
//! which the program is made.
//!
//! # Entry points
//! - `Datatype`: constructors `create_*`, `commit`, `contiguous`, `pack`, `unpack`, `segments`,
//!   `pack_external`, `signature_hash`, `envelope`, `contents`
//! - `Cursor`: a position in packed data
//! - `Op` and `Reducer`: `apply`, `apply_into`, `apply_many`, `apply_many_streaming`
//! - `copy::{copy, copy_small, copy_streaming}`: copies of raw memory
//!
//! All reductions are one loop (`simd`). It reads a chunk of all operands into registers, combines them from
//! right to left, and then writes the result, into the caches or past them. Hence the result may be any of
//! the operands. Its bits do not depend on sizes, addresses or vector width.
//!
//! Not here on purpose: handles, names and attributes set by users (abi), messages, files, allocation while
//! moving data.
#![deny(unsafe_code)]

mod brain;
mod construct;
mod copies;
pub mod copy;
mod darray;
mod datatype;
mod decode;
mod exact;
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
mod global_sum;
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
pub use exact::Accumulator;
pub use global_sum::GlobalSum;
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
