//! Pipes, terminals and sockets in the file system: files without offsets, opened with MPI_MODE_SEQUENTIAL.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tutti_base::Result;

use crate::amode::Amode;
use crate::driver::{Driver, Moved};
use crate::fault::failed;

/// File of the system without offsets.
#[derive(Debug)]
pub struct Stream {
    file: File,
    path: PathBuf,
}

impl Stream {
    /// Returns true if the file at a path has no offsets.
    pub fn is_at(path: &[u8]) -> bool {
        let status = std::fs::metadata(Path::new(OsStr::from_bytes(path)));
        status.is_ok_and(|status| {
            let kind = status.file_type();
            kind.is_fifo() || kind.is_char_device() || kind.is_socket()
        })
    }

    /// Opens a stream. Opening a pipe waits for its other end.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open(path: &[u8], amode: Amode) -> Result<Stream> {
        let path = Path::new(OsStr::from_bytes(path)).to_path_buf();
        let file = OpenOptions::new().read(amode.reads()).write(amode.writes()).open(&path);
        let file = file.map_err(|error| failed(&format!("cannot open {}", path.display()), &error))?;
        Ok(Stream { file, path })
    }
}

impl Driver for Stream {
    fn read(&self, _: u64, mut into: &mut [IoSliceMut<'_>]) -> Moved {
        let mut done = 0;
        IoSliceMut::advance_slices(&mut into, 0);
        while !into.is_empty() {
            match (&self.file).read_vectored(into) {
                Ok(0) => break,
                Ok(bytes) => {
                    done += bytes as u64;
                    IoSliceMut::advance_slices(&mut into, bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let fault = failed(&format!("cannot read {}", self.path.display()), &error);
                    return Moved { bytes: done, fault: Some(fault) };
                }
            }
        }
        Moved::all(done)
    }

    fn write(&self, _: u64, from: &[IoSlice<'_>]) -> Moved {
        let mut done = 0;
        for piece in from {
            if let Err(error) = (&self.file).write_all(piece) {
                let fault = failed(&format!("cannot write {}", self.path.display()), &error);
                return Moved { bytes: done, fault: Some(fault) };
            }
            done += piece.len() as u64;
        }
        Moved::all(done)
    }

    fn bytes(&self) -> Result<u64> {
        Ok(0)
    }

    fn resize(&self, _: u64) -> Result<()> {
        let error = io::ErrorKind::Unsupported.into();
        Err(failed(&format!("cannot resize the stream {}", self.path.display()), &error))
    }

    fn allocate(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        "a stream: bytes follow one another, whatever the offset".to_string()
    }

    fn is_stream(&self) -> bool {
        true
    }
}
