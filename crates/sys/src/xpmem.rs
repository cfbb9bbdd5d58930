//! XPMEM, a kernel module: a process exposes all its memory, and others attach parts of it.
//!
//! The kernel keeps attachments up to date: when the owner unmaps and maps its memory again, they show the
//! new memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// Device /dev/xpmem, opened for ioctls.
#[derive(Debug)]
pub struct XpmemDevice(File);

#[repr(C)]
struct Make {
    address: u64,
    bytes: usize,
    permit_type: i32,
    permit_value: u64,
    segment: i64,
}

#[repr(C)]
struct Get {
    segment: i64,
    flags: i32,
    permit_type: i32,
    permit_value: u64,
    access: i64,
}

#[repr(C)]
struct Attach {
    access: i64,
    offset: i64,
    bytes: usize,
    address: u64,
    fd: i32,
    flags: i32,
}

#[repr(C)]
struct Detach {
    address: u64,
}

const MAGIC: libc::c_ulong = 0x78 << 8;
const MAKE: libc::c_ulong = MAGIC | 1;
const GET: libc::c_ulong = MAGIC | 3;
const ATTACH: libc::c_ulong = MAGIC | 5;
const DETACH: libc::c_ulong = MAGIC | 6;
const PERMIT_MODE: i32 = 1;
const READ_WRITE: i32 = 2;
/// Permission for processes of the same user.
const MODE: u64 = 0o600;

impl XpmemDevice {
    /// Opens the device /dev/xpmem.
    ///
    /// # Errors
    /// NotFound without the module, PermissionDenied.
    pub fn open() -> io::Result<XpmemDevice> {
        Ok(XpmemDevice(OpenOptions::new().read(true).write(true).open("/dev/xpmem")?))
    }

    /// Exposes all memory of this process. Returns the number by which others attach it.
    ///
    /// # Errors
    /// Errors of the module.
    pub fn make(&self) -> io::Result<u64> {
        let mut make =
            Make { address: 0, bytes: usize::MAX, permit_type: PERMIT_MODE, permit_value: MODE, segment: 0 };
        // SAFETY: the argument of this command.
        unsafe { self.call(MAKE, &mut make) }?;
        Ok(make.segment as u64)
    }

    /// Gets access to the memory that another process exposes.
    ///
    /// # Errors
    /// Errors of the module.
    pub fn get(&self, segment: u64) -> io::Result<u64> {
        let segment = segment as i64;
        let mut get =
            Get { segment, flags: READ_WRITE, permit_type: PERMIT_MODE, permit_value: 0, access: 0 };
        // SAFETY: the argument of this command.
        unsafe { self.call(GET, &mut get) }?;
        Ok(get.access as u64)
    }

    /// Maps `bytes` at `address` of the other process, both multiples of the page size, at an address
    /// chosen by the kernel.
    ///
    /// # Errors
    /// Errors of the module.
    pub fn attach(&self, access: u64, address: u64, bytes: usize) -> io::Result<*mut u8> {
        let (access, offset) = (access as i64, address as i64);
        let mut attach = Attach { access, offset, bytes, address: 0, fd: self.0.as_raw_fd(), flags: 0 };
        // SAFETY: the argument of this command; a fresh mapping overlaps nothing.
        unsafe { self.call(ATTACH, &mut attach) }?;
        Ok(std::ptr::with_exposed_provenance_mut(attach.address as usize))
    }

    /// Removes an attachment from this process.
    ///
    /// # Safety
    /// The attachment is not in use any more.
    pub unsafe fn detach(&self, base: *mut u8) {
        let mut detach = Detach { address: base as u64 };
        // SAFETY: the argument of this command; the caller's promise. It fails only for an invalid
        // attachment.
        let _ = unsafe { self.call(DETACH, &mut detach) };
    }

    /// # Safety
    /// The argument is that of the command.
    unsafe fn call<T>(&self, command: libc::c_ulong, argument: &mut T) -> io::Result<()> {
        // SAFETY: the caller's promise.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), command, std::ptr::from_mut(argument)) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
