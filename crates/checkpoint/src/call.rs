//! Requests of `tutti checkpoint` to a running `mpirun`. A request is one message over a local socket whose
//! name contains the process number of mpirun. The reply comes when the checkpoint has ended.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use tutti_sys::letter::{self, Fields};
use tutti_sys::local_socket::{Connection, Foreign};

/// Request for a checkpoint of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// True if the job ends after the checkpoint.
    pub stops: bool,
    /// Directory for the set, for an mpirun without `--checkpoint-dir`.
    pub directory: Option<OsString>,
}

/// Outcome of a requested checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// True if a complete set was written.
    pub is_whole: bool,
    /// Sentence for the user that describes the outcome.
    pub text: String,
}

/// Returns the name of the local socket at which the mpirun with this process number listens.
pub fn name(pid: u32) -> Vec<u8> {
    format!("checkpoint-{pid}").into_bytes()
}

impl Call {
    /// Returns the request as bytes of a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        letter::put_number(&mut bytes, u64::from(self.stops));
        letter::put(&mut bytes, self.directory.as_deref().map_or(&[][..], OsStrExt::as_bytes));
        bytes
    }

    /// Reads a request from the bytes of a message; None if they are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Call> {
        let mut fields = Fields::new(bytes);
        let stops = fields.number()? == 1;
        let directory = fields.field()?;
        let directory = (!directory.is_empty()).then(|| OsString::from_vec(directory.to_vec()));
        Some(Call { stops, directory })
    }
}

impl Answer {
    /// Returns the reply as bytes of a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        letter::put_number(&mut bytes, u64::from(self.is_whole));
        letter::put(&mut bytes, self.text.as_bytes());
        bytes
    }

    /// Reads a reply from the bytes of a message; None if they are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Answer> {
        let mut fields = Fields::new(bytes);
        let is_whole = fields.number()? == 1;
        Some(Answer { is_whole, text: String::from_utf8_lossy(fields.field()?).into_owned() })
    }
}

/// Sends a request to the mpirun with process number `pid` and waits for its reply.
///
/// # Errors
/// Fails if there is no such mpirun, if it belongs to another user, or if it ends before it has replied.
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

/// Reads the request of a client that has connected; None if it is malformed. Waits until the request has
/// arrived.
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
