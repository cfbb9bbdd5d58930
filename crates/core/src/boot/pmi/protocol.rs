//! Meaning of PMI messages, in both versions. Pure: a request gives bytes to send, and received bytes give
//! an answer.
//!
//! The greeting has the form of version 1 and names the requested version. A starter that supports only
//! version 1 refuses version 2, and can get a second request.

use std::fmt;

use super::wire::{Decoder, PmiMessage, Version, WireError};

/// Request of a client. At most one is pending at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmiRequest {
    /// The first request: this version.
    Greet(Version),
    /// The second request of version 2. It names the job and the `rank` from the environment; the answer
    /// has this process's identity.
    Join {
        /// Name of the job in the environment, may be empty.
        job: String,
        /// Rank in the environment.
        rank: u32,
    },
    /// Version 1: the name of the store, which is also the job's name.
    Name,
    /// Version 1: the number of the program.
    Program,
    /// An attribute of the job that the starter provides.
    JobAttribute(String),
    /// A value that a process has stored before the last barrier.
    Get(String),
    /// Storing of a value under a key.
    Put(String, String),
    /// Wait for all processes of the job. Makes their stored values visible.
    Barrier,
    /// Departure from the job.
    Finalize,
}

/// Rank and program of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Rank in the job.
    pub rank: u32,
    /// Number of ranks of the job.
    pub size: u32,
    /// Number of the program in a job of several programs.
    pub program: u32,
}

/// Answer to the pending request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request is done.
    Done,
    /// Answer to [`PmiRequest::Greet`]: the starter supports another version only.
    OtherVersion,
    /// Answer to [`PmiRequest::Join`], with rank, size and program.
    Identity(Identity),
    /// Answer to [`PmiRequest::Get`], [`PmiRequest::JobAttribute`], [`PmiRequest::Name`] and
    /// [`PmiRequest::Program`]: the value, if there is one.
    Value(Option<String>),
}

/// Reason why the connection cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// Bytes that are no message.
    Wire(WireError),
    /// A refusal by the starter, in its own words.
    Refused(String),
    /// An answer without a request.
    Unexpected(String),
}

impl From<WireError> for ProtocolError {
    fn from(error: WireError) -> ProtocolError {
        ProtocolError::Wire(error)
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolError::Wire(error) => write!(f, "{error}"),
            ProtocolError::Refused(words) => write!(f, "the starter refuses: {words}"),
            ProtocolError::Unexpected(what) => write!(f, "an answer that was not asked for: {what}"),
        }
    }
}

/// Protocol state of a connection to the starter.
#[derive(Debug)]
pub struct Protocol {
    version: Version,
    /// Name of the job; in version 1 it is the name of the store.
    job: String,
    /// Pending request, if any.
    under_way: Option<PmiRequest>,
    decoder: Decoder,
}

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol { version: Version::One, job: String::new(), under_way: None, decoder: Decoder::default() }
    }
}

impl Protocol {
    /// Returns the version that was agreed.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the name of the job.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Returns true if a request is pending.
    pub fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Returns the bytes of a request. The request is then pending.
    ///
    /// # Errors
    /// Returns an error if this version cannot encode the request.
    ///
    /// # Panics
    /// Panics if a request is pending, which is a bug of the caller.
    pub fn ask(&mut self, request: PmiRequest) -> Result<Vec<u8>, ProtocolError> {
        assert!(self.under_way.is_none(), "one request at a time");
        let bytes = match (&request, self.version) {
            // The greeting is a line, whatever version follows.
            (PmiRequest::Greet(_), _) => message(&request, Version::One, "")?.encode(Version::One)?,
            (_, version) => message(&request, version, &self.job)?.encode(version)?,
        };
        self.under_way = Some(request);
        Ok(bytes)
    }

    /// Returns the bytes of a request to end the job, which has no answer.
    pub fn abort(&self, code: i32, why: &str) -> Vec<u8> {
        let code = code.to_string();
        let message = match self.version {
            Version::One => PmiMessage::new("abort", &[("exitcode", &code)]),
            Version::Two => PmiMessage::new(
                "abort",
                &[("isworld", "TRUE"), ("msg", &why.replace('\0', " ")), ("exitcode", &code)],
            ),
        };
        // A message that cannot be encoded is left out.
        message.encode(self.version).unwrap_or_default()
    }

