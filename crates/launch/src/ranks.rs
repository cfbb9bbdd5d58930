//! Ranks of one host: their job object and their processes. All daemons treat their ranks in the same way.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tutti_base::config::ForeignMpi;
use tutti_checkpoint::image::Role;
use tutti_checkpoint::process::capture::Rank;
use tutti_checkpoint::process::open_files::Identity as Inode;
use tutti_sys::cgroup::Killings;
use tutti_sys::cpu::{self, ProcessorSet};
use tutti_sys::debugger;
use tutti_sys::directory::RankEnd;
use tutti_sys::event;
use tutti_sys::job::{self, Job, Plan, RankBlock, RankState, TEXTS_END};
use tutti_sys::process::{self, DescriptorLimit, Exit, Spawn, SpawnError, Step};
use tutti_sys::refusal;
use tutti_sys::run_state::{RunState, run_state};
use tutti_sys::signal::Mask;
use tutti_topo::Machine;

use crate::environment::{self, Identity};
use crate::error::LaunchError;
use crate::inquiries::{Inquired, Inquiries};
use crate::needed::Needed;
use crate::outcome::STATUS_USAGE;
use crate::output::{Outputs, Stream};
use crate::output_files::{Files, Name};
use crate::placement::{self, Demand};
use crate::policy::{self, Reported};
use crate::program::{HostJob, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND};
use crate::report::{self, Named};
use crate::tree::daemon;
use crate::tree::message::{Address, Ask, RankCard, RankExit, Seen};

mod restore;

/// Waiting time from which a rank is reported when the user ends the job.
const STUCK: Duration = Duration::from_secs(1);
/// Number of descriptors in addition to the pipes of each rank; a generous value.
const SPARE_DESCRIPTORS: u64 = 64;

/// Properties of the host that its ranks need in addition to the job.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// Address that ranks use and listen on; may be empty.
    pub interface: &'a str,
    /// Secret by which the ranks of the job authenticate each other.
    pub secret: [u8; 32],
    /// Standard input, if the rank that reads it runs here.
    pub input: Option<BorrowedFd<'a>>,
    /// Copies of the standard input, one for each local rank, if every rank reads one.
    pub copies: Vec<BorrowedFd<'a>>,
    /// Signal mask that ranks get.
    pub mask: Mask,
    /// Number of processes that the kernel had killed for lack of memory before the job.
    pub killings: Killings,
}

#[derive(Debug)]
struct Process {
    pid: i32,
    running: bool,
    /// Descriptors that the launcher gave the process, by device and inode.
    roles: Vec<(Inode, Role)>,
}

/// All ranks of this host, from their start to their end.
#[derive(Debug)]
pub struct Ranks {
    job: HostJob,
    object: Job,
    host_name: String,
    bindings: Vec<Option<ProcessorSet>>,
    processes: Vec<Process>,
    by_pid: HashMap<i32, u32>,
    inquiries: Inquiries,
    /// Files to which ranks write their output.
    files: Files,
    /// Limit on descriptors that ranks get back, if the limit of this process was raised.
    descriptors: Option<DescriptorLimit>,
    /// Number of processes that the kernel had killed for lack of memory before the job.
    killings: Killings,
}

/// Reason why the ranks of a host cannot be started.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// Exit status of the job.
    pub status: u8,
    /// Line of text for the user.
    pub reason: String,
}

