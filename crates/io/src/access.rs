//! Reading and writing (MPI-5 section 14.4). Accesses are blocking, behind a request, or split. They use an
//! explicit offset, the individual file pointer or the shared one. They are independent, collective, or in
//! the order of ranks.

use std::sync::Arc;

use tutti_base::traffic::TRAFFIC;
use tutti_base::{Error, ErrorClass, Result};
use tutti_core::buffer::Buffer;
use tutti_core::collective::{CommContext, WaitContext};
use tutti_core::completion::{self, Finished};
use tutti_core::lanes::LaneGuard;
use tutti_core::process::Process;
use tutti_core::request::{Request, RequestId, Status};

use crate::agreement::{agree, judge, verdict};
use crate::background::{self, Flight, Tags};
use crate::file::{File, sequential};
use crate::memory::Memory;
use crate::transfer::Transfer;
use crate::two_phase::{Card, TwoPhaseParams};
use crate::view::View;
use crate::worker;
use tutti_storage::Moved;

/// File pointer or offset at which an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// An offset in etypes.
    Explicit(i64),
    /// The pointer of each process.
    Individual,
    /// The one of all, in any order.
    Shared,
    /// The one of all, in the order of ranks.
    Ordered,
}

/// Kind of an access, as the called function determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// True for a write to the file, false for a read.
    pub write: bool,
    /// File pointer or offset that the access uses.
    pub pointer: Pointer,
    /// True if all members take part.
    pub collective: bool,
}

/// Split access that has begun. A file has at most one at a time (MPI-5 section 14.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// MPI_File_write_at_all_begin, MPI_File_read_at_all_begin.
    Explicit {
        /// True for a write to the file.
        write: bool,
    },
    /// MPI_File_write_all_begin, MPI_File_read_all_begin.
    Individual {
        /// True for a write to the file.
        write: bool,
    },
    /// MPI_File_write_ordered_begin, MPI_File_read_ordered_begin.
    Ordered {
        /// True for a write to the file.
        write: bool,
    },
}

/// Largest access behind a request that is performed at once, in bytes: a handover to a thread takes longer.
pub(crate) const AT_ONCE_BYTES: u64 = 16 << 10;

/// Data of an access: the bytes to write, or the buffer for bytes that are read, before their conversion.
#[derive(Debug)]
pub(crate) struct PreparedAccess {
    pub view: Arc<View>,
    pub stream: u64,
    pub buffer: Buffer,
    pub memory: Memory,
    pub write: bool,
}

impl Access {
    /// Returns the kind of split access that this access begins or ends.
    pub fn split(&self) -> Split {
        let write = self.write;
        match self.pointer {
            Pointer::Explicit(_) => Split::Explicit { write },
            Pointer::Ordered => Split::Ordered { write },
            Pointer::Individual | Pointer::Shared => Split::Individual { write },
        }
    }
}

impl PreparedAccess {
    /// Returns the transfer between file and memory that performs the access.
    pub fn transfer(&self, file: &File) -> Transfer {
        Transfer {
            driver: Arc::clone(&file.driver),
            view: Arc::clone(&self.view),
            stream: self.stream,
            buffer: self.buffer.clone(),
            write: self.write,
        }
    }

    /// Converts data that were read, after the transfer, and returns the number of bytes in memory.
    pub fn conclude(&self, moved: Moved) -> Moved {
        let way = if self.write { &TRAFFIC.file_writes } else { &TRAFFIC.file_reads };
        way.add(moved.bytes);
        let representation = &self.view.representation;
        if representation.is_plain(self.write) {
            return moved;
        }
        let Moved { bytes, fault } = moved;
        let items = &self.memory.items;
        let converted = if self.write {
            let each = representation.file_bytes(items.datatype(), 1);
            each.map(|each| items.datatype().packed_bytes(bytes / each.max(1)))
        } else {
            let mut read = vec![0; bytes as usize];
            self.buffer.pack(0, &mut read);
            representation.decode(items, &mut read)
        };
        match converted {
            Ok(bytes) => Moved { bytes, fault },
            Err(error) => Moved { bytes: 0, fault: Some(fault.unwrap_or(error)) },
        }
    }
}

