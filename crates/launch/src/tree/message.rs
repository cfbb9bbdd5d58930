//! What daemons tell each other. Every message is plain data; what arrives is checked where it is used.

use serde::{Deserialize, Serialize};
use tutti_checkpoint::coordination::{Order, Report};
use tutti_checkpoint::pace::{Packed, Writing};

use crate::policy::Reported;
use crate::request::{IoServers, OutputTo, Placing, RestartFiles, Tagging};

/// Text or path of the operating system: bytes that need not be UTF-8.
pub type Bytes = Vec<u8>;

/// The fabric address of a rank, as it published it; empty: it will never have one.
pub type Address = Vec<u8>;

/// A program of the job, as the daemons start it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramPlan {
    /// Name and arguments.
    pub command: Vec<Bytes>,
    /// Working directory.
    pub directory: Option<Bytes>,
    /// Directories to look for the program in before those of PATH.
    pub search: Option<Bytes>,
    /// Environment, without what differs from rank to rank.
    pub variables: Vec<(Bytes, Bytes)>,
}

/// How ranks are placed and shown: what of the command line every host needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manner {
    /// Where on its host each rank runs.
    pub placing: Placing,
    /// `--report-bindings`.
    pub report_bindings: bool,
    /// Tags.
    pub tagging: Tagging,
    /// Where what ranks write goes.
    pub output: OutputTo,
    /// The rank that reads the standard input.
    pub input: Option<u32>,
    /// Every rank reads a copy of it.
    pub is_input_copied: bool,
    /// `--verbose`.
    pub verbose: bool,
    /// Ranks wait for a debugger.
    pub waits_for_debugger: bool,
}

/// All that a daemon has to know of the job; the same for all, so that it is passed on as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Random number of the job.
    pub job_id: u64,
    /// Names of the daemons' hosts, as the agent takes them; the first is that of mpirun.
    pub names: Vec<String>,
    /// For each host of the placement the daemon that serves it.
    pub daemon_of: Vec<u32>,
    /// (host, number of ranks), in the order of ranks.
    pub runs: Vec<(u32, u32)>,
    /// (program, number of ranks), in the order of ranks.
    pub programs_of: Vec<(u32, u32)>,
    /// The programs.
    pub programs: Vec<ProgramPlan>,
    /// Value of the attribute MPI_UNIVERSE_SIZE.
    pub universe_size: u32,
    /// What machines cost (text of `tutti_coll::Model`), if that is known.
    pub model: Bytes,
    /// How ranks are placed and shown.
    pub manner: Manner,
    /// Children a daemon; 0 is a star.
    pub radix: u32,
    /// Heartbeat interval and silence that ends the job, in milliseconds.
    pub pace_ms: (u64, u64),
    /// How long a child may take until it has joined, in milliseconds.
    pub start_ms: u64,
    /// The agent: command and arguments.
    pub agent: Vec<String>,
    /// Directory of mpirun: that of programs which name none.
    pub directory: Bytes,
    /// The launcher's program on every host.
    pub launcher: Bytes,
    /// Which interface to listen on (the setting TUTTI_INTERFACE), may be empty.
    pub interface: String,
    /// The lowest and the highest port to listen on (the setting TUTTI_PORT_RANGE).
    pub ports: Option<(u16, u16)>,
    /// When checkpoints are written, and whether they are packed.
    pub keeping: (Writing, Packed),
    /// For tests: the set and the step of a checkpoint at which daemons stop themselves.
    pub stop: String,
    /// From what the ranks are made, if they are not started.
    pub restart: Option<Restart>,
    /// Servers of the job's files, which a restart starts again.
    pub io_servers: IoServers,
}

/// A set of a checkpoint that ranks are made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// The directory of sets.
    pub directory: Bytes,
    /// The set.
    pub set: u64,
    /// What becomes of files that have grown since.
    pub files: RestartFiles,
    /// Whether other users may have written the set.
    pub allows_others: bool,
    /// Text that says where the servers of the job's files are, with their key; empty: there are none.
    pub servers: Bytes,
}

impl JobInfo {
    /// The host of the rank that reads the standard input.
    pub fn input_host(&self) -> Option<u32> {
        let rank = self.manner.input?;
        let mut first = 0u32;
        let mut ends = self.runs.iter().map(|&(host, ranks)| {
            first = first.saturating_add(ranks);
            (host, first)
        });
        ends.find(|&(_, end)| rank < end).map(|(host, _)| host)
    }

    /// How many ranks run a program.
    pub fn ranks_of(&self, program: usize) -> u32 {
        let of_it = self.programs_of.iter().filter(|(number, _)| *number as usize == program);
        of_it.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It exited.
    Code(i32),
    /// A signal killed it.
    Signal {
        /// Which.
        number: i32,
        /// Whether there is a core file.
        core: bool,
    },
}

/// A rank that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankExit {
    /// Its number in the world.
    pub rank: u32,
    /// Its process.
    pub pid: i32,
    /// How it ended.
    pub ending: Ending,
    /// How far it had come, as [`tutti_sys::job::RankState`] numbers it.
    pub state: u8,
    /// Argument of MPI_Abort.
    pub abort_code: i32,
    /// What its host knows of the cause, for the user; empty if nothing.
    pub remark: String,
}

