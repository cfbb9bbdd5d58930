//! The process that starts the ranks and serves them: one thread, one event loop. It executes what
//! [`policy`](crate::policy) decides.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use tutti_base::config::{Config, Mapped, SingleCopy};
use tutti_sys::cpu::{self, ProcessorSet};
use tutti_sys::event::{self, Interest, Poller};
use tutti_sys::job::{Job, Plan, Reach, Secret, TEXTS_END};
use tutti_sys::maps::Maps;
use tutti_sys::process::{self, DescriptorLimit, Exit, Reaped, Spawn, SpawnError, Step};
use tutti_sys::siblings;
use tutti_sys::signal::{Mask, SignalFd};
use tutti_topo::Machine;

use crate::output::{Outputs, Stream};
use crate::placement::{self, Demand};
use crate::policy::{self, Action, Event, Notice, Policy};
use crate::program::{JobPlan, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND};
use crate::report::{self, Named};
use crate::request::{Request, Tagging, Verbosity};
use crate::{STATUS_USAGE, environment, sweep};

const TOKEN_CONTROL: u64 = 0;
const TOKEN_CHILD: u64 = 1;
const TOKEN_OUTPUTS: u64 = 16;
/// Descriptors beside the two pipes of each rank; generous.
const SPARE_DESCRIPTORS: u64 = 64;
/// How long to wait for the end of outputs when no process of the job is left.
const DRAIN: Duration = Duration::from_secs(1);

struct Process {
    pid: i32,
    running: bool,
}

struct Node<'a> {
    request: &'a Request,
    plan: &'a JobPlan,
    host: String,
    start: Instant,
    job: Job,
    bindings: Vec<Option<ProcessorSet>>,
    processes: Vec<Process>,
    by_pid: HashMap<i32, u32>,
    poller: Poller,
    control: Option<PipeReader>,
    child_signals: SignalFd,
    outputs: Outputs,
    policy: Policy,
    hurry: bool,
    /// Limit on descriptors that ranks get back if ours was raised.
    descriptors: Option<DescriptorLimit>,
}

/// Runs the job; returns its exit status. `control` delivers signal numbers and ends when the
/// supervisor does; `rank_input` is the standard input of rank 0; `mask` the signal mask of ranks.
pub fn run(request: &Request, plan: &JobPlan, control: PipeReader, rank_input: OwnedFd, mask: Mask) -> u8 {
    process::set_name(c"tutti-node");
    process::lead_group();
    let refuse = |error: io::Error| {
        let ranks = plan.ranks.len() as u64;
        let hint = match error.raw_os_error() {
            Some(libc::EMFILE) => format!("; raise ulimit -n to {}", 2 * ranks + SPARE_DESCRIPTORS),
            _ => String::new(),
        };
        eprintln!("mpirun: cannot start the job: {error}{hint}");
        sweep::sweep();
        STATUS_USAGE
    };
    let mut node = match Node::new(request, plan, control) {
        Ok(made) => made,
        Err(error) => return refuse(error),
    };
    match node.start_ranks(rank_input.as_fd(), mask) {
        Ok(()) => {}
        Err(Refused::System(error)) => return refuse(error),
        Err(Refused::Rank(rank, error)) => {
            sweep::sweep();
            return node.refuse_rank(rank, &error);
        }
    }
    drop(rank_input);
    node.serve()
}

enum Refused {
    System(io::Error),
    Rank(u32, SpawnError),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::System(error)
    }
}

