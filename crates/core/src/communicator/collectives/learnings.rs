//! Results of tuning in this process. They serve its other communicators and, written by rank 0 at the end,
//! later runs ([`tutti_coll::tune::learned`]).

use std::path::Path;
use std::sync::OnceLock;

use tutti_base::config::Config;
use tutti_coll::tune::learned::{self, Learned};
use tutti_sys::job::{Job, PROGRAM_LINE};
use tutti_sys::machine_kind::machine_kind;
use tutti_sys::{files, user};

/// Maximum number of results kept of one run.
const MOST: usize = 256;
/// Maximum size of the file that is read and written, in bytes, as for the launcher.
const MOST_BYTES: u64 = 1 << 20;

/// Keys and labels, in the order in which they were learned.
#[derive(Debug, Default)]
pub struct Learnings(Vec<(String, String)>);

impl Learnings {
    /// Stores a decision.
    pub(crate) fn learn(&mut self, key: String, label: String) {
        self.0.retain(|(known, _)| *known != key);
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push((key, label));
    }

    /// Returns a number that stands for what was learned elsewhere in this process; ranks may differ in what
    /// they know.
    pub(crate) fn hint(&self, key: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, label)| hint_of(label))
    }

    /// Writes the results for later runs. A failure does no harm, nor does the loss of the results if
    /// another job writes at the same time.
    pub(crate) fn keep(&self, config: &Config) {
        if self.0.is_empty() {
            return;
        }
        let path = config.model_path(&machine_kind(), user::variable);
        let Some(path) = path else { return };
        let result = self.write(Path::new(&path));
        if config.collectives.explain.is_on() {
            match result {
                Ok(()) => eprintln!("Tutti: what was learned is kept in {path}"),
                Err(error) => eprintln!("Tutti: what was learned is not kept in {path}: {error}"),
            }
        }
    }

    /// Merges the results into the file, which may not exist yet.
    fn write(&self, path: &Path) -> std::io::Result<()> {
        let old = match files::read_text(path, MOST_BYTES) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let text = learned::merge(&old, &self.0);
        if text.len() as u64 > MOST_BYTES {
            return Err(std::io::Error::other("the file is too long"));
        }
        files::keep(path, text.as_bytes())
    }
}

/// Returns a number that stands for a label, the same on all ranks; never 0 (FNV-1a).
pub(crate) fn hint_of(label: &str) -> u64 {
    let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}

/// Returns the results of earlier runs, from the job's copy of the model file.
pub(crate) fn earlier(job: &Job) -> &'static Learned {
    static LEARNED: OnceLock<Learned> = OnceLock::new();
    LEARNED.get_or_init(|| learned::parse(std::str::from_utf8(job.model()).unwrap_or_default()))
}

/// Returns true if earlier runs have results.
pub(crate) fn are_there(job: &Job) -> bool {
    !earlier(job).is_empty()
}

/// Returns the name of the job's programs, equal on all ranks. The launcher puts it in front of the model
/// file's text. Returns "_" if it has not.
pub(crate) fn program(job: &Job) -> &str {
    let text = std::str::from_utf8(job.model()).unwrap_or_default();
    text.lines().next().and_then(|line| line.strip_prefix(PROGRAM_LINE)).unwrap_or("_")
}
