//! Errors of MPI: a class of the standard (MPI-5 section 9.4) and a message of one sentence.
//!
//! The program sees the class. The message names the argument and the remedy. The layer that knows the called
//! function and the rank adds these.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// An error class of MPI-5 section 9.4 with the number that the standard ABI gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
#[rustfmt::skip]
#[allow(missing_docs, reason = "the names are those of the standard, less their prefix MPI_ERR_")]
pub enum ErrorClass {
    Buffer = 1,
    Count = 2,
    Type = 3,
    Tag = 4,
    Comm = 5,
    Rank = 6,
    Request = 7,
    Root = 8,
    Group = 9,
    Op = 10,
    Topology = 11,
    Dims = 12,
    Arg = 13,
    Unknown = 14,
    Truncate = 15,
    Other = 16,
    Intern = 17,
    Pending = 18,
    InStatus = 19,
    Access = 20,
    Amode = 21,
    Assert = 22,
    BadFile = 23,
    Base = 24,
    Conversion = 25,
    Disp = 26,
    DupDatarep = 27,
    FileExists = 28,
    FileInUse = 29,
    File = 30,
    InfoKey = 31,
    InfoNokey = 32,
    InfoValue = 33,
    Info = 34,
    Io = 35,
    Keyval = 36,
    Locktype = 37,
    Name = 38,
    NoMem = 39,
    NotSame = 40,
    NoSpace = 41,
    NoSuchFile = 42,
    Port = 43,
    Quota = 44,
    ReadOnly = 45,
    RmaAttach = 46,
    RmaConflict = 47,
    RmaRange = 48,
    RmaShared = 49,
    RmaSync = 50,
    Service = 51,
    Size = 52,
    Spawn = 53,
    UnsupportedDatarep = 54,
    UnsupportedOperation = 55,
    Win = 56,
    RmaFlavor = 57,
    ProcAborted = 58,
    ValueTooLarge = 59,
    Session = 60,
    Errhandler = 61,
    Abi = 62,
}

impl ErrorClass {
    /// All classes in the order of their numbers, with name and meaning.
    #[rustfmt::skip]
    pub const ALL: &[(ErrorClass, &str, &str)] = &[
        (ErrorClass::Buffer, "MPI_ERR_BUFFER", "invalid buffer pointer"),
        (ErrorClass::Count, "MPI_ERR_COUNT", "invalid count argument"),
        (ErrorClass::Type, "MPI_ERR_TYPE", "invalid datatype argument"),
        (ErrorClass::Tag, "MPI_ERR_TAG", "invalid tag argument"),
        (ErrorClass::Comm, "MPI_ERR_COMM", "invalid communicator"),
        (ErrorClass::Rank, "MPI_ERR_RANK", "invalid rank"),
        (ErrorClass::Request, "MPI_ERR_REQUEST", "invalid request handle"),
        (ErrorClass::Root, "MPI_ERR_ROOT", "invalid root"),
        (ErrorClass::Group, "MPI_ERR_GROUP", "invalid group"),
        (ErrorClass::Op, "MPI_ERR_OP", "invalid operation"),
        (ErrorClass::Topology, "MPI_ERR_TOPOLOGY", "invalid topology"),
        (ErrorClass::Dims, "MPI_ERR_DIMS", "invalid dimension argument"),
        (ErrorClass::Arg, "MPI_ERR_ARG", "invalid argument of some other kind"),
        (ErrorClass::Unknown, "MPI_ERR_UNKNOWN", "unknown error"),
        (ErrorClass::Truncate, "MPI_ERR_TRUNCATE", "message truncated on receive"),
        (ErrorClass::Other, "MPI_ERR_OTHER", "an error that no other class describes"),
        (ErrorClass::Intern, "MPI_ERR_INTERN", "internal error of the library"),
        (ErrorClass::Pending, "MPI_ERR_PENDING", "pending request"),
        (ErrorClass::InStatus, "MPI_ERR_IN_STATUS", "error code is in status"),
        (ErrorClass::Access, "MPI_ERR_ACCESS", "permission denied"),
        (ErrorClass::Amode, "MPI_ERR_AMODE", "invalid access mode for a file"),
        (ErrorClass::Assert, "MPI_ERR_ASSERT", "invalid assertion argument"),
        (ErrorClass::BadFile, "MPI_ERR_BAD_FILE", "invalid file name"),
        (ErrorClass::Base, "MPI_ERR_BASE", "invalid base of a window"),
        (ErrorClass::Conversion, "MPI_ERR_CONVERSION", "error in the conversion of data"),
        (ErrorClass::Disp, "MPI_ERR_DISP", "invalid displacement"),
        (ErrorClass::DupDatarep, "MPI_ERR_DUP_DATAREP", "data representation is already defined"),
        (ErrorClass::FileExists, "MPI_ERR_FILE_EXISTS", "file exists"),
        (ErrorClass::FileInUse, "MPI_ERR_FILE_IN_USE", "file is in use by a process"),
        (ErrorClass::File, "MPI_ERR_FILE", "invalid file handle"),
        (ErrorClass::InfoKey, "MPI_ERR_INFO_KEY", "info key is empty or too long"),
        (ErrorClass::InfoNokey, "MPI_ERR_INFO_NOKEY", "info key does not exist"),
        (ErrorClass::InfoValue, "MPI_ERR_INFO_VALUE", "info value is too long"),
        (ErrorClass::Info, "MPI_ERR_INFO", "invalid info object"),
        (ErrorClass::Io, "MPI_ERR_IO", "other input or output error"),
        (ErrorClass::Keyval, "MPI_ERR_KEYVAL", "invalid key of attributes"),
        (ErrorClass::Locktype, "MPI_ERR_LOCKTYPE", "invalid type of lock"),
        (ErrorClass::Name, "MPI_ERR_NAME", "service name is not published"),
        (ErrorClass::NoMem, "MPI_ERR_NO_MEM", "out of memory"),
        (ErrorClass::NotSame, "MPI_ERR_NOT_SAME", "collective argument differs between processes, or calls in different order"),
        (ErrorClass::NoSpace, "MPI_ERR_NO_SPACE", "not enough space on the device"),
        (ErrorClass::NoSuchFile, "MPI_ERR_NO_SUCH_FILE", "file does not exist"),
        (ErrorClass::Port, "MPI_ERR_PORT", "invalid port name"),
        (ErrorClass::Quota, "MPI_ERR_QUOTA", "quota exceeded"),
        (ErrorClass::ReadOnly, "MPI_ERR_READ_ONLY", "file or file system is read-only"),
        (ErrorClass::RmaAttach, "MPI_ERR_RMA_ATTACH", "memory cannot be attached"),
        (ErrorClass::RmaConflict, "MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window"),
        (ErrorClass::RmaRange, "MPI_ERR_RMA_RANGE", "target memory is not part of the window"),
        (ErrorClass::RmaShared, "MPI_ERR_RMA_SHARED", "memory cannot be shared"),
        (ErrorClass::RmaSync, "MPI_ERR_RMA_SYNC", "wrong synchronisation of accesses to a window"),
        (ErrorClass::Service, "MPI_ERR_SERVICE", "invalid service name"),
        (ErrorClass::Size, "MPI_ERR_SIZE", "invalid size argument"),
        (ErrorClass::Spawn, "MPI_ERR_SPAWN", "processes cannot be started"),
        (ErrorClass::UnsupportedDatarep, "MPI_ERR_UNSUPPORTED_DATAREP", "data representation is not supported"),
        (ErrorClass::UnsupportedOperation, "MPI_ERR_UNSUPPORTED_OPERATION", "operation is not supported"),
        (ErrorClass::Win, "MPI_ERR_WIN", "invalid window"),
        (ErrorClass::RmaFlavor, "MPI_ERR_RMA_FLAVOR", "wrong flavour of window"),
        (ErrorClass::ProcAborted, "MPI_ERR_PROC_ABORTED", "a process was aborted"),
        (ErrorClass::ValueTooLarge, "MPI_ERR_VALUE_TOO_LARGE", "value is too large to be returned"),
        (ErrorClass::Session, "MPI_ERR_SESSION", "invalid session"),
        (ErrorClass::Errhandler, "MPI_ERR_ERRHANDLER", "invalid error handler"),
        (ErrorClass::Abi, "MPI_ERR_ABI", "not possible with this ABI"),
    ];

