//! Copying between the memory of two processes in one step: process_vm_readv and process_vm_writev.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};

use crate::kept;

/// Segments handed to the kernel in one call; it takes up to 1024 (IOV_MAX).
const WINDOW: usize = 256;

/// Number of a process in this pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pid(pub i32);

/// Piece of a peer's memory. The address is valid in the peer, not in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSegment {
    /// Address of the first byte.
    pub address: u64,
    /// Length of the piece in bytes.
    pub bytes: usize,
}

/// Reasons for which a copy did not take place or stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The system does not permit access (another user, ptrace scope, seccomp) or lacks the call.
    Refused,
    /// The process does not exist any more.
    Gone,
    /// A segment is not mapped, here or there, or not for this use.
    Fault,
    /// The process with this number is not the intended one.
    Stranger,
    /// The peer's number denotes another process here, because the peer is in another pid namespace.
    OtherPids,
    /// The system does not permit access, and the peer is in another user namespace.
    OtherUsers,
    /// Any other error number of errno.h.
    Other(i32),
}

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> CopyError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => CopyError::Refused,
            Some(libc::ESRCH) => CopyError::Gone,
            Some(libc::EFAULT) => CopyError::Fault,
            number => CopyError::Other(number.unwrap_or(0)),
        }
    }
}

impl CopyError {
    /// Returns true if the memory itself is valid and its owner can access it, so that another path may
    /// work.
    pub fn is_of_the_way(self) -> bool {
        self != CopyError::Fault
    }

    fn last() -> CopyError {
        io::Error::last_os_error().into()
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Refused => f.write_str("the system does not permit access to the peer's memory"),
            CopyError::Gone => f.write_str("the peer's process has ended"),
            CopyError::Fault => f.write_str("memory of the copy is not mapped"),
            CopyError::Stranger => f.write_str("the peer's process number belongs to another process"),
            CopyError::OtherPids => f.write_str("the peer is in another pid namespace"),
            CopyError::OtherUsers => f.write_str(
                "the peer is in another user namespace, and the system does not permit access to its memory",
            ),
            CopyError::Other(number) => io::Error::from_raw_os_error(*number).fmt(f),
        }
    }
}

impl std::error::Error for CopyError {}

/// Lets any process of the same user reach the memory of this one, where the Yama module would allow
/// that to ancestors only (ptrace scope 1). Without Yama this does nothing.
pub fn allow_peers() {
    // SAFETY: sets a property of this process; an error means that Yama is not present.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Checks if processes of this user can be expected to reach each other's memory. The calls must exist and
/// not be filtered, and neither Yama nor the state of this process may forbid access. Only `probe` of a
/// real peer is certain.
///
/// # Errors
/// The reason for which access is forbidden.
pub fn permitted() -> Result<(), CopyError> {
    let word = std::process::id();
    let me = Pid(word as i32);
    let mut copy = [0; 4];
    let own = [RemoteSegment { address: &raw const word as u64, bytes: copy.len() }];
    read(me, &own, &mut [IoSliceMut::new(&mut copy)])?;
    // A system call filter may refuse only one of the two calls.
    let target = [RemoteSegment { address: copy.as_mut_ptr() as u64, bytes: copy.len() }];
    write(me, &target, &[IoSlice::new(&word.to_ne_bytes())])?;
    // SAFETY: reads an attribute of this process. A process that is not dumpable (a set-uid program) is
    // reachable for root only.
    if unsafe { libc::prctl(libc::PR_GET_DUMPABLE) } != 1 {
        return Err(CopyError::Refused);
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" | "0" | "1" => Ok(()),
        "2" if may_trace() => Ok(()),
        _ => Err(CopyError::Refused),
    }
}

/// Returns true if this process has CAP_SYS_PTRACE.
fn may_trace() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> CAP_SYS_PTRACE & 1 == 1)
}

