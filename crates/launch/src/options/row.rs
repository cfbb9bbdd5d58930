//! What an option is, and what has been read of a command line.

use std::collections::VecDeque;
use std::ffi::OsString;

use crate::request::{Program, Request};

/// What a command line means.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Run this.
    Run(Box<Request>),
    /// Print the help text.
    Help,
    /// Print the version.
    Version,
}

/// A command line half read.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) request: Request,
    pub(super) program: Program,
    pub(super) stop: Option<Parsed>,
    /// First option that a restart cannot honour.
    pub(super) decided: Option<String>,
    /// What has not been read.
    pub(super) rest: VecDeque<OsString>,
}

pub(super) type Take = fn(&mut Reading, &[String]) -> Result<(), String>;

/// One option.
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
