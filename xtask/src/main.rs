//! Development tasks, run as `cargo xtask TASK`: code generation from `spec/` and the tidy test.

mod generate;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask generate [--check] | tidy";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The manifest directory is <root>/xtask.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask sits in the root folder");
    let result = match words[..] {
        ["generate"] => generate::write(root),
        ["generate", "--check"] => generate::check(root),
        ["tidy"] => tidy::run(root),
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
