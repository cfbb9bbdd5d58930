//! Memory of the user that an access reads or writes.
//!
//! # Safety
//! The creator of a [`Memory`] or [`Items`] guarantees what [`Buffer::user`] requires. `count` items of the
//! datatype are at the address until the access has ended. No other thread writes them meanwhile, or reads
//! them during a read.
#![allow(unsafe_code)]

use tutti_base::Result;
use tutti_core::buffer::Buffer;
use tutti_data::Datatype;

/// Items of a datatype in the user's memory.
#[derive(Clone, Debug)]
pub struct Items {
    base: *mut u8,
    count: u64,
    datatype: Datatype,
}

// SAFETY: an address with a promise about it, valid in every thread of the process.
unsafe impl Send for Items {}
// SAFETY: as above.
unsafe impl Sync for Items {}

/// Items in the user's memory, and the same memory as a buffer.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Buffer for bytes that need no conversion.
    pub buffer: Buffer,
    /// Items, for conversion functions of the program.
    pub items: Items,
}

impl Memory {
    /// Describes the memory of `count` items at `base`.
    ///
    /// # Errors
    /// Fails like [`Buffer::user`].
    ///
    /// # Safety
    /// See the module's Safety section.
    pub unsafe fn user(base: *mut u8, count: u64, datatype: &Datatype) -> Result<Memory> {
        // SAFETY: the caller's promise.
        let buffer = unsafe { Buffer::user(base, count, datatype)? };
        Ok(Memory { buffer, items: Items { base, count, datatype: datatype.clone() } })
    }
}

impl Items {
    /// Returns the address of the items, for functions of the program.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns the number of items in memory.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the datatype of each item.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// Returns the first `count` items, or all if there are fewer.
    pub fn first(&self, count: u64) -> Items {
        Items { count: count.min(self.count), ..self.clone() }
    }

    /// Writes them in external32.
    ///
    /// # Errors
    /// Fails with `Conversion` for a value that does not fit.
    pub fn to_external(&self, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: the module's Safety section.
        unsafe { self.datatype.pack_external(self.base, self.count, bytes) }.map(drop)
    }

    /// Reads them from external32.
    ///
    /// # Errors
    /// Fails with `Truncate` for too few bytes.
    pub fn from_external(&self, bytes: &[u8]) -> Result<()> {
        // SAFETY: the module's Safety section.
        unsafe { self.datatype.unpack_external(self.base, self.count, bytes) }.map(drop)
    }
}
