//! Parsers for the user's description of a machine: recorded or local, its costs, and the binding of ranks.

use std::path::Path;

use tutti_coll::Model;
use tutti_coll::simulate::Binding;
use tutti_sys::files;
use tutti_topo::Machine;

/// Reads the machine in a file, or returns the local machine without one.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn machine(path: Option<&Path>) -> Result<Machine, String> {
    match path {
        Some(path) => Machine::parse(&read(path)?).map_err(|why| format!("{}: {why}", path.display())),
        None => Ok(Machine::local()),
    }
}

/// Reads the model in a file.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn model(path: &Path) -> Result<Model, String> {
    Model::parse(&read(path)?).map_err(|why| format!("{}: {why}", path.display()))
}

/// Longest description of a machine, or of its costs, in bytes.
const MACHINE_BYTES: u64 = 64 << 20;

fn read(path: &Path) -> Result<String, String> {
    files::read_text_or_pipe(path, MACHINE_BYTES)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Parses the binding of ranks to cores.
///
/// # Errors
/// Returns the part that cannot be parsed.
pub fn binding(text: &str) -> Result<Binding, String> {
    match (text, text.strip_prefix("random:")) {
        ("compact", _) => Ok(Binding::Compact),
        ("scatter", _) => Ok(Binding::Scatter),
        ("none", _) => Ok(Binding::None),
        (_, Some(seed)) => seed.parse().map(Binding::Random).map_err(|_| format!("{seed:?} is not a number")),
        _ => {
            let list = tutti_topo::text::parse_list(text).map_err(|error| error.to_string())?;
            Ok(Binding::List(list.into_iter().map(|processor| processor as usize).collect()))
        }
    }
}

/// Checks that the machine has all processors of a list.
///
/// # Errors
/// Returns a processor that the machine does not have.
pub fn check_list(machine: &Machine, binding: &Binding) -> Result<(), String> {
    let Binding::List(list) = binding else { return Ok(()) };
    match list.iter().find(|&&listed| machine.processors().all(|processor| processor != listed)) {
        Some(processor) => Err(format!("{} has no processor {processor}", machine.name())),
        None if list.is_empty() => Err("no processor is listed".to_string()),
        None => Ok(()),
    }
}
