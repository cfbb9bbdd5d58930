//! Checkpoints at a daemon: this host's part of each phase. The root also begins them and reports their
//! outcome.
//!
//! Phases arrive as orders ([`tutti_checkpoint::coordination`]). This thread stops, describes and resumes the
//! ranks, since the kernel takes it for their tracer. Another thread writes their memory, so that this host
//! continues to send heartbeats.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_base::PortRange;
use tutti_checkpoint::coordination::{
    self, Coordinator, Next, Order, Phase, RESTART_PHASES, Report, Summary,
};
use tutti_checkpoint::image::blocks::{Block, Known};
use tutti_checkpoint::input::InputRecord;
use tutti_checkpoint::lock::DirectoryLock;
use tutti_checkpoint::process::capture::{self, Captured};
use tutti_checkpoint::process::freeze::{self, Frozen};
use tutti_checkpoint::process::keeper::Keeper;
use tutti_checkpoint::process::memory::Memory;
use tutti_checkpoint::process::network::Round;
use tutti_checkpoint::restore::perform::Restored;
use tutti_checkpoint::sets::{self, Directory, Manifest};
use tutti_checkpoint::write::KnownFiles;
use tutti_sys::event::{self, Interest};
use tutti_sys::interface;
use tutti_sys::kept::{self, at};
use tutti_sys::process;
use tutti_sys::socket;

use super::calls::{self, Calls};
use super::writing::{Blocks, Pace, Writing};
use super::{Node, TOKEN_CHECKPOINT};
use crate::outcome::STATUS_USAGE;
use crate::policy;
use crate::report;
use crate::request;
use crate::root::STATUS_LOST;
use crate::sockets::{Meeting, Sockets};
use crate::tree::daemon::Event;

/// Reply to a client that requested a checkpoint, if the job ends before it is complete.
const ENDED: &str = "no checkpoint: the job has ended before it was whole";

/// State of the checkpoints of one host.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// Orders whose phases this host has not performed yet.
    pub(super) ordered: VecDeque<Order>,
    frozen: Vec<Frozen>,
    captured: Option<Captured>,
    writing: Option<Writing>,
    /// Copies of ranks from which memory is written.
    keepers: Vec<Keeper>,
    pace: Pace,
    /// Number and blocks of the last complete set.
    known: Option<(u64, KnownFiles)>,
    written: Blocks,
    /// Ranks that were restored from a set and are still stopped.
    restored: Vec<Restored>,
    /// Socket on which daemons of other hosts connect before the ranks are restored.
    door: Option<TcpListener>,
    root: Option<RootPart>,
    /// Progress of the standard input that is passed on to a rank of this host, at the time of the freeze. It
    /// has the number of bytes that the rank had read, and whether nothing was left.
    input_read: Option<(u64, bool)>,
    /// Requests of users for checkpoints.
    pub(super) calls: Calls,
}

/// State of the checkpoints at the root.
#[derive(Debug)]
struct RootPart {
    said: request::Checkpoints,
    directory: Option<PathBuf>,
    coordinator: Coordinator,
    /// True once all ranks run. An earlier checkpoint would miss some of them, or come between the steps of a
    /// restart.
    is_started: bool,
    /// Time at which the next periodic checkpoint begins.
    due: Option<Duration>,
    begun: Duration,
    frozen_at: Duration,
    thawed_at: Duration,
    /// Time at which each phase was done.
    done: Vec<(Phase, Duration)>,
    /// True if the job ends with the set in progress.
    stops: bool,
    is_asked_for: bool,
    /// Request of the program while another checkpoint was in progress. True: the job ends with it.
    wanted: Option<bool>,
    bytes: u64,
    last: Option<u64>,
    /// Lock of the directory, if it was taken for the first checkpoint and not at the start.
    lock: Option<DirectoryLock>,
    /// State of the standard input before any byte was read, and at the freeze of this host's ranks.
    input_before: InputRecord,
    input_now: InputRecord,
    /// True if the input is passed on even to a rank of this host, so that mpirun can count the bytes read.
    counts_input: bool,
    /// Reason why the last checkpoint failed, as it was reported.
    told: Option<String>,
}