impl<'a> Node<'a> {
    fn new(request: &'a Request, plan: &'a JobPlan, control: PipeReader) -> io::Result<Node<'a>> {
        process::adopt_orphans()?;
        let ranks = plan.ranks.len() as u32;
        let usable = cpu::usable_processors();
        let (bindings, machine) = place(request, plan, usable);
        let job = create_job(plan, usable, &machine)?;
        for (rank, set) in (0..).zip(&bindings) {
            job.block(rank).set_places(set.as_ref().map(|set| machine.places(set)).unwrap_or_default());
        }
        let poller = Poller::new()?;
        event::set_nonblocking(control.as_fd())?;
        poller.add(control.as_fd(), TOKEN_CONTROL, Interest::Read)?;
        let child_signals = SignalFd::new(&Mask::of(&[libc::SIGCHLD]), true)?;
        poller.add(child_signals.as_fd(), TOKEN_CHILD, Interest::Read)?;
        let mut outputs = Outputs::new(TOKEN_OUTPUTS, request.timestamp)?;
        if request.report_bindings {
            for (rank, set) in (0..).zip(&bindings) {
                outputs.say(&placement::describe(rank, set.as_ref(), &machine), Duration::ZERO);
            }
        }
        Ok(Node {
            request,
            plan,
            host: process::host_name(),
            start: Instant::now(),
            job,
            bindings,
            processes: Vec::with_capacity(plan.ranks.len()),
            by_pid: HashMap::with_capacity(plan.ranks.len()),
            poller,
            control: Some(control),
            child_signals,
            outputs,
            policy: Policy::new(ranks),
            hurry: false,
            descriptors: None,
        })
    }

    fn start_ranks(&mut self, rank_input: BorrowedFd<'_>, mask: Mask) -> Result<(), Refused> {
        let null = File::open("/dev/null")?;
        self.descriptors = DescriptorLimit::raise(2 * self.plan.ranks.len() as u64 + SPARE_DESCRIPTORS);
        for rank in 0..self.plan.ranks.len() as u32 {
            let input = if rank == 0 { rank_input } else { null.as_fd() };
            self.start_rank(rank, input, mask)?;
        }
        Ok(())
    }

    fn start_rank(&mut self, rank: u32, input: BorrowedFd<'_>, mask: Mask) -> Result<(), Refused> {
        let index = self.plan.ranks[rank as usize];
        let program = &self.plan.programs[index];
        self.job.block(rank).app_number.store(index as u32, std::sync::atomic::Ordering::Relaxed);
        let (out_reader, out) = io::pipe()?;
        let (err_reader, err) = io::pipe()?;
        self.outputs.add(out_reader, Stream::Out, tag(self.request.tagging, rank, "stdout"))?;
        self.outputs.add(err_reader, Stream::Err, tag(self.request.tagging, rank, "stderr"))?;
        let ranks = self.plan.ranks.len() as u32;
        let variables = environment::for_rank(&program.variables, rank, ranks, self.job.raw_fd());
        let spawn = Spawn {
            program: terminated(program.file.as_os_str().as_bytes())?,
            arguments: strings(program.arguments.iter().map(|argument| argument.as_bytes()))?,
            environment: strings(variables.iter().map(Vec::as_slice))?,
            directory: program
                .directory
                .as_ref()
                .map(|dir| terminated(dir.as_os_str().as_bytes()))
                .transpose()?,
            stdio: [input, out.as_fd(), err.as_fd()],
            inherit: Some(self.job.fd()),
            processors: self.bindings[rank as usize].clone(),
            mask,
            descriptors: self.descriptors,
        };
        let pid = spawn_or_script(spawn).map_err(|error| Refused::Rank(rank, error))?;
        self.processes.push(Process { pid, running: true });
        self.by_pid.insert(pid, rank);
        if self.request.verbosity == Verbosity::Verbose {
            let text = format!("mpirun: started {}\n", self.name(rank));
            self.outputs.say(&text, self.now());
        }
        Ok(())
    }

    fn refuse_rank(&self, rank: u32, error: &SpawnError) -> u8 {
        let program = &self.plan.programs[self.plan.ranks[rank as usize]];
        let name = &program.name;
        let missing = error.error.kind() == io::ErrorKind::NotFound;
        if error.step == Step::Execute && missing {
            // The file was there when we looked.
            eprintln!(
                "mpirun: cannot execute {name}: the interpreter or loader that it names does not exist"
            );
            return STATUS_NOT_FOUND;
        }
        let step = match error.step {
            Step::Create => "create a process",
            Step::Prepare => "prepare the process",
            Step::Bind => "bind it",
            Step::Directory => "enter its directory",
            Step::Descriptors => "connect its output",
            Step::Execute => "execute it",
        };
        eprintln!("mpirun: cannot start rank {rank} ({name}): cannot {step}: {}", error.error);
        if error.step == Step::Execute { STATUS_NOT_EXECUTABLE } else { STATUS_USAGE }
    }

    /// The event loop: until all ranks have ended and all they wrote is passed on.
    fn serve(&mut self) -> u8 {
        let mut events = Vec::new();
        let mut actions = Vec::new();
        let mut time_limit = self.request.timeout;
        let mut swept_at = None;
        loop {
            self.outputs.advance(&self.poller, self.now());
            if let Some(error) = self.outputs.take_failure() {
                let is_disk = error.kind() != io::ErrorKind::BrokenPipe;
                if is_disk {
                    self.outputs.say(&format!("mpirun: output cannot be written: {error}\n"), self.now());
                }
                self.policy.handle(Event::OutputLost { is_failure: is_disk }, self.now(), &mut actions);
            }
            if self.policy.running() == 0 && swept_at.is_none() {
                sweep::sweep();
                swept_at = Some(self.now());
            }
            if let Some(since) = swept_at {
                if self.hurry || self.outputs.is_finished() {
                    return self.policy.status();
                }
                if since + DRAIN <= self.now() {
                    self.outputs.close_sources(self.now());
                }
            }
            let drain = swept_at.map(|since| since + DRAIN).filter(|&at| at > self.now());
            let times = [self.policy.deadline(), self.outputs.deadline(), time_limit, drain];
            let timeout = times.into_iter().flatten().min().map(|at| at.saturating_sub(self.now()));
            if self.poller.wait(timeout, &mut events).is_err() {
                // Out of memory in the kernel: nothing can be served any more.
                self.policy.handle(Event::SupervisorLost, self.now(), &mut actions);
            }
            for event in events.drain(..) {
                self.dispatch(event.token, &mut actions);
            }
            let now = self.now();
            if time_limit.is_some_and(|limit| limit <= now) {
                time_limit = None;
                self.policy.handle(Event::TimeLimit, now, &mut actions);
            }
            self.policy.tick(now, &mut actions);
            for action in actions.drain(..) {
                self.execute(action);
            }
        }
    }

    fn dispatch(&mut self, token: u64, actions: &mut Vec<Action>) {
        let now = self.now();
        match token {
            TOKEN_CONTROL => self.read_control(actions),
            TOKEN_CHILD => self.reap(actions),
            _ => self.outputs.ready(token, now),
        }
    }

    fn read_control(&mut self, actions: &mut Vec<Action>) {
        let now = self.now();
        let Some(control) = &mut self.control else { return };
        let mut signals = [0; 64];
        match control.read(&mut signals) {
            Ok(0) => {
                self.control = None;
                self.hurry = true;
                self.policy.handle(Event::SupervisorLost, now, actions);
            }
            Ok(count) => {
                for &signal in &signals[..count] {
                    // Nobody runs, but a slow reader keeps us: the user wants to leave.
                    self.hurry |=
                        self.policy.running() == 0 && [libc::SIGINT, libc::SIGTERM].contains(&signal.into());
                    self.policy.handle(Event::Signal(signal.into()), now, actions);
                }
            }
            Err(_) => {}
        }
    }

    fn reap(&mut self, actions: &mut Vec<Action>) {
        while self.child_signals.next().is_some() {}
        let mut exits = Vec::new();
        while let Reaped::Ended(pid, exit) = process::reap() {
            // Others are orphans of ranks that we adopted.
            if let Some(rank) = self.by_pid.remove(&pid) {
                self.processes[rank as usize].running = false;
                let block = self.job.block(rank);
                let abort_code = block.abort_code.load(std::sync::atomic::Ordering::Relaxed);
                exits.push((rank, exit, block.state(), abort_code));
            }
        }
        exits.sort_by_key(|&(_, exit, state, _): &(u32, Exit, _, _)| policy::precedence(exit, state));
        let now = self.now();
        for (rank, exit, state, abort_code) in exits {
            self.policy.handle(Event::Exited { rank, exit, state, abort_code }, now, actions);
        }
    }

    fn execute(&mut self, action: Action) {
        match action {
            Action::SignalAll(signal) => {
                for process in self.processes.iter().filter(|process| process.running) {
                    process::kill_group(process.pid, signal);
                }
            }
            Action::Tell(notice) => self.tell(&notice),
            Action::ReportWaits => {
                for rank in 0..self.processes.len() as u32 {
                    let running = self.processes[rank as usize].running;
                    let block = running.then(|| self.job.block(rank));
                    let text = report::waits(self.name(rank), block);
                    self.outputs.say(&text, self.now());
                }
            }
        }
    }

    fn tell(&mut self, notice: &Notice) {
        let others = self.policy.running() > 0;
        let is_cause =
            !matches!(notice, Notice::Failed { code, .. } if !others && ![126, 127].contains(code));
        if is_cause {
            let text = report::notice(notice, |rank| self.name(rank), others);
            self.outputs.say(&text, self.now());
        }
    }

    fn name(&self, rank: u32) -> Named<'_> {
        let program = &self.plan.programs[self.plan.ranks[rank as usize]].name;
        Named { rank, pid: self.processes[rank as usize].pid, host: &self.host, program }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Decides where ranks run; the machine is described only if that took a look at it.
