//! A function of MPI, and the object whose error handler receives its errors.

use crate::types::{MPI_Comm, MPI_Errhandler, MPI_File, MPI_Group, MPI_Session, MPI_Win};

/// A function of MPI.
#[derive(Debug)]
pub struct Function {
    /// Name of the function with the prefix `MPI_`.
    pub name: &'static str,
    /// Whether it may be called before MPI_Init and after MPI_Finalize.
    pub always: bool,
    /// Name and kind of each parameter, for reports of errors.
    pub parameters: &'static [(&'static str, Parameter)],
}

/// Kind of a parameter, by which its argument is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A number.
    Number,
    /// A rank, or MPI_PROC_NULL and the like.
    Rank,
    /// A tag, or MPI_ANY_TAG.
    Tag,
    /// A communicator.
    Comm,
    /// Any other handle.
    Handle,
    /// An address of data, or MPI_IN_PLACE and the like.
    Buffer,
    /// A string that the function reads.
    Text,
    /// Weights of edges, or MPI_UNWEIGHTED and the like.
    Weights,
    /// A status, or MPI_STATUS_IGNORE.
    Status,
    /// Statuses, or MPI_STATUSES_IGNORE.
    Statuses,
    /// Any other address.
    Pointer,
}

/// The object whose error handler gets an error (MPI-5 section 9.3).
#[derive(Clone, Copy, Debug)]
pub enum At {
    /// No object: the error handler of MPI_COMM_SELF, or the initial one.
    World,
    /// No error handler at all: functions of the tool interface return their code (MPI-5 section 15.3.9).
    Tool,
    /// A communicator.
    Comm(MPI_Comm),
    /// The communicator with this context.
    Context(u32),
    /// A window.
    Win(MPI_Win),
    /// A file.
    File(MPI_File),
    /// A session.
    Session(MPI_Session),
    /// The session that a group comes from; as `World` for one that is of no session.
    Group(MPI_Group),
    /// The error handler that an object will have which is being made (MPI-5 section 11.3).
    Given(MPI_Errhandler),
}
