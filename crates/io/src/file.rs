//! Files: open and close, sizes, views, pointers (MPI-5 sections 14.2, 14.3 and 14.6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::collective::WaitContext;
use tutti_core::communicator::Communicator;
use tutti_core::constructors::create;
use tutti_core::error_handler::{ErrorHandler, OF_FILES};
use tutti_core::group::Group;
use tutti_core::hints::{self as assertions, Hints as Assertions};
use tutti_core::info::Info;
use tutti_core::lanes::{FirstLaneCell, LaneGuard};
use tutti_core::memory_kinds;
use tutti_core::process::Process;
use tutti_core::request::RequestId;
use tutti_data::{Datatype, Tiles};

use crate::access::Split;
use crate::agreement::{agree, agree_by_messages, agree_same, judge, number_of, verdict};
use crate::common::Common;
use crate::place;
use crate::representation::Representation;
use crate::two_phase::{self, TwoPhaseParams};
use crate::view::View;
use tutti_storage::hints::{Choice, Hints, without_prefix};
use tutti_storage::together::Wish;
use tutti_storage::{Amode, Driver};

/// MPI_DISPLACEMENT_CURRENT.
const DISPLACEMENT_CURRENT: i64 = -1;

/// Open file, which its handles and the operations in progress share.
#[derive(Debug)]
pub struct File {
    /// Communicator that belongs to the file alone.
    pub(crate) comm: Arc<Communicator>,
    name: Box<[u8]>,
    pub(crate) amode: Amode,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) common: Common,
    pub(crate) state: FirstLaneCell<State>,
    handle: AtomicUsize,
    /// Error handler that functions on the file use.
    pub error_handler: FirstLaneCell<ErrorHandler>,
}

/// Part of a file that functions may change.
#[derive(Debug)]
pub(crate) struct State {
    pub view: Arc<View>,
    /// The individual pointer, in etypes.
    pub position: i64,
    pub atomic: bool,
    /// The split collective access that has begun.
    pub split: Option<(Split, RequestId)>,
    /// Parameters of the exchange between members in collective reads; `None` for independent accesses.
    pub exchange_reads: Option<TwoPhaseParams>,
    /// Parameters of the exchange between members in collective writes.
    pub exchange_writes: Option<TwoPhaseParams>,
    hints: Hints,
    /// Hints that do not concern storage.
    assertions: Assertions,
}

impl State {
    /// Sets the hints that the info object contains; all others stay as they are.
    fn change_hints(&mut self, info: &Info) {
        self.hints = self.hints.changed_by(|key| info.text(key));
        self.assertions.update(info);
    }
}

/// Origin of an offset in a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The beginning of the view.
    Start,
    /// The pointer.
    Current,
    /// The end of the file.
    End,
}

/// The files that are open, by the context of their communicators: whose error handler a request has.
static OPEN: FirstLaneCell<BTreeMap<u32, usize>> = FirstLaneCell::new(BTreeMap::new());

/// Returns the program's handle of the file whose communicator has this context.
pub fn handle_of_context(held: &LaneGuard, context: u32) -> Option<usize> {
    OPEN.borrow(held).get(&context).copied()
}

/// Deletes a file by its name (MPI_File_delete).
///
/// # Errors
/// Fails with `NoSuchFile`, or with another error that the system reports.
pub fn delete(process: &Process, name: &[u8]) -> Result<()> {
    place::delete(process, without_prefix(name)).map_err(|error| with_name("delete", name, error))
}

/// Puts the name of the file into the sentence of an error, unless it is there.
#[cold]
fn with_name(what: &str, name: &[u8], mut error: Error) -> Error {
    let name = String::from_utf8_lossy(name);
    if !error.message.contains(&*name) {
        error.message = format!("cannot {what} {name}: {}", error.message).into();
    }
    error
}

/// Returns the error for an operation that streams do not support.
#[cold]
pub(crate) fn sequential(what: &str) -> Error {
    let why = format!("{what} is not for files that were opened with MPI_MODE_SEQUENTIAL");
    Error::new(ErrorClass::UnsupportedOperation, why)
}

impl File {
    /// Opens a file; collective over `comm` (MPI_File_open).
    ///
    /// # Errors
    /// Fails with `Comm` for an intercommunicator, with `Amode`, `NotSame`, or an error that the system
    /// reports. The class is the same at all members.
    pub fn open(
        held: &mut LaneGuard,
        process: &'static Process,
        comm: &Arc<Communicator>,
        name: &[u8],
        amode: i32,
        info: &Info,
    ) -> Result<Arc<File>> {
        File::open_unnamed(held, process, comm, name, amode, info)
            .map_err(|error| with_name("open", without_prefix(name), error))
    }

