//! Who started this process, if not our launcher: what every starter can say and do.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tutti_base::config::{Config, Starter as Setting};
use tutti_base::{Error, ErrorClass, Placement, Result};
use tutti_sys::guardian::Command;
use tutti_transport::Directory;

use super::pmi::{self, client::Environment};
use super::pmix::Pmix;

/// What a starter says at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StarterFacts {
    /// What it speaks, for people.
    pub speaks: &'static str,
    /// Name of the job, which no other job on this host has.
    pub job: String,
    /// Rank of this process in the world.
    pub rank: u32,
    /// Where the ranks of the job run.
    pub placement: Placement,
    /// Number of this process's program in a job of several.
    pub program: u32,
    /// How many processes the job may have.
    pub universe: u32,
    /// Name of another host of the job, if there is one and the starter says it.
    pub other_host: Option<String>,
}

/// A starter that this process is connected to.
pub trait Starter: fmt::Debug + Send {
    /// What it said at once.
    fn facts(&self) -> &StarterFacts;

    /// All ranks of a job of several hosts call this, once: rank 0 gives a record, and who `wants` it gets it.
    ///
    /// # Errors
    /// When the starter fails, or rank 0 does not come.
    fn exchange(&mut self, given: Option<&[u8]>, wants: bool) -> Result<Vec<u8>>;

    /// Where ranks publish and find addresses, in a job of several hosts.
    ///
    /// # Errors
    /// What the system reports.
    fn directory(&mut self) -> Result<Box<dyn Directory>>;

    /// Has it end the job, with this status if it can.
    fn abort(&mut self, status: i32, why: &str);

    /// For a starter that does not notice itself that a process ends too early: how somebody else has it end the job when this
    /// process is killed.
    ///
    /// # Errors
    /// What the system reports.
    fn last_words(&self) -> std::io::Result<Option<LastWords>> {
        Ok(None)
    }

    /// Leaves the job: from now on the end of this process is no failure. `together`: all ranks do so now, and wait until
    /// nobody needs anything from another any more.
    ///
    /// # Errors
    /// When the starter fails.
    fn leave(&mut self, together: bool) -> Result<()>;
}

/// How anybody ends the job of a starter.
#[derive(Debug)]
pub enum LastWords {
    /// By a message over a connection to it.
    Message(OwnedFd, Vec<u8>),
    /// By a program.
    Program(Command),
}

/// The starter that the environment shows; `None` for a process that was started alone.
///
/// A descriptor of PMI that is an open socket is the best proof. Variables of PMIx may be left over from a starter of our
/// starter, but then PMI's are the live ones, so they come second; PMI by a port is last.
///
/// # Errors
/// When the starter that the environment shows does not answer.
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

enum Speaks {
    Pmix,
    Pmi,
}

/// An error of a starter.
pub fn failed(speaks: &str, why: &dyn fmt::Display) -> Error {
    Error::new(
        ErrorClass::Other,
        format!(
            "this process was started by a launcher that speaks {speaks}, but cannot join its job: {why}; TUTTI_STARTER=alone starts it as a job of its own"
        ),
    )
}
