//! Lock of a directory of sets, so that one mpirun at a time writes checkpoints there. Two would delete each
//! other's files as old or unfinished.
//!
//! The lock is flock(2) on the file `.lock` in the directory. It belongs to the open file, so that mpirun and
//! the daemon that it forks share it. The kernel releases it however they end. The text of the file names the
//! holder, for messages of other processes. On a file system without locks, none is taken.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_sys::process;

const NAME: &str = ".lock";
/// Maximum bytes of a holder's name in messages.
const MOST_HOLDER: u64 = 400;
/// Maximum number of attempts to lock a file that its holder removes meanwhile.
const MOST_ATTEMPTS: u32 = 100;
/// Pause between two attempts while another process has the lock.
const PAUSE: Duration = Duration::from_millis(20);

/// Lock of a directory, which is released when the value is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
    path: PathBuf,
    /// Process that took the lock. A process that it forks does not remove the file.
    owner: u32,
}

impl DirectoryLock {
    /// Takes the lock of an existing directory. `mpirun` is the process number that messages of other
    /// processes show. `patience` limits the wait for a holder that is about to end.
    ///
    /// # Errors
    /// ResourceBusy if another mpirun holds the lock, naming it; otherwise the error of a system call.
    pub fn take(directory: &Path, mpirun: u32, patience: Duration) -> io::Result<DirectoryLock> {
        let path = directory.join(NAME);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let (mut waited, mut attempts) = (Duration::ZERO, 0);
        loop {
            let file = open(&path).map_err(named)?;
            match file.try_lock() {
                // The last holder may have removed the file between the two calls.
                Ok(()) if !is_at(&file, &path) && attempts < MOST_ATTEMPTS => attempts += 1,
                Ok(()) => {
                    let lock = DirectoryLock { file, path: path.clone(), owner: std::process::id() };
                    lock.write(mpirun).map_err(named)?;
                    return Ok(lock);
                }
                Err(TryLockError::WouldBlock) if waited < patience => {
                    std::thread::sleep(PAUSE);
                    waited += PAUSE;
                }
                Err(TryLockError::WouldBlock) => return Err(busy(directory, file)),
                Err(TryLockError::Error(error)) if is_unsupported(&error) => {
                    return Ok(DirectoryLock { file, path: path.clone(), owner: std::process::id() });
                }
                Err(TryLockError::Error(error)) => return Err(named(error)),
            }
        }
    }

    fn write(&self, mpirun: u32) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(format!("mpirun {mpirun} on {}", process::host_name()).as_bytes())
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if self.owner == std::process::id() && is_at(&self.file, &self.path) {
            // A file that remains is not locked, and does no harm.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path)
}

/// Returns true if the path still leads to the open file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |known: std::fs::Metadata| (known.dev(), known.ino());
    let there = std::fs::symlink_metadata(path).map(identity).ok();
    there.is_some() && there == file.metadata().map(identity).ok()
}

fn is_unsupported(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    [libc::ENOLCK, libc::ENOSYS, libc::EOPNOTSUPP, libc::EINVAL].iter().any(|&it| number == Some(it))
}

/// Returns the error that names the holder of the lock.
fn busy(directory: &Path, mut file: File) -> io::Error {
    let mut holder = String::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(MOST_HOLDER).read_to_string(&mut holder));
    let holder = match read {
        Ok(_) if !holder.is_empty() => holder,
        _ => "another mpirun".to_string(),
    };
    let what = format!(
        "{} is in use: {holder} writes its checkpoints there; wait for its end, or name another directory by \
         --checkpoint-dir",
        directory.display()
    );
    io::Error::new(io::ErrorKind::ResourceBusy, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_a_directory_and_is_named() {
        let directory = std::env::temp_dir().join(format!("tutti-lock-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let take = |mpirun| DirectoryLock::take(&directory, mpirun, Duration::from_millis(40));
        let first = take(1).unwrap();
        let error = take(2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        let own = process::host_name();
        assert!(error.to_string().contains(&format!("is in use: mpirun 1 on {own} writes")), "{error}");
        drop(first);
        assert!(!directory.join(NAME).exists());
        // A file that a killed holder has left is not locked.
        std::fs::write(directory.join(NAME), [b'?'; 400]).unwrap();
        let second = take(4).unwrap();
        let text = std::fs::read_to_string(directory.join(NAME)).unwrap();
        assert_eq!(text, format!("mpirun 4 on {own}"));
        drop(second);
        std::fs::remove_dir(&directory).unwrap();
    }
}
