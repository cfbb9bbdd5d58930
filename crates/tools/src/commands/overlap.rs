//! `tutti overlap`: a program of its own, as it knows nothing of the others and they need nothing of it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// All arguments, which are passed to `tutti-overlap`
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct OverlapOptions {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process by `tutti-overlap`, which is in the same directory.
pub fn run(options: &OverlapOptions) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| format!("overlap: {error}"))?;
    let program = own.with_file_name("tutti-overlap");
    let error = Command::new(&program).args(&options.arguments).exec();
    Err(format!("overlap: {}: {error}; make stage installs it", program.display()))
}
