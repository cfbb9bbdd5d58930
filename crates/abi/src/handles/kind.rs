//! Kinds of handles: their objects, their numbers, and the class of their errors.
//!
//! A kind whose objects live in a table of the abi is [`Stored`](super::Stored). Requests live in core: see
//! [`super::request`].

use tutti_base::ErrorClass;

/// Kind of handle: its representation, and its names in messages.
pub trait Kind: Copy + 'static {
    /// Top five bits of its handles. User-space addresses have zero there.
    const CODE: u8;
    /// Number of its null handle; its predefined handles follow.
    const NULL: usize;
    /// Number of small handles of this kind, beginning with `NULL`.
    const NUMBERS: usize;
    /// Class of errors about handles of this kind.
    const CLASS: ErrorClass;
    /// Description of the kind in messages.
    const WHAT: &'static str;
    /// Name of the null handle.
    const NULL_NAME: &'static str;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $code:literal $null:literal $numbers:literal $class:ident $what:literal $null_name:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}

            impl Kind for $name {
                const CODE: u8 = $code;
                const NULL: usize = $null;
                const NUMBERS: usize = $numbers;
                const CLASS: ErrorClass = ErrorClass::$class;
                const WHAT: &'static str = $what;
                const NULL_NAME: &'static str = $null_name;
            }
        )*

        /// Returns the description of the kind whose handles have these top bits.
        pub fn name_of_code(code: u8) -> Option<&'static str> {
            match code {
                $($code => Some($what),)*
                _ => None,
            }
        }

        /// Returns the description of the kind of a predefined handle.
        pub fn name_of_number(number: usize) -> Option<&'static str> {
            $(if (number.wrapping_sub($null)) < $numbers { return Some($what); })*
            None
        }
    };
}

kinds! {
    /// Communicators.
    Comm 1 0x100 8 Comm "a communicator" "MPI_COMM_NULL";
    /// Groups.
    Group 2 0x108 8 Group "a group" "MPI_GROUP_NULL";
    /// Windows.
    Win 3 0x110 8 Win "a window" "MPI_WIN_NULL";
    /// Files.
    File 4 0x118 8 File "a file" "MPI_FILE_NULL";
    /// Sessions.
    Session 5 0x120 8 Session "a session" "MPI_SESSION_NULL";
    /// Matched messages.
    Message 6 0x128 8 Request "a matched message" "MPI_MESSAGE_NULL";
    /// Info objects.
    Info 7 0x130 8 Info "an info object" "MPI_INFO_NULL";
    /// Error handlers.
    Errhandler 8 0x140 8 Errhandler "an error handler" "MPI_ERRHANDLER_NULL";
    /// Requests.
    Request 9 0x180 8 Request "a request" "MPI_REQUEST_NULL";
    /// Datatypes.
    Datatype 10 0x200 256 Type "a datatype" "MPI_DATATYPE_NULL";
    /// Reduction operations.
    Op 11 0x20 32 Op "a reduction operation" "MPI_OP_NULL";
}