impl Ranks {
    /// Creates the job object of this host, and decides on which processors the ranks run.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn new(
        job: HostJob,
        surroundings: &Surroundings<'_>,
        outputs: &mut Outputs,
    ) -> Result<Ranks, Refused> {
        let count = job.world.len();
        let usable = cpu::usable_processors();
        let (bindings, machine) = place(&job, usable)
            .map_err(|error| Refused { status: STATUS_USAGE, reason: error.to_string() })?;
        let object = create_object(&job, usable, &machine, surroundings)
            .map_err(|error| refuse_system(&error, count))?;
        for (local, set) in (0..).zip(&bindings) {
            object.block(local).set_places(set.as_ref().map(|set| machine.places(set)).unwrap_or_default());
            // The application number must be set before any rank runs, as ranks make process sets of it.
            object.block(local).app_number.store(job.program_of[local as usize] as u32, Ordering::Relaxed);
        }
        if job.info.manner.report_bindings {
            for (&rank, set) in job.world.iter().zip(&bindings) {
                outputs.say(&placement::describe(rank, set.as_ref(), &machine), Duration::ZERO);
            }
        }
        let descriptors = DescriptorLimit::raise(4 * count as u64 + SPARE_DESCRIPTORS);
        if job.placement.hosts() > 1 {
            let bells = event::bells(count as u32).map_err(|error| refuse_system(&error, count))?;
            object.set_bells(bells);
        }
        Ok(Ranks {
            job,
            object,
            host_name: process::host_name(),
            bindings,
            processes: Vec::with_capacity(count),
            by_pid: HashMap::with_capacity(count),
            inquiries: Inquiries::default(),
            files: Files::default(),
            descriptors,
            killings: surroundings.killings,
        })
    }

    /// Starts the processes of all ranks.
    ///
    /// # Errors
    /// Fails at the first rank that cannot be started. Those before it run.
    pub fn start(
        &mut self,
        surroundings: &Surroundings<'_>,
        outputs: &mut Outputs,
        now: Duration,
    ) -> Result<(), Refused> {
        let count = self.job.world.len();
        let null = File::open("/dev/null").map_err(|error| refuse_system(&error, count))?;
        for local in 0..count as u32 {
            let reads = self.job.info.manner.input == Some(self.job.world[local as usize]);
            let copy = surroundings.copies.get(local as usize).copied();
            let input = copy.or(surroundings.input.filter(|_| reads)).unwrap_or(null.as_fd());
            let (pid, mut roles) = self.start_one(local, input, surroundings.mask, outputs)?;
            if reads && let Some(input) = surroundings.input {
                roles.extend(inode(input).ok().map(|inode| (inode, Role::Input)));
            }
            self.processes.push(Process { pid, running: true, roles });
            self.by_pid.insert(pid, local);
            if self.job.info.manner.verbose {
                let front =
                    self.job.program(local).needed.as_ref().and_then(Needed::served).unwrap_or_default();
                outputs.say(&format!("mpirun: started {}{front}\n", self.name(local)), now);
            }
        }
        Ok(())
    }

    /// Starts the process of one rank. Returns its number, and the descriptors that it got, by device and
    /// inode.
    fn start_one(
        &mut self,
        local: u32,
        input: BorrowedFd<'_>,
        mask: Mask,
        outputs: &mut Outputs,
    ) -> Result<(i32, Vec<(Inode, Role)>), Refused> {
        let count = self.job.world.len();
        let system = |error: io::Error| refuse_system(&error, count);
        let rank = self.job.world[local as usize];
        let out = self.open_output(Stream::Out, rank, outputs)?;
        let err = self.open_output(Stream::Err, rank, outputs)?;
        let rank_end = self.open_inquiry().map_err(system)?;
        let program = self.job.program(local);
        let identity = self.identity(local, rank_end.as_ref());
        let variables = environment::for_rank(&program.variables, &identity);
        let directory = program.directory.as_ref().map(|dir| terminated(dir.as_os_str().as_bytes()));
        let bells = (0..count as u32).filter_map(|local| self.object.bell(local));
        let ways = rank_end.as_ref().map(AsFd::as_fd);
        let inherit = [self.object.fd()].into_iter().chain(ways).chain(bells).collect();
        let spawn = Spawn {
            program: terminated(program.file.as_os_str().as_bytes()).map_err(system)?,
            arguments: strings(program.arguments.iter().map(|argument| argument.as_bytes()))
                .map_err(system)?,
            environment: strings(variables.iter().map(Vec::as_slice)).map_err(system)?,
            directory: directory.transpose().map_err(system)?,
            stdio: [input, out.as_fd(), err.as_fd()],
            inherit,
            processors: self.bindings[local as usize].clone(),
            mask,
            descriptors: self.descriptors,
            is_traced: false,
        };
        let given = [(out.as_fd(), Role::Output), (err.as_fd(), Role::Error)].into_iter();
        let given = given.chain(ways.map(|way| (way, Role::Inquiry)));
        let roles = given.filter_map(|(end, role)| Some((inode(end).ok()?, role))).collect();
        spawn_or_script(spawn).map(|pid| (pid, roles)).map_err(|error| self.refuse(local, &error))
    }

    /// Opens the output of a rank: a pipe to this process, or a file.
    fn open_output(&mut self, stream: Stream, rank: u32, outputs: &mut Outputs) -> Result<OwnedFd, Refused> {
        let count = self.job.world.len();
        let manner = &self.job.info.manner;
        let name = Name { rank, host: &self.host_name, number: self.job.host };
        let (pattern, label) = match stream {
            Stream::Out => (manner.output.out.as_deref(), "stdout"),
            Stream::Err if manner.output.is_merged => (manner.output.out.as_deref(), "stderr"),
            Stream::Err => (manner.output.err.as_deref(), "stderr"),
        };
        let file = match pattern {
            None => None,
            Some(pattern) => {
                let directory = Path::new(OsStr::from_bytes(&self.job.info.directory));
                let path = directory.join(name.fill(pattern));
                Some(self.files.open(&path).map_err(|error| Refused {
                    status: STATUS_USAGE,
                    reason: format!("cannot write what rank {rank} writes to {}: {error}", path.display()),
                })?)
            }
        };
        if let Some(file) = file.as_ref().filter(|_| !manner.output.is_shown) {
            return file.try_clone().map(OwnedFd::from).map_err(|error| refuse_system(&error, count));
        }
        let (reader, writer) = event::pipe().map_err(|error| refuse_system(&error, count))?;
        let shown = if manner.output.is_merged { Stream::Out } else { stream };
        outputs
            .add(reader, shown, name.tag(&manner.tagging, label), file)
            .map_err(|error| refuse_system(&error, count))?;
        Ok(writer.into())
    }

    /// Creates the connection on which the next rank sends inquiries, in a job of several hosts.
    fn open_inquiry(&mut self) -> io::Result<Option<RankEnd>> {
        if self.job.placement.hosts() == 1 { Ok(None) } else { self.inquiries.open().map(Some) }
    }

    /// Returns the values of the environment variables that differ between ranks.
    fn identity(&self, local: u32, rank_end: Option<&RankEnd>) -> Identity {
        let mut network = Vec::new();
        if let Some(end) = rank_end {
            let bells = (0..self.job.world.len() as u32).filter_map(|local| self.object.bell(local));
            let numbers: Vec<String> = bells.map(|bell| bell.as_raw_fd().to_string()).collect();
            network.push((job::ENV_DIRECTORY_FD, end.as_fd().as_raw_fd().to_string()));
            network.push((job::ENV_BELL_FDS, numbers.join(",")));
        }
        if self.job.info.manner.waits_for_debugger {
            network.push((debugger::ENV_GATE, "1".to_string()));
        }
        Identity {
            rank: self.job.world[local as usize],
            ranks: self.job.placement.ranks(),
            local,
            local_ranks: self.job.world.len() as u32,
            job_fd: self.object.raw_fd(),
            network,
        }
    }

    /// Returns the job object of this host.
    pub fn object(&self) -> &Job {
        &self.object
    }

    /// Returns all ranks for a checkpoint; None if one has ended.
    pub fn to_keep(&self) -> Option<Vec<Rank>> {
        let is_whole = self.processes.len() == self.job.world.len();
        let all = (0..).zip(self.job.world.iter().zip(&self.processes));
        let all = all.map(|(local, (&rank, process))| {
            let (record, address) = self.object.kept(local);
            let words = if record == 0 { 0 } else { address };
            process.running.then(|| Rank { rank, pid: process.pid, roles: process.roles.clone(), words })
        });
        all.collect::<Option<Vec<_>>>().filter(|_| is_whole)
    }

    /// Returns the number of this host in the job.
    pub fn host(&self) -> u32 {
        self.job.host
    }

    /// Informs processes of other jobs that are connected with ranks of this job that the job is being ended.
    pub fn give_up(&self) {
        for object in self.objects() {
            object.as_ref().unwrap_or(&self.object).node().failed.store(1, Ordering::Release);
        }
    }

    /// Returns the job objects that the ranks of this host use now, one for each rank. None stands for the
    /// first object.
    fn objects(&self) -> impl Iterator<Item = Option<Job>> {
        (0..self.job.world.len() as u32).map(|local| self.object.object_of(local).unwrap_or(None))
    }

    /// Returns true if a running rank is connected with job `job`.
    pub fn are_tied_to(&self, job: u64) -> bool {
        let all = (0..).zip(&self.processes).zip(self.objects());
        let mut running = all.filter(|((_, process), _)| process.running);
        running.any(|((local, _), later)| later.as_ref().unwrap_or(&self.object).block(local).is_tied_to(job))
    }

    /// Returns the connections on which ranks send inquiries, by local rank.
    pub fn inquiry_ends(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.inquiries.ends()
    }

    /// Receives the inquiries of a rank.
    pub fn inquired(&mut self, local: u32) -> Vec<Inquired> {
        self.inquiries.hear(local, &self.object, &self.job.placement)
    }

    /// Returns the local number of a rank, if it is on this host.
    pub fn local_of(&self, rank: u32) -> Option<u32> {
        self.job.world.binary_search(&rank).ok().map(|local| local as u32)
    }

    /// Informs the ranks of this host that all ranks have called MPI_Finalize in their programs of a
    /// generation.
    pub fn note_all_arrived(&self, generation: u32) {
        // All ranks have reached the generation, so a rank of this host must have reached it too.
        let Ok(later) = self.object.later(generation) else { return };
        later.as_ref().unwrap_or(&self.object).note_all_arrived();
        for bell in (0..self.processes.len() as u32).filter_map(|local| self.object.bell(local)) {
            event::strike(bell);
        }
    }

    /// Sends a rank the address of another rank.
    pub fn answer(&mut self, local: u32, ask: Ask, address: Address) {
        self.inquiries.answer(local, ask, address, &self.job.placement);
    }

    /// Informs a rank that another rank requests it to connect.
    pub fn call(&mut self, local: u32, caller: Ask) {
        self.inquiries.call(local, caller, &self.job.placement);
    }

    /// Sends messages again that found no room.
    pub fn flush_answers(&mut self) {
        self.inquiries.flush();
    }

    /// Returns true if there are messages that found no room.
    pub fn has_late_answers(&self) -> bool {
        self.inquiries.has_late()
    }

    /// Returns the reason why a rank cannot be started, as a text for the user.
    fn refuse(&self, local: u32, error: &SpawnError) -> Refused {
        let name = self.program_name(local);
        let missing = error.error.kind() == io::ErrorKind::NotFound;
        if error.step == Step::Execute && missing {
            // The program itself existed when it was checked.
            let reason =
                format!("cannot execute {name}: the interpreter or loader that it names does not exist");
            return Refused { status: STATUS_NOT_FOUND, reason };
        }
        let step = match error.step {
            Step::Create => "create a process",
            Step::Group => "make its process group",
            Step::Lifeline => "bind its life to that of mpirun",
            Step::Bind => "bind it",
            Step::Directory => "enter its directory",
            Step::Descriptors => "connect its output",
            Step::Execute => "execute it",
        };
        let rank = self.job.world[local as usize];
        let reason =
            format!("cannot start rank {rank} ({name}): cannot {step}: {}", refusal::explain(&error.error));
        let status = if error.step == Step::Execute { STATUS_NOT_EXECUTABLE } else { STATUS_USAGE };
        Refused { status, reason }
    }

    /// Returns rank and process number of all ranks that were started.
    pub fn started(&self) -> Vec<(u32, i32)> {
        self.job.world.iter().zip(&self.processes).map(|(&rank, process)| (rank, process.pid)).collect()
    }

    /// Returns true if a rank that uses another MPI library would be alone by mistake. That is so if the job
    /// has several ranks and the user has not requested it.
    pub fn refuses_other_mpi(&self) -> bool {
        self.job.placement.ranks() > 1 && self.job.config.launch.foreign_mpi == ForeignMpi::Refuse
    }

    /// Returns rank and process number of the running ranks that have not called MPI_Init.
    pub fn uninitialised(&self) -> Vec<(u32, i32)> {
        let is_meant = |local: u32, process: &Process| {
            process.running && self.object.block(local).state() == RankState::Started
        };
        let all = (0..).zip(self.job.world.iter().zip(&self.processes));
        all.filter(|(local, (_, process))| is_meant(*local, process))
            .map(|(_, (&rank, process))| (rank, process.pid))
            .collect()
    }

    /// Returns the number of started ranks that have not ended.
    pub fn running(&self) -> usize {
        self.by_pid.len()
    }

    /// Handles the ends of processes, and returns those of ranks. The exit that explains the others comes
    /// first. Other processes are adopted orphans.
    pub fn ended(&mut self, exits: &[(i32, Exit)]) -> Vec<RankExit> {
        let mut ended = Vec::new();
        for &(pid, exit) in exits {
            let Some(local) = self.by_pid.remove(&pid) else { continue };
            self.processes[local as usize].running = false;
            let later = self.object.object_of(local).unwrap_or(None);
            let block = later.as_ref().unwrap_or(&self.object).block(local);
            let state = block.state();
            if state == RankState::Left {
                // Ranks that wait for this one now detect that their wait is in vain.
                block.set_state(RankState::Finalized);
            }
            ended.push((
                policy::precedence(exit, state),
                RankExit {
                    rank: self.job.world[local as usize],
                    pid,
                    ending: daemon::ending(exit),
                    state: state as u8,
                    abort_code: block.abort_code.load(Ordering::Relaxed),
                    remark: report::remark(exit, || Killings::now().since(self.killings)),
                },
            ));
        }
        ended.sort_by_key(|(precedence, _)| *precedence);
        ended.into_iter().map(|(_, exit)| exit).collect()
    }

    /// Sends a signal to the process group of every running rank.
    pub fn signal(&self, signal: i32) {
        for process in self.processes.iter().filter(|process| process.running) {
            process::kill_group(process.pid, signal);
        }
    }

    /// Prints the operations in which the selected ranks wait.
    pub fn report_waits(&self, which: Reported, outputs: &mut Outputs, now: Duration) {
        for local in 0..self.processes.len() as u32 {
            let running = self.processes[local as usize].running;
            let later = self.object.object_of(local).unwrap_or(None);
            let object = later.as_ref().unwrap_or(&self.object);
            let block = running.then(|| object.block(local));
            let is_stuck = block.is_some_and(|block| block.waiting().is_some() && block.waited() >= STUCK);
            let is_waiting = block.is_some_and(|block| block.waiting().is_some());
            let is_wanted = match which {
                Reported::All => true,
                Reported::Stuck => is_stuck,
                Reported::Waiting => is_waiting,
            };
            if !is_wanted {
                continue;
            }
            outputs.say(&report::waits(self.name(local), block), now);
        }
    }

    /// Returns for each rank of this host the start of its wait in nanoseconds, if it waits for `after` or
    /// longer; otherwise 0.
    pub fn long_waits(&self, after: Duration) -> Vec<u64> {
        let wait = |local| {
            self.with_block(local, |block| block.waits_since_ns().filter(|_| block.waited() >= after))
                .flatten()
        };
        (0..self.processes.len() as u32).map(|local| wait(local).unwrap_or(0)).collect()
    }

    /// Requests the cards of all ranks.
    pub fn request_cards(&self, request: u32) {
        for local in 0..self.processes.len() as u32 {
            self.with_block(local, |block| block.request_card(request));
        }
    }

    /// Returns true if all waiting ranks have answered a request.
    pub fn have_answered(&self, request: u32) -> bool {
        let has_answered =
            |block: &RankBlock| block.waits_since_ns().is_none() || block.card(request).is_some();
        (0..self.processes.len() as u32).all(|local| self.with_block(local, has_answered).unwrap_or(true))
    }

    /// Returns the states of all ranks, with the cards that have answered a request.
    pub fn cards(&self, request: u32) -> Vec<RankCard> {
        let seen = |local: u32| {
            let process = &self.processes[local as usize];
            if !process.running {
                return Seen::Ended;
            }
            match run_state(process.pid) {
                RunState::Stopped => return Seen::Unknown("stopped by a signal".to_string()),
                RunState::Traced => return Seen::Unknown("traced by a debugger".to_string()),
                RunState::Active | RunState::Ended => {}
            }
            self.with_block(local, |block| seen(block, request)).unwrap_or(Seen::Ended)
        };
        let all = (0..).zip(&self.job.world);
        all.take(self.processes.len()).map(|(local, &rank)| RankCard { rank, seen: seen(local) }).collect()
    }

    /// Calls a function with the block of a running rank, in the object of the program that it runs now.
    fn with_block<R>(&self, local: u32, look: impl FnOnce(&RankBlock) -> R) -> Option<R> {
        let running = self.processes[local as usize].running;
        let later = self.object.object_of(local).unwrap_or(None);
        running.then(|| look(later.as_ref().unwrap_or(&self.object).block(local)))
    }

    fn program_name(&self, local: u32) -> String {
        let program = &self.job.info.programs[self.job.program_of[local as usize]];
        report::program_name(program)
    }

    fn name(&self, local: u32) -> Named {
        Named {
            rank: self.job.world[local as usize],
            pid: self.processes[local as usize].pid,
            host: self.host_name.clone(),
            program: self.program_name(local),
            remark: String::new(),
        }
    }
}