impl RootPart {
    /// Returns the time at which the last phase was done.
    fn over_at(&self) -> Duration {
        self.done.last().map_or(self.begun, |&(_, at)| at)
    }

    /// Takes the lock of the directory, if this mpirun does not have it yet.
    fn lock(&mut self, directory: &Directory) -> io::Result<()> {
        if self.said.is_locked || self.lock.is_some() {
            return Ok(());
        }
        directory.prepare()?;
        self.lock = Some(DirectoryLock::take(directory.path(), process::parent(), Duration::ZERO)?);
        Ok(())
    }

    /// Returns the duration of each phase as text for the user.
    fn phases(&self) -> String {
        let mut since = self.begun;
        let times = self.done.iter().map(|&(phase, at)| {
            let took = at.saturating_sub(std::mem::replace(&mut since, at));
            format!("{} {:.1}", coordination::name(phase), took.as_secs_f64() * 1e3)
        });
        format!(" ({} ms)", times.collect::<Vec<_>>().join(", "))
    }
}

impl Checkpoints {
    /// Creates the state at the root.
    pub(super) fn at_root(said: request::Checkpoints, input: InputRecord) -> Checkpoints {
        let directory = said.directory.clone().or_else(|| said.restart.as_ref().map(|(dir, _)| dir.clone()));
        let directory = directory.map(PathBuf::from);
        // The sets of another directory have other blocks, even if their numbers are equal.
        let is_same = |(from, _): &&(OsString, _)| directory.as_deref() == Some(Path::new(from));
        let last = said.restart.as_ref().filter(is_same).and_then(|(_, set)| *set);
        let counts_input = directory.is_some() && matches!(input, InputRecord::Stream { .. });
        let root = RootPart {
            due: said.every,
            said,
            directory,
            coordinator: Coordinator::default(),
            is_started: false,
            begun: Duration::ZERO,
            frozen_at: Duration::ZERO,
            thawed_at: Duration::ZERO,
            done: Vec::new(),
            stops: false,
            is_asked_for: false,
            wanted: None,
            bytes: 0,
            last,
            lock: None,
            counts_input,
            input_before: input.clone(),
            input_now: input,
            told: None,
        };
        Checkpoints { root: Some(root), ..Checkpoints::default() }
    }

    /// Returns true at the root if the bytes that ranks read of the standard input must be counted. This is
    /// decided at the start.
    pub(super) fn counts_input(&self) -> bool {
        self.root.as_ref().is_some_and(|root| root.counts_input)
    }

    /// Returns the time at which an action is due, if any.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let next = self.root.as_ref().filter(|root| !root.coordinator.is_busy()).and_then(|root| root.due);
        let told = self.writing.as_ref().filter(|_| self.root.is_some()).map(|writing| writing.progress.told);
        next.into_iter().chain(told).min()
    }

    /// Returns true if a signal to mpirun requests a checkpoint.
    pub(super) fn is_asked_by(&self, signal: i32) -> bool {
        self.root.as_ref().is_some_and(|root| root.said.on_signal == Some(signal))
    }

    /// Takes the ranks of this host that were restored from the files of a set and are still stopped.
    pub(super) fn restored(&mut self, ranks: Vec<Restored>, set: u64, files: Vec<(String, Vec<Block>)>) {
        self.restored = ranks;
        self.known = Some((set, known_of(&files, set)));
    }
}

fn known_of(files: &[(String, Vec<Block>)], set: u64) -> KnownFiles {
    files.iter().map(|(name, blocks)| (name.clone(), Known::from_blocks(blocks, set))).collect()
}

/// Methods for this host's part of the phases of a checkpoint.
impl Node {
    /// Performs the next order, if there is one. The children have received it before, so that all hosts work
    /// at the same time.
    pub(super) fn next_of_checkpoint(&mut self) -> bool {
        let Some(order) = self.checkpoints.ordered.pop_front() else { return false };
        self.checkpoint(order);
        // A daemon that was busy for long has received nothing meanwhile, as if it had been suspended.
        self.clock.wakes(self.start.elapsed());
        true
    }