    /// Opens a file. Errors may lack its name.
    fn open_unnamed(
        held: &mut LaneGuard,
        process: &'static Process,
        comm: &Arc<Communicator>,
        name: &[u8],
        amode: i32,
        info: &Info,
    ) -> Result<Arc<File>> {
        if comm.inter().is_some() {
            return Err(Error::new(ErrorClass::Comm, "argument comm is an intercommunicator"));
        }
        let mode = Amode::new(amode).and_then(|mode| match without_prefix(name) {
            [] => Err(Error::new(ErrorClass::BadFile, "argument filename is empty")),
            path => Ok((mode, path)),
        });
        let (mode, path) = agree_same(held, process, comm, mode, [amode.into()], "argument amode")?;
        let mut hints = Hints::of_environment().with_values(|key| info.text(key));
        let driver = open_all(held, process, comm, path, mode, &hints)?;
        if let Some((bytes, count)) = driver.stripes() {
            (hints.stripe_bytes, hints.stripes) = (bytes, count);
        }
        let group = comm.group().clone();
        let own = create::create(held, process, comm, &group)?.expect("all members are in the group");
        // Its members agree by the program's communicator, whose banks are there.
        let common = match Common::new(held, process, comm) {
            Ok(common) => common,
            Err(error) => {
                own.free(held, process)?;
                return Err(error);
            }
        };
        let state = State {
            view: Arc::new(View::of_bytes()),
            position: 0,
            atomic: false,
            split: None,
            exchange_reads: None,
            exchange_writes: None,
            hints,
            assertions: Assertions::with_info(&assertions::OF_FILES, info),
        };
        let handler = OF_FILES.borrow(held).clone();
        let file = Arc::new(File {
            comm: own,
            name: path.into(),
            amode: mode,
            driver,
            common,
            state: FirstLaneCell::new(state),
            handle: AtomicUsize::new(0),
            error_handler: FirstLaneCell::new(handler),
        });
        if mode.appends() {
            file.go_to_end(held, process)?;
        }
        Ok(file)
    }

    /// Moves all file pointers to the end, for MPI_MODE_APPEND.
    fn go_to_end(&self, held: &mut LaneGuard, process: &'static Process) -> Result<()> {
        let end = self.driver.bytes()? as i64;
        self.state.borrow_mut(held).position = end;
        let set = if self.is_first() { self.common.set_position(held, process, end) } else { Ok(()) };
        agree(held, process, &self.comm, set)
    }

    /// Closes a file; collective (MPI_File_close).
    ///
    /// # Errors
    /// Fails with `Other` while a split access has not ended; the file then stays open. Fails if the system
    /// cannot delete the file.
    pub fn close(&self, held: &mut LaneGuard, process: &'static Process) -> Result<()> {
        let has_split = self.state.borrow(held).split.is_some();
        let idle = match has_split {
            true => Err(Error::new(ErrorClass::Other, "a split collective access has begun and not ended")),
            false => Ok(()),
        };
        // No member deletes the file while another still accesses it.
        agree_by_messages(held, process, &self.comm, idle)?;
        let mut result = Ok(());
        if self.amode.deletes_on_close() {
            let deleted = if self.is_first() { place::delete(process, &self.name) } else { Ok(()) };
            result = agree_by_messages(held, process, &self.comm, deleted);
        }
        OPEN.borrow_mut(held).remove(&self.comm.context().0);
        self.common.free(held, process)?;
        self.comm.free(held, process)?;
        result
    }

    /// Returns the program's handle of the file.
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Gives it that number.
    pub fn set_handle(&self, held: &LaneGuard, handle: usize) {
        self.handle.store(handle, Ordering::Relaxed);
        OPEN.borrow_mut(held).insert(self.comm.context().0, handle);
    }

    /// Returns true if the file has not been closed.
    pub fn is_open(&self, held: &LaneGuard) -> bool {
        OPEN.borrow(held).contains_key(&self.comm.context().0)
    }

    /// Returns the file name for messages.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// Returns the group that opened the file.
    pub fn group(&self) -> &Group {
        self.comm.group()
    }

    /// Returns the access mode of the file.
    pub fn amode(&self) -> Amode {
        self.amode
    }

    pub(crate) fn is_first(&self) -> bool {
        self.comm.rank().0 == 0
    }

    /// Returns the current view of this process.
    pub fn view(&self, held: &LaneGuard) -> Arc<View> {
        Arc::clone(&self.state.borrow(held).view)
    }

