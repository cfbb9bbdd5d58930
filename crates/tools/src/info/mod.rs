//! `tutti info`: what is here and how it is set.

mod functions;
pub mod machine;

use clap::Args;
use functions::{FUNCTIONS, implemented};
use tutti_base::config::{Config, SETTINGS};

/// Options of `tutti info`.
#[derive(Args)]
pub struct Options {
    /// List the MPI functions that are implemented and those that are not yet.
    #[arg(long)]
    functions: bool,
    /// Only the settings, as NAME=VALUE lines.
    #[arg(long, conflicts_with = "functions")]
    settings: bool,
}

/// Prints what was asked for.
///
/// # Errors
/// A TUTTI_ variable of the environment is wrong.
pub fn run(options: &Options) -> Result<(), String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    if options.functions {
        print_functions();
    } else if options.settings {
        SETTINGS.iter().for_each(|setting| println!("{}={}", setting.name, setting.show(&config)));
    } else {
        print_all(&config);
    }
    Ok(())
}

fn print_functions() {
    println!("# {} of {} functions are implemented", implemented(), FUNCTIONS.len());
    println!("# the others raise MPI_ERR_UNSUPPORTED_OPERATION");
    for (name, implemented) in FUNCTIONS {
        println!("{name}{}", if *implemented { "" } else { "\tunsupported" });
    }
}

fn print_all(config: &Config) {
    println!("Tutti {}", env!("CARGO_PKG_VERSION"));
    println!("standard: MPI 5.0, standard ABI 1.0 (libmpi_abi.so.1)");
    println!("functions: {} of {} implemented (--functions lists them)", implemented(), FUNCTIONS.len());
    println!("\nMachine");
    machine::describe().iter().for_each(|line| println!("  {line}"));
    println!("\nTransports");
    println!("  self: always");
    println!("  shared memory: always; one anonymous object a job");
    println!("  single copy: {}", machine::single_copy());
    println!("\nSettings (environment; * differs from the default)");
    let width = SETTINGS.iter().map(|setting| setting.name.len()).max().unwrap_or(0);
    let default = Config::default();
    for setting in SETTINGS {
        let (value, usual) = (setting.show(config), setting.show(&default));
        let mark = if value == usual { ' ' } else { '*' };
        let shown = if value.is_empty() { "(none)" } else { &value };
        println!("{mark} {:width$}  {shown:<10}  {} [{}]", setting.name, setting.doc, setting.kind);
    }
}
