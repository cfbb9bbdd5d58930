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
        }
    }
}
