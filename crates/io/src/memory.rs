//! The user's side of an access: where data come from or go to.
//!
//! # Safety
//! Who makes a [`Memory`] or [`Items`] promises what [`Buffer::user`] asks for: `count` items of the datatype are at the address, and
//! stay so until the access is over; nobody else writes them meanwhile, and of a read nobody touches them.
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

/// The same, and as a buffer.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Where bytes that need no conversion go.
    pub buffer: Buffer,
    /// For conversions.
    pub items: Items,
}

impl Memory {
    /// The memory of `count` items at `base`.
    ///
    /// # Errors
    /// As [`Buffer::user`].
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
    /// Where they are: for functions of the program.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Of what.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// The first of them, not more than there are.
    pub fn first(&self, count: u64) -> Items {
        Items { count: count.min(self.count), ..self.clone() }
    }

    /// Writes them in external32.
    ///
    /// # Errors
    /// `Conversion` for a value that does not fit.
    pub fn to_external(&self, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: the module's Safety section.
        unsafe { self.datatype.pack_external(self.base, self.count, bytes) }.map(drop)
    }

    /// Reads them from external32.
    ///
    /// # Errors
    /// `Truncate` for too few bytes.
    pub fn from_external(&self, bytes: &[u8]) -> Result<()> {
        // SAFETY: the module's Safety section.
        unsafe { self.datatype.unpack_external(self.base, self.count, bytes) }.map(drop)
    }
}
