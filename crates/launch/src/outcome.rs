//! End of a job, for a caller that may restart it from a checkpoint.

/// Exit status of `mpirun` when it refuses its command line or cannot do its own work.
pub const STATUS_USAGE: u8 = 2;
/// Exit status when a checkpoint cannot be used: damaged, or of another machine.
pub const STATUS_DAMAGED: u8 = 3;

/// Cause of a job's end, as far as it decides whether a restart helps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The job ended by itself or as the user requested, so that a restart does not help.
    #[default]
    Over,
    /// The host of this name was lost, or a process was killed (empty name).
    Lost(String),
    /// The checkpoint from which the job should continue cannot be used.
    Damaged,
}

/// End of a job, as the process that ran it reports it to its supervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndReport {
    /// Cause of the end.
    pub outcome: Outcome,
    /// True if bytes of the standard input were taken that a restart cannot read again.
    pub took_input: bool,
}

impl EndReport {
    /// Returns the report as bytes for the pipe to the supervisor.
    pub fn encode(&self) -> Vec<u8> {
        [vec![u8::from(self.took_input)], self.outcome.encode()].concat()
    }

    /// Reads a report from the bytes of the pipe. A process that was killed has written none. The result then
    /// states that it may have taken input.
    pub fn decode(bytes: &[u8]) -> EndReport {
        match bytes.split_first() {
            Some((&took, rest)) => EndReport { outcome: Outcome::decode(rest), took_input: took != 0 },
            None => EndReport { outcome: Outcome::Over, took_input: true },
        }
    }
}

impl Outcome {
    /// Returns the outcome as bytes for a pipe.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Outcome::Over => Vec::new(),
            Outcome::Lost(host) => [b"L", host.as_bytes()].concat(),
            Outcome::Damaged => b"D".to_vec(),
        }
    }

    /// Reads an outcome from bytes of [`Outcome::encode`].
    pub fn decode(bytes: &[u8]) -> Outcome {
        match bytes.split_first() {
            Some((b'L', host)) => Outcome::Lost(String::from_utf8_lossy(host).into_owned()),
            Some((b'D', _)) => Outcome::Damaged,
            _ => Outcome::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_back() {
        for outcome in
            [Outcome::Over, Outcome::Lost(String::new()), Outcome::Lost("n1".to_string()), Outcome::Damaged]
        {
            assert_eq!(Outcome::decode(&outcome.encode()), outcome);
            for took_input in [false, true] {
                let report = EndReport { outcome: outcome.clone(), took_input };
                assert_eq!(EndReport::decode(&report.encode()), report);
            }
        }
        assert!(EndReport::decode(&[]).took_input);
    }
}
