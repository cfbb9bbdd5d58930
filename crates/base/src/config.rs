//! The configuration registry: every setting of Tutti is one line of [`SETTINGS`].
//!
//! A setting is an environment variable `TUTTI_NAME`. It is parsed once, when a process starts, into
//! the typed field of [`Config`] it belongs to; a wrong value or an unknown `TUTTI_` name is refused
//! by name. `tutti info` prints those for users, `--all-settings` this table and the keys of TUTTI_DEBUG;
//! MPI_T has the settings as control variables.
//!
//! To add a setting: a field in its concern (`messages`, `network`, ...), and a row in `registry`
//! beside it. Nothing else. A switch for tests or for the search for a fault is a key of TUTTI_DEBUG
//! (`registry::debug`).

pub mod algorithms;
mod checkpoint;
mod collectives;
mod diagnosis;
mod files;
mod launch;
mod memory;
mod messages;
mod network;
mod registry;
mod setting;
mod typed;
mod values;
mod waiting;

use std::ffi::OsString;
use std::fmt;

use crate::{BankSizes, cost_model};

pub use checkpoint::{Checkpoint, CheckpointPacking, CheckpointWriting, Checkpoints};
pub use collectives::{Collectives, Explain, Multicast, Offload, Tune, TuneSearch};
pub use diagnosis::{Diagnosis, InitialErrorHandler};
pub use files::Files;
pub use launch::{ForeignMpi, Launch, Starter};
pub use memory::{CopyBy, Mapped, MappedHome, OneSided, PeerMemory};
pub use messages::{Messages, RemoteRead, SingleCopy};
pub use network::{Connections, Network, Protection, check_interface};
pub use registry::{CONCERNS, CONTROL_VARIABLES, Concern, DEBUG_KEYS, SETTINGS};
pub use setting::{Audience, Scope, Setting, ValueKind};
pub use typed::Config;
pub use waiting::{MAX_LANES, Waiting};

/// Most rings of all lanes of a host, unless one lane has more.
const RINGS_OF_LANES: u64 = 8 * 64 * 64;

/// Names that begin with `TUTTI_` and are no settings: variables between launcher and library, and those of
/// the compiler wrappers.
pub const INTERNAL_NAMES: &[&str] = &[
    "TUTTI_JOB_FD",
    "TUTTI_JOB_RANK",
    "TUTTI_JOB_MAXPROCS",
    "TUTTI_JOB_IO",
    "TUTTI_JOB_GATE",
    "TUTTI_DIRECTORY_FD",
    "TUTTI_BELL_FDS",
    "TUTTI_PARENT_PORT",
    "TUTTI_MEMORY_KINDS",
    "TUTTI_CC",
    "TUTTI_CXX",
];

