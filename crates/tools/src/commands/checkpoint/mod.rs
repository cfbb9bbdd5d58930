//! `tutti checkpoint PID` and `tutti checkpoints DIR`; `tutti sim checkpoint` ([`simulated`]).

mod model;
pub mod simulated;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use tutti_checkpoint::call::{self, Call};
use tutti_checkpoint::coordination;
use tutti_checkpoint::image::blocks::Reader;
use tutti_checkpoint::sets::{self, Directory};

/// Options of `tutti checkpoint`.
#[derive(Args, Clone, Debug)]
pub struct CheckpointOptions {
    /// Process number of the mpirun.
    pid: u32,
    /// End the job once the checkpoint is whole.
    #[arg(long)]
    stop: bool,
    /// Directory for the checkpoint, if mpirun was started without --checkpoint-dir
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Options of `tutti checkpoints`.
#[derive(Args, Clone, Debug)]
pub struct ListOptions {
    /// The directory.
    #[arg(required_unless_present = "steps")]
    directory: Option<PathBuf>,
    /// Show the steps at which a test can stop a checkpoint or a restart.
    #[arg(long, hide = true)]
    steps: bool,
    /// Read all files and hold them against their hashes.
    #[arg(long)]
    verify: bool,
}

/// Requests a checkpoint and prints the result.
pub fn run(options: &CheckpointOptions) -> Result<(), String> {
    let directory = options.dir.as_ref().map(std::path::absolute).transpose();
    let directory = directory.map_err(|error| error.to_string())?.map(PathBuf::into_os_string);
    let call = Call { stops: options.stop, directory };
    let answer = call::ask(options.pid, &call).map_err(|error| error.to_string())?;
    if !answer.is_whole {
        return Err(answer.text);
    }
    show(&format!("{}\n", answer.text));
    Ok(())
}

/// Lists sets, newest first.
pub fn list(options: &ListOptions) -> Result<(), String> {
    if options.steps {
        show(&coordination::steps().iter().map(|step| format!("{step}\n")).collect::<String>());
        return Ok(());
    }
    let directory = Directory::new(options.directory.as_deref().unwrap_or(Path::new(".")));
    let numbers = directory.numbers().map_err(|error| error.to_string())?;
    let mut text = format!(
        "{:>6}  {:>14}  {:>6}  {:>6}  {:>12}  {:>12}  {:<8}  program\n",
        "set", "age", "ranks", "hosts", "bytes", "of memory", "state"
    );
    for set in &numbers {
        let line = describe(&directory, *set, options.verify);
        text.push_str(&line);
    }
    if let Some(set) = directory.in_work() {
        let _ = writeln!(text, "{set:>6}  not whole: being written, or left by a job that was ended");
    }
    if numbers.is_empty() && directory.in_work().is_none() {
        let _ = writeln!(text, "no checkpoint");
    }
    show(&text);
    Ok(())
}

/// Prints text; a closed output is no error.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn describe(directory: &Directory, set: u64, verifies: bool) -> String {
    let manifest = match directory.manifest(set) {
        Ok(manifest) => manifest,
        Err(error) => return format!("{set:>6}  {error}\n"),
    };
    let open = |record| Reader::open(directory.path(), set, record);
    let broken = manifest
        .files
        .iter()
        .find_map(|record| open(record).and_then(|file| if verifies { file.verify() } else { Ok(()) }).err());
    let state = if broken.is_some() { "damaged" } else { "whole" };
    let content: u64 = manifest.files.iter().map(|file| file.content).sum();
    let age = sets::now_s().saturating_sub(manifest.written_s);
    let age = format!("{}:{:02}:{:02} h ago", age / 3600, age / 60 % 60, age % 60);
    let mut line = format!(
        "{set:>6}  {age:>14}  {:>6}  {:>6}  {:>12}  {content:>12}  {state:<8}  {}\n",
        manifest.ranks,
        manifest.hosts,
        manifest.bytes(),
        manifest.program
    );
    if let Some(error) = broken {
        let _ = writeln!(line, "        {error}");
    }
    line
}