    /// Returns the class with this number.
    pub fn from_code(code: i32) -> Option<ErrorClass> {
        Self::ALL.iter().map(|entry| entry.0).find(|class| *class as i32 == code)
    }

    /// Returns the standard's name, for example `MPI_ERR_TRUNCATE`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Returns a short description of the class.
    pub fn meaning(self) -> &'static str {
        self.entry().2
    }

    fn entry(self) -> &'static (ErrorClass, &'static str, &'static str) {
        &Self::ALL[self as usize - 1]
    }
}

/// Error of an MPI function. It has the size of a pointer, so that a result travels in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Reason>);

/// Cause of an error: the class for the program, the message for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Error class that the program finds by MPI_Error_class.
    pub class: ErrorClass,
    /// Message of one sentence: the argument, its value, and the remedy.
    pub message: Cow<'static, str>,
    /// The code to return where it is not the class itself: codes that a user's callback returned
    /// or that `MPI_Add_error_code` made.
    pub code: Option<i32>,
}

/// Result of an operation that can fail for a reason that a user can mend.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns an error of `class` with a sentence for the user.
    #[cold]
    pub fn new(class: ErrorClass, message: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Reason { class, message: message.into(), code: None }))
    }

    /// Returns an error whose code the user's own callback chose.
    #[cold]
    pub fn with_code(code: i32, message: impl Into<Cow<'static, str>>) -> Error {
        let class = ErrorClass::from_code(code).unwrap_or(ErrorClass::Other);
        Error(Box::new(Reason { class, message: message.into(), code: Some(code) }))
    }

    /// Returns the error code that the MPI function returns.
    pub fn code(&self) -> i32 {
        self.code.unwrap_or(self.class as i32)
    }
}

impl Deref for Error {
    type Target = Reason;

    fn deref(&self) -> &Reason {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut Reason {
        &mut self.0
    }
}

impl fmt::Display for Error {
    /// Shows the sentence alone. Errors are put into the sentences of others; the class is named once, where
    /// the program or the user gets the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_the_sentence_of_another_brings_no_class() {
        let inner = Error::new(ErrorClass::NoSuchFile, "there is no file x");
        let outer = Error::new(ErrorClass::Io, format!("server 1: {inner}"));
        assert_eq!(outer.to_string(), "server 1: there is no file x");
    }

    #[test]
    fn classes_are_dense_and_named() {
        for (position, (class, name, meaning)) in ErrorClass::ALL.iter().enumerate() {
            assert_eq!(*class as usize, position + 1, "{name}");
            assert_eq!(ErrorClass::from_code(*class as i32), Some(*class));
            assert!(name.starts_with("MPI_ERR_") && !meaning.is_empty());
        }
        assert_eq!(ErrorClass::from_code(0), None);
        assert_eq!(ErrorClass::Truncate.name(), "MPI_ERR_TRUNCATE");
    }
}