/// A setting that could not be taken, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the environment variable.
    pub name: String,
    /// Description of the error, without the name.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (tutti info lists all settings)", self.name, self.reason)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Returns the settings after `change`.
    #[must_use]
    pub fn changed(mut self, change: impl FnOnce(&mut Config)) -> Config {
        change(&mut self);
        self
    }

    /// Reads all settings from the environment of this process.
    ///
    /// # Errors
    /// Returns the first variable whose value is invalid, or an unknown name that begins with `TUTTI_`.
    pub fn from_env() -> std::result::Result<Config, ConfigError> {
        Config::from_variables(std::env::vars_os(), std::iter::empty())
    }

    /// Reads settings from environment variables, and from pairs that win over these.
    ///
    /// # Errors
    /// Fails like [`Config::from_env`]. A value that is not UTF-8 is invalid for every setting.
    pub fn from_variables(
        variables: impl Iterator<Item = (OsString, OsString)>,
        written: impl Iterator<Item = (String, String)>,
    ) -> std::result::Result<Config, ConfigError> {
        let mut pairs = Vec::new();
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|name| name.starts_with("TUTTI_")) else { continue };
            let refuse =
                |value| ConfigError { name: name.to_string(), reason: format!("{value:?} is not UTF-8") };
            pairs.push((name.to_string(), value.into_string().map_err(refuse)?));
        }
        Config::from_pairs(pairs.into_iter().chain(written))
    }

    /// Returns the algorithm (with parameters, if they follow) that [`Config::algorithm`] names for a
    /// collective.
    pub fn algorithm_of(&self, collective: &str) -> Option<&str> {
        algorithms::algorithm_in(&self.collectives.algorithm, collective)
    }

    /// Returns the path of the file with the costs of a kind of machine (`tutti_sys::machine_kind`). It is
    /// the one that is set, or one in the user's cache directory. `variable` reads the environment variables
    /// that name the directory (XDG base directories). Returns `None` if there is no such directory.
    pub fn model_path(
        &self,
        machine_kind: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        if !self.collectives.model_file.is_empty() {
            return Some(self.collectives.model_file.clone());
        }
        let absolute = |name| variable(name).filter(|path| path.starts_with('/'));
        let home = || absolute("HOME").map(|home| home + "/.cache");
        let cache = absolute("XDG_CACHE_HOME").or_else(home)?;
        Some(format!("{cache}/tutti/{}", cost_model::file_name(machine_kind)))
    }

    /// Returns the number of lanes on a host with `ranks` ranks. Each lane has a ring for every pair of
    /// ranks, at least in address space.
    pub fn lanes_for(&self, ranks: u32) -> u32 {
        let pairs = u64::from(ranks.max(1)).pow(2);
        (RINGS_OF_LANES / pairs).min(self.waiting.thread_lanes).clamp(1, MAX_LANES.into()) as u32
    }

    /// Returns the bytes of the shared ring between two processes on a node with `ranks` of them, for a
    /// launcher that creates the job object.
    ///
    /// A ring is best somewhat larger than a processor's own cache (2 MiB moves 3 to 6 times what 64 KiB
    /// does, see the transport's benchmark). Where many ranks talk to one, their rings together are larger
    /// than its cache anyway, so all rings of one receiver take 8 MiB when all are in use.
    pub fn ring_bytes_for(&self, ranks: u32) -> u64 {
        let bytes = match self.messages.ring_bytes {
            0 => ((8 << 20) / u64::from(ranks.max(1)).next_power_of_two()).clamp(64 << 10, 2 << 20),
            stated => stated.max(4096),
        };
        bytes.next_multiple_of(4096)
    }

    /// Sizes of banks on a node with `ranks` of them, for a launcher that creates the job object.
    pub fn bank_sizes_for(&self, ranks: u32) -> BankSizes {
        let (area, large) = (self.collectives.collective_bytes, self.collectives.bank_bytes);
        BankSizes::new(
            area,
            large,
            self.collectives.bank_small_bytes,
            self.collectives.bank_small_slots,
            ranks,
        )
    }

    /// Reads settings from pairs of name and value. Other names than `TUTTI_...` are ignored.
    ///
    /// # Errors
    /// Fails like [`Config::from_env`].
    pub fn from_pairs(
        pairs: impl Iterator<Item = (String, String)>,
    ) -> std::result::Result<Config, ConfigError> {
        let mut config = Config::default();
        for (name, value) in pairs.filter(|(name, _)| name.starts_with("TUTTI_")) {
            if INTERNAL_NAMES.contains(&name.as_str()) {
                continue;
            }
            let refuse = |reason: String| ConfigError { name: name.clone(), reason };
            let setting = SETTINGS
                .iter()
                .find(|setting| setting.name == name)
                .ok_or_else(|| refuse(unknown(&name, &value)))?;
            (setting.set)(&mut config, value.trim())
                .map_err(|reason| refuse(format!("{value:?} is not {reason}")))?;
        }
        Ok(config)
    }
}