impl File {
    /// Returns the number of etypes of an access, or an error if the file was not opened for it.
    fn etypes(&self, held: &LaneGuard, access: &Access, memory: &Memory) -> Result<i64> {
        if access.write && !self.amode.writes() {
            return Err(Error::new(ErrorClass::ReadOnly, "the file was opened with MPI_MODE_RDONLY"));
        }
        if !access.write && !self.amode.reads() {
            return Err(Error::new(ErrorClass::Access, "the file was opened with MPI_MODE_WRONLY"));
        }
        if self.amode.is_sequential() && !matches!(access.pointer, Pointer::Shared | Pointer::Ordered) {
            return Err(sequential("access by an offset or by the individual pointer"));
        }
        if let Pointer::Explicit(offset) = access.pointer
            && offset < 0
        {
            let why = format!("argument offset is {offset}; it must not be negative");
            return Err(Error::new(ErrorClass::Arg, why));
        }
        let view = self.view(held);
        let bytes = view.representation.file_bytes(memory.items.datatype(), memory.items.count())?;
        if !bytes.is_multiple_of(view.etype_bytes()) {
            let why = format!("{bytes} bytes are not a multiple of the {} of an etype", view.etype_bytes());
            return Err(Error::new(ErrorClass::Arg, why));
        }
        if bytes > 0 && view.layout().size() == 0 {
            return Err(Error::new(ErrorClass::Arg, "the view of the file has no bytes"));
        }
        Ok((bytes / view.etype_bytes()) as i64)
    }

    /// Finds the position of an access, moves the pointer, and converts data to write.
    fn prepare(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        access: &Access,
        memory: Memory,
    ) -> Result<PreparedAccess> {
        let etypes = self.etypes(held, access, &memory);
        let etypes = match access.pointer {
            Pointer::Ordered => self.ordered(held, process, etypes)?,
            _ => (etypes?, None),
        };
        let (etypes, ordered) = etypes;
        let offset = match access.pointer {
            Pointer::Explicit(offset) => offset,
            Pointer::Individual => {
                let mut state = self.state.borrow_mut(held);
                let offset = state.position;
                state.position = offset.saturating_add(etypes);
                offset
            }
            Pointer::Shared => self.common.advance(held, process, etypes)?,
            Pointer::Ordered => ordered.expect("what is ordered has its place"),
        };
        let view = self.view(held);
        let stream = view.stream_of(offset)?;
        view.stream_of(offset.saturating_add(etypes))?;
        let representation = &view.representation;
        let buffer = match (representation.is_plain(access.write), access.write) {
            (true, _) => memory.buffer.clone(),
            (false, true) => Buffer::owned(representation.encode(&memory.items)?),
            (false, false) => Buffer::owned(vec![0; (etypes as u64 * view.etype_bytes()) as usize]),
        };
        Ok(PreparedAccess { view, stream, buffer, memory, write: access.write })
    }

    /// Moves the shared pointer by the data of all members, and finds the own position among them. All
    /// members must call this, also those whose access is invalid.
    fn ordered(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        etypes: Result<i64>,
    ) -> Result<(i64, Option<i64>)> {
        let mine = *etypes.as_ref().unwrap_or(&0);
        let all = WaitContext::new(held, process, &self.comm).allgather_bytes(&mine.to_le_bytes())?;
        let all: Vec<i64> = all
            .chunks_exact(8)
            .map(|eight| i64::from_le_bytes(eight.try_into().expect("chunks of eight")))
            .collect();
        let before: i64 = all[..self.comm.rank().0 as usize].iter().sum();
        let mut begin = Vec::new();
        if self.is_first() {
            let position = self.common.advance(held, process, all.iter().sum())?;
            begin.extend_from_slice(&position.to_le_bytes());
        }
        WaitContext::new(held, process, &self.comm).broadcast_bytes(tutti_base::Rank(0), &mut begin)?;
        let begin = begin.try_into().map_or(0, i64::from_le_bytes);
        Ok((etypes?, Some(begin.saturating_add(before))))
    }

