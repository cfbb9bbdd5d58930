//! Options for parameters of other launchers, limits of the job, and messages about it.

use crate::error::LaunchError;
use crate::options::foreign;
use crate::options::outputs;
use crate::options::row::{Row, row};
use crate::request::Verbosity;
use std::time::Duration;

pub(super) const ROWS: &[Row] = &[
    row(&["runtime-options"], &["LIST"], "as Open MPI has it: donotlaunch, show-progress, ...", |r, v| {
        outputs::runtime(r, &v[0])
    }),
    row(
        &["mca", "gmca", "omca", "gomca"],
        &["NAME", "VALUE"],
        "a parameter of Open MPI: what has a meaning here is done",
        |r, v| {
            let mut rest = std::mem::take(&mut r.rest);
            let result = foreign::parameter(r, &v[0], &v[1], &mut rest);
            r.rest = rest;
            result
        },
    ),
    row(&["tune", "am", "amca"], &["FILE"], "such parameters in a file, NAME = VALUE a line", |r, v| {
        let mut rest = std::mem::take(&mut r.rest);
        let result = foreign::parameter_files(r, &v[0], &mut rest);
        r.rest = rest;
        result
    }),
    row(&["strict"], &[], "refuse options that would be ignored", |r, _| {
        r.request.is_strict = true;
        Ok(())
    }),
    row(&["timeout"], &["SECONDS"], "end the job after this time, with status 124", |r, v| {
        let seconds = v[0].parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        r.request.timeout =
            Some(seconds.ok_or_else(|| LaunchError::Invalid("a time in seconds is needed".to_string()))?);
        Ok(())
    }),
    row(&["quiet", "q"], &[], "no warnings", |r, _| {
        r.request.verbosity = Verbosity::Quiet;
        Ok(())
    }),
    row(&["verbose", "v"], &[], "say what is started where", |r, _| {
        r.request.verbosity = Verbosity::Verbose;
        Ok(())
    }),
];
