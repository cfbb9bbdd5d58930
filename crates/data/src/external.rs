//! The portable representation "external32" (MPI-5 section 14.5.2): big-endian, no padding, sizes fixed
//! by the standard. Where those are smaller than in memory, `long` 4 and `wchar_t` 2, a value that does
//! not fit is a conversion error. `long double` becomes binary128, exactly, and is rounded on the way back.
//!
//! # Safety
//! As in [`crate::layout`]: the caller promises that a buffer holds `count` items.
#![allow(unsafe_code)]

use crate::datatype::Datatype;
use crate::extended::Extended;
use crate::predefined::{self, Class, Predefined};
use crate::shape::Unit;
use crate::walk::{self, Visitor};
use tutti_base::{Error, ErrorClass, Result};

impl Datatype {
    /// Bytes of `count` items in external32 (`MPI_Pack_external_size`).
    pub fn pack_external_size(&self, count: i64) -> Result<i64> {
        let size = i128::from(self.typed().external_size()) * i128::from(count.max(0));
        crate::facts::fit(size, "the external32 size")
    }

    /// Writes `count` items in external32 to the start of `out`; returns the bytes written. Fails if
    /// `out` is too small (truncate) or a value does not fit (conversion).
    ///
    /// # Safety
    /// `base` is the address of `count` items of this type, valid to read.
    pub unsafe fn pack_external(&self, base: *const u8, count: u64, out: &mut [u8]) -> Result<usize> {
        let bytes = self.external_bytes(count, out.len())?;
        let mut rest = &mut out[..bytes];
        let mut failed = None;
        self.each_item(count, |offset, row| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(row.external.into());
            rest = later;
            let mut native = [0; 32];
            let native = &mut native[..row.bytes.into()];
            // SAFETY: the walk names items of the caller's buffer.
            unsafe {
                native
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(base.wrapping_offset(offset as isize), native.len())
            };
            if encode(row, native, now).is_none() {
                failed = Some(row);
            }
            failed.is_none()
        });
        failed.map_or(Ok(bytes), |row| Err(too_large(row, "external32 has")))
    }

    /// Reads `count` items in external32 from the start of `input`; returns the bytes used. Fails if
    /// `input` is too short (truncate).
    ///
    /// # Safety
    /// `base` is the address of `count` items of this type, valid to write and disjoint from `input`.
    pub unsafe fn unpack_external(&self, base: *mut u8, count: u64, input: &[u8]) -> Result<usize> {
        let bytes = self.external_bytes(count, input.len())?;
        let mut rest = &input[..bytes];
        self.each_item(count, |offset, row| {
            let (now, later) = rest.split_at(row.external.into());
            rest = later;
            let mut native = [0; 32];
            let native = &mut native[..row.bytes.into()];
            decode(row, now, native);
            // SAFETY: the walk names items of the caller's buffer.
            unsafe {
                base.wrapping_offset(offset as isize).copy_from_nonoverlapping(native.as_ptr(), native.len())
            };
            true
        });
        Ok(bytes)
    }

    fn external_bytes(&self, count: u64, available: usize) -> Result<usize> {
        let bytes = self.pack_external_size(i64::try_from(count).unwrap_or(i64::MAX))? as u64;
        if bytes > available as u64 {
            let message =
                format!("{count} items need {bytes} bytes in external32, the buffer has {available}");
            return Err(Error::new(ErrorClass::Truncate, message));
        }
        Ok(bytes as usize)
    }

    /// Calls `each` with the offset and type of every basic item, until it returns false.
    fn each_item(&self, count: u64, each: impl FnMut(i64, &'static Predefined) -> bool) {
        let typed = self.typed();
        if typed.size > 0 {
            let mut items = Items(each);
            walk::looped(&mut items, typed, 0, self.extent(), 0, self.packed_bytes(count));
        }
    }
}

#[cold]
fn too_large(row: &Predefined, where_: &str) -> Error {
    let message =
        format!("a value of {} does not fit the {} bytes that {where_} for it", row.name, row.external);
    Error::new(ErrorClass::Conversion, message)
}

struct Items<F>(F);

impl<F: FnMut(i64, &'static Predefined) -> bool> Visitor for Items<F> {
    fn run(&mut self, offset: i64, bytes: u64, unit: Unit) -> bool {
        let row = predefined::scalar(unit);
        (0..bytes as i64).step_by(row.bytes.into()).all(|i| (self.0)(offset + i, row))
    }
}

/// Converts one item to external32; `None` if its value does not fit.
fn encode(row: &Predefined, native: &[u8], out: &mut [u8]) -> Option<()> {
    match row.class {
        Class::Extended | Class::ExtendedComplex => {
            for (from, to) in native.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<16>().0) {
                *to = Extended::from_bytes(*from).to_binary128().to_be_bytes();
            }
        }
        Class::Complex => {
            for (from, to) in
                native.chunks_exact(native.len() / 2).zip(out.chunks_exact_mut(native.len() / 2))
            {
                reversed(from, to);
            }
        }
        _ if out.len() < native.len() => {
            let (kept, cut) = native.split_at(out.len());
            let negative = row.class == Class::Signed && kept[out.len() - 1] >= 0x80;
            let fill = if negative { 0xff } else { 0 };
            if cut.iter().any(|byte| *byte != fill) {
                return None;
            }
            reversed(kept, out);
        }
        _ => reversed(native, out),
    }
    Some(())
}

/// Converts one item from external32.
fn decode(row: &Predefined, input: &[u8], native: &mut [u8]) {
    match row.class {
        Class::Extended | Class::ExtendedComplex => {
            for (from, to) in input.as_chunks::<16>().0.iter().zip(native.as_chunks_mut::<16>().0) {
                *to = Extended::from_binary128(u128::from_be_bytes(*from)).to_bytes();
            }
        }
        Class::Complex => {
            let half = input.len() / 2;
            for (from, to) in input.chunks_exact(half).zip(native.chunks_exact_mut(half)) {
                reversed(from, to);
            }
        }
        _ => {
            let (kept, extended) = native.split_at_mut(input.len());
            reversed(input, kept);
            let negative = row.class == Class::Signed && input[0] >= 0x80;
            extended.fill(if negative { 0xff } else { 0 });
        }
    }
}

fn reversed(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.iter().rev().zip(to) {
        *to = *from;
    }
}
