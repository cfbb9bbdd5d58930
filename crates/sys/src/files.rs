//! Files that users name, which may lie in folders where others write too (/tmp, a shared scratch folder).
//! Reads neither wait for others nor read without limit. Writes do not follow links that others have
//! created.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{event, process};

/// Length of one wait for the writer of a pipe.
const LOOK: Duration = Duration::from_secs(1);

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// Errors of open and read. InvalidInput, with the reason, for a FIFO, a device, a folder, and for a longer
/// file.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (mut file, kind) = open(path)?;
    if !kind.is_file() {
        return Err(refuse(&format!("it is {}, not a file", name(kind))));
    }
    drain(&mut file, most)
}

/// Reads a regular file of at most `most` bytes as text.
///
/// # Errors
/// Errors of [`read`]; InvalidData if the content is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// Reads a regular file or a pipe, such as `<(COMMAND)` of a shell, as text of at most `most` bytes. A pipe
/// is read until all its writers have closed it. A pipe without a writer is empty.
///
/// # Errors
/// Errors of [`read_text`].
pub fn read_text_or_pipe(path: &Path, most: u64) -> io::Result<String> {
    let (mut file, kind) = open(path)?;
    if kind.is_fifo() { text(drain(&mut file, most)?) } else { read_text(path, most) }
}

/// Creates a regular file or replaces it atomically, so that a concurrent reader sees either the old or the
/// new content.
///
/// # Errors
/// Errors of the system. InvalidInput, with the reason, if the name belongs to something else: a link, a
/// FIFO, a device.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (mut file, fresh) = begin(path)?;
    let done = file.write_all(bytes).and_then(|()| std::fs::rename(&fresh, path));
    if done.is_err() {
        // Nothing more can be done about it.
        let _ = std::fs::remove_file(fresh);
    }
    done
}

/// Opens a new file beside `path` that will replace it. Returns the file and its name.
fn begin(path: &Path) -> io::Result<(File, PathBuf)> {
    if let Ok(there) = path.symlink_metadata()
        && !there.is_file()
    {
        return Err(refuse(&format!("there is {} of this name, not a file", name(there.file_type()))));
    }
    let mut fresh = path.as_os_str().to_owned();
    // The name is random, so that others cannot take it beforehand. If it exists nevertheless, as a file or
    // a link, that is an error.
    fresh.push(format!(".{:016x}", process::random()?));
    let file = OpenOptions::new().write(true).create_new(true).open(&fresh)?;
    Ok((file, fresh.into()))
}

/// Checks if [`write`] could create a file there, by creating one beside it and removing that again.
///
/// # Errors
/// Errors of [`write`], except a lack of space.
pub fn try_write(path: &Path) -> io::Result<()> {
    let (_, fresh) = begin(path)?;
    std::fs::remove_file(fresh)
}

/// Writes a file as [`write`] does, and creates its folder if it does not exist.
///
/// # Errors
/// Errors of [`write`], and of creating the folder.
pub fn keep(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory)?;
    }
    write(path, bytes)
}

/// Opens a file without waiting for the other end of a FIFO, and without making a terminal the controlling
/// one.
fn open(path: &Path) -> io::Result<(File, FileType)> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    Ok((file, kind))
}

fn drain(file: &mut File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let left = (most + 1).saturating_sub(bytes.len() as u64);
        match Read::take(&*file, left).read_to_end(&mut bytes) {
            Ok(_) if bytes.len() as u64 > most => {
                return Err(refuse(&format!("it is longer than {most} bytes")));
            }
            Ok(_) => return Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                event::wait_readable(&[file.as_raw_fd()], LOOK)
            }
            Err(error) => return Err(error),
        }
    }
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text (UTF-8)"))
}

fn refuse(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_string())
}

fn name(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "a folder",
        _ if kind.is_symlink() => "a link",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("tutti-files-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn fifo(&self) -> PathBuf {
            let path = self.0.join("fifo");
            let name = CString::new(path.as_os_str().as_bytes()).unwrap();
            // SAFETY: a terminated path.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn check<T: std::fmt::Debug + PartialEq>(got: io::Result<T>, expected: Result<T, &str>) {
        match (got, expected) {
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => {
                assert_eq!(got.map_err(|error| error.to_string()), expected.map_err(str::to_string))
            }
        }
    }

    #[test]
    fn only_files_of_some_length_are_read_and_nobody_is_waited_for() {
        let folder = Folder::new("read");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        std::fs::write(&file, "12345").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        check(read_text(&file, 5), Ok("12345".to_string()));
        check(read_text(&link, 5), Ok("12345".to_string()));
        check(read(&file, 4), Err("longer than 4 bytes"));
        check(read(&folder.fifo(), 9), Err("it is a FIFO"));
        check(read(Path::new("/dev/zero"), 9), Err("it is a device"));
        check(read(&folder.0, 9), Err("it is a folder"));
        check(read(&folder.0.join("none"), 9), Err("No such file"));
        check(read_text_or_pipe(Path::new("/dev/zero"), 9), Err("it is a device"));
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let writes = std::thread::spawn(move || {
            for part in ["ab", "cd"] {
                writer.write_all(part.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        check(read_text_or_pipe(&path, 9), Ok("abcd".to_string()));
        writes.join().unwrap();
        let folder = Folder::new("pipe");
        check(read_text_or_pipe(&folder.fifo(), 9), Ok(String::new()));
    }

    #[test]
    fn what_others_have_put_there_is_not_written() {
        let folder = Folder::new("write");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        check(write(&file, b"one"), Ok(()));
        check(write(&file, b"two"), Ok(()));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        check(write(&link, b"three"), Err("a link of this name"));
        check(write(&folder.fifo(), b"three"), Err("a FIFO of this name"));
        check(write(Path::new("/dev/null"), b"three"), Err("a device of this name"));
        check(write(&folder.0, b"three"), Err("a folder of this name"));
        check(read_text(&file, 9), Ok("two".to_string()));
        // No other files are left.
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 3);
    }
}
