//! The settings of all concerns together.

use super::checkpoint::Checkpoints;
use super::collectives::Collectives;
use super::diagnosis::Diagnosis;
use super::files::Files;
use super::launch::Launch;
use super::memory::PeerMemory;
use super::messages::Messages;
use super::network::Network;
use super::waiting::Waiting;

/// All settings, typed. Sizes in bytes, times with their unit in the name. A field is called as its setting,
/// below the concern that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Messages: protocols, the memory that they pass through, and single copies.
    pub messages: Messages,
    /// Settings of memory that ranks of a host share with each other.
    pub memory: PeerMemory,
    /// Waiting, threads and progress.
    pub waiting: Waiting,
    /// Settings of collectives: memory, choice of algorithms, and paths between hosts.
    pub collectives: Collectives,
    /// Settings for checks of programs and for reports about them.
    pub diagnosis: Diagnosis,
    /// Settings of the start and the supervision of jobs.
    pub launch: Launch,
    /// Settings of checkpoints (S7).
    pub checkpoint: Checkpoints,
    /// Settings of networks and connections between hosts.
    pub network: Network,
    /// Settings of the files of io-servers (S10).
    pub files: Files,
}