/// Returns the reason for which a variable is refused that is no setting.
fn unknown(name: &str, value: &str) -> String {
    let key = name.trim_start_matches("TUTTI_").to_lowercase();
    match DEBUG_KEYS.iter().any(|known| known.name == key) {
        true => format!("no such setting; {key}={value} is a part of TUTTI_DEBUG"),
        false => "no such setting".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortRange;

    fn check(name: &str, value: &str, expected: std::result::Result<Config, &str>) {
        let got = Config::from_pairs([(name.to_string(), value.to_string())].into_iter());
        match (got, expected) {
            (Ok(config), Ok(wanted)) => assert_eq!(config, wanted),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => panic!("{name}={value}: {got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn settings_parse_or_are_refused_by_name() {
        check("TUTTI_EAGER_BYTES", "4K", Ok(Config::default().changed(|c| c.messages.eager_bytes = 4096)));
        check("TUTTI_EAGER_BYTES", "many", Err("TUTTI_EAGER_BYTES: \"many\" is not a size"));
        check("TUTTI_EAGER_BYTES", "99999999999G", Err("not a size"));
        check(
            "TUTTI_SINGLE_COPY",
            "never",
            Ok(Config::default().changed(|c| c.messages.single_copy = SingleCopy::Never)),
        );
        check("TUTTI_EAGRE_BYTES", "1", Err("TUTTI_EAGRE_BYTES: no such setting"));
        check("TUTTI_JOB_FD", "whatever", Ok(Config::default()));
        check("TUTTI_CONNECTIONS", "some", Err("never, on-demand, partially-static or static"));
        let ports = PortRange::new(40000, 40010);
        check(
            "TUTTI_PORT_RANGE",
            "40000-40010",
            Ok(Config::default().changed(|c| c.network.port_range = ports)),
        );
        check(
            "TUTTI_PORT_RANGE",
            "9-8",
            Err("TUTTI_PORT_RANGE: \"9-8\" is not a range of ports such as 40000-40100"),
        );
        check("PATH", "whatever", Ok(Config::default()));
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        for (name, value, part) in [
            ("TUTTI_SPIN_US", "-2", "from -1 to 60000000"),
            ("TUTTI_DEBUG", "thread_lanes=9", "from 1 to 8"),
            ("TUTTI_SILENCE_MS", "0", "from 1 to 31536000000"),
            ("TUTTI_START_MS", "99999999999999", "from 1 to 31536000000"),
            ("TUTTI_MULTICAST_WINDOW", "0", "from 1 to 4096"),
            ("TUTTI_DEBUG", "bank_small_slots=129", "bank_small_slots takes a number from 2 to 128"),
            (
                "TUTTI_DEBUG",
                "bank_bytes=1",
                "bank_bytes takes a size such as 65536, 64K or 1M; 0, or from 4096 to 134217728, or auto",
            ),
            (
                "TUTTI_DEBUG",
                "ring_bytes=1",
                "ring_bytes takes a size such as 65536, 64K or 1M; 0, or from 4096 to 1073741824",
            ),
            ("TUTTI_DEBUG", "fragment_bytes=0", "fragment_bytes takes a number from 64 to"),
            ("TUTTI_DEBUG", "launch_radix=65537", "launch_radix takes a number from 0 to 65536"),
            ("TUTTI_DEBUG", "trace_events=0", "trace_events takes a number from 1 to"),
            ("TUTTI_INTERFACE", "10.0.0.0/33", "a network such as 10.1.0.0/16"),
            ("TUTTI_INTERFACE", "eth0,eth1 and others", "the name of an interface"),
            ("TUTTI_DEBUG", "checkpoint_stop=soon", "checkpoint_stop takes SET:STEP"),
            ("TUTTI_INITIAL_ERROR_HANDLER", "none", "mpi_errors_abort or mpi_errors_return"),
        ] {
            check(name, value, Err(part));
        }
    }

    #[test]
    fn wrong_algorithms_are_refused_with_the_valid_words() {
        check("TUTTI_ALGORITHM", "bcast=foo", Err("there is no algorithm \"foo\" for bcast; these are: "));
        check(
            "TUTTI_ALGORITHM",
            "ring",
            Err("TUTTI_ALGORITHM: \"ring\" is not a list of collective=algorithm"),
        );
        let ring = Config::default().changed(|c| c.collectives.algorithm = "allreduce=ring".to_string());
        check("TUTTI_ALGORITHM", "allreduce=ring", Ok(ring));
    }

    #[test]
    fn values_that_are_no_text_are_refused() {
        use std::os::unix::ffi::OsStringExt;
        let variable = |name: &str| (OsString::from(name), OsString::from_vec(vec![0xff]));
        let read = |name: &str| Config::from_variables([variable(name)].into_iter(), std::iter::empty());
        assert_eq!(read("PATH"), Ok(Config::default()));
        assert!(read("TUTTI_TRACE").is_err_and(|error| error.to_string().contains("is not UTF-8")));
    }

    #[test]
    fn algorithms_are_forced_by_name() {
        let of = |setting: &str| {
            let config = Config::default().changed(|c| c.collectives.algorithm = setting.to_string());
            config.algorithm_of("bcast").map(str::to_string)
        };
        assert_eq!(of(""), None);
        assert_eq!(of("bcast=knomial:radix=4").as_deref(), Some("knomial:radix=4"));
        assert_eq!(of("allreduce=ring, bcast = kary").as_deref(), Some("kary"));
        assert_eq!(of("allreduce=ring"), None);
    }

    #[test]
    fn each_kind_of_machine_has_a_model_file() {
        let path = |config: &Config, known: &'static [(&str, &str)]| {
            let variable = |name: &str| {
                known.iter().find(|(other, _)| *other == name).map(|(_, value)| value.to_string())
            };
            config.model_path("EPYC_8_6.1", variable)
        };
        let (plain, set) =
            (Config::default(), Config::default().changed(|c| c.collectives.model_file = "here".to_string()));
        assert_eq!(path(&plain, &[]), None);
        assert_eq!(path(&plain, &[("HOME", "/h")]).as_deref(), Some("/h/.cache/tutti/MODEL-EPYC_8_6.1"));
        let both = &[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")];
        assert_eq!(path(&plain, both).as_deref(), Some("/c/tutti/MODEL-EPYC_8_6.1"));
        assert_eq!(path(&set, both).as_deref(), Some("here"));
    }

    #[test]
    fn rings_shrink_with_the_number_of_ranks() {
        let bytes = |ranks| Config::default().ring_bytes_for(ranks) >> 10;
        assert_eq!([1, 2, 4, 5, 16, 33, 128, 4000].map(bytes), [2048, 2048, 2048, 1024, 512, 128, 64, 64]);
        let stated = Config::default().changed(|c| c.messages.ring_bytes = 10_000);
        assert_eq!(stated.ring_bytes_for(100), 12288);
    }

    #[test]
    fn lanes_are_fewer_where_ranks_are_many() {
        let lanes = |ranks| Config::default().lanes_for(ranks);
        assert_eq!([0, 1, 64, 90, 128, 200].map(lanes), [8, 8, 8, 4, 2, 1]);
        assert_eq!(Config::default().changed(|c| c.waiting.thread_lanes = 0).lanes_for(2), 1);
    }

    #[test]
    fn settings_are_few_and_their_names_differ() {
        let documented = SETTINGS.iter().filter(|setting| setting.audience == Audience::User);
        assert!(documented.count() <= 31, "settings that only developers need are keys of TUTTI_DEBUG");
        assert!(SETTINGS.len() <= 45, "each setting needs a reason to exist");
        let names = SETTINGS.iter().chain(DEBUG_KEYS).map(|setting| setting.name);
        let distinct: std::collections::BTreeSet<&str> = names.collect();
        assert_eq!(distinct.len(), SETTINGS.len() + DEBUG_KEYS.len());
    }

    #[test]
    fn debug_keys_are_read_and_shown() {
        let changed = Config::default().changed(|c| {
            c.collectives.bank_bytes = Some(32 << 10);
            c.waiting.move_apart = false;
        });
        check("TUTTI_DEBUG", " move_apart=0, bank_bytes = 32K,", Ok(changed.clone()));
        let debug =
            SETTINGS.iter().find(|setting| setting.name == "TUTTI_DEBUG").expect("it is in the table");
        assert_eq!(debug.show(&changed), "bank_bytes=32768,move_apart=0");
        assert_eq!(debug.show(&Config::default()), "");
        check("TUTTI_DEBUG", "bank_bytes", Err("\"bank_bytes\" has no value"));
        check("TUTTI_DEBUG", "bank=4", Err("there is no key \"bank\""));
        check("TUTTI_DEBUG", "copy_by=fast", Err("copy_by takes auto, attach, xpmem or knem"));
        check(
            "TUTTI_BANK_BYTES",
            "32K",
            Err("TUTTI_BANK_BYTES: no such setting; bank_bytes=32K is a part of TUTTI_DEBUG"),
        );
        check("TUTTI_CHECKPOINT", "now", Err("no such setting"));
    }

    #[test]
    fn every_setting_shows_what_it_reads() {
        for setting in SETTINGS {
            let shown = setting.show(&Config::default());
            let again = Config::from_pairs([(setting.name.to_string(), shown)].into_iter());
            assert_eq!(again, Ok(Config::default()), "{}", setting.name);
        }
    }
}
