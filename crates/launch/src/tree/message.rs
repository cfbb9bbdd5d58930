//! Messages between daemons. Each message is plain data. Its values are checked where they are used.

use serde::{Deserialize, Serialize};
use tutti_checkpoint::coordination::{Order, Report};
use tutti_checkpoint::pace::{Packed, Writing};

use crate::policy::Reported;
use crate::request::{IoServers, OutputTo, Placing, RestartFiles, Tagging};

/// Text or path of the operating system: bytes that need not be UTF-8.
pub type Bytes = Vec<u8>;

/// Fabric address of a rank, as the rank published it. Empty: the rank will never have one.
pub type Address = Vec<u8>;

/// Program of the job, in the form in which daemons start it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramPlan {
    /// Program name and arguments.
    pub command: Vec<Bytes>,
    /// Working directory, if it differs from that of the job.
    pub directory: Option<Bytes>,
    /// Directories that are searched for the program before those of PATH.
    pub search: Option<Bytes>,
    /// Environment, without variables that differ between ranks.
    pub variables: Vec<(Bytes, Bytes)>,
}

/// Placement and output of ranks: options of the command line that every host needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankOptions {
    /// Placement of the ranks on the processors of their hosts.
    pub placing: Placing,
    /// True if the binding of each rank is printed (`--report-bindings`).
    pub report_bindings: bool,
    /// Prefix of each line of output.
    pub tagging: Tagging,
    /// Destination of the output of ranks.
    pub output: OutputTo,
    /// Rank that reads the standard input, if any.
    pub input: Option<u32>,
    /// True if every rank reads a copy of the standard input.
    pub is_input_copied: bool,
    /// True if details of the start are printed (`--verbose`).
    pub verbose: bool,
    /// True if ranks wait for a debugger.
    pub waits_for_debugger: bool,
}

/// Description of the job for daemons. It is the same for all, so that each daemon passes it on unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Random identifier of the job.
    pub job_id: u64,
    /// Names of the daemons' hosts, in the form that the agent takes. The first is that of mpirun.
    pub names: Vec<String>,
    /// Number of the daemon that serves each host of the placement.
    pub daemon_of: Vec<u32>,
    /// Pairs of host and number of ranks, in the order of ranks.
    pub runs: Vec<(u32, u32)>,
    /// Pairs of program and number of ranks, in the order of ranks.
    pub programs_of: Vec<(u32, u32)>,
    /// Programs, to which `programs_of` refers by index.
    pub programs: Vec<ProgramPlan>,
    /// Value of the attribute MPI_UNIVERSE_SIZE.
    pub universe_size: u32,
    /// Cost model of the machines (text of `tutti_coll::Model`); empty if unknown.
    pub model: Bytes,
    /// Placement and output of the ranks.
    pub manner: RankOptions,
    /// Maximum number of children of a daemon; 0 makes all daemons children of the root.
    pub radix: u32,
    /// Interval of heartbeats, and silence after which a connection is lost, in milliseconds.
    pub pace_ms: (u64, u64),
    /// Time in which a child must join, in milliseconds.
    pub start_ms: u64,
    /// Command and arguments of the agent.
    pub agent: Vec<String>,
    /// Working directory of mpirun, for programs without one of their own.
    pub directory: Bytes,
    /// Path of the launcher on every host.
    pub launcher: Bytes,
    /// Network interface for listening sockets (setting TUTTI_INTERFACE); may be empty.
    pub interface: String,
    /// Lowest and highest port for listening sockets (setting TUTTI_PORT_RANGE).
    pub ports: Option<(u16, u16)>,
    /// Mode in which checkpoints are written, and whether they are packed.
    pub keeping: (Writing, Packed),
    /// Tests only: set and step of a checkpoint at which daemons stop themselves.
    pub stop: String,
    /// Checkpoint from which the ranks are restored. None: they are started.
    pub restart: Option<Restart>,
    /// Servers of the job's files, which a restart starts again.
    pub io_servers: IoServers,
    /// Time in milliseconds after which a wait is long, for the report of hangs; 0: none is.
    pub hang_ms: u64,
    /// True if a job ends whose hang is proved.
    pub hang_aborts: bool,
}

