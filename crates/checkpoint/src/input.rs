//! Standard input of a job across a restart.
//!
//! A restored rank continues to read at its old position. Therefore the new `mpirun` must offer the bytes
//! that the job had not read. A checkpoint records the position of the job ([`InputRecord`]). [`resume`]
//! decides how a restart adjusts the input that it is offered. An input that cannot be continued is refused.
//! Otherwise a rank would read other bytes and give a wrong result without a message.
//!
//! | input at the checkpoint | offered at the restart | result |
//! |---|---|---|
//! | nothing read, or a terminal | any | taken as it is |
//! | at its end | any | at its end |
//! | regular file | regular file of at least that length | continued at that byte |
//! | regular file, read in part | anything else | refused |
//! | pipe, read in part | any | refused |

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tutti_sys::event;

use crate::error::CheckpointError;

/// Device number of /dev/null.
const NULL_DEVICE: u64 = libc::makedev(1, 3);

/// Position of a job in its standard input at a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputRecord {
    /// Nothing was read, or the input was typed at a terminal.
    #[default]
    Unread,
    /// Nothing is left to read, and nothing will come.
    Ended,
    /// Regular file, read up to a position.
    File {
        /// Path of the file, for messages; empty if it is unknown.
        path: Vec<u8>,
        /// Offset of the first byte that was not read.
        position: u64,
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// Pipe, socket or device.
    Stream {
        /// Number of bytes that the job has read. None: ranks read the input themselves, so it is unknown.
        read: Option<u64>,
    },
}

/// Source of the input of a restarted job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartInput {
    /// The same input as before; bytes that the job has read are skipped.
    #[default]
    Continue,
    /// An input with only the bytes that the job has not read.
    Rest,
}

/// Adjustment of the standard input of mpirun before the ranks of a restart read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resumption {
    /// No adjustment: ranks read the input from its current position.
    #[default]
    AsGiven,
    /// The position of the file is set to this byte.
    Seek(u64),
    /// Ranks read an end of file at once.
    Ended,
}

/// Standard input that mpirun offers to a restarted job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// Regular file of this length in bytes.
    File(u64),
    /// Pipe, socket, terminal or device.
    Stream {
        /// True if an execution of the same job took bytes of it before the restart.
        was_taken: bool,
    },
}

impl Offered {
    /// Inspects a descriptor. `was_taken` is true if an execution of the same job has taken bytes of it.
    ///
    /// # Errors
    /// Returns the error of fstat(2).
    pub fn observe(input: BorrowedFd<'_>, was_taken: bool) -> io::Result<Offered> {
        let known = File::from(input.try_clone_to_owned()?).metadata()?;
        Ok(if known.is_file() { Offered::File(known.len()) } else { Offered::Stream { was_taken } })
    }
}

impl InputRecord {
    /// Returns the record of an input that a rank reads directly, while no rank runs. `is_terminal` is true
    /// for input that a user types.
    pub fn observe(input: BorrowedFd<'_>, is_terminal: bool) -> InputRecord {
        InputRecord::try_observe(input, is_terminal).unwrap_or(InputRecord::Stream { read: None })
    }

    /// Determines the record from the kind of the descriptor and its position.
    fn try_observe(input: BorrowedFd<'_>, is_terminal: bool) -> io::Result<InputRecord> {
        let mut file = File::from(input.try_clone_to_owned()?);
        let known = file.metadata()?;
        let kind = known.file_type();
        Ok(if kind.is_file() {
            InputRecord::File { path: path_of(input), position: file.stream_position()?, bytes: known.len() }
        } else if kind.is_char_device() && known.rdev() == NULL_DEVICE || event::has_ended(input) {
            InputRecord::Ended
        } else if is_terminal || kind.is_dir() {
            InputRecord::Unread
        } else {
            InputRecord::Stream { read: None }
        })
    }

    /// Returns the record of an input that mpirun reads and passes on to a rank. `before` is the record of
    /// that input before mpirun read anything. `read` is the number of bytes that the rank has read.
    /// `is_over` is true if nothing is left.
    pub fn of_passed_on(before: &InputRecord, read: u64, is_over: bool) -> InputRecord {
        match before {
            InputRecord::File { path, position, bytes } => {
                InputRecord::File { path: path.clone(), position: position + read, bytes: *bytes }
            }
            InputRecord::Ended => InputRecord::Ended,
            _ if is_over => InputRecord::Ended,
            InputRecord::Stream { .. } if read > 0 => InputRecord::Stream { read: Some(read) },
            _ => InputRecord::Unread,
        }
    }
}

fn path_of(input: BorrowedFd<'_>) -> Vec<u8> {
    use std::os::fd::AsRawFd;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", input.as_raw_fd()));
    link.map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default()
}

