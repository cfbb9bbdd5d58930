//! Reads of long messages directly from the sender's memory, if that is possible and pays.
//!
//! The first real read from a peer shows whether the system permits it. The receiver alone decides; the
//! sender streams unless it is informed otherwise. `TUTTI_EXPLAIN=all` explains the choice.

use std::sync::Arc;

use tutti_base::config::{Config, SingleCopy as Setting};
use tutti_base::traffic::TRAFFIC;
use tutti_base::{Error, ErrorClass, Result};
use tutti_sys::host_memory;
use tutti_sys::job::Job;
use tutti_transport::exposure::Peers;
use tutti_transport::single_copy::{CopyError, Pid, RemoteSegment, SingleCopy};
use tutti_transport::{CrossMemoryAttach, Peer};

use crate::buffer::Buffer;
use crate::matching::Numbered;
use crate::wire::RendezvousRequest;

/// Reader of messages in peers' memory.
#[derive(Debug)]
pub struct Reader {
    setting: Setting,
    /// True if ranks of this host share processors.
    is_crowded: bool,
    at_least_bytes: u64,
    explain: bool,
    job: Arc<Job>,
    copier: CrossMemoryAttach,
    /// Mappings of peers' memory. Collectives have separate mappings, protected by the lock of the exposures;
    /// a message may be read in any lane.
    peers: Peers,
    verdicts: Numbered<u32, std::result::Result<Pid, CopyError>>,
}

/// Maximum number of memory pieces in one system call (the kernel's limit is 1024).
const PIECES: usize = 512;

impl Reader {
    /// Returns a reader with the settings of this process.
    pub fn new(config: &Config, job: Arc<Job>) -> Reader {
        Reader {
            setting: config.messages.single_copy,
            is_crowded: job.header().local_ranks > job.header().processors,
            // With `always`, all messages that are not eager are read.
            at_least_bytes: match config.messages.single_copy {
                Setting::Always => 1,
                Setting::Auto | Setting::Never => config.messages.single_copy_bytes,
            },
            explain: config.collectives.explain.is_all(),
            job,
            copier: CrossMemoryAttach::new(),
            peers: Peers::default(),
            verdicts: Numbered::default(),
        }
    }

    /// Returns true if ranks of this host share processors, so that the two copies of a stream follow one
    /// another.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// Returns true if a peer is a rank of this job and host.
    pub fn is_neighbour(&self, peer: Peer) -> bool {
        peer.0 < self.job.header().world_size && self.job.local_rank(peer.0).is_some()
    }

    /// Returns true if the first `wanted` bytes of an offered message should be read and can be. They should
    /// be if they are many, or if `pays` returns true.
    pub fn may_read(
        &mut self,
        from: Peer,
        offer: &RendezvousRequest,
        wanted: u64,
        pays: impl FnOnce() -> bool,
    ) -> bool {
        let is_wanted = match self.setting {
            Setting::Never => false,
            Setting::Always => true,
            // The time of a read in place depends on more than the length.
            Setting::Auto => wanted >= self.at_least_bytes && offer.near.is_none() || pays(),
        };
        is_wanted && offer.address != 0 && self.verdict(from).is_ok()
    }

    /// Reads the first `wanted` bytes of an offered message into `buffer`. Returns false if it must be
    /// streamed.
    ///
    /// # Errors
    /// `Buffer` if the processor cannot write the buffer's memory.
    pub fn read(
        &mut self,
        from: Peer,
        offer: &RendezvousRequest,
        buffer: &Buffer,
        wanted: u64,
    ) -> Result<bool> {
        let Ok(pid) = self.verdict(from) else { return Ok(false) };
        if let Some(record) = offer.near.as_deref().filter(|record| record.pid() == pid) {
            let unpack = |at: u64, bytes: &[u8]| {
                buffer.unpack(at, bytes);
            };
            return Ok(self.peers.read(from, record, wanted, unpack).is_ok());
        }
        let mut done = 0;
        while done < wanted {
            let remote = RemoteSegment { address: offer.address + done, bytes: (wanted - done) as usize };
            let copied = buffer.with_memory(done, wanted - done, PIECES, |local| {
                self.copier.read(pid.into(), &[remote], local)
            });
            match copied {
                Ok(bytes) if bytes > 0 => done += bytes as u64,
                // A part of the buffer may have been written. The stream writes all of it again.
                Ok(_) => return Ok(false),
                Err(error) => {
                    if error == CopyError::Fault {
                        refuse_foreign(buffer)?;
                    }
                    self.verdicts.insert(from.0, Err(error));
                    return Ok(false);
                }
            }
        }
        TRAFFIC.single_copy.add(wanted);
        Ok(true)
    }

    /// Returns the process number under which the memory of peer `from` can be read directly, or the reason
    /// why it cannot. The result is remembered for each peer of this job and host; [`Reader::read`]
    /// replaces it by the error of a copy that fails.
    fn verdict(&mut self, from: Peer) -> std::result::Result<Pid, CopyError> {
        if let Some(verdict) = self.verdicts.get(&from.0) {
            return *verdict;
        }
        // A peer of another job or on another host cannot be read directly: its messages are streamed.
        let is_own = from.0 < self.job.header().world_size;
        let local = is_own.then(|| self.job.local_rank(from.0)).flatten();
        let Some(local) = local else { return Err(CopyError::Gone) };
        let verdict = self.job.prove(local);
        if self.explain {
            match verdict {
                Ok(_) => eprintln!(
                    "Tutti: messages of {} bytes and more from rank {} are read by process_vm_readv, or in place where mapped",
                    self.at_least_bytes, from.0
                ),
                Err(error) => {
                    eprintln!("Tutti: long messages from rank {} pass through shared memory: {error}", from.0)
                }
            }
        }
        self.verdicts.insert(from.0, verdict);
        verdict
    }
}

/// Returns an error if the memory of a receive buffer is not host memory, or is read-only.
#[cold]
fn refuse_foreign(buffer: &Buffer) -> Result<()> {
    let complaint = host_memory::complaint(buffer.address(), true).filter(|_| buffer.address() != 0);
    complaint.map_or(Ok(()), |why| Err(Error::new(ErrorClass::Buffer, format!("argument buf: {why}"))))
}