fn place(request: &Request, plan: &JobPlan, usable: usize) -> (Vec<Option<ProcessorSet>>, Machine) {
    let threads = plan.programs.iter().any(|program| {
        let wanted = program.variables.get(OsStr::new("OMP_NUM_THREADS")).and_then(|text| text.to_str());
        wanted.is_some_and(|wanted| wanted != "1")
    });
    let demand = Demand {
        ranks: plan.ranks.len() as u32,
        threads,
        usable,
        map_by: request.map_by,
        bind_to: request.bind_to,
    };
    match cpu::affinity() {
        Ok(allowed) if placement::needs_machine(&demand, &allowed) => {
            let machine = Machine::local();
            (placement::place(&demand, &machine, &allowed), machine)
        }
        _ => (vec![None; plan.ranks.len()], Machine::default()),
    }
}

/// What ranks of this node may do to each other's memory: asked of the system once, since all must agree.
pub fn reach(config: &Config) -> Reach {
    if config.single_copy == SingleCopy::Never || !siblings::can_read_each_other() {
        return Reach::None;
    }
    let mapped = config.mapped != Mapped::Never && Maps::open().is_ok();
    if mapped { Reach::Mapped } else { Reach::Call }
}

fn create_job(plan: &JobPlan, usable: usize, machine: &Machine) -> io::Result<Job> {
    let (ranks, processors) = (plan.ranks.len() as u32, usable as u32);
    let is_known = machine.processors().next().is_some();
    Job::create(&Plan {
        processors,
        common_processors: processors,
        secret: Secret::random()?,
        universe_size: ranks.max(processors),
        ring_bytes: plan.config.ring_bytes_for(ranks),
        job_id: process::random()?,
        banks: plan.config.bank_sizes_for(ranks),
        reach: reach(&plan.config),
        machine: texts(is_known.then_some(machine), plan),
        ..Plan::one_host(ranks)
    })
}

