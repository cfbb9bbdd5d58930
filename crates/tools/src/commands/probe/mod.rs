//! `tutti probe`: measures what this machine costs and keeps it in a file, where jobs find it.
//!
//! [`costs`] measures within this host. With `--hosts`, two ranks also measure the network
//! ([`crate::measure::network`]). mpirun calls `tutti probe --unasked` before the first job on a kind of
//! machine ([`unasked`]).

mod costs;
mod table;
mod unasked;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tutti_base::config::Config;
use tutti_coll::Model;

use crate::kept::{default_path, keep, measured};
use crate::measure::library::{HostSet, Library, home};
use crate::measure::network;
use crate::measure::programs::Programs;
use crate::output::{FOLDER, folder};

/// Options of `tutti probe`.
#[derive(Args)]
pub struct ProbeOptions {
    /// File for the costs; by default the one in which the launcher looks for them (TUTTI_MODEL_FILE, or a
    /// file in the user's cache directory).
    #[arg(long)]
    out: Option<PathBuf>,
    /// Also measure the network between the first two of these hosts. Libraries and programs must be found
    /// there under the same names.
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<String>,
    /// Program to use in place of ssh.
    #[arg(long, default_value = "ssh")]
    agent: String,
    /// Directory for programs, which all hosts see.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER, value_parser = folder)]
    programs: PathBuf,
    /// Only print the costs, in the form of the file.
    #[arg(long, conflicts_with = "out")]
    print: bool,
    /// Print the costs as JSON, in SI units.
    #[arg(long, conflicts_with = "print")]
    json: bool,
    /// Measure for a job that is about to start: keep nothing if the machine is in use or is being measured.
    #[arg(long, hide = true, requires = "out")]
    unasked: bool,
}

/// Measures and keeps the model.
///
/// # Errors
/// Fails if the file cannot be written, or there is no place for it.
pub fn run(options: &ProbeOptions) -> Result<(), String> {
    if let Some(out) = options.out.as_deref().filter(|_| options.unasked) {
        return unasked::run(out).map_err(|error| format!("cannot write {}: {error}", out.display()));
    }
    let mut model = costs::probe();
    if !options.hosts.is_empty() {
        across(options, &mut model)?;
    }
    let text = measured(&model);
    if options.print {
        crate::output::show(&text);
        return Ok(());
    }
    let config = Config::from_env().map_err(|error| error.to_string())?;
    let path = options.out.clone().or_else(|| default_path(&config));
    let path = path.ok_or("neither --out nor TUTTI_MODEL_FILE nor HOME says where to keep the model")?;
    keep(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    crate::output::show(&match options.json {
        true => format!("{:#}\n", json!({ "file": path, "costs": table::json(&text) })),
        false => format!("kept in {}\n{}", path.display(), table::table(&text)),
    });
    Ok(())
}

/// Measures the network between two hosts.
fn across(options: &ProbeOptions, model: &mut Model) -> Result<(), String> {
    let home = home()?;
    let tutti = Library::find("tutti", &home, &home)?;
    let programs = Programs::build(&options.programs, std::slice::from_ref(&tutti))?;
    let place = HostSet {
        enter: Vec::new(),
        agent: options.agent.clone(),
        hosts: options.hosts.clone(),
        per_host: 1,
        by_node: false,
    };
    network::probe(&tutti, &programs, &place, model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_probed_can_be_read() {
        let directory = std::env::temp_dir().join(format!("tutti-probe-{}", std::process::id()));
        let path = directory.join("MODEL");
        let model = costs::probe();
        assert!(
            model.copy_byte[0] > 1e-12
                && model.switch > 0.0
                && model.line[1] > 0.0
                && model.memory_bandwidth > 0.0
        );
        keep(&path, &measured(&model)).unwrap();
        assert_eq!(Model::parse(&std::fs::read_to_string(&path).unwrap()), Ok(model));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
