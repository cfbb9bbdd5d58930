//! PMIx as the starter: Slurm's `--mpi=pmix`, PRRTE, Open MPI's mpirun.

use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tutti_base::{Placement, Result};
use tutti_sys::event;
use tutti_sys::guardian::Command;
use tutti_sys::pmix::{Client, Failure, Scope, Subject, Value};
use tutti_transport::Directory;
use tutti_transport::directory::{Address, Answer};

use super::starter::{LastWords, Starter, StarterFacts, failed};

const SPEAKS: &str = "PMIx";
/// Key of the record that rank 0 sends to the first rank of each host.
const RECORD_KEY: &std::ffi::CStr = c"tutti.record";
/// Key of a rank's address.
const ADDRESS_KEY: &std::ffi::CStr = c"tutti.address";

/// Client side of the connection to a PMIx server.
#[derive(Debug)]
pub struct Pmix {
    client: Arc<Client>,
    facts: StarterFacts,
    /// Longest wait for the record of rank 0.
    limit: Duration,
}

impl Pmix {
    /// Connects to the server that the environment names.
    ///
    /// # Errors
    /// Returns an error if the library, the server or a fact is missing.
    pub fn join(library: &str, limit: Duration) -> Result<Pmix> {
        let client = Client::join(library).map_err(|why| failed(SPEAKS, &why))?;
        let facts = facts(&client)?;
        Ok(Pmix { client: Arc::new(client), facts, limit })
    }
}

impl Starter for Pmix {
    fn facts(&self) -> &StarterFacts {
        &self.facts
    }

    fn exchange(&mut self, given: Option<&[u8]>, wants: bool) -> Result<Vec<u8>> {
        if let Some(record) = given {
            // Committed together with the address: a server that has fetched a rank's first commit may
            // never ask again.
            self.client.put(Scope::Global, RECORD_KEY, record).map_err(|why| failed(SPEAKS, &why))?;
            return Ok(record.to_vec());
        }
        if !wants {
            return Ok(Vec::new());
        }
        match self.client.get_waiting(0, RECORD_KEY, self.limit) {
            Ok(Value::Bytes(record)) => Ok(record),
            Ok(_) => Err(failed(SPEAKS, &"rank 0 put something else than a record")),
            Err(why) => Err(failed(SPEAKS, &why)),
        }
    }

    fn directory(&mut self) -> Result<Box<dyn Directory>> {
        Ok(Box::new(PmixDirectory::new(Arc::clone(&self.client)).map_err(|why| failed(SPEAKS, &why))?))
    }

    fn abort(&mut self, status: i32, why: &str) {
        self.client.abort(status, why);
    }

    fn last_words(&self) -> std::io::Result<Option<LastWords>> {
        let step = slurm_step(&self.facts.job);
        Ok(step.map(|step| {
            LastWords::Program(Command::new(vec![c"scancel".into(), c"--signal=KILL".into(), step]))
        }))
    }

    fn leave(&mut self, together: bool) -> Result<()> {
        // A request about a process that has left is never answered.
        let fenced = if together { self.client.fence() } else { Ok(()) };
        fenced.and_then(|()| self.client.finalize()).map_err(|why| failed(SPEAKS, &why))
    }
}

/// Returns the Slurm step with this name space. `None` for other starters, which notice themselves
/// when a process ends.
fn slurm_step(job: &str) -> Option<CString> {
    let step = job.strip_prefix("slurm.pmix.")?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_step = step.split_once('.').is_some_and(|(job, step)| is_number(job) && is_number(step));
    is_step.then(|| CString::new(step).expect("digits and a point"))
}

/// Reads the facts of the job from the server.
fn facts(client: &Client) -> Result<StarterFacts> {
    let number = |subject, key| match client.get(subject, key) {
        Ok(Value::Number(number)) => u32::try_from(number).ok(),
        _ => None,
    };
    let missing = |what: &str| failed(SPEAKS, &format!("the server does not say {what}"));
    let rank = client.rank();
    let size = number(Subject::Job, c"pmix.job.size").ok_or_else(|| missing("how many ranks there are"))?;
    let universe = number(Subject::Job, c"pmix.univ.size").unwrap_or(size);
    let program = number(Subject::Rank(rank), c"pmix.appnum").unwrap_or(0);
    let (placement, other_host) = placement(client, size).map_err(|why| failed(SPEAKS, &why))?;
    if rank >= size {
        return Err(failed(SPEAKS, &"the rank is beyond the size of the job"));
    }
    let placement = placement.ok_or_else(|| missing("where all ranks run"))?;
    Ok(StarterFacts {
        speaks: SPEAKS,
        job: client.namespace(),
        rank,
        placement,
        program,
        universe,
        other_host,
    })
}

