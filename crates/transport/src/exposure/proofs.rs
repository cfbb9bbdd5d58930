//! Verification that this process reaches the memory of a peer: once for each peer, through the back end that
//! is used afterwards, before its first use.
//!
//! A process number and an address are valid in every namespace. Without verification a copy could read
//! another process's memory, which nobody would notice ([`Job::prove`]).

use std::sync::Arc;

use tutti_sys::job::Job;

use super::back_ends::BackEnd;
use super::record::Record;
use crate::Peer;
use crate::single_copy::{CopyError, Pid};

/// Verification result of each rank of this host, by its local rank.
#[derive(Debug)]
pub(super) struct Proofs {
    /// Job whose ranks are verified. None in tests, whose peers need no verification.
    job: Option<Arc<Job>>,
    known: Vec<Option<Result<Pid, CopyError>>>,
    explain: bool,
}

impl Proofs {
    /// Accepts every peer without verification.
    pub(super) fn new(explain: bool) -> Proofs {
        Proofs { job: None, known: Vec::new(), explain }
    }

    /// Verifies the peers by `job` in all later calls.
    pub(super) fn of_job(self, job: Arc<Job>) -> Proofs {
        Proofs { job: Some(job), ..self }
    }

    /// Verifies that memory which a peer has published can be reached by the back end of its record.
    #[inline]
    pub(super) fn verify(&mut self, peer: Peer, record: &Record) -> Result<(), CopyError> {
        match self.known.get(peer.0 as usize) {
            Some(Some(Ok(pid))) if record.pid() == *pid => Ok(()),
            Some(Some(Err(error))) => Err(*error),
            _ => self.find_out(peer, record),
        }
    }

    /// Returns the process number of a peer whose memory can be reached by it.
    ///
    /// # Errors
    /// The reason if it cannot.
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
        let proven = match BackEnd::from_number(record.by) {
            BackEnd::Attach => job.prove(peer.0).and_then(|pid| is_same(pid, record)),
            by => by_key(job, peer, by, record).map(|()| record.pid()),
        };
        self.keep(peer, proven);
        proven.map(drop)
    }

    /// Marks a peer as unreachable.
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

/// Returns an error if the process numbers differ: a rank that was restarted has another one.
fn is_same(pid: Pid, record: &Record) -> Result<Pid, CopyError> {
    if pid == record.pid() { Ok(pid) } else { Err(CopyError::Stranger) }
}

/// Verifies a peer by the key of its record. XPMEM offers all memory of a process, including the word that
/// serves as proof. A KNEM cookie is unique by itself.
fn by_key(job: &Job, peer: Peer, by: BackEnd, record: &Record) -> Result<(), CopyError> {
    if by == BackEnd::Knem {
        return Ok(());
    }
    let (address, proof) = job.proof(peer.0);
    by.copier().probe(record.lent(), address, proof)
}