/// Copies segments `remote` of process `peer` into `local` segments, up to the shorter of both sums.
/// Returns the number of bytes.
///
/// # Errors
/// The reason for which the copy stopped; part of the data may have been copied.
pub fn read(peer: Pid, remote: &[RemoteSegment], local: &mut [IoSliceMut<'_>]) -> Result<usize, CopyError> {
    // SAFETY: IoSliceMut is guaranteed to have the layout of iovec.
    let local = unsafe { std::slice::from_raw_parts(local.as_ptr().cast::<libc::iovec>(), local.len()) };
    // SAFETY: the slices behind local are exclusively borrowed, so the kernel may write to them.
    unsafe { transfer(libc::process_vm_readv, peer, remote, local) }
}

/// Copies `local` segments into segments `remote` of process `peer`, up to the shorter of both sums.
/// Returns the number of bytes. The peer must have agreed to writes there.
///
/// # Errors
/// The reason for which the copy stopped; part of the data may have been copied.
pub fn write(peer: Pid, remote: &[RemoteSegment], local: &[IoSlice<'_>]) -> Result<usize, CopyError> {
    // SAFETY: IoSlice is guaranteed to have the layout of iovec.
    let local = unsafe { std::slice::from_raw_parts(local.as_ptr().cast::<libc::iovec>(), local.len()) };
    // SAFETY: process_vm_writev only reads local memory.
    unsafe { transfer(libc::process_vm_writev, peer, remote, local) }
}

/// Checks that the memory of `peer` can be read and that it is the intended process. The word at `address`
/// must equal `proof`, a value that no other process has there.
///
/// # Errors
/// The reason for which single copies cannot be used with this peer.
pub fn probe(peer: Pid, address: u64, proof: u64) -> Result<(), CopyError> {
    let mut word = [0u8; 8];
    let remote = [RemoteSegment { address, bytes: word.len() }];
    match read(peer, &remote, &mut [IoSliceMut::new(&mut word)]) {
        Ok(_) if u64::from_ne_bytes(word) == proof => Ok(()),
        // The word is not mapped there or has another value: this number denotes another process in this
        // pid namespace.
        Ok(_) | Err(CopyError::Fault) => Err(CopyError::Stranger),
        Err(error) => Err(error),
    }
}

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// Calls the kernel until everything is copied: one call takes a bounded number of segments and may stop
/// anywhere.
///
/// # Safety
/// `call` may access the memory that `local` names in the way it does.
unsafe fn transfer(
    call: Call,
    peer: Pid,
    remote: &[RemoteSegment],
    local: &[libc::iovec],
) -> Result<usize, CopyError> {
    let remote_piece = |index: usize| {
        let segment: &RemoteSegment = remote.get(index)?;
        Some(libc::iovec { iov_base: segment.address as *mut libc::c_void, iov_len: segment.bytes })
    };
    let local_piece = |index: usize| local.get(index).copied();
    let (mut there, mut here) = (Cursor::default(), Cursor::default());
    let mut total = 0;
    // Every pass copies at least a byte, so there are no more passes than bytes.
    loop {
        let (remote_window, remote_count) = there.window(remote_piece);
        let (local_window, local_count) = here.window(local_piece);
        if remote_count == 0 || local_count == 0 {
            return Ok(total);
        }
        let critical = kept::Critical::enter();
        // SAFETY: both windows have as many entries as stated. The caller vouches for local memory; the
        // kernel checks remote addresses.
        let copied = unsafe {
            call(
                kept::current(peer.0),
                local_window.as_ptr(),
                local_count as libc::c_ulong,
                remote_window.as_ptr(),
                remote_count as libc::c_ulong,
                0,
            )
        };
        let copied = usize::try_from(copied).map_err(|_| CopyError::last());
        drop(critical);
        let copied = copied?;
        if copied == 0 {
            return Err(CopyError::Fault);
        }
        total += copied;
        there.advance(copied, remote_piece);
        here.advance(copied, local_piece);
    }
}

/// Position in a list of segments: bytes before it have been copied.
#[derive(Clone, Copy, Default)]
struct Cursor {
    index: usize,
    offset: usize,
}

impl Cursor {
    /// Returns the next segments that are not empty, and their number.
    fn window(self, piece: impl Fn(usize) -> Option<libc::iovec>) -> ([libc::iovec; WINDOW], usize) {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let (mut window, mut count) = ([empty; WINDOW], 0);
        let (mut index, mut offset) = (self.index, self.offset);
        while let Some(next) = piece(index).filter(|_| count < WINDOW) {
            if next.iov_len > offset {
                let start = next.iov_base.wrapping_byte_add(offset);
                window[count] = libc::iovec { iov_base: start, iov_len: next.iov_len - offset };
                count += 1;
            }
            (index, offset) = (index + 1, 0);
        }
        (window, count)
    }

    /// Moves the position forward by `bytes`.
    fn advance(&mut self, mut bytes: usize, piece: impl Fn(usize) -> Option<libc::iovec>) {
        while let Some(next) = piece(self.index) {
            let left = next.iov_len - self.offset;
            if bytes < left {
                self.offset += bytes;
                return;
            }
            bytes -= left;
            (self.index, self.offset) = (self.index + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies within this process, `remote` and `local` cut into pieces of the given sizes.
    fn check(remote: &[usize], local: &[usize]) {
        let source: Vec<u8> = (0..remote.iter().sum::<usize>()).map(|index| (index % 251) as u8).collect();
        let mut target = vec![0u8; local.iter().sum()];
        let mut start = source.as_ptr() as u64;
        let mut segments = Vec::new();
        for &bytes in remote {
            segments.push(RemoteSegment { address: start, bytes });
            start += bytes as u64;
        }
        let mut rest = &mut target[..];
        let mut pieces = Vec::new();
        for &bytes in local {
            let (piece, tail) = rest.split_at_mut(bytes);
            pieces.push(IoSliceMut::new(piece));
            rest = tail;
        }
        let me = Pid(std::process::id() as i32);
        let expected = source.len().min(pieces.iter().map(|piece| piece.len()).sum());
        assert_eq!(read(me, &segments, &mut pieces), Ok(expected));
        assert!(target[..expected] == source[..expected] && target[expected..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn segments_of_any_shape_are_copied() {
        check(&[], &[]);
        check(&[10], &[]);
        check(&[0, 0], &[5]);
        check(&[100_000], &[100_000]);
        check(&[3; 1000], &[3000]);
        check(&[3001], &[7; 600]);
        check(&[0, 1, 0, 9, 4096, 0, 13], &[2, 0, 4000, 0, 0, 30, 100]);
        check(&(0..700).collect::<Vec<_>>(), &(0..1500).rev().collect::<Vec<_>>());
    }

    #[test]
    fn errors_are_told_apart() {
        let word = 77u64;
        let (me, address) = (Pid(std::process::id() as i32), &raw const word as u64);
        assert_eq!(probe(me, address, 77), Ok(()));
        assert_eq!(permitted(), Ok(()));
        assert_eq!(probe(me, address, 78), Err(CopyError::Stranger));
        assert_eq!(probe(me, 4096, 77), Err(CopyError::Stranger));
        assert_eq!(probe(Pid(i32::MAX), address, 77), Err(CopyError::Gone));
        let mut byte = [0u8];
        let nowhere = [RemoteSegment { address: 4096, bytes: 1 }];
        assert_eq!(read(me, &nowhere, &mut [IoSliceMut::new(&mut byte)]), Err(CopyError::Fault));
    }
}
