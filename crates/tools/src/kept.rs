//! The file that keeps what this machine costs, and what programs have learned of it.

use std::path::{Path, PathBuf};

use tutti_base::config::Config;
use tutti_coll::tune::learned;
use tutti_sys::{cpu, files, process};

/// Where the model of this machine is kept.
pub fn default_path(config: &Config) -> Option<PathBuf> {
    let path =
        config.model_path(&process::host_name(), cpu::usable_processors(), |name| std::env::var(name).ok());
    path.map(PathBuf::from)
}

/// Longest model that is read, in bytes.
pub const MODEL_BYTES: u64 = 1 << 20;

/// Puts a model in place at once: who reads meanwhile reads the old one or the new one. What programs have
/// learned since stays in the file.
pub fn keep(path: &Path, text: &str) -> std::io::Result<()> {
    let old = files::read_text(path, MODEL_BYTES).unwrap_or_default();
    files::keep(path, learned::carry_over(&old, text).as_bytes())
}
