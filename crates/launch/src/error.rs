//! Error of the launcher: a value that cannot be used, or a call of the system that failed, with its place.

use std::fmt;
use std::io;

use tutti_base::config::ConfigError;
use tutti_checkpoint::error::CheckpointError;
use tutti_sys::interface::UnknownInterface;
use tutti_topo::TextError;

/// Result of a step of the launcher.
pub type Result<T> = std::result::Result<T, LaunchError>;

/// Reason why the launcher refuses a request, or cannot fulfil it.
#[derive(Debug)]
#[non_exhaustive]
pub enum LaunchError {
    /// A value of the command line, the environment or a file is wrong. The text names the value and the
    /// valid ones.
    Invalid(String),
    /// A call of the system failed.
    System(io::Error),
    /// An error in an option, in a line of a file, or at a rank.
    In {
        /// The option with its values, the file with the line, or the rank.
        place: String,
        /// Error at that place.
        source: Box<LaunchError>,
    },
    /// A setting has a wrong value.
    Setting(ConfigError),
    /// A list of processors cannot be read.
    Processors(TextError),
    /// No interface of this host has the requested name.
    Interface(UnknownInterface),
    /// A checkpoint cannot be continued.
    Checkpoint(CheckpointError),
}

impl LaunchError {
    /// Adds the place of the error.
    pub(crate) fn in_place(self, place: impl Into<String>) -> LaunchError {
        LaunchError::In { place: place.into(), source: Box::new(self) }
    }

    /// Returns a conversion of a system's error about `subject`.
    pub(crate) fn system(subject: impl Into<String>) -> impl FnOnce(io::Error) -> LaunchError {
        let subject = subject.into();
        move |error| LaunchError::System(error).in_place(subject)
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchError::Invalid(text) => f.write_str(text),
            LaunchError::System(source) => f.write_str(&tutti_sys::refusal::explain(source)),
            LaunchError::In { place, source } => write!(f, "{place}: {source}"),
            LaunchError::Setting(source) => source.fmt(f),
            LaunchError::Processors(source) => source.fmt(f),
            LaunchError::Interface(source) => source.fmt(f),
            LaunchError::Checkpoint(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for LaunchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LaunchError::Invalid(_) => None,
            LaunchError::System(source) => Some(source),
            LaunchError::In { source, .. } => Some(&**source),
            LaunchError::Setting(source) => Some(source),
            LaunchError::Processors(source) => Some(source),
            LaunchError::Interface(source) => Some(source),
            LaunchError::Checkpoint(source) => Some(source),
        }
    }
}

impl From<io::Error> for LaunchError {
    fn from(error: io::Error) -> LaunchError {
        LaunchError::System(error)
    }
}

impl From<ConfigError> for LaunchError {
    fn from(error: ConfigError) -> LaunchError {
        LaunchError::Setting(error)
    }
}

impl From<TextError> for LaunchError {
    fn from(error: TextError) -> LaunchError {
        LaunchError::Processors(error)
    }
}

impl From<UnknownInterface> for LaunchError {
    fn from(error: UnknownInterface) -> LaunchError {
        LaunchError::Interface(error)
    }
}

impl From<CheckpointError> for LaunchError {
    fn from(error: CheckpointError) -> LaunchError {
        LaunchError::Checkpoint(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_has_its_place_and_its_source() {
        let error = LaunchError::Invalid("\"x\" is not a number".to_string()).in_place("hosts:3");
        assert_eq!(error.to_string(), "hosts:3: \"x\" is not a number");
        assert!(error.source().is_some());
        let error = LaunchError::system("/nowhere")(io::Error::from_raw_os_error(2));
        assert!(error.to_string().starts_with("/nowhere: ") && error.source().is_some(), "{error}");
    }
}
