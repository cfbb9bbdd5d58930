//! How `tutti checkpoint` asks a running `mpirun` for a checkpoint: a letter over a local socket that is
//! named after the process, and an answer when it is over.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use tutti_sys::letter::{self, Fields};
use tutti_sys::local_socket::{Connection, Foreign};

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Whether the job ends with it.
    pub stops: bool,
    /// Where the set goes, if mpirun was not told.
    pub directory: Option<OsString>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether there is a whole set.
    pub is_whole: bool,
    /// A sentence for the user.
    pub text: String,
}

/// The name at which the mpirun of this process number listens.
pub fn name(pid: u32) -> Vec<u8> {
    format!("checkpoint-{pid}").into_bytes()
}

impl Call {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        letter::put_number(&mut bytes, u64::from(self.stops));
        letter::put(&mut bytes, self.directory.as_deref().map_or(&[][..], OsStrExt::as_bytes));
        bytes
    }

    /// From bytes; `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<Call> {
        let mut fields = Fields::of(bytes);
        let stops = fields.number()? == 1;
        let directory = fields.field()?;
        let directory = (!directory.is_empty()).then(|| OsString::from_vec(directory.to_vec()));
        Some(Call { stops, directory })
    }
}

impl Answer {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        letter::put_number(&mut bytes, u64::from(self.is_whole));
        letter::put(&mut bytes, self.text.as_bytes());
        bytes
    }

    /// From bytes; `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<Answer> {
        let mut fields = Fields::of(bytes);
        let is_whole = fields.number()? == 1;
        Some(Answer { is_whole, text: String::from_utf8_lossy(fields.field()?).into_owned() })
    }
}

/// Asks the mpirun of process `pid` and waits for the answer.
///
/// # Errors
/// If there is no such mpirun, or it is another user's, or it ends before it has answered.
pub fn ask(pid: u32, call: &Call) -> io::Result<Answer> {
    let connection = Connection::connect(&name(pid)).map_err(|error| {
        let foreign = error.get_ref().and_then(|cause| cause.downcast_ref::<Foreign>());
        let what = match foreign {
            Some(Foreign(user)) => format!("user {user} listens in the place of the mpirun of process {pid}"),
            None => format!("process {pid} is no mpirun of yours on this host that runs a job"),
        };
        io::Error::new(io::ErrorKind::NotFound, what)
    })?;
    letter::send(&connection, &call.encode(), &[])?;
    let answer = letter::receive(&connection).ok().and_then(|letter| Answer::decode(&letter.bytes));
    answer.ok_or_else(|| io::Error::other("the job has ended before its checkpoint was whole"))
}

/// Takes what who has connected wants, once something of it is there.
pub fn hear(connection: &Connection) -> Option<Call> {
    letter::receive(connection).ok().and_then(|letter| Call::decode(&letter.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_answers_come_back() {
        for directory in [None, Some("/a b".into())] {
            for stops in [false, true] {
                let call = Call { stops, directory: directory.clone() };
                assert_eq!(Call::decode(&call.encode()), Some(call));
            }
        }
        let answer = Answer { is_whole: true, text: "three".to_string() };
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        assert_eq!((Call::decode(&[1]), Answer::decode(&[])), (None, None));
    }
}
