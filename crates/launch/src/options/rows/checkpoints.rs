//! Options for checkpoints and restarts.

use tutti_checkpoint::input::RestartInput;

use crate::error::LaunchError;
use crate::options::row::{Row, row};
use crate::options::values::{absolute, signal, time};
use crate::request::RestartFiles;

pub(super) const ROWS: &[Row] = &[
    row(
        &["checkpoint-every"],
        &["TIME"],
        "write a checkpoint of the whole job each TIME (90s, 10m, 2h) to --checkpoint-dir",
        |r, v| {
            r.request.checkpoints.every = Some(time(&v[0])?);
            Ok(())
        },
    ),
    row(
        &["checkpoint-dir"],
        &["DIR"],
        "where checkpoints are kept, the newest two; all hosts have to see it",
        |r, v| {
            r.request.checkpoints.directory = Some(absolute(&v[0])?);
            Ok(())
        },
    ),
    row(
        &["checkpoint-on"],
        &["SIGNAL"],
        "write a checkpoint when mpirun gets SIGNAL: USR1, USR2, TERM, ...",
        |r, v| {
            r.request.checkpoints.on_signal = Some(signal(&v[0])?);
            Ok(())
        },
    ),
    row(
        &["restart"],
        &["DIR[:N]"],
        "go on from the newest checkpoint in DIR, or from number N; no program is named",
        |r, v| {
            let split = v[0].rsplit_once(':').and_then(|(dir, set)| Some((dir, set.parse().ok()?)));
            let (directory, set) = split.map_or((&v[0][..], None), |(dir, set)| (dir, Some(set)));
            r.request.checkpoints.restart = Some((absolute(directory)?, set));
            Ok(())
        },
    ),
    row(
        &["restart-on-failure"],
        &["N"],
        "when a host is lost or a rank is killed, go on from the last checkpoint, up to N times",
        |r, v| {
            r.request.checkpoints.restarts =
                v[0].parse().map_err(|_| LaunchError::Invalid("a number is needed".to_string()))?;
            Ok(())
        },
    ),
    row(
        &["restart-files"],
        &["HOW"],
        "files written since the checkpoint: truncate (default), keep, refuse",
        |r, v| {
            r.request.checkpoints.files = match &v[0][..] {
                "truncate" => RestartFiles::Truncate,
                "keep" => RestartFiles::Keep,
                "refuse" => RestartFiles::Refuse,
                _ => return Err(LaunchError::Invalid("truncate, keep or refuse is needed".to_string())),
            };
            Ok(())
        },
    ),
    row(
        &["restart-input"],
        &["HOW"],
        "standard input of a restart: continue (default: skip what was read), rest",
        |r, v| {
            r.request.checkpoints.input = match &v[0][..] {
                "continue" => RestartInput::Continue,
                "rest" => RestartInput::Rest,
                _ => return Err(LaunchError::Invalid("continue or rest is needed".to_string())),
            };
            Ok(())
        },
    ),
    row(
        &["restart-untrusted"],
        &[],
        "--restart also from a checkpoint that other users own or may write",
        |r, _| {
            r.request.checkpoints.allows_others = true;
            Ok(())
        },
    ),
];
