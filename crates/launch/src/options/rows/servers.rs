//! Options for I/O servers, traces and error handlers.

use crate::error::LaunchError;
use crate::options::row::{Row, row};
use crate::options::values::{count, variable};
use tutti_base::config::InitialErrorHandler;
use tutti_sys::spawning;

pub(super) const ROWS: &[Row] = &[
    row(
        &["io-servers"],
        &["N"],
        "start N servers for files, on the hosts in turn; names that begin with tutti: are theirs",
        |r, v| {
            r.request.io_servers.count = count(&v[0])?;
            Ok(())
        },
    ),
    row(
        &["io-root"],
        &["DIR"],
        "their directory (default: tutti-io-UID where temporary files are); files stay there",
        |r, v| {
            r.request.io_servers.root = std::path::absolute(&v[0])?;
            Ok(())
        },
    ),
    row(
        &["io-mode"],
        &["MODE"],
        "scratch: each has a part of every file (default); forward: DIR is shared and has plain files",
        |r, v| {
            let known = ["scratch", "forward"].contains(&v[0].as_str());
            known
                .then_some(())
                .ok_or_else(|| LaunchError::Invalid("scratch or forward is needed".to_string()))?;
            r.request.io_servers.mode = v[0].clone();
            Ok(())
        },
    ),
    row(
        &["trace"],
        &["FILE"],
        "write there what every rank did and when (tutti trace FILE draws it)",
        |r, v| {
            if v[0].starts_with('-') {
                return Err(LaunchError::Invalid(
                    "Tutti's --trace needs a file (Intel MPI's -trace is another)".to_string(),
                ));
            }
            let path = std::path::absolute(&v[0])?;
            let path =
                path.to_str().ok_or_else(|| LaunchError::Invalid("a name in UTF-8 is needed".to_string()))?;
            r.request.environment.push(variable("TUTTI_TRACE", path)?);
            Ok(())
        },
    ),
    row(
        &["initial-errhandler"],
        &["NAME"],
        "error handler from the start: mpi_errors_are_fatal, mpi_errors_abort, mpi_errors_return",
        |r, v| {
            let known = InitialErrorHandler::NAMES.iter().any(|(name, _)| *name == v[0]);
            let names = || InitialErrorHandler::NAMES.map(|(name, _)| name).join(", ");
            let wrong = || LaunchError::Invalid(format!("{} is needed", names()));
            known.then_some(()).ok_or_else(wrong)?;
            r.request.environment.push(variable(spawning::ENV_ERROR_HANDLER, &v[0])?);
            Ok(())
        },
    ),
    row(
        &["memory-alloc-kinds"],
        &["LIST"],
        "kinds of memory requested: mpi, system, mpi:alloc_mem, ... (MPI-5 section 11.4.3)",
        |r, v| {
            r.request.environment.push(variable(spawning::ENV_MEMORY_KINDS, &v[0])?);
            Ok(())
        },
    ),
];
