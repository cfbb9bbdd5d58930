//! Joining a job that another starter has started: the ranks of this host make the job object themselves.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tutti_base::config::Config;
use tutti_base::{Machines, Result, WorldRank};
use tutti_sys::cpu::{self, ProcessorSet};
use tutti_sys::job::{Job, Plan, Secret, TEXTS_END};
use tutti_sys::machine_kind::machine_kind;
use tutti_sys::{event, files, interface, process, user};
use tutti_topo::Machine;

use super::guardian;
use super::meeting::{self, Greeting, Guest, MeetingError};
use super::starter::{Starter, StarterFacts, failed};
use super::{Boot, Network};

/// Record that rank 0 sends to the first rank of each host.
struct Record {
    /// Secret of the job, which authenticates its messages.
    secret: Secret,
    /// Random number of the job.
    job_id: u64,
    /// Number of processors of the first host, for which all ranks select algorithms.
    processors: u32,
}

/// Joins the job of this starter.
///
/// # Errors
/// Returns an error if the ranks of this host do not find each other, or if there is no shared memory.
pub fn join(config: &Config, mut starter: Box<dyn Starter>) -> Result<Boot> {
    let joined = meet(config, &mut *starter);
    if joined.is_err() {
        // A starter ends the job when it loses a process. That would happen before the user sees
        // the error.
        std::mem::forget(starter);
        return joined;
    }
    joined.map(|boot| Boot { starter: Some(starter), ..boot })
}

/// Joins the job, with an error as soon as a step fails. The caller keeps the starter.
fn meet(config: &Config, starter: &mut dyn Starter) -> Result<Boot> {
    let facts = starter.facts().clone();
    let place = facts.placement.place(facts.rank).expect("a starter knows where its ranks run");
    let fail = |why: &dyn std::fmt::Display| failed(facts.speaks, why);
    let several = facts.placement.hosts() > 1;
    let record = if several { exchange(starter, &facts, place.local == 0)? } else { None };
    let limit = Duration::from_millis(config.launch.start_ms);
    let name = meeting::name(&facts.job, place.host);
    let greeting = greeting(&facts);
    let (job, bells) = if place.local == 0 {
        let expected = facts.placement.ranks_on(place.host);
        let guests = meeting::await_guests(&name, &expected[1..], limit).map_err(|why| fail(&why))?;
        let job = create(config, &facts, place.host, record, greeting, &guests)
            .map_err(|why| super::no_job(&why))?;
        // A job works without a guardian too, until a process fails.
        let _ = guardian::start(&*starter, &job, &guests);
        let bells = give(&job, &guests).map_err(|why| fail(&why))?;
        (job, bells)
    } else {
        let gift = meeting::visit(&name, &greeting, limit).map_err(|why| fail(&why))?;
        (Job::attach(gift.job).map_err(|why| fail(&why))?, gift.bells)
    };
    let header = job.header();
    if header.world_size != facts.placement.ranks() || job.local_rank(facts.rank) != Some(place.local) {
        return Err(fail(&"the ranks of this host disagree about where ranks run"));
    }
    let network = if several { Some(Network { directory: starter.directory()?, bells }) } else { None };
    let rank = WorldRank(facts.rank);
    Ok(Boot { job: Arc::new(job), rank, local: place.local, network, starter: None })
}

/// Returns the greeting of this process for the first rank of the host.
fn greeting(facts: &StarterFacts) -> Greeting {
    let processors = cpu::affinity().unwrap_or_default();
    Greeting { rank: facts.rank, program: facts.program, processors }
}

/// Exchanges the record in a job of several hosts. The secret travels through the starter's own
/// channels.
fn exchange(starter: &mut dyn Starter, facts: &StarterFacts, wants: bool) -> Result<Option<Record>> {
    let fail = |why: &dyn std::fmt::Display| failed(facts.speaks, why);
    let given =
        (facts.rank == 0).then(|| Record::new(cpu::usable_processors() as u32).map(|record| record.encode()));
    let given = given.transpose().map_err(|why| fail(&why))?;
    let bytes = starter.exchange(given.as_deref(), wants)?;
    if !wants {
        return Ok(None);
    }
    let record = Record::decode(&bytes).ok_or_else(|| fail(&"rank 0 uses another version of Tutti"))?;
    Ok(Some(record))
}

impl Record {
    /// Makes the record with a new secret and a new number of the job.
    fn new(processors: u32) -> std::io::Result<Record> {
        Ok(Record { secret: Secret::random()?, job_id: process::random()?, processors })
    }