    /// Returns the size of the file in bytes (MPI_File_get_size).
    ///
    /// # Errors
    /// Fails with the error that the system reports.
    pub fn bytes(&self) -> Result<u64> {
        self.driver.bytes()
    }

    fn may_resize(&self, size: i64) -> Result<u64> {
        if self.amode.is_sequential() {
            return Err(sequential("changing the size"));
        }
        if !self.amode.writes() {
            return Err(Error::new(ErrorClass::ReadOnly, "the file was opened with MPI_MODE_RDONLY"));
        }
        u64::try_from(size).map_err(|_| {
            Error::new(ErrorClass::Arg, format!("argument size is {size}; it must not be negative"))
        })
    }

    /// Sets the size of the file in bytes; collective (MPI_File_set_size).
    ///
    /// # Errors
    /// Fails with `Arg`, `NotSame`, `ReadOnly`, or an error that the system reports.
    pub fn resize(&self, held: &mut LaneGuard, process: &'static Process, size: i64) -> Result<()> {
        self.by_first(held, process, size, |bytes| self.driver.resize(bytes))
    }

    /// Reserves storage for the first `size` bytes; collective (MPI_File_preallocate).
    ///
    /// # Errors
    /// Fails like [`File::resize`]; `NoSpace`.
    pub fn allocate(&self, held: &mut LaneGuard, process: &'static Process, size: i64) -> Result<()> {
        self.by_first(held, process, size, |bytes| self.driver.allocate(bytes))
    }

    /// Lets the first member do something with a size that all give.
    fn by_first(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        size: i64,
        work: impl FnOnce(u64) -> Result<()>,
    ) -> Result<()> {
        let bytes = self.may_resize(size);
        let bytes = agree_same(held, process, &self.comm, bytes, [size], "argument size")?;
        let done = if self.is_first() { held.release_while(|| work(bytes)) } else { Ok(()) };
        agree(held, process, &self.comm, done)
    }

    /// Transfers written data to the storage device; collective (MPI_File_sync).
    ///
    /// # Errors
    /// Fails if the system reports an error, now or for an earlier write.
    pub fn sync(&self, held: &mut LaneGuard, process: &'static Process) -> Result<()> {
        let result = if self.amode.writes() { held.release_while(|| self.driver.sync()) } else { Ok(()) };
        agree(held, process, &self.comm, result)
    }

    /// Sets the view of this process; collective (MPI_File_set_view).
    ///
    /// # Errors
    /// Fails with `Arg`, `UnsupportedDatarep`, `NotSame`.
    #[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
    pub fn set_view(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        displacement: i64,
        etype: &Datatype,
        filetype: &Datatype,
        datarep: &[u8],
        info: Option<&Info>,
    ) -> Result<()> {
        let writes = self.amode.writes();
        let view = self.displacement(held, process, displacement).and_then(|displacement| {
            let representation = Representation::named(datarep)?;
            View::new(displacement, etype, filetype, representation, writes)
        });
        let same = [etype.extent(), number_of(datarep)];
        let view = agree_same(held, process, &self.comm, view, same, "the extent of etype, or datarep")?;
        let mut state = self.state.borrow_mut(held);
        state.view = Arc::new(view);
        state.position = 0;
        if let Some(info) = info {
            state.change_hints(info);
        }
        drop(state);
        let set = if self.is_first() { self.common.set_position(held, process, 0) } else { Ok(()) };
        self.exchange_views(held, process, set)
    }