/// Returns the placement of the ranks, and the name of another host. A PMIx server gives all processes the
/// same data at start, so no message is sent.
fn placement(
    client: &Client,
    size: u32,
) -> std::result::Result<(Option<Placement>, Option<String>), Failure> {
    let local = match client.get(Subject::Job, c"pmix.lpeers") {
        Ok(Value::Text(list)) => list.split(',').filter(|rank| rank.parse::<u32>().is_ok()).count(),
        _ => 0,
    };
    if size > 0 && local == size as usize {
        return Ok((Some(Placement::one_host(size)), None));
    }
    let (mut lists, mut other) = (Vec::new(), None);
    for host in client.hosts()? {
        let ranks = client.ranks_on(&host)?;
        if !ranks.contains(&client.rank()) && !ranks.is_empty() {
            other = Some(host);
        }
        lists.push(ranks);
    }
    Ok((from_lists(lists, size), other))
}

/// Makes a placement from the ranks on each host. Hosts are numbered by their lowest ranks, so that all
/// processes number them alike, whatever the server's order.
fn from_lists(mut lists: Vec<Vec<u32>>, size: u32) -> Option<Placement> {
    lists.retain(|list| !list.is_empty());
    lists.sort_by_key(|list| list.iter().copied().min());
    let mut hosts = vec![None; size as usize];
    for (host, list) in (0..).zip(&lists) {
        for &rank in list {
            *hosts.get_mut(rank as usize)? = Some(host);
        }
    }
    Placement::from_hosts(hosts.into_iter().collect::<Option<Vec<u32>>>()?)
}

/// Directory in the server's store. A value is fetched from its owner's host when it is first requested.
#[derive(Debug)]
struct PmixDirectory {
    client: Arc<Client>,
    arrived: Arc<Arrived>,
}

/// Answers that the library's thread leaves for this process.
#[derive(Debug)]
struct Arrived {
    /// Answers that were not polled yet.
    answers: Mutex<VecDeque<Answer>>,
    /// Eventfd that wakes this process.
    bell: OwnedFd,
}

impl Arrived {
    /// Adds an answer, and wakes this process if it sleeps.
    fn add(&self, answer: Answer) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push_back(answer);
        event::strike(self.bell.as_fd());
    }
}

impl PmixDirectory {
    /// Makes the directory with an eventfd that wakes this process.
    fn new(client: Arc<Client>) -> std::io::Result<PmixDirectory> {
        let bell = event::bells(1)?.pop().expect("one was asked for");
        let arrived = Arrived { answers: Mutex::default(), bell };
        Ok(PmixDirectory { client, arrived: Arc::new(arrived) })
    }
}

impl Directory for PmixDirectory {
    fn publish(&mut self, address: &Address) {
        // Peers that request the address then wait; if the server is gone, the job ends.
        let _ =
            self.client.put(Scope::Global, ADDRESS_KEY, address.bytes()).and_then(|()| self.client.commit());
    }

    fn request(&mut self, rank: u32) {
        let arrived = Arc::clone(&self.arrived);
        let done = move |value| {
            let address = match value {
                Ok(Value::Bytes(bytes)) => Address::new(&bytes),
                _ => None,
            };
            arrived.add((rank, address));
        };
        if self.client.get_later(rank, ADDRESS_KEY, Box::new(done)).is_err() {
            self.arrived.add((rank, None));
        }
    }

    fn poll(&mut self) -> Option<Answer> {
        let mut answers = self.arrived.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = answers.pop_front();
        if answer.is_some() && answers.is_empty() {
            event::damp(self.arrived.bell.as_fd());
        }
        answer
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.arrived.bell.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_slurm_are_known() {
        let check = |job, expected: Option<&str>| {
            assert_eq!(slurm_step(job).as_ref().and_then(|step| step.to_str().ok()), expected, "{job}");
        };
        check("slurm.pmix.123.0", Some("123.0"));
        check("slurm.pmix.123.-x", None);
        check("slurm.pmix.123", None);
        check("prterun-n0-123@1", None);
    }

    #[test]
    fn hosts_are_numbered_by_their_lowest_ranks() {
        let check = |lists: &[&[u32]], size, expected: Option<&[u32]>| {
            let got = from_lists(lists.iter().map(|list| list.to_vec()).collect(), size);
            let hosts = got.map(|got| got.places().map(|place| place.host).collect::<Vec<_>>());
            assert_eq!(hosts.as_deref(), expected, "{lists:?}");
        };
        check(&[&[0, 1], &[2, 3]], 4, Some(&[0, 0, 1, 1]));
        check(&[&[3, 1], &[], &[2, 0]], 4, Some(&[0, 1, 0, 1]));
        check(&[&[0, 1], &[2]], 4, None);
        check(&[&[0, 1, 7]], 2, None);
        check(&[], 1, None);
    }
}