/// Longest text of what the machine costs, in bytes.
const MODEL_BYTES: usize = 1 << 20;

/// What the ranks are told of the machine: what it is, and what it costs. All of them choose algorithms by the latter, so it
/// is read once, here.
fn texts(machine: Option<&Machine>, plan: &JobPlan) -> Vec<u8> {
    let mut texts = machine.map(|machine| machine.to_string().into_bytes()).unwrap_or_default();
    let path = plan
        .config
        .model_path(&process::host_name(), cpu::usable_processors(), |name| std::env::var(name).ok());
    let model = path.and_then(|path| std::fs::read(path).ok()).filter(|text| text.len() <= MODEL_BYTES);
    if let Some(model) = model {
        texts.push(TEXTS_END);
        texts.extend(model);
    }
    texts
}

/// Starts a program; a script without a first line that names its interpreter is run by the shell.
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

/// Whether a file that cannot be executed is a program of another machine, not a script.
fn is_binary(file: &CStr) -> bool {
    let mut start = [0; 4];
    let file = File::open(std::ffi::OsStr::from_bytes(file.to_bytes()));
    file.and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

fn tag(tagging: Tagging, rank: u32, stream: &str) -> String {
    match tagging {
        Tagging::Plain => String::new(),
        Tagging::Rank => format!("[{rank}] "),
        Tagging::Stream => format!("[{rank}]<{stream}>: "),
    }
}

fn terminated(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn strings<'b>(all: impl Iterator<Item = &'b [u8]>) -> io::Result<Vec<CString>> {
    all.map(terminated).collect()
}