/// Returns the state of a running rank from its block.
fn seen(block: &RankBlock, request: u32) -> Seen {
    match (block.state(), block.waits_since_ns()) {
        (RankState::Started, None) | (RankState::Running, None) => Seen::Computing,
        (RankState::Running, Some(since_ns)) => match block.card(request) {
            Some(card) => Seen::Waiting(since_ns, card),
            None => Seen::Unknown("waits, and does not say for what".to_string()),
        },
        (RankState::Started, Some(_)) => Seen::Unknown("waits in MPI_Init".to_string()),
        (RankState::Finalized | RankState::Left, _) => Seen::Unknown("has called MPI_Finalize".to_string()),
        (RankState::Aborted, _) => Seen::Unknown("has called MPI_Abort".to_string()),
    }
}

/// Returns the refusal for an error of the system.
fn refuse_system(error: &io::Error, ranks: usize) -> Refused {
    let hint = match refusal::errno(error) {
        Some(libc::EMFILE) => format!(" to {}", 4 * ranks as u64 + SPARE_DESCRIPTORS),
        _ => String::new(),
    };
    Refused {
        status: STATUS_USAGE,
        reason: format!("cannot start the job: {}{hint}", refusal::explain(error)),
    }
}

/// Decides on which processors ranks run. The machine is described only if its topology was needed.
fn place(job: &HostJob, usable: usize) -> Result<(Vec<Option<ProcessorSet>>, Machine), LaunchError> {
    let threads = job.programs.iter().flatten().any(|program| {
        let wanted = program.variables.get(OsStr::new("OMP_NUM_THREADS")).and_then(|text| text.to_str());
        wanted.is_some_and(|wanted| wanted != "1")
    });
    let demand = Demand { world: &job.world, threads, usable, placing: &job.info.manner.placing };
    match cpu::affinity() {
        Ok(allowed) if placement::needs_machine(&demand, &allowed) => {
            let machine = Machine::local();
            Ok((placement::place(&demand, &machine, &allowed)?, machine))
        }
        _ => Ok((vec![None; job.world.len()], Machine::default())),
    }
}

