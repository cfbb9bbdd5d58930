//! Automatic restarts of a job. After the loss of a host or of a rank, it continues from its last checkpoint.
//! If that set is damaged, it continues from the set before.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use tutti_checkpoint::lock::DirectoryLock;
use tutti_checkpoint::sets::Directory;
use tutti_sys::refusal;

use crate::outcome::Outcome;
use crate::program::{self, PrepareError};
use crate::request::Request;
use crate::{report, supervisor};

/// Maximum wait for the lock of a directory, as a killed mpirun may still be ending.
const PATIENCE: Duration = Duration::from_secs(3);

/// Takes the lock of the directory into which the job will write checkpoints. It is not taken if the
/// directory does not exist yet, or if only a restart is requested. In these cases the first checkpoint takes
/// it.
fn lock(request: &Request, place: Option<&OsStr>) -> Result<Option<DirectoryLock>, PrepareError> {
    let said = &request.checkpoints;
    let writes = said.directory.is_some() || said.every.is_some() || said.on_signal.is_some();
    let place = place.map(Path::new).filter(|place| (writes || said.restarts > 0) && place.is_dir());
    let Some(place) = place.filter(|_| !request.is_dry) else { return Ok(None) };
    let lock = DirectoryLock::take(place, std::process::id(), PATIENCE);
    lock.map(Some).map_err(|error| program::usage(error.to_string()))
}

/// Runs a job to its end, with as many restarts as the user permits. Returns the exit status.
///
/// # Errors
/// Fails if the job cannot be prepared or started.
pub fn run(mut request: Request) -> Result<u8, PrepareError> {
    let mut left = request.checkpoints.restarts;
    let said = &request.checkpoints;
    let place = said.directory.clone().or_else(|| said.restart.as_ref().map(|(place, _)| place.clone()));
    if let (Some(place), None) = (&place, &said.restart) {
        let owner = Directory::new(Path::new(place)).check_owner(None);
        owner.map_err(|error| program::usage(error.to_string()))?;
    }
    if let Some(directory) = &said.directory {
        let tried = Directory::new(Path::new(directory)).try_out();
        tried.map_err(|error| {
            program::usage(format!("--checkpoint-dir: no checkpoint can be written: {error}"))
        })?;
    }
    let lock = lock(&request, place.as_deref())?;
    request.checkpoints.is_locked = lock.is_some();
    let mut has_begun = false;
    loop {
        let job = program::prepare(&request)?;
        if !has_begun {
            report::before(&request, &job.info, &job.shown).map_err(program::usage)?;
        }
        if request.is_dry {
            return Ok(0);
        }
        has_begun = true;
        let from = job.info.restart.as_ref().map(|restart| restart.set);
        if let (Some(set), Some((_, chosen))) = (from, &mut request.checkpoints.restart) {
            *chosen = Some(set);
        }
        let ended = supervisor::run(&request, job)
            .map_err(|error| program::usage(format!("cannot start: {}", refusal::explain(&error))))?;
        request.input_taken |= ended.took_input;
        let Some(place) = &place else { return Ok(ended.status) };
        let directory = Directory::new(Path::new(place));
        let whole = directory.numbers().unwrap_or_default();
        let next = match &ended.outcome {
            Outcome::Over => return Ok(ended.status),
            Outcome::Damaged => whole.into_iter().find(|set| from.is_none_or(|from| *set < from)),
            Outcome::Lost(_) => whole.first().copied(),
        };
        let Some(set) = next else { return Ok(ended.status) };
        match ended.outcome {
            Outcome::Damaged => eprintln!("mpirun: going back to checkpoint {set}"),
            Outcome::Lost(_) if left == 0 => {
                let shown = Path::new(place).display();
                eprintln!("mpirun: mpirun --restart {shown} goes on from checkpoint {set}");
                return Ok(ended.status);
            }
            Outcome::Lost(host) => {
                left -= 1;
                eprintln!("mpirun: the job goes on from checkpoint {set}");
                request.lost.extend(Some(host).filter(|host| !host.is_empty()));
            }
            Outcome::Over => return Ok(ended.status),
        }
        request.checkpoints.restart = Some((place.clone(), Some(set)));
    }
}