    /// Performs this host's part of a phase.
    fn checkpoint(&mut self, order: Order) {
        self.stop_at(order.set, &coordination::name(order.phase), "before");
        let result = match order.phase {
            Phase::Prepare => self.prepare(&order),
            Phase::Freeze => self.freeze().map(|()| Summary::default()),
            Phase::Drain => self.drain(),
            Phase::Fork | Phase::Write => match self.write(&order) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Phase::Thaw => {
                self.thaw(&order);
                Ok(Summary::default())
            }
            Phase::Settle => {
                self.settle_set(&order);
                Ok(Summary::default())
            }
            Phase::Listen => self.open_door(),
            Phase::Connect => match self.make_again(&order) {
                true => Ok(Summary::default()),
                // The reason was reported to the root, which ends the job.
                false => return,
            },
            Phase::Release => self.release().map(|()| Summary::default()),
        };
        self.checkpoint_done(&order, result);
    }

    /// Stops this process if a test requests it at this step.
    fn stop_at(&self, set: u64, step: &str, when: &str) {
        let wanted = self.daemon.job().map_or("", |job| &job.stop).replace(coordination::FORKED, "");
        if !wanted.is_empty() && wanted == format!("{set}:{step}:{when}") {
            process::kill(std::process::id().cast_signed(), libc::SIGSTOP);
        }
    }

    fn checkpoint_done(&mut self, order: &Order, result: Result<Summary, String>) {
        self.stop_at(order.set, &coordination::name(order.phase), "after");
        let report = Report { set: order.set, phase: order.phase, round: order.round, result };
        self.events.push_back(Event::CheckpointDone(report));
    }

    /// Checks that the ranks of this host can be saved, and decides whether to write from copies.
    fn prepare(&mut self, order: &Order) -> Result<Summary, String> {
        let Some(ranks) = &self.ranks else { return Ok(Summary::default()) };
        let list = ranks.to_keep().ok_or("a rank has ended already, or is not started yet")?;
        if self.spawned.any() {
            return Err("a rank has started another job (MPI_Comm_spawn)".to_string());
        }
        for rank in &list {
            capture::foresee(rank.pid).map_err(|what| format!("rank {} has {what}", rank.rank))?;
        }
        let folder = Path::new(OsStr::from_bytes(&order.folder));
        if !folder.is_dir() {
            let host = tutti_sys::process::host_name();
            return Err(format!(
                "host {host} does not see {}: all hosts need the same directory",
                folder.display()
            ));
        }
        let bytes = list.iter().map(|rank| capture::own_bytes(rank.pid)).sum();
        let said = self.daemon.job().map(|job| job.keeping).unwrap_or_default().0;
        let forks = self.checkpoints.pace.chooses(said, folder, ranks.host(), bytes);
        Ok(Summary { forks, ..Summary::default() })
    }