/// How far a whole subtree has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// All daemons have joined.
    Joined,
    /// All ranks are started.
    Started,
    /// All ranks have published an address, at the end of their first MPI_Init.
    Initialised,
    /// All ranks have ended and all they wrote has been passed up.
    Drained,
}

/// All phases, in order.
pub const PHASES: [Phase; 4] = [Phase::Joined, Phase::Started, Phase::Initialised, Phase::Drained];

/// Why a daemon is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The agent ended before the daemon had joined.
    Agent(Ending),
    /// The agent could not be started.
    NoAgent(String),
    /// It did not join in time.
    Late,
    /// Nothing was heard of it.
    Silent,
    /// It is there, but says that it heard nothing of its parent, and leaves.
    CutOff,
    /// Its connection was closed, as the system does it for a process that ends.
    Closed,
    /// Its connection failed: what the system says.
    Broken(String),
    /// It sent what is no message.
    Malformed,
}

/// A lost daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Its number.
    pub daemon: u32,
    /// Why.
    pub cause: Cause,
}

/// Why a daemon cannot start its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Its number.
    pub daemon: u32,
    /// Exit status of the job.
    pub status: u8,
    /// A line for the user.
    pub reason: String,
}

/// Which output.
pub type StreamNumber = u8;

/// What a parent tells its child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// The job.
    Plan(Box<JobInfo>),
    /// Send this signal to all ranks.
    Signal(i32),
    /// Say where ranks wait.
    ReportWaits(Reported),
    /// Standard input of rank 0; no bytes: its end.
    Input(Bytes),
    /// So many bytes more of an output may come.
    Credit(StreamNumber, u32),
    /// Nobody reads this output any more.
    BreakOutput(StreamNumber),
    /// See [`Ask`].
    Ask(Ask),
    /// See [`Table`].
    Table(Table),
    /// See [`Call`].
    Call(Call),
    /// Which hosts are one machine: the machine of each host, and the processors of a machine ([`tutti_base::Machines`]).
    Machines(Vec<u32>, u32),
    /// The job is over.
    Quit,
    /// A phase of a checkpoint.
    Checkpoint(Box<Order>),
    /// All ranks have called MPI_Finalize in their programs of this generation.
    Arrived(u32),
}

/// What a child tells its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Up {
    /// Its subtree has reached a phase.
    Reached(Phase),
    /// Ranks of its subtree that were started, and their processes.
    Processes(Vec<(u32, i32)>),
    /// Ranks of its subtree that ended.
    Exits(Vec<RankExit>),
    /// A daemon cannot start its ranks.
    Refused(Refusal),
    /// A daemon of its subtree is lost.
    Lost(Loss),
    /// Somebody sent a signal to a daemon.
    Signal(i32),
    /// What its subtree wrote.
    Output(StreamNumber, Bytes),
    /// Bytes of the standard input that rank 0's daemon has taken.
    InputTaken(u32),
    /// See [`Ask`].
    Ask(Ask),
    /// See [`Table`].
    Table(Table),
    /// See [`Call`].
    Call(Call),
    /// What the hosts of its subtree say of their processors, once all of them have.
    Processors(Vec<HostProcessors>),
    /// Its subtree has done a phase of a checkpoint.
    Checkpoint(Box<Report>),
    /// A rank wants a checkpoint, and whether the job is to end with it.
    Wanted(bool),
    /// All ranks of its subtree have called MPI_Finalize in their programs of this generation.
    Arrived(u32),
}

/// What a host says of the processors that its ranks run on: a [`tutti_base::machines::Processors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProcessors {
    /// Host of the placement.
    pub host: u32,
    /// The same on two hosts exactly if they share all of them.
    pub identity: u64,
    /// How many.
    pub count: u32,
}

/// What is the address of this rank?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ask {
    /// Host of the placement.
    pub host: u32,
    /// Rank on that host.
    pub local: u32,
    /// Generation of the program that asks, which speaks to programs of its own generation alone.
    pub generation: u32,
}

/// A rank cannot connect to another one, and wants it to connect itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Who is to connect.
    pub to: Ask,
    /// To whom.
    pub from: Ask,
}

/// What is known of the ranks of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Host of the placement.
    pub host: u32,
    /// Generation of the programs that have these addresses.
    pub generation: u32,
    /// Local rank and its address.
    pub entries: Vec<(u32, Address)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever arrives is a message or is refused; a message means the same when it is passed on.
        #[test]
        fn any_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(down) = postcard::from_bytes::<Down>(&bytes) {
                let again = postcard::to_stdvec(&down).expect("plain data");
                prop_assert_eq!(postcard::from_bytes::<Down>(&again), Ok(down));
            }
            if let Ok(up) = postcard::from_bytes::<Up>(&bytes) {
                let again = postcard::to_stdvec(&up).expect("plain data");
                prop_assert_eq!(postcard::from_bytes::<Up>(&again), Ok(up));
            }
        }
    }

    #[test]
    fn a_length_that_is_not_there_takes_no_memory() {
        // Output of stream 0 with 2^60 bytes to come.
        let lie = [6, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
        assert!(postcard::from_bytes::<Up>(&lie).is_err());
    }
}
