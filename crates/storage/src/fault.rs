//! Conversion of system errors to error classes of MPI (MPI-5 section 14.7).

use std::io;

use tutti_base::{Error, ErrorClass};

/// Error numbers of Linux that `io::ErrorKind` does not distinguish, or not by a stable name.
mod number {
    pub const NO_DEVICE_OR_ADDRESS: i32 = 6;
    pub const TEXT_BUSY: i32 = 26;
    pub const FILE_TOO_BIG: i32 = 27;
    pub const NO_SPACE: i32 = 28;
    pub const READ_ONLY: i32 = 30;
    pub const NAME_TOO_LONG: i32 = 36;
    pub const LOOP: i32 = 40;
    pub const QUOTA: i32 = 122;
}

/// Returns the class of a system error.
pub fn class_of(error: &io::Error) -> ErrorClass {
    match error.raw_os_error() {
        Some(number::NO_SPACE | number::FILE_TOO_BIG) => return ErrorClass::NoSpace,
        Some(number::QUOTA) => return ErrorClass::Quota,
        Some(number::READ_ONLY) => return ErrorClass::ReadOnly,
        Some(number::NAME_TOO_LONG | number::LOOP | number::NO_DEVICE_OR_ADDRESS) => {
            return ErrorClass::BadFile;
        }
        Some(number::TEXT_BUSY) => return ErrorClass::FileInUse,
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::NotFound => ErrorClass::NoSuchFile,
        io::ErrorKind::AlreadyExists => ErrorClass::FileExists,
        io::ErrorKind::PermissionDenied => ErrorClass::Access,
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => ErrorClass::BadFile,
        io::ErrorKind::OutOfMemory => ErrorClass::NoMem,
        io::ErrorKind::ResourceBusy => ErrorClass::FileInUse,
        io::ErrorKind::StorageFull => ErrorClass::NoSpace,
        _ => ErrorClass::Io,
    }
}

/// Converts a system error that occurred during the action `what`.
#[cold]
pub fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(class_of(error), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: i32, expected: ErrorClass) {
        assert_eq!(class_of(&io::Error::from_raw_os_error(number)), expected, "error {number}");
    }

    #[test]
    fn errors_of_the_system_have_classes() {
        check(2, ErrorClass::NoSuchFile);
        check(17, ErrorClass::FileExists);
        check(13, ErrorClass::Access);
        check(1, ErrorClass::Access);
        check(20, ErrorClass::BadFile);
        check(21, ErrorClass::BadFile);
        check(36, ErrorClass::BadFile);
        check(28, ErrorClass::NoSpace);
        check(122, ErrorClass::Quota);
        check(30, ErrorClass::ReadOnly);
        check(26, ErrorClass::FileInUse);
        check(5, ErrorClass::Io);
    }
}