    /// Stops and describes the ranks of this host. A rank in a critical section is marked as held: its
    /// threads may leave critical sections, and enter no other.
    fn freeze(&mut self) -> Result<(), String> {
        let Some(ranks) = &self.ranks else { return Ok(()) };
        let list = ranks.to_keep().ok_or("a rank has ended")?;
        let pids: Vec<i32> = list.iter().map(|rank| rank.pid).collect();
        let object = ranks.object();
        let words: Vec<(i32, u64)> = (0..list.len() as u32).map(|local| object.kept(local)).collect();
        let hold = |which: usize, is_held: bool| {
            let Ok(memory) = Memory::open(pids[which]) else { return };
            // If the rank has ended meanwhile, the freeze reports it.
            let _ = memory.write(words[which].1 + at::HELD, &u32::from(is_held).to_ne_bytes());
        };
        let is_critical = |which: usize| {
            let (record, address) = words[which];
            let mut word = [0; 4];
            let read = Memory::open(pids[which]).and_then(|memory| memory.read(address, &mut word));
            let is_critical = record != 0 && read.is_ok() && kept::is_critical(u32::from_ne_bytes(word));
            if is_critical {
                hold(which, true);
            }
            is_critical
        };
        let frozen = freeze::freeze(&pids, is_critical);
        (0..pids.len()).filter(|&which| words[which].0 != 0).for_each(|which| hold(which, false));
        self.checkpoints.frozen = frozen.map_err(|error| {
            format!("rank {} cannot be stopped: {}", list[error.which].rank, error.reason)
        })?;
        self.note_input();
        let Some(ranks) = &self.ranks else { return Ok(()) };
        let object = ranks.object();
        let identity = crate::ranks::inode(object.fd()).map_err(|error| error.to_string())?;
        let bells: Vec<_> = (0..list.len() as u32).filter_map(|local| object.bell(local)).collect();
        let captured = capture::capture(ranks.host(), &list, &self.checkpoints.frozen, identity, &bells);
        self.checkpoints.captured =
            Some(captured.map_err(|refused| format!("rank {} has {}", refused.rank, refused.what))?);
        Ok(())
    }

    /// Records the position in the standard input, while the ranks of this host stand still.
    fn note_input(&mut self) {
        let target = self.input_targets.first();
        self.checkpoints.input_read = target.and_then(|target| target.read_by_rank().ok());
        let observed = self.root.is_some().then(|| self.observe_input());
        if let Some((root, observed)) = self.checkpoints.root.as_mut().zip(observed) {
            root.input_now = observed;
        }
    }

    /// Receives the bytes that the network holds for the ranks of this host.
    fn drain(&mut self) -> Result<Summary, String> {
        let Some(captured) = &mut self.checkpoints.captured else { return Ok(Summary::default()) };
        let Round { in_flight, drained, lingers } =
            captured.network.drain().map_err(|error| error.to_string())?;
        Ok(Summary { in_flight, drained, lingers, ..Summary::default() })
    }

    /// Returns the received bytes to the ranks of this host.
    fn give_back(&mut self) {
        let (Some(ranks), Some(captured)) = (&self.ranks, &mut self.checkpoints.captured) else { return };
        let object = ranks.object();
        let words: Vec<u64> = (0..captured.ranks.len() as u32).map(|local| object.kept(local).1).collect();
        if let Err(refused) = captured.give_back(&self.checkpoints.frozen, &words) {
            let reason = format!("the job cannot go on: rank {} has {}", refused.rank, refused.what);
            self.events.push_back(Event::Refused { status: STATUS_LOST, reason });
        }
    }

    /// Performs this host's part of a phase that writes. Begins the write, or continues the one in progress.
    fn write(&mut self, order: &Order) -> Result<(), String> {
        if let Some(writing) = &mut self.checkpoints.writing {
            writing.goes_on(order);
            self.take_written();
            return Ok(());
        }
        self.give_back();
        let (now, packed) = (self.now(), self.daemon.job().map(|job| job.keeping).unwrap_or_default().1);
        let checkpoints = &mut self.checkpoints;
        let Some(mut captured) = checkpoints.captured.take() else {
            self.checkpoint_done(order, Ok(Summary::default()));
            return Ok(());
        };
        if order.phase == Phase::Fork && checkpoints.pace.forks {
            // If copies cannot be made, all is written before ranks go on.
            checkpoints.keepers = captured.keep(&checkpoints.frozen).unwrap_or_default();
        }
        let known = match checkpoints.known.take() {
            Some((set, known)) if order.older == Some(set) => known,
            _ => KnownFiles::default(),
        };
        let packing = checkpoints.pace.packing(packed);
        let begun = Writing::begin(order, captured, known, packing, now);
        let writing = checkpoints.writing.insert(begun.map_err(|error| error.to_string())?);
        let added = self.poller.add(writing.bell.as_fd(), TOKEN_CHECKPOINT, Interest::Read);
        added.map_err(|error| error.to_string())
    }