/// Checkpoint set from which ranks are restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Path of the directory of sets.
    pub directory: Bytes,
    /// Number of the set.
    pub set: u64,
    /// Treatment of files whose length has changed since the checkpoint.
    pub files: RestartFiles,
    /// True if other users may have written the set.
    pub allows_others: bool,
    /// Addresses and key of the servers of the job's files, as text; empty if there are none.
    pub servers: Bytes,
}

impl JobInfo {
    /// Returns the host of the rank that reads the standard input, if any.
    pub fn input_host(&self) -> Option<u32> {
        let rank = self.manner.input?;
        let mut first = 0u32;
        let mut ends = self.runs.iter().map(|&(host, ranks)| {
            first = first.saturating_add(ranks);
            (host, first)
        });
        ends.find(|&(_, end)| rank < end).map(|(host, _)| host)
    }

    /// Returns the number of ranks that run a program.
    pub fn ranks_of(&self, program: usize) -> u32 {
        let of_it = self.programs_of.iter().filter(|(number, _)| *number as usize == program);
        of_it.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

/// End of a process, by exit or by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Exit code of the process.
    Code(i32),
    /// Signal that killed the process.
    Signal {
        /// Number of the signal.
        number: i32,
        /// True if there is a core file.
        core: bool,
    },
}

/// Report about a rank that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankExit {
    /// Rank in MPI_COMM_WORLD of the job.
    pub rank: u32,
    /// Process number of the rank.
    pub pid: i32,
    /// Exit code or signal.
    pub ending: Ending,
    /// State that the rank had reached, as [`tutti_sys::job::RankState`] numbers it.
    pub state: u8,
    /// Argument of MPI_Abort, if the rank has called it.
    pub abort_code: i32,
    /// Cause as far as the host knows it, as a text for the user; otherwise empty.
    pub remark: String,
}

/// Progress of a whole subtree of daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// All daemons of the subtree have joined.
    Joined,
    /// All ranks of the subtree are started.
    Started,
    /// All ranks have published an address, which they do at the end of their first MPI_Init.
    Initialised,
    /// All ranks have ended, and all of their output was passed up.
    Drained,
}

/// All phases, in order.
pub const PHASES: [Phase; 4] = [Phase::Joined, Phase::Started, Phase::Initialised, Phase::Drained];

/// Reason why a daemon is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// Agent that ended before the daemon had joined.
    Agent(Ending),
    /// Agent that could not be started, with the error.
    NoAgent(String),
    /// Time for joining expired.
    Late,
    /// No message arrived for too long.
    Silent,
    /// Daemon that has received no message from its parent and leaves.
    CutOff,
    /// Connection closed, as the system does it for a process that ends.
    Closed,
    /// Connection failed with this error of the system.
    Broken(String),
    /// Bytes that are not a message.
    Malformed,
}

/// Report about a lost daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Number of the daemon.
    pub daemon: u32,
    /// Reason of the loss.
    pub cause: Cause,
}

/// Report of a daemon that cannot start its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFailure {
    /// Number of the daemon.
    pub daemon: u32,
    /// Exit status of the job.
    pub status: u8,
    /// Line of text for the user.
    pub reason: String,
}

/// Number of an output stream of the ranks.
pub type StreamNumber = u8;

