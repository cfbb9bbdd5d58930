//! Common interface of *starters*: process managers other than our launcher, which speak PMIx or PMI.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tutti_base::config::{Config, Starter as Setting};
use tutti_base::{Error, ErrorClass, Placement, Result};
use tutti_sys::guardian::Command;
use tutti_transport::Directory;

use super::pmi::{self, client::Environment};
use super::pmix::Pmix;

/// Facts that a starter provides at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StarterFacts {
    /// Name of its protocol, for messages to the user.
    pub speaks: &'static str,
    /// Name of the job, unique on this host.
    pub job: String,
    /// Rank of this process in the world.
    pub rank: u32,
    /// Placement of the job's ranks on hosts.
    pub placement: Placement,
    /// Number of this process's program in a job of several programs.
    pub program: u32,
    /// Number of processes that the job may have.
    pub universe: u32,
    /// Name of another host of the job, if there is one and the starter provides it.
    pub other_host: Option<String>,
}

/// Connection to the starter of this process.
pub trait Starter: fmt::Debug + Send {
    /// Returns the facts that were provided at once.
    fn facts(&self) -> &StarterFacts;

    /// Distributes a record of rank 0. All ranks of a job of several hosts call this once: rank 0 passes
    /// the record, and a rank that `wants` it gets it.
    ///
    /// # Errors
    /// Returns an error if the starter fails, or if rank 0 does not call.
    fn exchange(&mut self, given: Option<&[u8]>, wants: bool) -> Result<Vec<u8>>;

    /// Returns the directory in which ranks publish and find addresses, in a job of several hosts.
    ///
    /// # Errors
    /// Returns the system's error.
    fn directory(&mut self) -> Result<Box<dyn Directory>>;

    /// Makes the starter end the job, with this status if it supports one.
    fn abort(&mut self, status: i32, why: &str);

    /// Returns a way to end the job after this process is killed. `None` if the starter notices
    /// itself that a process ends too early.
    ///
    /// # Errors
    /// Returns the system's error.
    fn last_words(&self) -> std::io::Result<Option<LastWords>> {
        Ok(None)
    }

    /// Leaves the job: from now on the end of this process is no failure. With `together` all ranks leave
    /// now, and wait until no rank needs another one any more.
    ///
    /// # Errors
    /// Returns an error if the starter fails.
    fn leave(&mut self, together: bool) -> Result<()>;
}

/// Way for any process to end the job of a starter.
#[derive(Debug)]
pub enum LastWords {
    /// A message over a connection to it.
    Message(OwnedFd, Vec<u8>),
    /// A program to execute.
    Program(Command),
}

/// Finds the starter that the environment shows; `None` for a process that was started alone.
///
/// A descriptor of PMI that is an open socket is the best proof, so it comes first. Variables of PMIx come
/// second, since they may be left over from the starter of our starter. PMI by a port is last.
///
/// # Errors
/// Returns an error if the starter that the environment shows does not answer.
pub fn find(config: &Config) -> Result<Option<Box<dyn Starter>>> {
    let variable = |name: &str| std::env::var(name).ok();
    let limit = Duration::from_millis(config.launch.start_ms);
    let pmi = Environment::read(variable);
    let pmix = variable("PMIX_RANK").is_some() && variable("PMIX_NAMESPACE").is_some();
    let is_live = pmi.as_ref().is_some_and(Environment::is_live);
    let speaks = match config.launch.starter {
        Setting::Alone => return Ok(None),
        Setting::Pmix => Speaks::Pmix,
        Setting::Pmi => Speaks::Pmi,
        Setting::Auto if is_live => Speaks::Pmi,
        Setting::Auto if pmix => Speaks::Pmix,
        Setting::Auto if pmi.is_some() => Speaks::Pmi,
        Setting::Auto => return Ok(None),
    };
    Ok(Some(match (speaks, pmi) {
        (Speaks::Pmix, _) => Box::new(Pmix::join(&config.launch.pmix_library, limit)?),
        (Speaks::Pmi, Some(environment)) => Box::new(pmi::starter::Pmi::join(&environment, limit)?),
        (Speaks::Pmi, None) => return Err(failed("PMI", &"neither PMI_FD nor PMI_PORT is set")),
    }))
}

/// Protocol of the starter.
enum Speaks {
    Pmix,
    Pmi,
}

/// Makes the error of a failed starter.
pub fn failed(speaks: &str, why: &dyn fmt::Display) -> Error {
    Error::new(
        ErrorClass::Other,
        format!(
            "this process was started by a launcher that speaks {speaks}, but cannot join its job: {why}; TUTTI_STARTER=alone starts it as a job of its own"
        ),
    )
}