    /// Handles a report of the writing thread.
    pub(super) fn take_written(&mut self) {
        let Checkpoints { writing, pace, .. } = &mut self.checkpoints;
        let Some(writing) = writing else { return };
        let Some((result, blocks)) = writing.look(pace) else { return };
        let order = writing.order.clone();
        if let Some(blocks) = blocks {
            self.end_writing();
            self.checkpoints.written = blocks;
        }
        let has_ended = self.swept_at.is_some();
        let why = |error: io::Error| match has_ended {
            true => "the ranks of a host have ended before it was whole".to_string(),
            false => error.to_string(),
        };
        let input_read = self.checkpoints.input_read;
        let result = result.map(|summary| Summary { input_read, ..summary });
        self.checkpoint_done(&order, result.map_err(why));
    }

    /// Ends the write and its keepers. A thread that is still running has nothing left to read.
    fn end_writing(&mut self) {
        self.checkpoints.keepers.clear();
        if let Some(writing) = self.checkpoints.writing.take() {
            let _ = self.poller.remove(writing.bell.as_fd());
        }
    }

    /// Resumes the ranks of this host.
    fn thaw(&mut self, order: &Order) {
        // Needed if nothing was written; otherwise the ranks have the bytes already.
        self.give_back();
        self.ring();
        freeze::thaw(std::mem::take(&mut self.checkpoints.frozen));
        self.checkpoints.captured = None;
        if !order.is_forked {
            self.settle_set(order);
        }
    }

    /// Records whether the set is complete. If so, the next set may refer to its blocks.
    fn settle_set(&mut self, order: &Order) {
        self.end_writing();
        let checkpoints = &mut self.checkpoints;
        let written = std::mem::take(&mut checkpoints.written);
        checkpoints.known = order.is_whole.then(|| (order.set, known_of(&written, order.set)));
    }

    /// Wakes sleeping ranks, as bytes that would wake them may not be in sockets any more.
    fn ring(&self) {
        let Some(ranks) = &self.ranks else { return };
        let object = ranks.object();
        (0..object.header().local_ranks).filter_map(|local| object.bell(local)).for_each(|bell| {
            event::strike(bell);
        });
    }

    /// Lets the restored ranks run.
    fn release(&mut self) -> Result<(), String> {
        self.ring();
        let restored = std::mem::take(&mut self.checkpoints.restored);
        restored.into_iter().try_for_each(|rank| rank.thaw().map_err(|error| error.to_string()))
    }
}

/// Methods that restore the ranks of this host from a set.
impl Node {
    /// Returns the address at which other hosts reach this one.
    fn own_address(&self) -> IpAddr {
        let said = self.interface.parse().ok();
        let found = || interface::all().into_iter().next();
        said.or_else(found).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Listens for the daemons of other hosts, and reports the address.
    fn open_door(&mut self) -> Result<Summary, String> {
        let (Some(here), Some(job)) = (&self.here, self.daemon.job()) else { return Ok(Summary::default()) };
        let host = here.host;
        if job.daemon_of.len() == 1 {
            return Ok(Summary::default());
        }
        let ports = job.ports.and_then(|(low, high)| PortRange::new(low, high));
        let door = socket::listen(self.own_address(), ports, None).map_err(|error| error.to_string())?;
        let address = door.local_addr().map_err(|error| error.to_string())?;
        self.checkpoints.door = Some(door);
        Ok(Summary { addresses: vec![(host, address)], ..Summary::default() })
    }

    /// Restores the ranks of this host, which stay stopped. Returns false on failure, whose reason is then
    /// reported.
    fn make_again(&mut self, order: &Order) -> bool {
        let (Some(here), Some(job)) = (&self.here, self.daemon.job().cloned()) else { return true };
        let Some(restart) = &job.restart else { return true };
        let host = here.host;
        let ports = job.ports.and_then(|(low, high)| PortRange::new(low, high));
        let mut network = Sockets::new(self.own_address(), ports);
        if let Some(door) = self.checkpoints.door.take() {
            let directory = Directory::new(Path::new(OsStr::from_bytes(&restart.directory)));
            let met = directory.manifest(restart.set).and_then(|manifest| {
                let (all, addresses) = (&manifest.connections[..], &order.addresses[..]);
                network.meet(&Meeting { host, all, addresses, secret: &self.given.secret, door })
            });
            if let Err(error) = met {
                let reason = format!("the job cannot go on: {error}");
                self.events.push_back(Event::Refused { status: STATUS_USAGE, reason });
                return false;
            }
        }
        self.start_here(Some(&network))
    }
}

/// Methods for the root's part of checkpoints and restarts.
impl Node {
    /// Begins the restart when all hosts have joined, if the job is restored from a set.
    pub(super) fn begin_restart(&mut self) {
        let Some(set) = self.daemon.job().and_then(|job| job.restart.as_ref()).map(|restart| restart.set)
        else {
            return;
        };
        if let Some(root) = &mut self.checkpoints.root {
            let order = root.coordinator.restart(set);
            self.events.push_back(Event::Checkpoint(order));
        }
    }

