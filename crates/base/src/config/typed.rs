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
    /// Memory that ranks of a host let each other work in.
    pub memory: PeerMemory,
    /// Waiting, threads and progress.
    pub waiting: Waiting,
    /// Collectives: their memory, how their algorithms are chosen, and what carries them.
    pub collectives: Collectives,
    /// Checks of programs, and what is told about them.
    pub diagnosis: Diagnosis,
    /// How jobs are started and supervised.
    pub launch: Launch,
    /// Checkpoints (S7).
    pub checkpoint: Checkpoints,
    /// What carries messages between hosts, and its connections.
    pub network: Network,
    /// Files of io-servers.
    pub files: Files,
}