    /// Appends received bytes, and returns the answer once it is complete.
    ///
    /// # Errors
    /// Returns an error after which the connection cannot be used.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Option<Answer>, ProtocolError> {
        self.decoder.push(bytes);
        let version = match self.under_way {
            Some(PmiRequest::Greet(_)) => Version::One,
            _ => self.version,
        };
        let Some(message) = self.decoder.next(version)? else { return Ok(None) };
        let Some(request) = self.under_way.take() else {
            return Err(ProtocolError::Unexpected(message.command));
        };
        self.answer(&request, &message).map(Some)
    }

    /// Converts a message to the answer of `request`, and updates the state.
    fn answer(&mut self, request: &PmiRequest, message: &PmiMessage) -> Result<Answer, ProtocolError> {
        let expected = answer_name(request, self.version);
        if message.command != expected {
            return Err(ProtocolError::Unexpected(format!("{} in place of {expected}", message.command)));
        }
        let is_refused = message.value("rc").is_some_and(|code| code != "0");
        let value = |key| message.value(key).map(str::to_string);
        match request {
            PmiRequest::Greet(wanted) => {
                let number = if *wanted == Version::Two { "2" } else { "1" };
                if is_refused || message.value("pmi_version").is_some_and(|version| version != number) {
                    return Ok(Answer::OtherVersion);
                }
                self.version = *wanted;
                Ok(Answer::Done)
            }
            // An unknown key is a valid answer.
            PmiRequest::Get(_) | PmiRequest::JobAttribute(_) => {
                let is_found = !is_refused && message.value("found").is_none_or(|found| found == "TRUE");
                Ok(Answer::Value(value("value").filter(|_| is_found)))
            }
            _ if is_refused => {
                let words = value("errmsg").or_else(|| value("msg"));
                Err(ProtocolError::Refused(words.unwrap_or_else(|| message.command.clone())))
            }
            PmiRequest::Join { job, .. } => {
                self.job = job.clone();
                Ok(Answer::Identity(identity(message)?))
            }
            PmiRequest::Name => {
                self.job = value("kvsname").unwrap_or_default();
                Ok(Answer::Value(value("kvsname")))
            }
            PmiRequest::Program => Ok(Answer::Value(value("appnum"))),
            PmiRequest::Put(..) | PmiRequest::Barrier | PmiRequest::Finalize => Ok(Answer::Done),
        }
    }
}

/// Reads rank, size and program from a message.
fn identity(message: &PmiMessage) -> Result<Identity, ProtocolError> {
    let number = |key| message.value(key).and_then(|text| text.parse().ok());
    let missing = || ProtocolError::Unexpected("an identity without rank and size".into());
    Ok(Identity {
        rank: number("rank").ok_or_else(missing)?,
        size: number("size").ok_or_else(missing)?,
        program: number("appnum").unwrap_or(0),
    })
}

/// Encodes a request as a message.
fn message(request: &PmiRequest, version: Version, job: &str) -> Result<PmiMessage, ProtocolError> {
    let unspeakable = ProtocolError::Wire(WireError::Unspeakable);
    Ok(match (request, version) {
        (PmiRequest::Greet(wanted), _) => {
            let (version, subversion) = if *wanted == Version::Two { ("2", "0") } else { ("1", "1") };
            PmiMessage::new("init", &[("pmi_version", version), ("pmi_subversion", subversion)])
        }
        (PmiRequest::Join { job, rank }, Version::Two) => {
            let rank = rank.to_string();
            PmiMessage::new("fullinit", &[("pmijobid", job), ("pmirank", &rank), ("threaded", "FALSE")])
        }
        (PmiRequest::Name, Version::One) => PmiMessage::new("get_my_kvsname", &[]),
        (PmiRequest::Program, Version::One) => PmiMessage::new("get_appnum", &[]),
        (PmiRequest::Join { .. }, Version::One) | (PmiRequest::Name | PmiRequest::Program, Version::Two) => {
            return Err(unspeakable);
        }
        (PmiRequest::JobAttribute(key) | PmiRequest::Get(key), Version::One) => {
            PmiMessage::new("get", &[("kvsname", job), ("key", key)])
        }
        (PmiRequest::JobAttribute(key), Version::Two) => PmiMessage::new("info-getjobattr", &[("key", key)]),
        (PmiRequest::Get(key), Version::Two) => {
            PmiMessage::new("kvs-get", &[("jobid", job), ("srcid", "-1"), ("key", key)])
        }
        (PmiRequest::Put(key, value), Version::One) => {
            PmiMessage::new("put", &[("kvsname", job), ("key", key), ("value", value)])
        }
        (PmiRequest::Put(key, value), Version::Two) => {
            PmiMessage::new("kvs-put", &[("key", key), ("value", value)])
        }
        (PmiRequest::Barrier, Version::One) => PmiMessage::new("barrier_in", &[]),
        (PmiRequest::Barrier, Version::Two) => PmiMessage::new("kvs-fence", &[]),
        (PmiRequest::Finalize, _) => PmiMessage::new("finalize", &[]),
    })
}

