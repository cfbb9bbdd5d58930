//! The program `tutti-overlap`, which `tutti overlap` and `mpicc --overlap` call. See the crate's
//! documentation.
#![deny(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tutti_overlap::generate::{Options, Scheme};
use tutti_overlap::refusal::Unsupported;
use tutti_overlap::translate;

/// Translates loops over time and space in C into MPI that communicates while it computes.
#[derive(Parser)]
#[command(name = "tutti overlap", version)]
struct Arguments {
    /// The program: C with `#pragma scop` and `#pragma endscop` around a loop over time, or `#pragma tutti
    /// overlap` before it.
    input: PathBuf,
    /// File for the new program; `-` is standard output.
    #[arg(short, default_value = "-")]
    output: PathBuf,
    /// Distribution of the regions.
    #[arg(long, value_enum, default_value = "auto")]
    scheme: Choice,
    /// Generate a program that waits for each message at once, without overlap.
    #[arg(long)]
    no_overlap: bool,
    /// Let the program measure computation and communication alone and together, and print a table.
    #[arg(long)]
    measure: bool,
    /// A folder with headers.
    #[arg(short = 'I', value_name = "FOLDER")]
    include: Vec<String>,
    /// A macro, with or without a value.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    /// Steps where the order of the loops allows it, otherwise tiles.
    Auto,
    /// One exchange in each step, inner part first.
    Step,
    /// Slanted tiles of several steps.
    Tiles,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let path = arguments.input.display().to_string();
    match translated(&arguments, &path).and_then(|text| write(&arguments.output, &text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("{}", refusal.show(&path));
            ExitCode::FAILURE
        }
    }
}

fn translated(arguments: &Arguments, path: &str) -> Result<String, Unsupported> {
    let scheme = match arguments.scheme {
        Choice::Auto => Scheme::Auto,
        Choice::Step => Scheme::Step,
        Choice::Tiles => Scheme::Tiles,
    };
    let options = Options { scheme, overlap: !arguments.no_overlap, measure: arguments.measure };
    let folders = arguments.include.iter().map(|folder| format!("-I{folder}"));
    let flags: Vec<String> = folders.chain(arguments.define.iter().map(|name| format!("-D{name}"))).collect();
    translate(path, &flags, options)
}

fn write(path: &Path, text: &str) -> Result<(), Unsupported> {
    if path == Path::new("-") {
        print!("{text}");
        return Ok(());
    }
    std::fs::write(path, text).map_err(|error| Unsupported::general(format!("{}: {error}", path.display())))
}
