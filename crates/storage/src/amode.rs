//! The access mode of a file (MPI-5 section 14.2.1).

use tutti_base::{Error, ErrorClass, Result};

/// Valid combination of the bits of an access mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amode(i32);

/// Bits of access modes in the standard ABI.
const APPEND: i32 = 1;
const CREATE: i32 = 2;
const DELETE_ON_CLOSE: i32 = 4;
const EXCL: i32 = 8;
const RDONLY: i32 = 16;
const RDWR: i32 = 32;
const SEQUENTIAL: i32 = 64;
const UNIQUE_OPEN: i32 = 128;
const WRONLY: i32 = 256;
const ALL: i32 = APPEND | CREATE | DELETE_ON_CLOSE | EXCL | RDONLY | RDWR | SEQUENTIAL | UNIQUE_OPEN | WRONLY;

impl Amode {
    /// Converts the argument of MPI_File_open.
    ///
    /// # Errors
    /// `Amode` for a combination that the standard excludes.
    pub fn new(amode: i32) -> Result<Amode> {
        let wrong = |why: &str| Err(Error::new(ErrorClass::Amode, format!("argument amode {why}")));
        let access = amode & (RDONLY | RDWR | WRONLY);
        if amode & !ALL != 0 {
            return wrong("has bits that are no mode");
        }
        if access.count_ones() != 1 {
            return wrong("must have one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY");
        }
        if access == RDONLY && amode & (CREATE | EXCL) != 0 {
            return wrong("has MPI_MODE_RDONLY with MPI_MODE_CREATE or MPI_MODE_EXCL");
        }
        if access == RDWR && amode & SEQUENTIAL != 0 {
            return wrong("has MPI_MODE_RDWR with MPI_MODE_SEQUENTIAL");
        }
        Ok(Amode(amode))
    }

    /// Returns the mode for an existing file that is read, written, or both.
    pub fn for_existing(read: bool, write: bool) -> Amode {
        Amode(match (read, write) {
            (_, false) => RDONLY,
            (false, true) => WRONLY,
            (true, true) => RDWR,
        })
    }

    /// Returns the mode for a file that is written, and created if it does not exist.
    pub fn to_make() -> Amode {
        Amode(RDWR | CREATE)
    }

    /// Returns the bits as passed by the program.
    pub fn bits(self) -> i32 {
        self.0
    }

    /// Returns true if the file may be read.
    pub fn reads(self) -> bool {
        self.0 & WRONLY == 0
    }

    /// Returns true if the file may be written.
    pub fn writes(self) -> bool {
        self.0 & RDONLY == 0
    }

    /// Returns true if the file is created when it does not exist.
    pub fn creates(self) -> bool {
        self.0 & CREATE != 0
    }

    /// Returns true if the file must not exist yet.
    pub fn is_exclusive(self) -> bool {
        self.0 & EXCL != 0
    }

    /// Returns true if all file pointers start at the end of the file.
    pub fn appends(self) -> bool {
        self.0 & APPEND != 0
    }

    /// Returns true if the file is accessed by the shared file pointer only.
    pub fn is_sequential(self) -> bool {
        self.0 & SEQUENTIAL != 0
    }

    /// Returns true if the file is deleted when it is closed.
    pub fn deletes_on_close(self) -> bool {
        self.0 & DELETE_ON_CLOSE != 0
    }

    /// Returns the mode without creation of the file, which only the first member performs.
    pub fn existing(self) -> Amode {
        Amode(self.0 & !(CREATE | EXCL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(amode: i32, is_right: bool) {
        assert_eq!(Amode::new(amode).is_ok(), is_right, "{amode}");
    }

    #[test]
    fn modes_that_the_standard_excludes_are_refused() {
        check(RDONLY, true);
        check(RDWR | CREATE | EXCL | DELETE_ON_CLOSE | UNIQUE_OPEN | APPEND, true);
        check(WRONLY | SEQUENTIAL, true);
        check(CREATE, false);
        check(RDONLY | RDWR, false);
        check(RDONLY | CREATE, false);
        check(RDONLY | EXCL, false);
        check(RDWR | SEQUENTIAL, false);
        check(RDWR | 1024, false);
    }
}
