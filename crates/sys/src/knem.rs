//! KNEM, a kernel module: a process registers a region and receives a cookie, with which another process
//! copies.
//!
//! A region pins its pages, so it must be destroyed before its memory is unmapped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// Device /dev/knem, opened for ioctls.
#[derive(Debug)]
pub struct Device(File);

#[derive(Default)]
#[repr(C)]
struct Info {
    version: u32,
    features: u32,
    ignored_flags: u32,
    forced_flags: u32,
}

#[repr(C)]
struct Segment {
    base: u64,
    bytes: u64,
}

#[repr(C)]
struct CreateRegion {
    segments: u64,
    segments_count: u32,
    flags: u32,
    protection: u32,
    padding: u32,
    cookie: u64,
}

#[repr(C)]
struct InlineCopyBounded {
    segments: u64,
    segments_count: u32,
    write: u32,
    cookie: u64,
    offset: u64,
    bytes: u64,
    flags: u32,
    status: u32,
    status_index: u32,
    padding: u32,
}

const VERSION: u32 = 13;
const SUCCESS: u32 = 1;
const OUT: libc::c_ulong = 1;
const IN: libc::c_ulong = 2;
const GET_INFO: libc::c_ulong = command::<Info>(OUT, 0x10);
const CREATE_REGION: libc::c_ulong = command::<CreateRegion>(OUT | IN, 0x21);
const DESTROY_REGION: libc::c_ulong = command::<u64>(IN, 0x22);
const INLINE_COPY_BOUNDED: libc::c_ulong = command::<InlineCopyBounded>(IN, 0x35);

/// Returns the number of an ioctl of this module.
const fn command<T>(direction: libc::c_ulong, number: libc::c_ulong) -> libc::c_ulong {
    direction << 30 | (size_of::<T>() as libc::c_ulong) << 16 | 0x4b << 8 | number
}

impl Device {
    /// Opens the device /dev/knem.
    ///
    /// # Errors
    /// NotFound without the module, Unsupported if it has another version of the interface.
    pub fn open() -> io::Result<Device> {
        let device = Device(OpenOptions::new().read(true).write(true).open("/dev/knem")?);
        let mut info = Info::default();
        // SAFETY: the argument of this command.
        unsafe { device.call(GET_INFO, &mut info) }?;
        if info.version != VERSION {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "another version of KNEM's interface"));
        }
        Ok(device)
    }

    /// Registers memory of this process and returns the cookie.
    ///
    /// # Errors
    /// Errors of the module.
    pub fn create(&self, address: u64, bytes: u64, readable: bool, writable: bool) -> io::Result<u64> {
        let segment = Segment { base: address, bytes };
        let one = |wanted: bool, bit: i32| if wanted { bit as u32 } else { 0 };
        let mut create = CreateRegion {
            segments: &raw const segment as u64,
            segments_count: 1,
            flags: 0,
            protection: one(readable, libc::PROT_READ) | one(writable, libc::PROT_WRITE),
            padding: 0,
            cookie: 0,
        };
        // SAFETY: the argument of this command, naming one segment.
        unsafe { self.call(CREATE_REGION, &mut create) }?;
        Ok(create.cookie)
    }

    /// Removes a registered region.
    pub fn destroy(&self, mut cookie: u64) {
        // SAFETY: the argument of this command. It fails only for an invalid cookie.
        let _ = unsafe { self.call(DESTROY_REGION, &mut cookie) };
    }

    /// Copies `bytes` between a region, from byte `offset` on, and memory of this process.
    ///
    /// # Errors
    /// Errors of the module.
    ///
    /// # Safety
    /// `local` is valid for reads, or for writes unless `write`, of as many bytes.
    pub unsafe fn copy(
        &self,
        cookie: u64,
        offset: u64,
        local: *mut u8,
        bytes: usize,
        write: bool,
    ) -> io::Result<()> {
        let segment = Segment { base: local as u64, bytes: bytes as u64 };
        let mut copy = InlineCopyBounded {
            segments: &raw const segment as u64,
            segments_count: 1,
            write: u32::from(write),
            cookie,
            offset,
            bytes: bytes as u64,
            flags: 0,
            status: 0,
            status_index: 0,
            padding: 0,
        };
        // SAFETY: the argument of this command, naming one segment; the caller's promise.
        unsafe { self.call(INLINE_COPY_BOUNDED, &mut copy) }?;
        match copy.status {
            SUCCESS => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_module_s_header() {
        let check = |command: libc::c_ulong, direction: u64, bytes: u64, number: u64| {
            assert_eq!(command, direction << 30 | bytes << 16 | 0x4b00 | number);
        };
        check(GET_INFO, 1, 16, 0x10);
        check(CREATE_REGION, 3, 32, 0x21);
        check(DESTROY_REGION, 2, 8, 0x22);
        check(INLINE_COPY_BOUNDED, 2, 56, 0x35);
    }
}