/// Returns the adjustment with which a restart continues the input that it is offered.
///
/// # Errors
/// Fails with a text for the user if the input cannot be continued.
pub fn resume(
    record: &InputRecord,
    offered: Offered,
    wanted: RestartInput,
) -> Result<Resumption, CheckpointError> {
    const REST: &str =
        "--restart-input rest takes a standard input that holds only what the job has not read";
    if wanted == RestartInput::Rest {
        return Ok(Resumption::AsGiven);
    }
    let lost = "bytes of the standard input that were read after the checkpoint cannot be read again";
    match (record, offered) {
        (InputRecord::Ended, _) => Ok(Resumption::Ended),
        (InputRecord::Unread, Offered::Stream { was_taken: true }) => {
            Err(CheckpointError::Changed(format!("{lost}; {REST}")))
        }
        (InputRecord::Unread, _) => Ok(Resumption::AsGiven),
        (InputRecord::File { position, .. }, Offered::File(bytes)) if bytes >= *position => {
            Ok(Resumption::Seek(*position))
        }
        (InputRecord::File { path, position, .. }, Offered::File(bytes)) => {
            Err(CheckpointError::Changed(format!(
                "the standard input has {bytes} bytes, and the job had read {position} of {}; {REST}",
                shown(path)
            )))
        }
        (InputRecord::File { position: 0, .. }, _) => Ok(Resumption::AsGiven),
        (InputRecord::File { position, bytes, .. }, _) if position >= bytes => Ok(Resumption::Ended),
        (InputRecord::File { path, position, bytes }, _) => {
            let path = shown(path);
            Err(CheckpointError::Changed(format!(
                "the job had read {position} of {bytes} bytes of its standard input, {path}: \
                 give mpirun that file again (< {path}); {REST}"
            )))
        }
        (InputRecord::Stream { read: Some(read) }, _) => Err(CheckpointError::Changed(format!(
            "the job had read {read} bytes of its standard input from a pipe, which cannot be read again; \
             {REST}"
        ))),
        (InputRecord::Stream { read: None }, _) => Err(CheckpointError::Changed(format!(
            "the standard input of the job was a pipe or a device, and what the job had read of it is not \
             known: a job started with --checkpoint-dir counts it; {REST}"
        ))),
    }
}

fn shown(path: &[u8]) -> String {
    Path::new(std::ffi::OsStr::from_bytes(path)).display().to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    /// Checks the adjustment of an input. A refusal must contain the text of `Err`.
    fn check(record: &InputRecord, offered: Offered, expected: Result<Resumption, &str>) {
        match (resume(record, offered, RestartInput::Continue), expected) {
            (Ok(resumption), Ok(wanted)) => assert_eq!(resumption, wanted, "{record:?} {offered:?}"),
            (Err(error), Err(part)) => {
                let why = error.to_string();
                assert!(why.contains(part) && why.contains("--restart-input"), "{why}");
            }
            (got, wanted) => panic!("{record:?} {offered:?}: {got:?}, not {wanted:?}"),
        }
        assert_eq!(resume(record, offered, RestartInput::Rest).ok(), Some(Resumption::AsGiven));
    }

    #[test]
    fn an_input_is_continued_or_refused() {
        let file = |position| InputRecord::File { path: b"/a".to_vec(), position, bytes: 10 };
        let (fresh, taken) = (Offered::Stream { was_taken: false }, Offered::Stream { was_taken: true });
        check(&InputRecord::Unread, fresh, Ok(Resumption::AsGiven));
        check(&InputRecord::Unread, Offered::File(3), Ok(Resumption::AsGiven));
        check(&InputRecord::Unread, taken, Err("after the checkpoint cannot be read again"));
        check(&InputRecord::Ended, fresh, Ok(Resumption::Ended));
        check(&InputRecord::Ended, taken, Ok(Resumption::Ended));
        check(&file(4), Offered::File(10), Ok(Resumption::Seek(4)));
        check(&file(0), Offered::File(10), Ok(Resumption::Seek(0)));
        check(&file(4), Offered::File(3), Err("has 3 bytes, and the job had read 4 of /a"));
        check(&file(4), fresh, Err("had read 4 of 10 bytes of its standard input, /a"));
        check(&file(0), fresh, Ok(Resumption::AsGiven));
        check(&file(10), fresh, Ok(Resumption::Ended));
        check(&InputRecord::Stream { read: Some(7) }, fresh, Err("had read 7 bytes"));
        check(&InputRecord::Stream { read: None }, Offered::File(7), Err("is not known"));
    }

    #[test]
    fn what_is_passed_on_is_counted() {
        let check = |before: InputRecord, read, is_over, expected| {
            assert_eq!(InputRecord::of_passed_on(&before, read, is_over), expected);
        };
        let file = |position| InputRecord::File { path: Vec::new(), position, bytes: 9 };
        let stream = InputRecord::Stream { read: None };
        check(file(2), 3, true, file(5));
        check(stream.clone(), 0, false, InputRecord::Unread);
        check(stream.clone(), 5, false, InputRecord::Stream { read: Some(5) });
        check(stream, 5, true, InputRecord::Ended);
        check(InputRecord::Unread, 5, false, InputRecord::Unread);
        check(InputRecord::Ended, 0, false, InputRecord::Ended);
    }

    #[test]
    fn inputs_are_observed() {
        let mut file = File::open("/proc/self/exe").unwrap();
        file.read_exact(&mut [0; 5]).unwrap();
        let seen = InputRecord::observe(file.as_fd(), false);
        assert!(matches!(seen, InputRecord::File { position: 5, .. }), "{seen:?}");
        let null = File::open("/dev/null").unwrap();
        assert_eq!(InputRecord::observe(null.as_fd(), false), InputRecord::Ended);
        let (reader, mut writer) = event::pipe().unwrap();
        assert_eq!(InputRecord::observe(reader.as_fd(), false), InputRecord::Stream { read: None });
        assert_eq!(InputRecord::observe(reader.as_fd(), true), InputRecord::Unread);
        writer.write_all(b"x").unwrap();
        drop(writer);
        assert_eq!(InputRecord::observe(reader.as_fd(), false), InputRecord::Stream { read: None });
        (&reader).read_exact(&mut [0; 1]).unwrap();
        assert_eq!(InputRecord::observe(reader.as_fd(), false), InputRecord::Ended);
    }
}
