//! Cost model of this machine. mpirun gives it to all ranks of a job, which choose algorithms by it.
//!
//! The first of these that exists is used:
//!
//! 1. the file that TUTTI_MODEL_FILE names;
//! 2. the file of this kind of machine ([`tutti_sys::machine_kind`]) in the user's cache directory;
//! 3. the file of the same name in `share/tutti` of the installation, which an administrator has put there;
//! 4. the result of `tutti probe --unasked`, which runs now for at most [`CALIBRATION`] and is stored as file
//!    2;
//! 5. the defaults of the library.
//!
//! Step 4 happens once for each kind of machine. A measurement would be wrong on a busy machine, or beside
//! another measurement. In these cases `tutti probe` stores nothing, and jobs of the next [`PAUSE`] use the
//! defaults without another attempt. Without a writable cache directory nothing is measured, because each job
//! would have to repeat it.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use tutti_base::config::{Config, Tune};
use tutti_base::cost_model;
use tutti_sys::machine_kind::machine_kind;
use tutti_sys::{files, job};

use crate::request::{Program, Request};

/// Maximum bytes of a cost model.
const MODEL_BYTES: u64 = 1 << 20;
/// Maximum time for which a job waits for a measurement.
const CALIBRATION: Duration = Duration::from_millis(500);
/// Interval of checks whether the measurement has ended.
const LOOK: Duration = Duration::from_millis(2);
/// Time after an attempt in which no other one is made.
const PAUSE: Duration = Duration::from_secs(600);

/// Returns the cost model of this machine as text; empty if there is none. If algorithms are tuned, the names
/// of the programs come first. `own_directory` is the folder of mpirun.
pub fn model(config: &Config, request: &Request, own_directory: Option<&Path>) -> Vec<u8> {
    let mut text = match config.collectives.tune.is_on() {
        true => (job::PROGRAM_LINE.to_string() + &program_names(request) + "\n").into_bytes(),
        false => Vec::new(),
    };
    text.extend(match config.collectives.model_file.as_str() {
        "" => costs(config, request, own_directory),
        path => named_costs(path, config.collectives.tune),
    });
    text
}

/// Returns the cost model in the file that the user has named. The file must exist, except before a first
/// tuned run, which creates it.
fn named_costs(path: &str, tune: Tune) -> Vec<u8> {
    files::read(Path::new(path), MODEL_BYTES).unwrap_or_else(|error| {
        if tune != Tune::On || error.kind() != ErrorKind::NotFound {
            eprintln!("mpirun: warning: TUTTI_MODEL_FILE={path} is not used: {error}");
        }
        Vec::new()
    })
}

/// Returns the cost model from the files 2 and 3 of the list above, or measures it.
fn costs(config: &Config, request: &Request, own_directory: Option<&Path>) -> Vec<u8> {
    let kind = machine_kind();
    let Some(kept) = config.model_path(&kind, |name| std::env::var(name).ok()).map(PathBuf::from) else {
        return Vec::new();
    };
    let text = files::read(&kept, MODEL_BYTES).unwrap_or_default();
    if cost_model::has_costs(&String::from_utf8_lossy(&text)) {
        return text;
    }
    let shipped = own_directory.map(|bin| cost_model::shipped_path(&bin.join(".."), &kind));
    if let Some(shipped) = shipped.and_then(|path| files::read(&path, MODEL_BYTES).ok()) {
        return [shipped, text].concat();
    }
    let is_first_world = request.spawned.is_none() && request.checkpoints.restart.is_none();
    match own_directory.filter(|_| config.collectives.calibrate && is_first_world) {
        Some(bin) if begin_attempt(&kept) => {
            measure(&bin.join("tutti"), &kept);
            files::read(&kept, MODEL_BYTES).unwrap_or(text)
        }
        _ => text,
    }
}

/// Returns true if this job may measure: no other job has done so lately, and the directory is writable. The
/// file `PATH.attempt` marks the time. `tutti probe` locks it, touches it, and removes it after a success.
fn begin_attempt(kept: &Path) -> bool {
    let attempt = kept.with_added_extension("attempt");
    let modified = std::fs::metadata(&attempt).and_then(|file| file.modified());
    let age = modified.map(|modified| SystemTime::now().duration_since(modified).unwrap_or_default());
    if age.is_ok_and(|age| age <= PAUSE) {
        return false;
    }
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let is_made = kept.parent().is_some_and(|directory| std::fs::create_dir_all(directory).is_ok());
    is_made && options.open(&attempt).is_ok()
}

/// Measures, and ends the measurement after [`CALIBRATION`] at the latest. After a failure the job uses the
/// defaults.
fn measure(tutti: &Path, kept: &Path) {
    let mut command = Command::new(tutti);
    command.args(["probe", "--unasked", "--out"]).arg(kept);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut probe) = command.spawn() else { return };
    let end = Instant::now() + CALIBRATION;
    while Instant::now() < end {
        match probe.try_wait() {
            Ok(None) => std::thread::sleep(LOOK),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    // Neither call fails for a child that was not waited for.
    let _ = probe.kill();
    let _ = probe.wait();
}

/// Returns the names of all programs of a job. Tuning results are stored for these programs.
fn program_names(request: &Request) -> String {
    let name = |program: &Program| {
        let path = program.command.first().map(Path::new);
        let name = path.and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        name.replace(|letter: char| letter.is_control(), "_")
    };
    request.programs.iter().map(name).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_have_a_pause_between_them() {
        let directory = std::env::temp_dir().join(format!("tutti-attempt-{}", std::process::id()));
        let kept = directory.join("MODEL-EPYC_2_6.1");
        assert!(begin_attempt(&kept));
        assert!(!begin_attempt(&kept));
        let attempt = std::fs::File::open(directory.join("MODEL-EPYC_2_6.1.attempt")).unwrap();
        attempt.set_modified(SystemTime::now() - 2 * PAUSE).unwrap();
        assert!(begin_attempt(&kept));
        std::fs::remove_dir_all(directory).unwrap();
        assert!(!begin_attempt(Path::new("/proc/tutti/MODEL-EPYC_2_6.1")));
    }
}