    /// Moves the bytes while the program waits.
    fn transfer(&self, held: &mut LaneGuard, process: &'static Process, prepared: &PreparedAccess) -> Moved {
        let transfer = prepared.transfer(self);
        let is_atomic = self.state.borrow(held).atomic;
        let moved = if is_atomic || self.driver.is_stream() {
            let locked =
                self.common.locked(held, process, transfer.write || self.driver.is_stream(), |held| {
                    held.release_while(|| transfer.run())
                });
            locked.unwrap_or_else(|error| Moved { bytes: 0, fault: Some(error) })
        } else {
            held.release_while(|| transfer.run())
        };
        prepared.conclude(moved)
    }

    /// Performs a blocking access. Returns the number of bytes in memory that were read or written, also
    /// after an error.
    pub fn access(
        self: &Arc<Self>,
        held: &mut LaneGuard,
        process: &'static Process,
        access: Access,
        memory: Memory,
    ) -> (u64, Result<()>) {
        if self.means(held, &access).is_some() {
            return match self.start_or_wait(held, process, access, memory, true) {
                Ok(request) => {
                    let Finished { result, status, .. } = completion::wait(held, process, request, "");
                    (status.bytes, result.map(drop))
                }
                Err(error) => (0, Err(error)),
            };
        }
        let prepared = self.prepare(held, process, &access, memory);
        if !access.collective {
            let moved = match prepared {
                Ok(prepared) => self.transfer(held, process, &prepared),
                Err(error) => Moved { bytes: 0, fault: Some(error) },
            };
            return (moved.bytes, moved.fault.map_or(Ok(()), Err));
        }
        let moved = match prepared {
            Ok(prepared) if self.driver.is_stream() => self.in_turn(held, process, &prepared),
            Ok(prepared) => Ok(self.transfer(held, process, &prepared)),
            Err(error) => Ok(Moved { bytes: 0, fault: Some(error) }),
        };
        let moved = moved.unwrap_or_else(|error| Moved { bytes: 0, fault: Some(error) });
        let result = agree(held, process, &self.comm, moved.fault.map_or(Ok(()), Err));
        (moved.bytes, result)
    }

    /// Members access a stream one after the other.
    fn in_turn(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        prepared: &PreparedAccess,
    ) -> Result<Moved> {
        let mut moved = Moved::default();
        for rank in 0..self.comm.size() {
            if rank == self.comm.rank().0 {
                moved = self.transfer(held, process, prepared);
            }
            WaitContext::new(held, process, &self.comm).barrier()?;
        }
        Ok(moved)
    }

    /// Starts an access behind a request.
    ///
    /// # Errors
    /// Fails if arguments are invalid. In a collective access the request reports the error, at all members.
    pub fn start(
        self: &Arc<Self>,
        held: &mut LaneGuard,
        process: &'static Process,
        access: Access,
        memory: Memory,
    ) -> Result<RequestId> {
        self.start_or_wait(held, process, access, memory, false)
    }

    /// Starts an access. `waits` is true if the program waits for it at once.
    fn start_or_wait(
        self: &Arc<Self>,
        held: &mut LaneGuard,
        process: &'static Process,
        access: Access,
        memory: Memory,
        waits: bool,
    ) -> Result<RequestId> {
        let prepared = self.prepare(held, process, &access, memory);
        let next_tag = || self.comm.collectives.next_tag(held);
        if let Some(means) = self.means(held, &access).filter(|means| waits || means.beside) {
            let gather = next_tag();
            let tags = Tags { exchange: next_tag(), verdict: next_tag() };
            let card = self.card(&prepared);
            let gathering =
                CommContext::new(held, process, &self.comm).start_allgather(gather, card.encode());
            let flight = Flight::Gathering(gathering, means, prepared);
            return Ok(background::launch(held, process, self, flight, Some(tags)));
        }
        let tags = access.collective.then(|| {
            let tag = next_tag();
            Tags { exchange: tag, verdict: tag }
        });
        let is_atomic = self.state.borrow(held).atomic;
        let flight = match prepared {
            Err(error) if !access.collective => return Err(error),
            Err(error) => Flight::Over(Moved { bytes: 0, fault: Some(error) }),
            Ok(prepared)
                if is_atomic || self.driver.is_stream() || prepared.buffer.bytes() <= AT_ONCE_BYTES =>
            {
                Flight::Over(self.transfer(held, process, &prepared))
            }
            Ok(prepared) => match self.hand_over(process, &prepared) {
                Ok(job) => Flight::Moving(job, prepared),
                Err(error) if !access.collective => return Err(error),
                Err(error) => Flight::Over(Moved { bytes: 0, fault: Some(error) }),
            },
        };
        Ok(background::launch(held, process, self, flight, tags))
    }

