//! Commands as a command line gives them, for tests.

use clap::{Args, Error, Parser};

#[derive(Parser)]
struct Line<T: Args> {
    #[command(flatten)]
    options: T,
}

/// Parses the options of a command from `words`. `MACHINES/` stands for the folder of recorded machines.
pub fn options<T: Args>(words: &str) -> Result<T, Error> {
    let machines = format!("{}/../../fixtures/machines/", env!("CARGO_MANIFEST_DIR"));
    let words = words.replace("MACHINES/", &machines);
    Line::try_parse_from(["tutti"].into_iter().chain(words.split_whitespace())).map(|line| line.options)
}

/// Parses the words of a command line and runs the command. Returns its output, or the error of either.
pub fn answer<T: Args>(
    words: &str,
    command: impl Fn(&T) -> Result<String, String>,
) -> Result<String, String> {
    options(words).map_err(|error| error.to_string()).and_then(|options| command(&options))
}

/// Asserts that the output of a command, or its error, contains the expected text.
pub fn check<T: Args>(
    words: &str,
    command: impl Fn(&T) -> Result<String, String>,
    expected: Result<&str, &str>,
) {
    match (answer(words, command), expected) {
        (Ok(text), Ok(part)) | (Err(text), Err(part)) => assert!(text.contains(part), "{text}"),
        (got, _) => panic!("{words}: {got:?}"),
    }
}