    /// Records that all ranks of the job are started.
    pub(super) fn has_started(&mut self) {
        self.checkpoints.root.iter_mut().for_each(|root| root.is_started = true);
        self.begin_wanted();
    }

    /// Begins a periodic checkpoint if it is due.
    pub(super) fn tick_checkpoints(&mut self) {
        let now = self.now();
        let root = self.checkpoints.root.as_ref();
        let is_due =
            root.is_some_and(|root| !root.coordinator.is_busy() && root.due.is_some_and(|due| due <= now));
        if is_due && (self.is_killed || self.swept_at.is_some()) {
            self.checkpoints.root.iter_mut().for_each(|root| root.due = None);
        } else if is_due {
            self.begin_checkpoint(false, false);
        }
        self.tell_progress(now);
    }

    /// Prints the progress of a long write, if standard error is a terminal.
    fn tell_progress(&mut self, now: Duration) {
        let writing = self.checkpoints.writing.as_mut().filter(|_| self.root.is_some());
        let word = writing.and_then(|writing| writing.progress.word(writing.order.set, now));
        if let Some(text) = word.filter(|_| io::stderr().is_terminal()) {
            self.outputs.say(&text, now);
        }
    }

    /// Handles requests of users for checkpoints.
    pub(super) fn take_calls(&mut self) {
        for (wanted, caller) in self.checkpoints.calls.heard(&self.poller) {
            if self.checkpoints.root.as_ref().is_none_or(|root| root.coordinator.is_busy()) {
                calls::tell(&caller, false, "a checkpoint is under way already");
                continue;
            }
            self.checkpoints.calls.waits(caller);
            if let Some(root) = &mut self.checkpoints.root {
                root.directory = root.directory.take().or(wanted.directory.map(PathBuf::from));
            }
            self.begin_checkpoint(wanted.stops, true);
        }
    }

    /// Handles a program's request for a checkpoint. One in progress does not count, as it began before the
    /// request.
    pub(super) fn want_checkpoint(&mut self, stops: bool) {
        if let Some(root) = &mut self.checkpoints.root {
            root.wanted = Some(stops || root.wanted == Some(true));
        }
        self.begin_wanted();
    }

    /// Begins the checkpoint that the program requested, when no other is in progress.
    fn begin_wanted(&mut self) {
        let is_over = self.is_killed || self.swept_at.is_some();
        let root = self.checkpoints.root.as_mut().filter(|root| root.is_started && !is_over);
        let root = root.filter(|root| !root.coordinator.is_busy());
        if let Some(stops) = root.and_then(|root| root.wanted.take()) {
            self.begin_checkpoint(stops, true);
        }
    }

