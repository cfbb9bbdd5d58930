//! Development tasks, run as `cargo xtask TASK`: code generation from `spec/`, the tidy test, lists of
//! imports and unclear texts, hosts on one machine.

mod generate;
mod tidy;
mod wording;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

const USAGE: &str = "usage: cargo xtask generate [--check] | tidy [--lower] | imports CRATE | wording [AREA...] | testbed ACTION";

/// Several hosts on one machine.
#[derive(Parser)]
#[command(name = "testbed", bin_name = "cargo xtask testbed")]
struct Testbed {
    #[command(subcommand)]
    action: tutti_testbed::Action,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "testbed") {
        return tutti_testbed::run(Testbed::parse_from(&arguments).action);
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The manifest directory is <root>/xtask.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask sits in the root folder");
    let result = match words[..] {
        ["generate"] => generate::write(root),
        ["generate", "--check"] => generate::check(root),
        ["tidy"] => tidy::run(root, false),
        ["tidy", "--lower"] => tidy::run(root, true),
        ["wording", ref areas @ ..] => tidy::list_wording(root, areas),
        ["imports", name] => tidy::imports(root, name),
        _ => Err(vec![USAGE.to_string()]),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaints) => {
            for complaint in complaints {
                eprintln!("{complaint}");
            }
            ExitCode::FAILURE
        }
    }
}
