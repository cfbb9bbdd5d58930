//! Applies operators to arrays in the layout of a datatype.
//!
//! # Safety
//! Callers promise that each buffer holds `count` items of the datatype (at any alignment) and that
//! buffers overlap only where a function says so.
#![allow(unsafe_code)]

use crate::datatype::Datatype;
use crate::kernels;
use crate::layout;
use crate::op::{Kind, Op, Operator, UserFunction};
use crate::predefined::Predefined;
use crate::shape::Unit;
use crate::simd::Kernels;
use crate::walk::Visitor;
use tutti_base::Result;

/// What to do to the items of a type.
#[derive(Clone)]
enum Action {
    /// Items of `bytes` in runs of memory.
    Runs {
        kernels: Kernels,
        bytes: usize,
    },
    /// Pairs with padding: an array of C structs, walked by extent.
    Pairs(Kernels),
    /// `inout` becomes `input`.
    Replace,
    /// `inout` stays.
    Nothing,
    User(UserFunction),
}

/// An operator bound to a datatype: everything that can be looked up has been.
#[derive(Clone)]
pub struct Reducer {
    datatype: Datatype,
    action: Action,
}

impl Op {
    /// Binds this operator to a type. More is allowed than [`Op::check`] permits: predefined operators
    /// take derived types whose basic items are all of one type, as `MPI_Accumulate` requires.
    pub fn bind(&self, datatype: &Datatype) -> Result<Reducer> {
        Ok(Reducer { datatype: datatype.clone(), action: self.action(datatype)? })
    }

    fn action(&self, datatype: &Datatype) -> Result<Action> {
        let operator = match &self.0 {
            Kind::User { function, .. } => return Ok(Action::User(function.clone())),
            Kind::Predefined(Operator::Replace) => return Ok(Action::Replace),
            Kind::Predefined(Operator::Nothing) => return Ok(Action::Nothing),
            Kind::Predefined(operator) => *operator,
        };
        let row: &Predefined = self.row(operator, datatype)?;
        let kernels = kernels::select(operator, row).expect("every type of an operator's groups has a loop");
        Ok(match row.pair {
            Some(_) => Action::Pairs(kernels),
            None => Action::Runs { kernels, bytes: row.bytes.into() },
        })
    }

    /// `inout[i] = input[i] op inout[i]` for `count` items. [`Op::bind`] tells what types are allowed;
    /// for others this fails.
    ///
    /// # Safety
    /// Both buffers hold `count` items and are disjoint.
    pub unsafe fn reduce(
        &self,
        datatype: &Datatype,
        input: *const u8,
        inout: *mut u8,
        count: u64,
    ) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.action(datatype)?.apply(datatype, input, inout, count) };
        Ok(())
    }

    /// `out[i] = left[i] op right[i]` for `count` items, as [`Op::reduce`].
    ///
    /// # Safety
    /// The buffers hold `count` items each, and `out` is disjoint from both others.
    pub unsafe fn reduce_to(
        &self,
        datatype: &Datatype,
        left: *const u8,
        right: *const u8,
        out: *mut u8,
        count: u64,
    ) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.action(datatype)?.apply_to(datatype, left, right, out, count) };
        Ok(())
    }
}

impl Reducer {
    /// Whether `other` is certainly the same operator on the same datatype.
    #[inline]
    pub fn is_same(&self, other: &Reducer) -> bool {
        std::sync::Arc::ptr_eq(&self.datatype.0, &other.datatype.0) && self.action.is_same(&other.action)
    }

    /// The datatype it is bound to.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// `inout[i] = input[i] op inout[i]` for `count` items.
    ///
    /// # Safety
    /// Both buffers hold `count` items and are disjoint.
    pub unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: u64) {
        // SAFETY: passed on.
        unsafe { self.action.apply(&self.datatype, input, inout, count) }
    }

    /// `out[i] = left[i] op right[i]` for `count` items.
    ///
    /// # Safety
    /// The buffers hold `count` items each, and `out` is disjoint from both others.
    pub unsafe fn apply_to(&self, left: *const u8, right: *const u8, out: *mut u8, count: u64) {
        // SAFETY: passed on.
        unsafe { self.action.apply_to(&self.datatype, left, right, out, count) }
    }

    /// Combines packed items with those in memory where packed bytes from `position` on belong, as an
    /// accumulate does. Position and length are whole basic items (whole items for pairs and user
    /// functions); returns the bytes used.
    ///
    /// # Safety
    /// `inout` holds `count` items and is disjoint from `input`.
    pub unsafe fn apply_packed(&self, input: &[u8], position: u64, inout: *mut u8, count: u64) -> usize {
        let rest = self.datatype.packed_bytes(count).saturating_sub(position);
        let take = rest.min(input.len() as u64);
        match &self.action {
            Action::Runs { kernels, bytes } => {
                let mut packed = Packed { kernels: *kernels, bytes: *bytes, input: input.as_ptr(), inout };
                self.datatype.layout().walk(&mut packed, position, take);
            }
            Action::Replace => {
                let input = &input[..take as usize];
                // SAFETY: passed on.
                unsafe { self.datatype.unpack(inout, count, position, input) };
            }
            Action::Nothing => {}
            // SAFETY: passed on.
            Action::Pairs(_) | Action::User(_) => unsafe { self.item_by_item(input, position, inout, take) },
        }
        take as usize
    }

    /// Unpacks each item beside the others and combines it.
    ///
    /// # Safety
    /// As for [`Reducer::apply_packed`].
    unsafe fn item_by_item(&self, input: &[u8], position: u64, inout: *mut u8, take: u64) {
        let (size, datatype) = (self.datatype.size() as u64, &self.datatype);
        let Some((low, high)) = datatype.span(1).filter(|_| size > 0) else { return };
        // 16-byte elements, so that a user's function finds its items aligned as in its own arrays.
        let words = (high - low) as usize / 16 + 2;
        let mut scratch = vec![0u128; words];
        let origin = scratch.as_mut_ptr().cast::<u8>().wrapping_offset((low.rem_euclid(16) - low) as isize);
        for (i, item) in input[..take as usize].chunks_exact(size as usize).enumerate() {
            let index = (position / size) as i64 + i as i64;
            let place = inout.wrapping_offset((index * datatype.extent()) as isize);
            // SAFETY: the scratch holds the item's span, moved so that offset `low` lies in its first 16
            // bytes; `place` is an item of the caller's buffer.
            unsafe {
                datatype.unpack(origin, 1, 0, item);
                self.action.apply(datatype, origin, place, 1);
            }
        }
    }
}