    /// Begins a checkpoint. `stops`: the job ends with it. `is_asked_for`: a user or the program requested
    /// it.
    pub(super) fn begin_checkpoint(&mut self, stops: bool, is_asked_for: bool) {
        let now = self.now();
        let Some(root) = &mut self.checkpoints.root else { return };
        if root.coordinator.is_busy() {
            return;
        }
        root.due = root.said.every.map(|every| now + every);
        // A request is answered each time, even if the reason of a failure was reported before.
        root.is_asked_for = is_asked_for;
        if !root.is_started {
            if is_asked_for {
                self.say_no_checkpoint("the job is not started yet");
            }
            return;
        }
        (root.stops, root.begun) = (stops, now);
        root.done.clear();
        let Some(path) = &root.directory else {
            return self.say_no_checkpoint("there is no directory for it: --checkpoint-dir DIR");
        };
        let is_alone = self.daemon.job().is_none_or(|job| job.daemon_of.len() == 1);
        let directory = Directory::new(path);
        let job_id = self.daemon.job().map(|job| job.job_id);
        let begun = directory
            .check_owner(job_id)
            .and_then(|()| root.lock(&directory))
            .and_then(|()| directory.begin());
        match begun {
            Err(error) => self.say_no_checkpoint(&error.to_string()),
            Ok(set) => {
                let older = root.last.filter(|last| {
                    directory.manifest(*last).is_ok_and(|manifest| !manifest.has_many_older())
                });
                let folder = directory.folder_in_work(set).into_os_string().into_vec();
                let order = root.coordinator.begin(set, folder, older, is_alone, !stops);
                self.events.push_back(Event::Checkpoint(order));
            }
        }
    }

    /// Reports a failed checkpoint to the clients that wait, or else to the user.
    fn say_no_checkpoint(&mut self, why: &str) {
        if let Some(root) = &mut self.checkpoints.root {
            // The reason of a failed periodic checkpoint is reported once.
            let is_known = root.told.as_deref() == Some(why) && !root.is_asked_for;
            root.told = Some(why.to_string());
            if is_known {
                return;
            }
        }
        let text = format!("no checkpoint: {why}; the job runs on");
        if self.checkpoints.calls.is_waited_for() {
            return self.checkpoints.calls.answer(false, &text);
        }
        let text = format!("mpirun: {text}\n");
        self.outputs.say(&text, self.now());
    }

    /// Handles the joint report of all hosts on a phase.
    pub(super) fn checkpoint_reported(&mut self, report: Report) {
        let now = self.now();
        let phase = report.phase;
        let Some(root) = &mut self.checkpoints.root else { return };
        match root.done.last_mut() {
            // All rounds of a phase count as one.
            Some((last, at)) if *last == phase => *at = now,
            _ => root.done.push((phase, now)),
        }
        match phase {
            Phase::Prepare => root.frozen_at = now,
            Phase::Thaw => root.thawed_at = now,
            _ => {}
        }
        let next = root.coordinator.reported(report);
        match next {
            Next::Over(Ok(_)) if RESTART_PHASES.contains(&phase) => {}
            Next::Over(Err(error)) if RESTART_PHASES.contains(&phase) => {
                let text = format!("mpirun: the job cannot go on: {error}\n");
                self.decide(policy::Event::Failure { status: STATUS_USAGE, text, gone: 0 });
            }
            next => self.follow_checkpoint(next),
        }
    }

    /// Executes the next action of the coordinator.
    fn follow_checkpoint(&mut self, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Order(order) if order.phase == Phase::Thaw && order.is_whole && self.stops() => {
                self.end_with(order.set);
            }
            Next::Order(order) => self.events.push_back(Event::Checkpoint(order)),
            Next::Commit(summary) => {
                let result = self.commit(summary);
                let next = self.checkpoints.root.as_mut().map(|root| root.coordinator.committed(result));
                self.follow_checkpoint(next.unwrap_or(Next::Nothing));
            }
            Next::Over(result) => {
                self.checkpoint_over(result);
                self.begin_wanted();
            }
        }
    }

    fn stops(&self) -> bool {
        self.checkpoints.root.as_ref().is_some_and(|root| root.stops)
    }

