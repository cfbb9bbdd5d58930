//! PMI as the starter: Slurm's `--mpi=pmi2`, Hydra.
//!
//! Stored values become visible after a barrier. So a job of several hosts has two at start: one for the
//! record of rank 0, one for the addresses. The addresses themselves are fetched one by one, when they are
//! needed.

use std::collections::VecDeque;
use std::fmt::Write;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tutti_base::placement::Run;
use tutti_base::{Placement, Result};
use tutti_transport::Directory;
use tutti_transport::directory::{Address, Answer};

use super::client::{Client, Environment};
use super::wire::Version;
use crate::boot::starter::{LastWords, Starter, StarterFacts, failed};

/// Key of the record that rank 0 stores for the first rank of each host.
const RECORD_KEY: &str = "tutti-record";

/// Client side of the connection to a PMI starter.
#[derive(Debug)]
pub struct Pmi {
    client: Arc<Mutex<Client>>,
    facts: StarterFacts,
}

impl Pmi {
    /// Connects to the starter that the environment shows; `limit` bounds the wait for its answers.
    ///
    /// # Errors
    /// Returns an error if it does not answer, or does not provide what is needed.
    pub fn join(environment: &Environment, limit: Duration) -> Result<Pmi> {
        let fail = |why: std::io::Error| failed("PMI", &why);
        let mut client = Client::join(environment, limit).map_err(fail)?;
        let runs = client.mapping().map_err(fail)?;
        let placement = placement(&runs).ok_or_else(|| failed("PMI", &"it does not say where ranks run"))?;
        let universe = client.universe().map_err(fail)?;
        let facts = StarterFacts {
            speaks: if client.version() == Version::Two { "PMI-2" } else { "PMI-1" },
            job: client.job().to_string(),
            rank: client.identity.rank,
            program: client.identity.program,
            universe: universe.unwrap_or(client.identity.size),
            placement,
            other_host: None,
        };
        Ok(Pmi { client: Arc::new(Mutex::new(client)), facts })
    }

    /// Makes the error of a failed request to the starter.
    fn fail(&self, why: std::io::Error) -> tutti_base::Error {
        failed(self.facts.speaks, &why)
    }
}

impl Starter for Pmi {
    fn facts(&self) -> &StarterFacts {
        &self.facts
    }

    fn exchange(&mut self, given: Option<&[u8]>, wants: bool) -> Result<Vec<u8>> {
        let mut client = lock(&self.client);
        let mut run = || -> std::io::Result<Option<String>> {
            if let Some(record) = given {
                client.put(RECORD_KEY, &hexadecimal(record))?;
            }
            client.barrier()?;
            if wants { client.get(RECORD_KEY) } else { Ok(None) }
        };
        let text = run().map_err(|why| self.fail(why))?;
        match text.as_deref().map(from_hexadecimal) {
            _ if !wants => Ok(Vec::new()),
            Some(Some(record)) => Ok(record),
            _ => Err(failed(self.facts.speaks, &"rank 0 put something else than a record")),
        }
    }

    fn directory(&mut self) -> Result<Box<dyn Directory>> {
        let (client, rank) = (Arc::clone(&self.client), self.facts.rank);
        Ok(Box::new(PmiDirectory { client, rank, answers: VecDeque::new() }))
    }

    fn abort(&mut self, status: i32, why: &str) {
        lock(&self.client).abort(status, why);
    }

    fn last_words(&self) -> std::io::Result<Option<LastWords>> {
        let client = lock(&self.client);
        // Slurm waits for all processes, however they end. Hydra notices the end of the connection.
        if client.version() != Version::Two {
            return Ok(None);
        }
        let (connection, bytes) = client.last_words()?;
        Ok(Some(LastWords::Message(connection, bytes)))
    }

    fn leave(&mut self, together: bool) -> Result<()> {
        let mut client = lock(&self.client);
        let waited = if together { client.barrier() } else { Ok(()) };
        waited.and_then(|()| client.finalize()).map_err(|why| self.fail(why))
    }
}

/// Makes a placement from runs. A starter may number hosts in any way; ours are numbered by their lowest
/// ranks.
fn placement(runs: &[super::mapping::RankRun]) -> Option<Placement> {
    let mut numbers = std::collections::HashMap::new();
    let runs: Vec<Run> = runs
        .iter()
        .map(|&(host, ranks)| {
            let next = numbers.len() as u32;
            Run { host: *numbers.entry(host).or_insert(next), ranks }
        })
        .collect();
    Placement::from_runs(runs)
}

/// Directory in the starter's store. The process at the other end of the socket answers from its own
/// memory, so a request takes one or two system calls.
#[derive(Debug)]
struct PmiDirectory {
    client: Arc<Mutex<Client>>,
    /// Rank of this process in the world.
    rank: u32,
    /// Answers that were not polled yet.
    answers: VecDeque<Answer>,
}

impl Directory for PmiDirectory {
    fn publish(&mut self, address: &Address) {
        let mut client = lock(&self.client);
        // If the starter is gone, it ends the job.
        let _ = client
            .put(&address_key(self.rank), &hexadecimal(address.bytes()))
            .and_then(|()| client.barrier());
    }

    fn request(&mut self, rank: u32) {
        let text = lock(&self.client).get(&address_key(rank)).ok().flatten();
        let address = text.and_then(|text| from_hexadecimal(&text)).and_then(|bytes| Address::new(&bytes));
        self.answers.push_back((rank, address));
    }

    fn poll(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Returns the key under which a rank stores its address.
fn address_key(rank: u32) -> String {
    format!("tutti-address-{rank}")
}

/// Locks the client. A panic of another holder has no effect on it.
fn lock(client: &Mutex<Client>) -> MutexGuard<'_, Client> {
    client.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Encodes bytes in hexadecimal, since values of PMI-1 contain no blanks.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

/// Decodes hexadecimal digits; `None` for other text.
fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let [high, low] = pair else { return None };
            let value = |digit: u8| char::from(digit).to_digit(16);
            Some((value(*high)? * 16 + value(*low)?) as u8)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_words() {
        let check = |text: &str, expected: Option<&[u8]>| {
            assert_eq!(from_hexadecimal(text).as_deref(), expected, "{text}");
        };
        check(&hexadecimal(&[0, 255, 16]), Some(&[0, 255, 16]));
        check("", Some(&[]));
        check("0", None);
        check("zz", None);
        check("é0", None);
    }

    #[test]
    fn hosts_get_numbers_from_0_on() {
        let hosts = |runs: &[(u32, u32)]| {
            placement(runs).map(|placement| placement.places().map(|place| place.host).collect::<Vec<_>>())
        };
        assert_eq!(hosts(&[(7, 2), (3, 1), (7, 1)]), Some(vec![0, 0, 1, 0]));
        assert_eq!(hosts(&[]), None);
    }
}
