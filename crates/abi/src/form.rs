//! The three forms of an operation (MPI-5 section 2.4.2), so that each is implemented once.

use crate::handles::kind::{Info, Request};
use crate::scope::{HandleOut, In};
use crate::status::StatusOut;

/// Way in which an operation reports its completion.
#[derive(Clone, Copy, Debug)]
pub enum Form<'s> {
    /// Complete when the function returns; receives return a status.
    Blocking(StatusOut<'s>),
    /// Request that the function returns.
    Nonblocking(HandleOut<'s, Request>),
    /// Persistent request, which MPI_Start starts repeatedly.
    Persistent(In<'s, Info>, HandleOut<'s, Request>),
}