    /// Exchanges the views of all members, if they exchange data in accesses, and agrees on the result.
    fn exchange_views(&self, held: &mut LaneGuard, process: &'static Process, set: Result<()>) -> Result<()> {
        let hints = self.hints(held);
        let is_remote = self.driver.is_remote();
        let wish = |choice, write: bool| match self.comm.size() {
            1 if choice != Choice::Enable => 0,
            _ if write && !self.amode.writes() || !write && !self.amode.reads() => 0,
            _ => Wish::from_hint(choice, write, is_remote).word(),
        };
        let wishes = [wish(hints.exchange_reads, false), wish(hints.exchange_writes, true)];
        let seen = if wishes == [0, 0] { None } else { two_phase::encode_view(&self.view(held)) };
        let length = seen.as_ref().map_or(u64::MAX, |seen| seen.len() as u64);
        let card = [
            verdict(&set).into(),
            length,
            wishes[0],
            wishes[1],
            hints.aggregators.into(),
            hints.buffer_bytes,
            // While the program computes, members exchange data only with a progress thread, but independent
            // accesses proceed. Over a network, few long accesses are better all the same.
            u64::from(is_remote || process.config.waiting.progress_thread),
        ];
        let bytes: Vec<u8> = card.into_iter().flat_map(u64::to_le_bytes).collect();
        let cards = WaitContext::new(held, process, &self.comm).allgather_bytes(&bytes)?;
        let (words, _) = cards.as_chunks::<8>();
        let word = |number: usize| {
            words.iter().skip(number).step_by(card.len()).map(|word| u64::from_le_bytes(*word))
        };
        judge(set, word(0).max().unwrap_or(0) as u32)?;
        let longest = word(1).max().unwrap_or(u64::MAX);
        let views = match longest {
            u64::MAX => None,
            longest => Some(self.gather_views(held, process, seen.unwrap_or_default(), longest as usize)?),
        };
        // The hints of the first member hold for all.
        let first = |number: usize| word(number).next().unwrap_or(0);
        let means = |wish| {
            let means = TwoPhaseParams::new(views.as_ref()?, wish, first(4) as u32, first(5))?;
            Some(TwoPhaseParams { beside: means.always || first(6) != 0, ..means })
        };
        let (reads, writes) = (means(first(2)), means(first(3)));
        let mut state = self.state.borrow_mut(held);
        (state.exchange_reads, state.exchange_writes) = (reads, writes);
        Ok(())
    }

    /// Exchanges the views of all members. `seen` is the own description, `longest` the length of the longest
    /// one.
    fn gather_views(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        mut seen: Vec<u8>,
        longest: usize,
    ) -> Result<Arc<[Tiles]>> {
        seen.splice(0..0, (seen.len() as u64).to_le_bytes());
        seen.resize(longest + 8, 0);
        let all = WaitContext::new(held, process, &self.comm).allgather_bytes(&seen)?;
        let view = |bytes: &[u8]| {
            let (length, rest) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
            Tiles::decode(rest.get(..u64::from_le_bytes(*length) as usize).unwrap_or(&[]))
        };
        let views = all.chunks_exact(seen.len()).map(view).collect::<Result<Arc<[Tiles]>>>();
        agree(held, process, &self.comm, views)
    }

    fn displacement(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        displacement: i64,
    ) -> Result<i64> {
        if !self.amode.is_sequential() {
            return Ok(displacement);
        }
        if displacement != DISPLACEMENT_CURRENT {
            let why = format!(
                "argument disp is {displacement}; it must be MPI_DISPLACEMENT_CURRENT for a file that was opened with MPI_MODE_SEQUENTIAL"
            );
            return Err(Error::new(ErrorClass::Arg, why));
        }
        let position = self.common.position(held, process)?;
        let view = self.view(held);
        let byte = view.byte_of(view.stream_of(position)?);
        Ok(byte.and_then(|byte| i64::try_from(byte).ok()).unwrap_or(i64::MAX))
    }

    /// Returns true if accesses are atomic.
    pub fn is_atomic(&self, held: &LaneGuard) -> bool {
        self.state.borrow(held).atomic
    }

    /// Switches atomic mode on or off; collective (MPI_File_set_atomicity).
    ///
    /// # Errors
    /// Fails with `NotSame`.
    pub fn set_atomic(&self, held: &mut LaneGuard, process: &'static Process, atomic: bool) -> Result<()> {
        agree_same(held, process, &self.comm, Ok(()), [atomic.into()], "argument flag")?;
        self.state.borrow_mut(held).atomic = atomic;
        Ok(())
    }

    pub(crate) fn hints(&self, held: &LaneGuard) -> Hints {
        self.state.borrow(held).hints
    }

    /// Returns the hints in use (MPI_File_get_info).
    pub fn info(&self, held: &LaneGuard) -> Info {
        let mut info = self.state.borrow(held).assertions.in_use();
        memory_kinds::add_to(&mut info, held, self.group().origin());
        // A name that is too long for an info object is left out.
        let _ = info.set("filename", &self.name);
        for (key, value) in self.hints(held).in_force() {
            info.set(key, value).expect("keys and values that the library makes are short");
        }
        info
    }

    /// Sets hints of the file; collective (MPI_File_set_info).
    ///
    /// # Errors
    /// Fails if a message fails.
    pub fn set_hints(&self, held: &mut LaneGuard, process: &'static Process, info: &Info) -> Result<()> {
        let mut state = self.state.borrow_mut(held);
        state.change_hints(info);
        drop(state);
        WaitContext::new(held, process, &self.comm).barrier()
    }

