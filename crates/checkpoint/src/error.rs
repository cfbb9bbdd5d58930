//! Error of a checkpoint or a restart: an obstacle, a difference at the restart, or an error of the system.

use std::fmt;
use std::io;

/// Result of a step of a checkpoint or a restart.
pub type Result<T> = std::result::Result<T, CheckpointError>;

/// Reason why the state of a process cannot be saved or restored.
#[derive(Debug)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The process has something that a checkpoint cannot contain. The text is a noun phrase.
    Obstacle(String),
    /// Kernel, files or input differ from those at the checkpoint.
    Changed(String),
    /// A call of the system failed.
    System(io::Error),
    /// An error with the object that it concerns.
    At {
        /// Call, descriptor or file.
        subject: String,
        /// Error at that object.
        source: Box<CheckpointError>,
    },
}

impl CheckpointError {
    /// Adds the object that the error concerns.
    pub(crate) fn about(self, subject: impl Into<String>) -> CheckpointError {
        CheckpointError::At { subject: subject.into(), source: Box::new(self) }
    }

    /// Returns a conversion of a system's error about `subject`.
    pub(crate) fn system(subject: impl Into<String>) -> impl FnOnce(io::Error) -> CheckpointError {
        let subject = subject.into();
        move |error| CheckpointError::System(error).about(subject)
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointError::Obstacle(text) | CheckpointError::Changed(text) => f.write_str(text),
            CheckpointError::System(source) => source.fmt(f),
            CheckpointError::At { subject, source } => write!(f, "{subject}: {source}"),
        }
    }
}

impl std::error::Error for CheckpointError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CheckpointError::Obstacle(_) | CheckpointError::Changed(_) => None,
            CheckpointError::System(source) => Some(source),
            CheckpointError::At { source, .. } => Some(&**source),
        }
    }
}

impl From<io::Error> for CheckpointError {
    fn from(error: io::Error) -> CheckpointError {
        CheckpointError::System(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_names_its_object_and_has_a_source() {
        let error = CheckpointError::system("descriptor 3")(io::Error::from_raw_os_error(9));
        assert!(
            error.to_string().starts_with("descriptor 3: Bad file") && error.source().is_some(),
            "{error}"
        );
        assert!(CheckpointError::Obstacle("a shadow stack".to_string()).source().is_none());
    }
}