impl Action {
    fn is_same(&self, other: &Action) -> bool {
        let same =
            |one: &Kernels, two: &Kernels| std::ptr::fn_addr_eq(one.two, two.two) && one.lanes == two.lanes;
        match (self, other) {
            (Action::Runs { kernels: one, bytes }, Action::Runs { kernels: two, bytes: others }) => {
                same(one, two) && bytes == others
            }
            (Action::Pairs(one), Action::Pairs(two)) => same(one, two),
            (Action::User(one), Action::User(two)) => std::sync::Arc::ptr_eq(one, two),
            (Action::Replace, Action::Replace) | (Action::Nothing, Action::Nothing) => true,
            _ => false,
        }
    }

    /// # Safety
    /// As for [`Reducer::apply`].
    unsafe fn apply(&self, datatype: &Datatype, input: *const u8, inout: *mut u8, count: u64) {
        // SAFETY: the caller's promise; runs and arrays of pairs lie within the buffers.
        unsafe {
            match self {
                Action::Runs { kernels, bytes } => match datatype.contiguous(count) {
                    Some((offset, all)) => {
                        let (offset, items) = (offset as isize, all as usize / bytes);
                        (kernels.two)(
                            input.wrapping_offset(offset),
                            inout.wrapping_offset(offset),
                            items * kernels.lanes,
                        );
                    }
                    None => {
                        let mut runs = InPlace { kernels: *kernels, bytes: *bytes, input, inout };
                        datatype.layout().walk(&mut runs, 0, datatype.packed_bytes(count));
                    }
                },
                Action::Pairs(kernels) => (kernels.two)(input, inout, count as usize),
                Action::Replace => _ = layout::copy(datatype, input, count, datatype, inout, count),
                Action::Nothing => {}
                Action::User(function) => function(input, inout, count as i64, datatype),
            }
        }
    }

    /// # Safety
    /// As for [`Reducer::apply_to`].
    unsafe fn apply_to(
        &self,
        datatype: &Datatype,
        left: *const u8,
        right: *const u8,
        out: *mut u8,
        count: u64,
    ) {
        // SAFETY: the caller's promise; runs and arrays of pairs lie within the buffers.
        unsafe {
            match (self, datatype.contiguous(count)) {
                (Action::Runs { kernels, bytes }, Some((offset, all))) => {
                    let (offset, items) = (offset as isize, all as usize / bytes);
                    let (left, right) = (left.wrapping_offset(offset), right.wrapping_offset(offset));
                    (kernels.three)(left, right, out.wrapping_offset(offset), items * kernels.lanes);
                }
                (Action::Pairs(kernels), _) => (kernels.three)(left, right, out, count as usize),
                (Action::Replace, _) => _ = layout::copy(datatype, left, count, datatype, out, count),
                (Action::Runs { .. } | Action::Nothing | Action::User(_), _) => {
                    layout::copy(datatype, right, count, datatype, out, count);
                    self.apply(datatype, left, out, count);
                }
            }
        }
    }
}

/// Combines runs of two buffers of the same layout.
struct InPlace {
    kernels: Kernels,
    bytes: usize,
    input: *const u8,
    inout: *mut u8,
}

impl Visitor for InPlace {
    fn run(&mut self, offset: i64, bytes: u64, _unit: Unit) -> bool {
        let (offset, items) = (offset as isize, bytes as usize / self.bytes);
        let (input, inout) = (self.input.wrapping_offset(offset), self.inout.wrapping_offset(offset));
        // SAFETY: the walk names runs of buffers that the caller of the reduction promised.
        unsafe { (self.kernels.two)(input, inout, items * self.kernels.lanes) };
        true
    }
}

/// Combines packed bytes with runs of a buffer.
struct Packed {
    kernels: Kernels,
    bytes: usize,
    input: *const u8,
    inout: *mut u8,
}

impl Visitor for Packed {
    fn run(&mut self, offset: i64, bytes: u64, _unit: Unit) -> bool {
        let inout = self.inout.wrapping_offset(offset as isize);
        let elements = bytes as usize / self.bytes * self.kernels.lanes;
        // SAFETY: the walk names runs of the buffer that the caller promised, and covers as many packed
        // bytes as there are.
        unsafe { (self.kernels.two)(self.input, inout, elements) };
        self.input = self.input.wrapping_add(bytes as usize);
        true
    }
}
