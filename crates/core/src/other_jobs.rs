//! Numbers of processes of other jobs in this process, and knowledge about their jobs. [`crate::dynamic`]
//! connects jobs.

use std::collections::HashMap;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result, WorldRank};
use tutti_sys::job::Job;
use tutti_transport::shm::Home;

use crate::group::Group;
use crate::host::Host;

/// Length of an encoded [`Name`] in bytes.
pub(crate) const NAME_BYTES: usize = 12;

/// Global name of a process, the same in all jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Number of its job.
    pub job: u64,
    /// Rank in the world of that job.
    pub rank: u32,
}

/// Knowledge of a process about other jobs.
#[derive(Debug)]
pub struct OtherJobs {
    own: Arc<Job>,
    /// Processes of other jobs, in the order of their numbers here.
    names: Vec<Name>,
    numbers: HashMap<Name, u32>,
    pub(crate) jobs: HashMap<u64, Arc<Job>>,
}

impl OtherJobs {
    /// Returns the state of a process that knows only its own job.
    pub fn new(own: Arc<Job>) -> OtherJobs {
        OtherJobs { own, names: Vec::new(), numbers: HashMap::new(), jobs: HashMap::new() }
    }

    /// Returns the number of the first process of another job.
    fn first(&self) -> u32 {
        self.own.header().world_size
    }

    /// Returns the global name of a process.
    ///
    /// # Panics
    /// If there is no such process, which is a bug of the caller.
    pub fn name(&self, process: WorldRank) -> Name {
        match process.0.checked_sub(self.first()) {
            None => Name { job: self.own.header().job_id, rank: process.0 },
            Some(at) => self.names[at as usize],
        }
    }

    /// Returns the number of a process that is known already.
    pub fn number(&self, name: Name) -> Option<WorldRank> {
        if name.job == self.own.header().job_id {
            return (name.rank < self.first()).then_some(WorldRank(name.rank));
        }
        self.numbers.get(&name).copied().map(WorldRank)
    }

    /// Returns the number of a process, which is assigned if it is new.
    pub(crate) fn meet(&mut self, name: Name) -> WorldRank {
        if let Some(number) = self.number(name) {
            return number;
        }
        let number = self.first() + self.names.len() as u32;
        self.names.push(name);
        self.numbers.insert(name, number);
        WorldRank(number)
    }

    /// Returns the object of a job of which at least one process is known.
    pub(crate) fn job(&self, job: u64) -> Option<&Arc<Job>> {
        if job == self.own.header().job_id { Some(&self.own) } else { self.jobs.get(&job) }
    }

    /// Returns the location of a process on this host: the job object with its doorbell and state. Returns
    /// None for one on another host.
    pub fn home(&self, host: &Host, number: WorldRank) -> Option<Home> {
        if !host.is_foreign(number) {
            let local = host.job.local_rank(number.0)?;
            return Some(Home { job: Arc::clone(&host.job), local });
        }
        self.home_of(self.name(number))
    }

    /// Returns the location of a process on this host, by its global name.
    pub(crate) fn home_of(&self, name: Name) -> Option<Home> {
        let job = self.job(name.job)?;
        let is_there = name.rank < job.header().world_size;
        let local = is_there.then(|| job.local_rank(name.rank)).flatten()?;
        Some(Home { job: Arc::clone(job), local })
    }
}

impl OtherJobs {
    /// Encodes a group for a message to processes of any job.
    pub fn encode(&self, group: &Group) -> Vec<u8> {
        group.iter().flat_map(|member| self.name(member).encode()).collect()
    }

    /// Decodes the group of a message.
    ///
    /// # Errors
    /// `Comm` if a member is unknown, so that no connection leads to it.
    pub fn decode(&self, bytes: &[u8]) -> Result<Group> {
        let number = |name: Name| {
            self.number(name).ok_or_else(|| {
                let reason = format!(
                    "rank {} of job {:x} is not connected with this process: let the two meet by MPI_Comm_connect and MPI_Comm_accept first",
                    name.rank, name.job
                );
                Error::new(ErrorClass::Comm, reason)
            })
        };
        names(bytes).map(number).collect()
    }
}

impl Name {
    fn encode(self) -> [u8; NAME_BYTES] {
        let mut bytes = [0; NAME_BYTES];
        bytes[..8].copy_from_slice(&self.job.to_le_bytes());
        bytes[8..].copy_from_slice(&self.rank.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; NAME_BYTES]) -> Name {
        let [b0, b1, b2, b3, b4, b5, b6, b7, r0, r1, r2, r3] = bytes;
        let job = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        Name { job, rank: u32::from_le_bytes([r0, r1, r2, r3]) }
    }
}

/// Returns the names in a message.
pub(crate) fn names(bytes: &[u8]) -> impl Iterator<Item = Name> + '_ {
    bytes
        .chunks_exact(NAME_BYTES)
        .map(|one| Name::decode(one.try_into().expect("as many bytes as asked for")))
}

/// Returns true if two encoded groups together have processes of more than one job.
pub fn are_several(one: &[u8], other: &[u8]) -> bool {
    let mut jobs = names(one).chain(names(other)).map(|name| name.job);
    jobs.next().is_some_and(|first| jobs.any(|job| job != first))
}

#[cfg(test)]
mod tests {
    use tutti_sys::job::Plan;

    use super::*;

    fn check(others: &mut OtherJobs, job: u64, rank: u32, expected: u32) {
        let name = Name { job, rank };
        assert_eq!(others.meet(name), WorldRank(expected));
        assert_eq!(
            (others.number(name), others.name(WorldRank(expected))),
            (Some(WorldRank(expected)), name)
        );
        assert_eq!(Name::decode(name.encode()), name);
    }

    #[test]
    fn others_are_numbered_beyond_the_world() {
        let own = Arc::new(Job::create(&Plan { job_id: 5, ..Plan::one_host(3) }).unwrap());
        let mut others = OtherJobs::new(own);
        check(&mut others, 5, 2, 2);
        check(&mut others, 9, 0, 3);
        check(&mut others, 8, 0, 4);
        check(&mut others, 9, 0, 3);
        assert_eq!(others.number(Name { job: 9, rank: 1 }), None);
        assert_eq!(others.number(Name { job: 5, rank: 3 }), None);
        assert!(others.home_of(Name { job: 9, rank: 0 }).is_none());
        assert_eq!(others.home_of(Name { job: 5, rank: 1 }).map(|home| home.local), Some(1));
    }
}
