//! Definition of an option, and the state of a parsed command line.

use std::collections::VecDeque;
use std::ffi::OsString;

use crate::error::LaunchError;
use crate::request::{Program, Request};

/// Meaning of a command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Job to run, with all options.
    Run(Box<Request>),
    /// Request to print the help text.
    Help,
    /// Request to print the version.
    Version,
}

/// State of a command line while it is parsed.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) request: Request,
    pub(super) program: Program,
    pub(super) stop: Option<Parsed>,
    /// First option that a restart does not support.
    pub(super) decided: Option<String>,
    /// Arguments that were not parsed yet.
    pub(super) rest: VecDeque<OsString>,
}

pub(super) type Take = fn(&mut Reading, &[String]) -> Result<(), LaunchError>;

/// Entry of the table of options.
pub(super) struct Row {
    pub(super) names: &'static [&'static str],
    pub(super) values: &'static [&'static str],
    pub(super) doc: &'static str,
    pub(super) take: Take,
}

pub(super) const fn row(
    names: &'static [&'static str],
    values: &'static [&'static str],
    doc: &'static str,
    take: Take,
) -> Row {
    Row { names, values, doc, take }
}
