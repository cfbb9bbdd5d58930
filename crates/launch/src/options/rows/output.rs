//! Options for messages, and for the input and output of ranks.

use crate::options::outputs;
use crate::options::row::{Row, row};
use crate::request::Tagging;

pub(super) const ROWS: &[Row] = &[
    row(&["debug"], &[], "ranks wait in MPI_Init for a debugger, or run under TUTTI_DEBUGGER", |r, _| {
        r.request.is_debugged = true;
        Ok(())
    }),
    row(&["report-bindings"], &[], "print where each rank is bound", |r, _| {
        r.request.report_bindings = true;
        Ok(())
    }),
    row(&["tag-output"], &[], "begin each line of output with [rank]<stdout>: or [rank]<stderr>:", |r, _| {
        r.request.tagging = Tagging::Stream;
        Ok(())
    }),
    row(&["prepend-rank", "l"], &[], "begin each line of output with [rank]", |r, _| {
        r.request.tagging = Tagging::Rank;
        Ok(())
    }),
    row(
        &["timestamp", "timestamp-output"],
        &[],
        "begin each line with the seconds since the start",
        |r, _| {
            r.request.timestamp = true;
            Ok(())
        },
    ),
    row(&["prepend-pattern"], &["TEXT"], "begin each line so: %r rank, %h host, %p its number", |r, v| {
        r.request.tagging = Tagging::Pattern(outputs::pattern(&v[0])?);
        Ok(())
    }),
    row(
        &["output"],
        &["LIST"],
        "tag, timestamp, merge; file=NAME, dir=DIR: into files too, with :nocopy only there",
        |r, v| outputs::output(r, &v[0]),
    ),
    row(
        &["outfile-pattern", "outfile"],
        &["NAME"],
        "standard output into files: %r rank, %h host",
        |r, v| {
            r.request.output.out = Some(outputs::pattern(&v[0])?);
            r.request.output.is_shown = false;
            Ok(())
        },
    ),
    row(&["errfile-pattern", "errfile"], &["NAME"], "standard error into files: %r rank, %h host", |r, v| {
        r.request.output.err = Some(outputs::pattern(&v[0])?);
        r.request.output.is_shown = false;
        Ok(())
    }),
    row(&["merge-stderr-to-stdout"], &[], "standard error goes where standard output goes", |r, _| {
        r.request.output.is_merged = true;
        Ok(())
    }),
    row(
        &["stdin", "s"],
        &["RANK"],
        "which rank reads the standard input, all, or none (default 0)",
        |r, v| outputs::input(r, &v[0]),
    ),
    row(&["display"], &["LIST"], "show map, bind, allocation before the start", |r, v| {
        outputs::display(r, &v[0])
    }),
    row(&["do-not-launch"], &[], "start nothing: with --display, show what would be", |r, _| {
        r.request.is_dry = true;
        Ok(())
    }),
    row(&["print-all-exitcodes"], &[], "print how every rank has ended", |r, _| {
        r.request.exit_codes = true;
        Ok(())
    }),
    row(&["hang-report"], &["FILE"], "write the report of a hang there, as JSON", |r, v| {
        r.request.hang_report = Some(v[0].clone().into());
        Ok(())
    }),
    row(
        &["report-pid"],
        &["FILE"],
        "write the number of this process there (-: standard output, +: error)",
        |r, v| {
            r.request.pid_to = Some(v[0].clone());
            Ok(())
        },
    ),
];