/// Creates the job object of this host.
fn create_object(
    job: &HostJob,
    usable: usize,
    machine: &Machine,
    surroundings: &Surroundings<'_>,
) -> io::Result<Job> {
    let (ranks, processors) = (job.world.len() as u32, usable as u32);
    let is_known = machine.processors().next().is_some();
    Job::create(&Plan {
        host: job.host,
        placement: job.placement.clone(),
        secret: tutti_sys::job::Secret(surroundings.secret),
        interface: surroundings.interface.to_string(),
        processors,
        universe_size: job.info.universe_size,
        ring_bytes: job.config.ring_bytes_for(ranks),
        lanes: job.config.lanes_for(ranks),
        job_id: job.info.job_id,
        banks: job.config.bank_sizes_for(ranks),
        machine: texts(is_known.then_some(machine), &job.info.model),
    })
}

/// Returns the description of the machine and its cost model for the ranks.
fn texts(machine: Option<&Machine>, model: &[u8]) -> Vec<u8> {
    let mut texts = machine.map(|machine| machine.to_string().into_bytes()).unwrap_or_default();
    if !model.is_empty() {
        texts.push(TEXTS_END);
        texts.extend(model);
    }
    texts
}
/// Starts a program. A script whose first line names no interpreter is run by the shell.
fn spawn_or_script(mut spawn: Spawn<'_>) -> Result<i32, SpawnError> {
    match process::spawn(&spawn) {
        Err(error)
            if error.step == Step::Execute
                && error.error.raw_os_error() == Some(libc::ENOEXEC)
                && !is_binary(&spawn.program) =>
        {
            let script = std::mem::replace(&mut spawn.program, c"/bin/sh".into());
            let rest = spawn.arguments.drain(..).skip(1);
            spawn.arguments = [c"/bin/sh".into(), script].into_iter().chain(rest).collect();
            process::spawn(&spawn)
        }
        result => result,
    }
}

/// Returns true if a file that cannot be executed is a program for another architecture rather than a script.
fn is_binary(file: &CStr) -> bool {
    let mut start = [0; 4];
    let file = File::open(std::ffi::OsStr::from_bytes(file.to_bytes()));
    file.and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

/// Returns the device and inode of an open file.
pub(crate) fn inode(fd: BorrowedFd<'_>) -> io::Result<Inode> {
    let known = File::from(fd.try_clone_to_owned()?).metadata()?;
    Ok((known.dev(), known.ino()))
}

pub(crate) fn terminated(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

pub(crate) fn strings<'b>(all: impl Iterator<Item = &'b [u8]>) -> io::Result<Vec<CString>> {
    all.map(terminated).collect()
}
