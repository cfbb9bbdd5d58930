//! The three forms of an operation (MPI-5 section 2.4.2), so that each is implemented once.

use crate::handles::kind::{Info, Request};
use crate::scope::{HandleOut, In};
use crate::status::StatusOut;

/// Way in which an operation reports its completion.
#[derive(Clone, Copy, Debug)]
pub enum Form<'s> {
    /// When the function returns; receives give a status.
    Blocking(StatusOut<'s>),
    /// By a request.
    Nonblocking(HandleOut<'s, Request>),
    /// By a request that MPI_Start starts, again and again.
    Persistent(In<'s, Info>, HandleOut<'s, Request>),
}
