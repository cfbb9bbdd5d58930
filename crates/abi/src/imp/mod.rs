//! Implementations of the MPI functions at this layer: they check arguments, convert them, and call core.
//!
//! # How to implement a function
//! 1. Write `pub fn name(call: &mut Call, ...) -> Result<()>` in the module of its chapter. One function
//!    serves a family: MPI_X, MPI_X_c (and MPI_X_x), and with a [`Form`](crate::form::Form) as last parameter
//!    also MPI_IX and MPI_X_init.
//! 2. Add a line to `spec/implemented.tsv`, in the order of the names (LC_ALL=C):
//!    `MPI_Bcast<TAB>collective::bcast<TAB>form`, a fourth column for constant arguments that come right
//!    after `call` (`p2p::Mode::Ready`). A line for an exact name (`MPI_Op_create_c`) wins over that of its
//!    family.
//! 3. `cargo xtask generate`, commit what it writes. After a conflict in a generated file: generate again.
//!
//! Parameters, in the order of the standard:
//!
//! | C | here | use |
//! |---|---|---|
//! | `int` | `c_int` | |
//! | `int`/`MPI_Count`/`MPI_Aint` in MPI_X/MPI_X_c; `MPI_Aint`, `MPI_Offset` | `i64` | |
//! | `MPI_Comm comm` | [`In<Comm>`](crate::scope::In) | `.get()?` the object, `.optional()?` if it may be null, `.raw()` |
//! | `MPI_Comm *newcomm` | [`HandleOut<Comm>`](crate::scope::HandleOut) | `.create(object)?`, `.set_null()?`; `.input()?`, `.remove()?` |
//! | `int *x` | [`Out<c_int>`](crate::scope::Out) | `.set(value)?`, `.set_flag(bool)?`, `.get()?` |
//! | `int *`/`MPI_Count *` by variant | [`CountOut`](crate::scope::CountOut) | `.set(i64)?`, `.get()?` |
//! | `const int x[]`, `const MPI_Datatype x[]` | [`Array<T>`](crate::scope::Array) | `.slice(n)?`, `.handles(n)?` |
//! | `const int x[]`/`const MPI_Count x[]` by variant | [`CountArray`](crate::scope::CountArray) | `.read(n)?`, `.to_vec(n)?` |
//! | `int x[]`, `MPI_Request x[]` | [`ArrayOut<T>`](crate::scope::ArrayOut) | `.slice(n)?` |
//! | `const char *` | [`Text`](crate::scope::Text) | `.bytes()?` |
//! | `char *` | [`TextOut`](crate::scope::TextOut) | `.set(bytes, capacity)?` |
//! | `void *`, `const void *` | [`Address`](crate::scope::Address) | `.is_in_place()`, `.pointer()`, `.store(bits, name)?` |
//! | `MPI_Status *` | [`StatusOut`](crate::status::StatusOut), [`Statuses`](crate::status::Statuses) | `.set(report)` |
//! | `const MPI_Status *` | [`StatusIn`](crate::status::StatusIn) | `.get()?` |
//! | callback `MPI_X_function *` | `Option<MPI_X_function>` | an `unsafe extern "C" fn` |
//! | the rest (`argc`, `argv`) | raw pointers | |
//!
//! Functions marked `bare` in `spec/annotations.tsv` get no `call`; those marked `value` get the raw C
//! arguments and return their result.
//!
//! Errors: return `Err(Error)`; the wrapper calls the error handler of the function's communicator (window,
//! file, session), else that of MPI_COMM_SELF. To blame another object, set `call.at` first. Messages begin
//! with `argument NAME ...`. References from `.get()` live until the call ends, also when the handle is freed
//! meanwhile by a callback or another thread. Never keep a
//! [`FirstLaneCell`](tutti_core::lanes::FirstLaneCell) borrow across a callback.
//!
//! A kind of object is declared in [`crate::handles::kind`]; the type of its objects, and how its predefined
//! ones are made, stands in `stored`.

pub mod abi_info;
pub mod attribute;
pub mod buffered;
pub mod collective;
pub mod comm;
pub mod continuation;
pub mod conversion;
pub mod datatype;
pub mod dynamic;
pub mod environment;
pub mod error_handler;
pub mod extension;
pub mod file;
pub mod group;
pub mod info;
pub mod memory;
pub mod neighbourhood;
pub mod one_sided;
pub mod op;
pub mod p2p;
pub mod pack;
pub mod partitioned;
pub mod request;
pub mod session;
pub mod status;
pub mod storage;
mod stored;
pub mod tool;
pub mod topology;
pub mod window;
