//! File with the costs of this machine and the results that programs have learned on it.

use std::path::{Path, PathBuf};

use tutti_base::config::Config;
use tutti_coll::Model;
use tutti_coll::tune::learned;
use tutti_sys::machine_kind::machine_kind;
use tutti_sys::{files, process};

/// Returns the default path of the model of this machine.
pub fn default_path(config: &Config) -> Option<PathBuf> {
    config.model_path(&machine_kind(), |name| std::env::var(name).ok()).map(PathBuf::from)
}

/// Beginning of the first line of a measured model; the name of the host follows.
pub const MEASURED: &str = "# measured by tutti probe on ";

/// Longest model that is read, in bytes.
pub const MODEL_BYTES: u64 = 1 << 20;

/// Returns the text of a file with a measured model. `tutti info` shows the first line.
pub fn measured(model: &Model) -> String {
    format!("{MEASURED}{}, a {}\n{model}", process::host_name(), machine_kind())
}

/// Replaces a model atomically: readers find the old file or the new one. Results that programs have learned
/// meanwhile stay in the file.
pub fn keep(path: &Path, text: &str) -> std::io::Result<()> {
    let old = files::read_text(path, MODEL_BYTES).unwrap_or_default();
    files::keep(path, learned::carry_over(&old, text).as_bytes())
}
