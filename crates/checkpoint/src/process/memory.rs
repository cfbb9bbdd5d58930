//! The memory of another process.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;

use tutti_sys::cma::{self, Pid, RemoteSegment};

/// Memory of a process that stands still.
#[derive(Debug)]
pub struct Memory {
    /// Reading by number is faster; a number may become that of another process.
    pid: Option<i32>,
    file: File,
}

impl Memory {
    /// That of a process.
    ///
    /// # Errors
    /// If it may not be looked at.
    pub fn of(pid: i32) -> io::Result<Memory> {
        Memory::of_this_alone(pid).map(|memory| Memory { pid: Some(pid), ..memory })
    }

    /// That of a process which may end: nothing is read from then on.
    ///
    /// # Errors
    /// If it may not be looked at.
    pub fn of_this_alone(pid: i32) -> io::Result<Memory> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Memory { pid: None, file })
    }

    /// Reads from `address`, all of `room`; memory that the process itself may not read, too.
    ///
    /// # Errors
    /// If something of it is not mapped.
    pub fn read(&self, address: u64, room: &mut [u8]) -> io::Result<()> {
        let remote = [RemoteSegment { address, bytes: room.len() }];
        let read = |pid| cma::read(Pid(pid), &remote, &mut [IoSliceMut::new(room)]).ok();
        let copied = self.pid.and_then(read).unwrap_or(0);
        self.file.read_exact_at(&mut room[copied..], address + copied as u64)
    }

    /// Writes to `address`; memory that the process itself may not write, too.
    ///
    /// # Errors
    /// If something of it is not mapped.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let remote = [RemoteSegment { address, bytes: bytes.len() }];
        let written = |pid| cma::write(Pid(pid), &remote, &[IoSlice::new(bytes)]).ok();
        let copied = self.pid.and_then(written).unwrap_or(0);
        self.file.write_all_at(&bytes[copied..], address + copied as u64)
    }

    /// The word at `address`.
    ///
    /// # Errors
    /// If it is not mapped.
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }
}
