//! The call as reports of errors show it: `MPI_Send(buf=0x7ffe12345678, count=1, datatype=MPI_INT, ...)`.

use std::ffi::c_int;
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;

use tutti_core::lanes;

use crate::function::{Function, Parameter};
use crate::generated::constants::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_BUFFER_AUTOMATIC, MPI_IN_PLACE, MPI_PROC_NULL, MPI_ROOT, MPI_UNWEIGHTED,
    MPI_WEIGHTS_EMPTY,
};
use crate::generated::names::HANDLE_NAMES;
use crate::handles::{self, kind::Comm};
use crate::types::Raw;

/// Longest text that is shown, in bytes.
const MOST_TEXT_BYTES: usize = 200;

const RANKS: &[(c_int, &str)] =
    &[(MPI_ANY_SOURCE, "MPI_ANY_SOURCE"), (MPI_PROC_NULL, "MPI_PROC_NULL"), (MPI_ROOT, "MPI_ROOT")];
const TAGS: &[(c_int, &str)] = &[(MPI_ANY_TAG, "MPI_ANY_TAG")];
const BUFFERS: &[(usize, &str)] =
    &[(0, "NULL"), (MPI_IN_PLACE, "MPI_IN_PLACE"), (MPI_BUFFER_AUTOMATIC, "MPI_BUFFER_AUTOMATIC")];
const WEIGHTS: &[(usize, &str)] =
    &[(0, "NULL"), (MPI_UNWEIGHTED, "MPI_UNWEIGHTED"), (MPI_WEIGHTS_EMPTY, "MPI_WEIGHTS_EMPTY")];
const STATUS: &[(usize, &str)] = &[(0, "MPI_STATUS_IGNORE")];
const STATUSES: &[(usize, &str)] = &[(0, "MPI_STATUSES_IGNORE")];
const POINTERS: &[(usize, &str)] = &[(0, "NULL")];

/// Returns the call with its arguments. Takes the lock of the first lane.
pub fn show_call(function: &Function, arguments: &[usize]) -> String {
    let shown: Vec<String> = function
        .parameters
        .iter()
        .zip(arguments)
        .map(|((name, parameter), &value)| format!("{name}={}", show(*parameter, value)))
        .collect();
    format!("{}({})", function.name, shown.join(", "))
}

fn show(parameter: Parameter, value: usize) -> String {
    match parameter {
        Parameter::Number => (value as isize).to_string(),
        Parameter::Rank => show_number(RANKS, value),
        Parameter::Tag => show_number(TAGS, value),
        Parameter::Comm => {
            show_handle(value).or_else(|| name_of_comm(value)).unwrap_or_else(|| format!("{value:#x}"))
        }
        Parameter::Handle => show_handle(value).unwrap_or_else(|| format!("{value:#x}")),
        Parameter::Buffer => show_address(BUFFERS, value),
        Parameter::Text => text_at(value).unwrap_or_else(|| show_address(POINTERS, value)),
        Parameter::Weights => show_address(WEIGHTS, value),
        Parameter::Status => show_address(STATUS, value),
        Parameter::Statuses => show_address(STATUSES, value),
        Parameter::Pointer => show_address(POINTERS, value),
    }
}

/// Returns the number as text, or the name of the constant with this value.
fn show_number(names: &[(c_int, &str)], value: usize) -> String {
    let number = value as c_int;
    let named = names.iter().find(|(known, _)| *known == number);
    named.map_or_else(|| number.to_string(), |(_, name)| (*name).to_string())
}

/// Returns the address as text, or the name of an address with a special meaning.
fn show_address(names: &[(usize, &str)], value: usize) -> String {
    let named = names.iter().find(|(known, _)| *known == value);
    named.map_or_else(|| format!("{value:#x}"), |(_, name)| (*name).to_string())
}

/// Returns the name of a predefined handle.
fn show_handle(value: usize) -> Option<String> {
    HANDLE_NAMES.iter().find(|(number, _)| *number == value).map(|(_, name)| (*name).to_string())
}

/// Returns the name that the program has given to a communicator.
fn name_of_comm(value: usize) -> Option<String> {
    let held = lanes::enter();
    // SAFETY: used only below, under the lock.
    let comm = unsafe { handles::resolve(Raw::<Comm>::from_bits(value), "comm") }.ok()?;
    let name = comm.name.borrow(&held);
    (!name.as_bytes().is_empty()).then(|| String::from_utf8_lossy(name.as_bytes()).into_owned())
}

/// Returns the string at an address in quotes, or `None` where nothing can be read.
fn text_at(address: usize) -> Option<String> {
    let mut bytes = [0; MOST_TEXT_BYTES];
    // Reports what cannot be read, where a pointer would crash.
    let count = File::open("/proc/self/mem").ok()?.read_at(&mut bytes, address as u64).ok()?;
    let text = &bytes[..count];
    let (text, rest) = match text.iter().position(|byte| *byte == 0) {
        Some(end) => (&text[..end], ""),
        None => (text, "..."),
    };
    let mut quoted = String::from("\"");
    // Writing to a string does not fail.
    let _ = write!(quoted, "{}", String::from_utf8_lossy(text).escape_debug());
    Some(quoted + rest + "\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::constants::{MPI_COMM_WORLD, MPI_INT};

    fn check(parameter: Parameter, value: usize, expected: &str) {
        assert_eq!(show(parameter, value), expected);
    }

    #[test]
    fn arguments_are_shown_by_their_kind() {
        check(Parameter::Number, -3isize as usize, "-3");
        check(Parameter::Rank, MPI_PROC_NULL as usize, "MPI_PROC_NULL");
        check(Parameter::Rank, 11, "11");
        check(Parameter::Rank, -50isize as usize, "-50");
        check(Parameter::Tag, MPI_ANY_TAG as usize, "MPI_ANY_TAG");
        check(Parameter::Comm, MPI_COMM_WORLD.bits(), "MPI_COMM_WORLD");
        check(Parameter::Handle, MPI_INT.bits(), "MPI_INT");
        check(Parameter::Handle, 0x7eee_0000, "0x7eee0000");
        check(Parameter::Buffer, MPI_IN_PLACE, "MPI_IN_PLACE");
        check(Parameter::Buffer, 0, "NULL");
        check(Parameter::Text, c"a \"b\"".as_ptr() as usize, "\"a \\\"b\\\"\"");
        check(Parameter::Text, 64, "0x40");
        check(Parameter::Status, 0, "MPI_STATUS_IGNORE");
    }

    #[test]
    fn a_call_has_its_name_and_all_arguments() {
        let parameters = &[("count", Parameter::Number), ("dest", Parameter::Rank)];
        let function = Function { name: "MPI_Send", always: false, parameters };
        assert_eq!(show_call(&function, &[1, 7]), "MPI_Send(count=1, dest=7)");
    }

    #[test]
    fn every_predefined_handle_has_one_name() {
        for (place, (number, name)) in HANDLE_NAMES.iter().enumerate() {
            assert!(HANDLE_NAMES[..place].iter().all(|(other, _)| other != number), "{name}");
        }
    }
}