/// Message from a parent to a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// Description of the job, the first message.
    Plan(Box<JobInfo>),
    /// Sends this signal to all ranks of the subtree.
    Signal(i32),
    /// Requests a report of the operations in which ranks wait.
    ReportWaits(Reported),
    /// Bytes of the standard input. No bytes: its end.
    Input(Bytes),
    /// Permits this number of further bytes of an output.
    Credit(StreamNumber, u32),
    /// Reports that an output has no reader any more.
    BreakOutput(StreamNumber),
    /// Request for an address, see [`Ask`].
    Ask(Ask),
    /// Addresses of ranks, see [`Table`].
    Table(Table),
    /// Request to connect, see [`Call`].
    Call(Call),
    /// Machine of each host, and number of processors of a machine ([`tutti_base::Machines`]). Several
    /// hosts may be one machine.
    Machines(Vec<u32>, u32),
    /// Ends the job and the daemons of the subtree.
    Quit,
    /// Order to perform a phase of a checkpoint.
    Checkpoint(Box<Order>),
    /// Reports that all ranks have called MPI_Finalize in their programs of this generation.
    Arrived(u32),
    /// Requests the cards of all ranks of the subtree, under this number.
    Collect(u32),
}

/// Message from a child to its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Up {
    /// Reports that the subtree has reached a phase.
    Reached(Phase),
    /// Ranks of the subtree that were started, with their process numbers.
    Processes(Vec<(u32, i32)>),
    /// Ranks of the subtree that ended.
    Exits(Vec<RankExit>),
    /// Reports a daemon that cannot start its ranks.
    Refused(StartFailure),
    /// Reports a daemon of the subtree that is lost.
    Lost(Loss),
    /// Signal that a process sent to a daemon.
    Signal(i32),
    /// Output of the ranks of the subtree.
    Output(StreamNumber, Bytes),
    /// Number of bytes of the standard input that the reader's daemon has accepted.
    InputTaken(u32),
    /// Request for an address, see [`Ask`].
    Ask(Ask),
    /// Addresses of ranks, see [`Table`].
    Table(Table),
    /// Request to connect, see [`Call`].
    Call(Call),
    /// Processors of the hosts of the subtree, when all of them have reported.
    Processors(Vec<HostProcessors>),
    /// Report that the subtree has performed a phase of a checkpoint.
    Checkpoint(Box<Report>),
    /// Request of a rank for a checkpoint. True: the job ends with it.
    Wanted(bool),
    /// Reports that all ranks of the subtree have called MPI_Finalize in their programs of this generation.
    Arrived(u32),
    /// Reports that a rank of the subtree has begun to wait for long.
    LongWait,
    /// States of all ranks of the subtree, as the request of this number found them.
    Cards(u32, Vec<RankCard>),
}

/// State of a rank for the report of a hang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankCard {
    /// Rank in MPI_COMM_WORLD of the job.
    pub rank: u32,
    /// State of the rank.
    pub seen: Seen,
}

/// State of a rank when its host was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// The rank is outside waits.
    Computing,
    /// The rank does not run, or does not answer: the reason in words.
    Unknown(String),
    /// The rank waits since this time of its host, in nanoseconds, and has published this card
    /// ([`tutti_hang::Card`]).
    Waiting(u64, Bytes),
    /// The rank has ended.
    Ended,
}

/// Processors of a host on which its ranks run, see [`tutti_base::machines::Processors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProcessors {
    /// Number of the host in the placement.
    pub host: u32,
    /// Identity of the processors. Equal on two hosts exactly if these share all processors.
    pub identity: u64,
    /// Number of processors of the host.
    pub count: u32,
}

/// Request for the address of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ask {
    /// Number of the host in the placement.
    pub host: u32,
    /// Local number of the rank on that host.
    pub local: u32,
    /// Generation of the requesting program. It communicates with programs of its own generation only.
    pub generation: u32,
}

/// Request of a rank that cannot connect to another rank: the other one should connect instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Rank that should connect.
    pub to: Ask,
    /// Rank to which it should connect.
    pub from: Ask,
}

/// Known addresses of the ranks of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Number of the host in the placement.
    pub host: u32,
    /// Generation of the programs that have these addresses.
    pub generation: u32,
    /// Local numbers of ranks, and their addresses.
    pub entries: Vec<(u32, Address)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Parses random bytes. They are refused or become a message, which is unchanged when it is passed
        /// on.
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
        // Output of stream 0 that announces 2^60 bytes.
        let lie = [6, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
        assert!(postcard::from_bytes::<Up>(&lie).is_err());
    }
}