    /// Writes the manifest, which completes the set.
    fn commit(&mut self, summary: Summary) -> Result<(), String> {
        let job = self.daemon.job().cloned().ok_or("there is no job")?;
        let root = self.checkpoints.root.as_mut().ok_or("this is not the root")?;
        let directory = root.directory.as_deref().map(Directory::new).ok_or("there is no directory")?;
        let set = root.coordinator.set().ok_or("there is no set")?;
        let mut plain = (*job).clone();
        plain.restart = None;
        let programs: Vec<String> = job.programs.iter().map(report::program_name).collect();
        let manifest = Manifest {
            version: sets::VERSION,
            set,
            written_s: sets::now_s(),
            machine: capture::machine(),
            ranks: job.runs.iter().map(|run| run.1).sum(),
            hosts: job.daemon_of.len() as u32,
            program: programs.join(" : "),
            job: postcard::to_stdvec(&plain).map_err(|error| error.to_string())?,
            job_id: job.job_id,
            files: summary.files,
            connections: summary.connections,
            input: match summary.input_read {
                Some((read, is_over)) => InputRecord::of_passed_on(&root.input_before, read, is_over),
                None => root.input_now.clone(),
            },
        };
        root.bytes = manifest.bytes();
        self.stop_at(set, coordination::COMMIT, "before");
        directory.commit(&manifest).map_err(|error| error.to_string())?;
        self.stop_at(set, coordination::COMMIT, "after");
        self.checkpoints.root.iter_mut().for_each(|root| root.last = Some(set));
        Ok(())
    }

    /// Reports the end of a checkpoint, and deletes the folder of an incomplete set.
    fn checkpoint_over(&mut self, result: Result<u64, String>) {
        let is_verbose = self.daemon.job().is_some_and(|job| job.manner.verbose);
        let Some(root) = &mut self.checkpoints.root else { return };
        let path = root.directory.clone().unwrap_or_default();
        match result {
            Ok(set) if root.is_asked_for || is_verbose => {
                let phases = if is_verbose { root.phases() } else { String::new() };
                let text = format!(
                    "checkpoint {set} is whole: {} MB, ranks stood still for {:.3} s of {:.3} s{phases}; \
                     mpirun --restart {} goes on from it",
                    root.bytes / 1_000_000,
                    root.thawed_at.saturating_sub(root.frozen_at).as_secs_f64(),
                    root.over_at().saturating_sub(root.begun).as_secs_f64(),
                    path.display()
                );
                if self.checkpoints.calls.is_waited_for() {
                    self.checkpoints.calls.answer(true, &text);
                } else {
                    self.outputs.say(&format!("mpirun: {text}\n"), self.now());
                }
            }
            Ok(_) => {}
            Err(why) => {
                // Deletes the folder of the incomplete set.
                if let Some(set) = Directory::new(&path).in_work() {
                    Directory::new(&path).give_up(set);
                }
                if self.swept_at.is_some() {
                    return self.checkpoints.calls.answer(false, ENDED);
                }
                self.say_no_checkpoint(&why);
            }
        }
    }

    /// Abandons a checkpoint that is still being written when the job has ended.
    pub(super) fn abandon_checkpoint(&mut self) {
        self.end_writing();
        let Some(root) = self.checkpoints.root.as_ref().filter(|root| root.coordinator.is_busy()) else {
            return;
        };
        if let (Some(path), Some(set)) = (&root.directory, root.coordinator.set()) {
            Directory::new(path).give_up(set);
        }
        self.checkpoints.calls.answer(false, ENDED);
    }

    /// Ends the job with this set. Its ranks stand still and are killed.
    fn end_with(&mut self, set: u64) {
        let path = self.checkpoints.root.as_ref().and_then(|root| root.directory.clone()).unwrap_or_default();
        let text = format!(
            "checkpoint {set} is whole and the job is ended; mpirun --restart {} goes on",
            path.display()
        );
        self.checkpoints.calls.answer(true, &text);
        self.outputs.say(&format!("mpirun: {text}\n"), self.now());
        self.decide(policy::Event::Stopped);
    }
}
