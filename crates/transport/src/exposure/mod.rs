//! Exposed memory (S2): a buffer is lent to the peers of an operation, who read and write it by a single copy.
//!
//! The owner calls [`Exposures::expose`] (or [`Exposures::expose_entries`], [`Exposures::expose_runs`]) and
//! publishes the [`Record`] it gets in memory that its peers read; a peer opens it ([`Exposures::open`]) and works through
//! the [`Window`]: in place where the owner's pages are mapped here ([`Window::direct`]), through a back end
//! elsewhere. The owner calls [`Exposures::withdraw`] when all peers are done.
//!
//! # Safety
//! Addresses of peers are never dereferenced; they go to back ends, which let the kernel check them. What is
//! dereferenced is the caller's memory, by its promise.

#![allow(unsafe_code)]

mod record;
mod window;

#[cfg(test)]
mod tests;

use std::ptr;

pub use record::{Access, EdgeRoom, Entry, PAGE_BYTES, Record};
pub use window::Window;

use record::Layout;
use tutti_base::config::{Config, SingleCopy as Setting};
use tutti_sys::cma;

use crate::Peer;
use crate::single_copy::{CopyError, CrossMemoryAttach};

/// Why memory cannot be exposed in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// TUTTI_SINGLE_COPY=never.
    Off,
    /// The system does not permit it.
    Refused(CopyError),
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unavailable::Off => f.write_str("TUTTI_SINGLE_COPY is never"),
            Unavailable::Refused(error) => error.fmt(f),
        }
    }
}

/// The exposed memory of this process and the windows it has opened. One a process.
#[derive(Debug)]
pub struct Exposures {
    pid: i32,
    available: Result<(), Unavailable>,
}

static CROSS_MEMORY_ATTACH: CrossMemoryAttach = CrossMemoryAttach::allowed();

impl Exposures {
    /// From the settings of this process.
    pub fn new(config: &Config) -> Exposures {
        let available = match config.single_copy {
            Setting::Never => Err(Unavailable::Off),
            Setting::Auto | Setting::Always => {
                cma::allow_peers();
                cma::permitted().map_err(Unavailable::Refused)
            }
        };
        Exposures { pid: std::process::id() as i32, available }
    }

    /// Whether any memory of this process can be lent to peers of the same user, and why not. What one process finds
    /// holds for its job as a rule (it is a property of the system), but the job has to agree on it: a peer's
    /// record must be usable by all.
    ///
    /// # Errors
    /// Why not.
    pub fn available(&self) -> Result<(), Unavailable> {
        self.available
    }

    /// Lends `bytes` at `address` to the peers that will see the record, until it is withdrawn. Peers are given
    /// `edges` as well, if it is stated here: memory of the operation that they can read.
    ///
    /// Nobody but the peers may write the memory until then; for [`Access::Read`] nobody at all. It may be mapped anew
    /// in this call, at the same address and with the same content: other threads may read it meanwhile.
    ///
    /// # Safety
    /// The memory is valid until the record is withdrawn, and so is the edge room.
    #[inline]
    pub unsafe fn expose(
        &mut self,
        address: *mut u8,
        bytes: u64,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
    ) -> Record {
        let _ = (access, edges);
        Record { address: address as u64, bytes, pid: self.pid, ..Record::default() }
    }

    /// Lends the entries that `rows` gives as (address, bytes), `table` being room for as many rows in memory that the
    /// peers can read: they name an entry ([`Window::entry`]). Otherwise as [`Exposures::expose`].
    ///
    /// # Safety
    /// `table` is valid for writes of as many rows as there are. Otherwise as for [`Exposures::expose`].
    pub unsafe fn expose_entries(
        &mut self,
        rows: impl Iterator<Item = (*mut u8, u64)> + Clone,
        table: *mut Entry,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
    ) -> Record {
        // SAFETY: the caller's promise.
        unsafe { self.expose_table(rows, table, access, edges, Layout::Entries) }
    }

    /// Lends the runs of a buffer that is not contiguous: as [`Exposures::expose_entries`], but peers count through the
    /// runs as if they were contiguous. For few runs: a peer walks over those before the one it wants.
    ///
    /// # Safety
    /// `table` is valid for writes of as many rows as there are. Otherwise as for [`Exposures::expose`].
    pub unsafe fn expose_runs(
        &mut self,
        rows: impl Iterator<Item = (*mut u8, u64)> + Clone,
        table: *mut Entry,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
    ) -> Record {
        // SAFETY: the caller's promise.
        unsafe { self.expose_table(rows, table, access, edges, Layout::Runs) }
    }

    /// What `peer` has published, seen from here. `edges` and `table` are where this process sees the room that the owner
    /// gave (null where it gave none).
    ///
    /// # Safety
    /// Where the record has a table, `table` is its rows; where it has edges, `edges` is its edge room. Both stay until the
    /// operation ends.
    #[inline]
    pub unsafe fn open(
        &mut self,
        peer: Peer,
        record: &Record,
        edges: *const EdgeRoom,
        table: *const Entry,
    ) -> Window {
        let _ = (peer, edges);
        let layout = record.layout();
        let bytes = match layout {
            Layout::Whole | Layout::Entries => record.bytes,
            // SAFETY: the owner has written that many rows.
            Layout::Runs => (0..record.entries as usize).map(|row| unsafe { (*table.add(row)).bytes }).sum(),
        };
        Window {
            copier: &CROSS_MEMORY_ATTACH,
            pid: record.pid(),
            address: record.address,
            near_start: 0,
            near_end: 0,
            near: ptr::null_mut(),
            edges: ptr::null(),
            whole: record.bytes,
            layout,
            table,
            entries: record.entries,
            first: 0,
            bytes,
        }
    }

    /// The owner's end of the loan: all peers are done with what `record` names.
    #[inline]
    pub fn withdraw(&mut self, record: &Record) {
        let _ = record;
    }

    /// # Safety
    /// As for [`Exposures::expose_entries`].
    unsafe fn expose_table(
        &mut self,
        rows: impl Iterator<Item = (*mut u8, u64)> + Clone,
        table: *mut Entry,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
        layout: Layout,
    ) -> Record {
        // Empty entries may have any address, null too.
        let full = rows.clone().filter(|&(_, bytes)| bytes > 0).map(|(start, bytes)| (start as u64, bytes));
        let start = full.clone().map(|(start, _)| start).min().unwrap_or(0);
        let end = full.map(|(start, bytes)| start + bytes).max().unwrap_or(0);
        let mut entries = 0;
        for (address, bytes) in rows {
            let offset = if bytes == 0 { 0 } else { address as u64 - start };
            // SAFETY: the caller's promise.
            unsafe { table.add(entries as usize).write(Entry { offset, bytes }) };
            entries += 1;
        }
        let first = ptr::without_provenance_mut(start as usize);
        // SAFETY: the caller's promise.
        let whole = unsafe { self.expose(first, end - start, access, edges) };
        Record { layout: layout as u32, entries, ..whole }
    }
}