    fn hand_over(&self, process: &'static Process, prepared: &PreparedAccess) -> Result<Arc<worker::Job>> {
        let transfer = prepared.transfer(self);
        worker::start(process, Box::new(move || transfer.run()))
    }

    /// Returns the parameters of the exchange between members, or `None` if each accesses the file alone.
    fn means(&self, held: &LaneGuard, access: &Access) -> Option<TwoPhaseParams> {
        let state = self.state.borrow(held);
        let wanted = if access.write { &state.exchange_writes } else { &state.exchange_reads };
        wanted.clone().filter(|_| access.collective && !state.atomic && !self.driver.is_stream())
    }

    /// Returns the description of this member's part that the other members receive.
    fn card(&self, prepared: &Result<PreparedAccess>) -> Card {
        match prepared {
            Ok(prepared) => Card {
                stream: prepared.stream,
                bytes: prepared.buffer.bytes(),
                verdict: 0,
                file_bytes: if prepared.write { 0 } else { self.driver.bytes().unwrap_or(0) },
            },
            result => Card { verdict: verdict(result), ..Card::default() },
        }
    }

    /// Begins a split access (MPI_File_read_all_begin and similar functions).
    ///
    /// # Errors
    /// Fails with `Other` if another split access has not ended.
    pub fn begin(
        self: &Arc<Self>,
        held: &mut LaneGuard,
        process: &'static Process,
        access: Access,
        memory: Memory,
    ) -> Result<()> {
        if self.state.borrow(held).split.is_some() {
            let why = "a split collective access has begun and not ended; a file has one at a time";
            return Err(Error::new(ErrorClass::Other, why));
        }
        let request = self.start(held, process, access, memory)?;
        self.state.borrow_mut(held).split = Some((access.split(), request));
        Ok(())
    }

    /// Ends a split access: waits for its request and returns the number of moved bytes.
    ///
    /// # Errors
    /// Fails with `Other` if no such access has begun, or with the error of the access.
    pub fn end(&self, held: &mut LaneGuard, process: &'static Process, split: Split) -> (u64, Result<()>) {
        let begun = self.state.borrow(held).split;
        let Some((_, request)) = begun.filter(|(begun, _)| *begun == split) else {
            let why = match begun {
                None => "no split collective access has begun".to_string(),
                Some((begun, _)) => format!("another split collective access has begun: {begun:?}"),
            };
            return (0, Err(Error::new(ErrorClass::Other, why)));
        };
        self.state.borrow_mut(held).split = None;
        let Finished { result, status, .. } = completion::wait(held, process, request, "the end of ");
        (status.bytes, result.map(drop))
    }
}

/// Returns a completed request for an access that has ended.
pub(crate) fn completed_request(moved: Moved, context: u32) -> Request {
    let status = Status { bytes: moved.bytes, ..Status::EMPTY };
    Request { error: moved.fault, is_cancellable: false, ..Request::completed(status, context) }
}

/// Returns the result of an access after the members have agreed on the `worst` error class.
pub(crate) fn judged(moved: Moved, worst: u32) -> Moved {
    let Moved { bytes, fault } = moved;
    let result = judge(fault.map_or(Ok(()), Err), worst);
    Moved { bytes, fault: result.err() }
}

/// Returns the verdict on an access, for the agreement of the members.
pub(crate) fn verdict_of(moved: &Moved) -> u32 {
    verdict(&moved.fault.clone().map_or(Ok(()), Err))
}
