//! Rows: checks of programs, and reports about them.

use super::debug;
use crate::config::diagnosis::{HangWatch, InitialErrorHandler};
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::{flag, one_of};

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_DEBUG",
        kind: ValueKind::Text("list of key=value"),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "switches and sizes for developers, for example map_after=1,move_apart=0; `tutti info --all-settings` lists the keys",
        set: debug::set,
        show: debug::show,
    },
    Setting {
        name: "TUTTI_CHECK_TYPES",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "refuse a receive whose datatype does not match the sender's, and operators on MPI_CHAR (debugging)",
        set: |c, v| flag(v).map(|x| c.diagnosis.check_types = x),
        show: |c| (c.diagnosis.check_types as u8).to_string(),
    },
    Setting {
        name: "TUTTI_BACKTRACE",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "print a backtrace of the program when a rank crashes (SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE)",
        set: |c, v| flag(v).map(|x| c.diagnosis.backtrace = x),
        show: |c| (c.diagnosis.backtrace as u8).to_string(),
    },
    Setting {
        name: "TUTTI_REPORT_LEAKS",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "report in MPI_Finalize objects that were not freed, and receives and messages without a match",
        set: |c, v| flag(v).map(|x| c.diagnosis.report_leaks = x),
        show: |c| (c.diagnosis.report_leaks as u8).to_string(),
    },
    Setting {
        name: "TUTTI_INITIAL_ERROR_HANDLER",
        kind: ValueKind::Words(&["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "initial error handler of MPI_COMM_WORLD and MPI_COMM_SELF (mpirun --initial-errhandler)",
        set: |c, v| initial_error_handler(v).map(|x| c.diagnosis.initial_error_handler = x),
        show: |c| c.diagnosis.initial_error_handler.name().to_string(),
    },
    Setting {
        name: "TUTTI_HANG",
        kind: ValueKind::Text("seconds | off | abort"),
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "seconds that a rank waits before mpirun looks for a deadlock; abort: a proved one ends the job",
        set: |c, v| HangWatch::parse(v).map(|x| c.diagnosis.hang = x),
        show: |c| c.diagnosis.hang.to_string(),
    },
    Setting {
        name: "TUTTI_COUNTERS",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "print at the end the data that each rank has sent, by path, and its traffic with other hosts",
        set: |c, v| flag(v).map(|x| c.diagnosis.counters = x),
        show: |c| (c.diagnosis.counters as u8).to_string(),
    },
    Setting {
        name: "TUTTI_TRACE",
        kind: ValueKind::Text("path"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "file for a trace of all ranks, written at the end, for Perfetto and tutti trace",
        set: |c, v| {
            c.diagnosis.trace = v.to_string();
            Ok(())
        },
        show: |c| c.diagnosis.trace.clone(),
    },
];

fn initial_error_handler(text: &str) -> std::result::Result<InitialErrorHandler, String> {
    one_of(&InitialErrorHandler::NAMES, text)
}
