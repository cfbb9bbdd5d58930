//! Whose memory this process can reach: shown once a peer, by the way that is then used, before it is used for the first time.
//!
//! A number that names a process, and an address in it, mean something in every namespace: without the proof a copy could be
//! of another process's memory, which nobody would notice ([`Job::prove`]).

use std::sync::Arc;

use tutti_sys::job::Job;

use super::back_ends::BackEnd;
use super::record::Record;
use crate::Peer;
use crate::single_copy::{CopyError, Pid};

/// What is known of each rank of this host, by its local rank.
#[derive(Debug)]
pub(super) struct Proofs {
    /// None in tests, whose peers need not prove anything.
    job: Option<Arc<Job>>,
    known: Vec<Option<Result<Pid, CopyError>>>,
    explain: bool,
}

impl Proofs {
    /// Asks nobody.
    pub(super) fn new(explain: bool) -> Proofs {
        Proofs { job: None, known: Vec::new(), explain }
    }

    /// Of a rank of a job.
    pub(super) fn of_job(self, job: Arc<Job>) -> Proofs {
        Proofs { job: Some(job), ..self }
    }

    /// Whether what a peer has published can be reached in the way that its record says.
    #[inline]
    pub(super) fn of(&mut self, peer: Peer, record: &Record) -> Result<(), CopyError> {
        match self.known.get(peer.0 as usize) {
            Some(Some(Ok(pid))) if record.pid() == *pid => Ok(()),
            Some(Some(Err(error))) => Err(*error),
            _ => self.find_out(peer, record),
        }
    }

    /// The process of a peer, if its memory can be reached by that.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn process(&mut self, peer: Peer) -> Result<Pid, CopyError> {
        let job = self.job.as_ref().ok_or(CopyError::Gone)?;
        match self.known.get(peer.0 as usize) {
            Some(Some(Err(error))) => Err(*error),
            _ => job.prove(peer.0),
        }
    }

    #[cold]
    fn find_out(&mut self, peer: Peer, record: &Record) -> Result<(), CopyError> {
        let Some(job) = &self.job else { return Ok(()) };
        let proven = match BackEnd::of(record.by) {
            BackEnd::Attach => job.prove(peer.0).and_then(|pid| is_same(pid, record)),
            by => by_key(job, peer, by, record).map(|()| record.pid()),
        };
        self.keep(peer, proven);
        proven.map(drop)
    }

    /// From now on a peer cannot be reached.
    #[cold]
    pub(super) fn refuse(&mut self, peer: Peer, error: CopyError) {
        self.keep(peer, Err(error));
    }

    fn keep(&mut self, peer: Peer, proven: Result<Pid, CopyError>) {
        let place = peer.0 as usize;
        if place >= self.known.len() {
            self.known.resize(place + 1, None);
        }
        if let (Err(error), Some(job), true) = (proven, &self.job, self.explain)
            && self.known[place] != Some(proven)
        {
            let world = job.world_rank(peer.0);
            eprintln!("Tutti: what rank {world} lends is sent by it from now on: {error}");
        }
        self.known[place] = Some(proven);
    }
}

/// A rank that was started anew has another number.
fn is_same(pid: Pid, record: &Record) -> Result<Pid, CopyError> {
    if pid == record.pid() { Ok(pid) } else { Err(CopyError::Stranger) }
}

/// XPMEM offers all memory of a process, the proof too. KNEM knows a loan by a number that no other loan has.
fn by_key(job: &Job, peer: Peer, by: BackEnd, record: &Record) -> Result<(), CopyError> {
    if by == BackEnd::Knem {
        return Ok(());
    }
    let (address, proof) = job.proof(peer.0);
    by.copier().probe(record.lent(), address, proof)
}