    /// Returns the etype to which a seek moves a pointer, or an error if it precedes the view.
    fn target(&self, held: &LaneGuard, offset: i64, whence: Whence, current: i64) -> Result<i64> {
        let base = match whence {
            Whence::Start => 0,
            Whence::Current => current,
            Whence::End => self.view(held).etypes_below(self.driver.bytes()?),
        };
        let target = base.checked_add(offset).filter(|target| *target >= 0);
        target.ok_or_else(|| {
            let why = format!("argument offset is {offset}, which leads to before the beginning of the view");
            Error::new(ErrorClass::Arg, why)
        })
    }

    /// Moves the individual file pointer (MPI_File_seek).
    ///
    /// # Errors
    /// Fails with `Arg` for a position before the beginning.
    pub fn seek(&self, held: &LaneGuard, offset: i64, whence: Whence) -> Result<()> {
        if self.amode.is_sequential() {
            return Err(sequential("MPI_File_seek"));
        }
        let current = self.state.borrow(held).position;
        let target = self.target(held, offset, whence, current)?;
        self.state.borrow_mut(held).position = target;
        Ok(())
    }

    /// Returns the individual file pointer, in etypes (MPI_File_get_position).
    ///
    /// # Errors
    /// Fails with `UnsupportedOperation` for streams.
    pub fn position(&self, held: &LaneGuard) -> Result<i64> {
        if self.amode.is_sequential() {
            return Err(sequential("MPI_File_get_position"));
        }
        Ok(self.state.borrow(held).position)
    }

    /// Moves the shared file pointer; collective (MPI_File_seek_shared).
    ///
    /// # Errors
    /// Fails like [`File::seek`], `NotSame`.
    pub fn seek_shared(
        &self,
        held: &mut LaneGuard,
        process: &'static Process,
        offset: i64,
        whence: Whence,
    ) -> Result<()> {
        let may = if self.amode.is_sequential() { Err(sequential("MPI_File_seek_shared")) } else { Ok(()) };
        let same = [offset, whence as i64];
        agree_same(held, process, &self.comm, may, same, "arguments offset and whence")?;
        let set = match self.is_first() {
            true => self.common.position(held, process).and_then(|current| {
                let target = self.target(held, offset, whence, current)?;
                self.common.set_position(held, process, target)
            }),
            false => Ok(()),
        };
        agree(held, process, &self.comm, set)
    }

    /// Returns the shared file pointer, in etypes (MPI_File_get_position_shared).
    ///
    /// # Errors
    /// Fails with `UnsupportedOperation` for streams, or if a message fails.
    pub fn shared_position(&self, held: &mut LaneGuard, process: &'static Process) -> Result<i64> {
        if self.amode.is_sequential() {
            return Err(sequential("MPI_File_get_position_shared"));
        }
        self.common.position(held, process)
    }

    /// Converts an offset in the view to bytes in the file (MPI_File_get_byte_offset).
    ///
    /// # Errors
    /// Fails with `Arg` for an offset that is negative or out of range.
    pub fn byte_of(&self, held: &LaneGuard, offset: i64) -> Result<i64> {
        if self.amode.is_sequential() {
            return Err(sequential("MPI_File_get_byte_offset"));
        }
        let view = self.view(held);
        let byte = view.byte_of(view.stream_of(offset)?);
        Ok(byte.and_then(|byte| i64::try_from(byte).ok()).unwrap_or(i64::MAX))
    }

    /// Returns the extent of a datatype in the file's representation (MPI_File_get_type_extent).
    ///
    /// # Errors
    /// Fails with the error that the program's function for lengths returns.
    pub fn extent_of(&self, held: &LaneGuard, datatype: &Datatype) -> Result<i64> {
        Ok(self.view(held).representation.layout(datatype)?.extent())
    }
}

/// Opens a file at all members. If it is to be created, the first member does so before the others open it.
fn open_all(
    held: &mut LaneGuard,
    process: &'static Process,
    comm: &Arc<Communicator>,
    path: &[u8],
    amode: Amode,
    hints: &Hints,
) -> Result<Arc<dyn Driver>> {
    let open = |amode: Amode| place::open(process, path, amode, hints);
    if !amode.creates() {
        let opened = held.release_while(|| open(amode));
        return agree(held, process, comm, opened);
    }
    let first = comm.rank().0 == 0;
    let made = if first { held.release_while(|| open(amode)).map(Some) } else { Ok(None) };
    let made = agree(held, process, comm, made)?;
    let opened = match made {
        Some(driver) => Ok(driver),
        None => held.release_while(|| open(amode.existing())),
    };
    agree(held, process, comm, opened)
}