    /// Encodes the record as bytes.
    fn encode(&self) -> Vec<u8> {
        [&self.secret.0[..], &self.job_id.to_le_bytes(), &self.processors.to_le_bytes()].concat()
    }

    /// Decodes the record; `None` if the length is wrong.
    fn decode(bytes: &[u8]) -> Option<Record> {
        let (secret, rest) = bytes.split_first_chunk()?;
        let (job_id, rest) = rest.split_first_chunk()?;
        let processors = u32::from_le_bytes(rest.try_into().ok()?);
        Some(Record { secret: Secret(*secret), job_id: u64::from_le_bytes(*job_id), processors })
    }
}

/// Sends the job object to the other ranks of the host, and returns the doorbells.
fn give(job: &Job, guests: &[Guest]) -> std::result::Result<Vec<OwnedFd>, MeetingError> {
    let header = job.header();
    let bells = if header.has_other_hosts() {
        event::bells(header.local_ranks).map_err(MeetingError::System)?
    } else {
        Vec::new()
    };
    for guest in guests {
        guest.give(&job.fd(), &bells)?;
    }
    Ok(bells)
}

/// Creates the job object of this host, at its first rank.
fn create(
    config: &Config,
    facts: &StarterFacts,
    host: u32,
    record: Option<Record>,
    own: Greeting,
    guests: &[Guest],
) -> std::io::Result<Job> {
    let all: Vec<&Greeting> =
        std::iter::once(&own).chain(guests.iter().map(|guest| &guest.greeting)).collect();
    let ranks = all.len() as u32;
    let union: ProcessorSet = all.iter().flat_map(|greeting| greeting.processors.iter()).collect();
    let quota = cpu::quota_in_processors().unwrap_or(usize::MAX);
    let processors = union.len().min(quota).max(1) as u32;
    // The machine is examined only if ranks are bound: see `mpirun`, which does the same.
    let is_bound = all.iter().any(|greeting| greeting.processors != union);
    let machine = if is_bound { Machine::local() } else { Machine::default() };
    let record = match record {
        Some(record) => record,
        None => Record::new(processors)?,
    };
    let several = facts.placement.hosts() > 1;
    let interface =
        several.then(|| interface::of_this_host(&config.network.interface, facts.other_host.as_deref()));
    let interface = interface.transpose().map_err(std::io::Error::other)?;
    let job = Job::create(&Plan {
        host,
        placement: facts.placement.clone(),
        secret: record.secret,
        interface: interface.map(|address| address.to_string()).unwrap_or_default(),
        processors,
        universe_size: facts.universe.max(facts.placement.ranks()),
        ring_bytes: config.ring_bytes_for(ranks),
        lanes: config.lanes_for(ranks),
        job_id: record.job_id,
        banks: config.bank_sizes_for(ranks),
        machine: texts(config, is_bound.then_some(&machine), !several),
    })?;
    job.set_machines(&Machines::apart(facts.placement.hosts(), record.processors));
    for (local, greeting) in (0..).zip(all) {
        let block = job.block(local);
        block.app_number.store(greeting.program, Ordering::Relaxed);
        if is_bound {
            block.set_places(machine.places(&greeting.processors));
        }
    }
    Ok(job)
}

/// Maximum size of the model file, in bytes.
const MODEL_BYTES: u64 = 1 << 20;

/// Returns the texts about the machine for the ranks. They include the cost model only if all ranks of the
/// job are on this host. Hosts may have different files, and all ranks must select the same algorithms.
fn texts(config: &Config, machine: Option<&Machine>, with_model: bool) -> Vec<u8> {
    let mut texts = machine.map(|machine| machine.to_string().into_bytes()).unwrap_or_default();
    let path = config.model_path(&machine_kind(), user::variable);
    let model = path.filter(|_| with_model).and_then(|path| files::read(Path::new(&path), MODEL_BYTES).ok());
    if let Some(model) = model {
        texts.push(TEXTS_END);
        texts.extend(model);
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_written() {
        let record = Record { secret: Secret([7; 32]), job_id: 8, processors: 9 };
        let read = Record::decode(&record.encode()).unwrap();
        assert_eq!((read.secret, read.job_id, read.processors), (Secret([7; 32]), 8, 9));
        assert!(Record::decode(&record.encode()[1..]).is_none() && Record::decode(&[0; 45]).is_none());
    }
}
