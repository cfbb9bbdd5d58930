//! How a job ended, for who may start it again from a checkpoint.

/// Exit status of `mpirun` when it refuses its command line or cannot do its own work.
pub const STATUS_USAGE: u8 = 2;
/// Exit status when a checkpoint cannot be used: damaged, or of another machine.
pub const STATUS_DAMAGED: u8 = 3;

/// What a restart could do about an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: it ended by itself, or as the user wanted.
    #[default]
    Over,
    /// A process was killed, or a host is lost: that of this name, or none.
    Lost(String),
    /// The checkpoint that it was to go on from cannot be used.
    Damaged,
}

/// End of a job, as the process that ran it reports it to its supervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndReport {
    /// What a restart could do about it.
    pub outcome: Outcome,
    /// Bytes of the standard input were taken that a restart cannot read again.
    pub took_input: bool,
}

impl EndReport {
    /// As it goes through a pipe.
    pub fn encode(&self) -> Vec<u8> {
        [vec![u8::from(self.took_input)], self.outcome.encode()].concat()
    }

    /// What came through it. Nothing comes of a process that was killed: it may have taken input.
    pub fn decode(bytes: &[u8]) -> EndReport {
        match bytes.split_first() {
            Some((&took, rest)) => EndReport { outcome: Outcome::decode(rest), took_input: took != 0 },
            None => EndReport { outcome: Outcome::Over, took_input: true },
        }
    }
}

impl Outcome {
    /// As it goes through a pipe.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Outcome::Over => Vec::new(),
            Outcome::Lost(host) => [b"L", host.as_bytes()].concat(),
            Outcome::Damaged => b"D".to_vec(),
        }
    }

    /// What came through it.
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
