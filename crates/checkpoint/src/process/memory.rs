//! Access to the memory of another process.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;

use tutti_sys::cma::{self, Pid, RemoteSegment};

/// Memory of a stopped process.
#[derive(Debug)]
pub struct Memory {
    /// Process number, for the faster system call. None if the process may end, as another one could then get
    /// the number.
    pid: Option<i32>,
    file: File,
}

impl Memory {
    /// Opens the memory of a process that does not end meanwhile.
    ///
    /// # Errors
    /// Fails if this process may not access it.
    pub fn open(pid: i32) -> io::Result<Memory> {
        Memory::of_this_alone(pid).map(|memory| Memory { pid: Some(pid), ..memory })
    }

    /// Opens the memory of a process that may end. Reads fail from then on.
    ///
    /// # Errors
    /// Fails if this process may not access it.
    pub fn of_this_alone(pid: i32) -> io::Result<Memory> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Memory { pid: None, file })
    }

    /// Reads from `address` until `room` is full, also memory that the process itself may not read.
    ///
    /// # Errors
    /// Fails if a part of it is not mapped.
    pub fn read(&self, address: u64, room: &mut [u8]) -> io::Result<()> {
        let remote = [RemoteSegment { address, bytes: room.len() }];
        let read = |pid| cma::read(Pid(pid), &remote, &mut [IoSliceMut::new(room)]).ok();
        let copied = self.pid.and_then(read).unwrap_or(0);
        self.file.read_exact_at(&mut room[copied..], address + copied as u64)
    }

    /// Writes to `address`, also memory that the process itself may not write.
    ///
    /// # Errors
    /// Fails if a part of it is not mapped.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let remote = [RemoteSegment { address, bytes: bytes.len() }];
        let written = |pid| cma::write(Pid(pid), &remote, &[IoSlice::new(bytes)]).ok();
        let copied = self.pid.and_then(written).unwrap_or(0);
        self.file.write_all_at(&bytes[copied..], address + copied as u64)
    }

    /// Reads the word of eight bytes at `address`.
    ///
    /// # Errors
    /// Fails if it is not mapped.
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }
}