/// Returns the command of the answer to a request.
fn answer_name(request: &PmiRequest, version: Version) -> &'static str {
    match (request, version) {
        (PmiRequest::Greet(_), _) => "response_to_init",
        (PmiRequest::Join { .. }, _) => "fullinit-response",
        (PmiRequest::Name, _) => "my_kvsname",
        (PmiRequest::Program, _) => "appnum",
        (PmiRequest::JobAttribute(_) | PmiRequest::Get(_), Version::One) => "get_result",
        (PmiRequest::JobAttribute(_), Version::Two) => "info-getjobattr-response",
        (PmiRequest::Get(_), Version::Two) => "kvs-get-response",
        (PmiRequest::Put(..), Version::One) => "put_result",
        (PmiRequest::Put(..), Version::Two) => "kvs-put-response",
        (PmiRequest::Barrier, Version::One) => "barrier_out",
        (PmiRequest::Barrier, Version::Two) => "kvs-fence-response",
        (PmiRequest::Finalize, Version::One) => "finalize_ack",
        (PmiRequest::Finalize, Version::Two) => "finalize-response",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Plays a conversation: requests, the bytes that must be sent, the bytes received, the answers.
    fn check(steps: &[(PmiRequest, &str, &str, Result<Answer, ProtocolError>)]) {
        let mut protocol = Protocol::default();
        for (request, out, come, expected) in steps {
            let sent = protocol.ask(request.clone()).unwrap();
            assert_eq!(String::from_utf8(sent).unwrap(), *out);
            let (first, rest) = come.as_bytes().split_at(3);
            assert_eq!(protocol.receive(first), Ok(None));
            assert_eq!(protocol.receive(rest), expected.clone().map(Some), "{request:?}");
        }
    }

    fn value(text: &str) -> Result<Answer, ProtocolError> {
        Ok(Answer::Value(Some(text.into())))
    }

    #[test]
    fn version_1_as_hydra_speaks_it() {
        let greet = "cmd=init pmi_version=1 pmi_subversion=1\n";
        let greeted = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
        check(&[
            (PmiRequest::Greet(Version::One), greet, greeted, Ok(Answer::Done)),
            (PmiRequest::Name, "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=kvs_1_0\n", value("kvs_1_0")),
            (PmiRequest::Program, "cmd=get_appnum\n", "cmd=appnum appnum=3\n", value("3")),
            (
                PmiRequest::Put("a".into(), "b".into()),
                "cmd=put kvsname=kvs_1_0 key=a value=b\n",
                "cmd=put_result rc=0 msg=success\n",
                Ok(Answer::Done),
            ),
            (PmiRequest::Barrier, "cmd=barrier_in\n", "cmd=barrier_out\n", Ok(Answer::Done)),
            (
                PmiRequest::Get("x".into()),
                "cmd=get kvsname=kvs_1_0 key=x\n",
                "cmd=get_result rc=-1 msg=key_x_not_found value=unknown\n",
                Ok(Answer::Value(None)),
            ),
            (PmiRequest::Finalize, "cmd=finalize\n", "cmd=finalize_ack\n", Ok(Answer::Done)),
        ]);
    }

    #[test]
    fn version_2_as_slurm_speaks_it() {
        let greet = "cmd=init pmi_version=2 pmi_subversion=0\n";
        let greeted = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n";
        let identity = Identity { rank: 1, size: 4, program: 0 };
        check(&[
            (PmiRequest::Greet(Version::Two), greet, greeted, Ok(Answer::Done)),
            (
                PmiRequest::Join { job: "7.0".into(), rank: 1 },
                "    51cmd=fullinit;pmijobid=7.0;pmirank=1;threaded=FALSE;",
                "    45cmd=fullinit-response;rc=0;rank=1;size=4;a=b;",
                Ok(Answer::Identity(identity)),
            ),
            (
                PmiRequest::Get("k".into()),
                "    37cmd=kvs-get;jobid=7.0;srcid=-1;key=k;",
                "    45cmd=kvs-get-response;rc=0;found=TRUE;value=v;",
                value("v"),
            ),
            (
                PmiRequest::Barrier,
                "    14cmd=kvs-fence;",
                "    40cmd=kvs-fence-response;rc=1;errmsg=late;",
                Err(ProtocolError::Refused("late".into())),
            ),
        ]);
    }

    #[test]
    fn another_version_may_be_asked_for() {
        let refused = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n";
        let greeted = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
        let (two, one) =
            ("cmd=init pmi_version=2 pmi_subversion=0\n", "cmd=init pmi_version=1 pmi_subversion=1\n");
        check(&[
            (PmiRequest::Greet(Version::Two), two, refused, Ok(Answer::OtherVersion)),
            (PmiRequest::Greet(Version::One), one, greeted, Ok(Answer::Done)),
        ]);
    }

    proptest! {
        #[test]
        fn any_answer_is_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut protocol = Protocol::default();
            protocol.ask(PmiRequest::Barrier).unwrap();
            let _ = protocol.receive(&bytes);
        }
    }
}
