//! Applies operators to arrays in the layout of a datatype.
//!
//! # Safety
//! Callers promise that each buffer holds `count` items of the datatype (at any alignment) and that
//! buffers overlap only where a function says so.
#![allow(unsafe_code)]

use crate::datatype::Datatype;
use crate::exact;
use crate::kernels;
use crate::layout::Layout;
use crate::moving;
use crate::op::{Op, Operator, OperatorKind, UserFunction};
use crate::predefined::Predefined;
use crate::shape::Unit;
use crate::simd::Kernels;
use crate::walk::Visitor;
use std::fmt;
use std::sync::Arc;
use tutti_base::Result;

/// Way to apply the operator to the items of a type.
#[derive(Clone)]
enum Action {
    /// Items in runs of memory, whose basic items are `bytes` long.
    Runs {
        kernels: Kernels,
        bytes: usize,
    },
    /// Pairs with padding: an array of C structs, walked by extent.
    Pairs(Kernels),
    /// A derived type made of this pair: arrays of it where the layout says.
    PairRuns {
        kernels: Kernels,
        pair: &'static Datatype,
        layout: Arc<Layout>,
    },
    /// The left operand is the result.
    Replace,
    /// The right operand is the result.
    Nothing,
    User(UserFunction),
}

/// Operands of [`Reducer::apply_rows`] up to which nothing is allocated.
const FEW: usize = 65;

/// Any number of items is one array of elements of a loop: the usual case, kept beside the address of the
/// loop so that an element costs a few nanoseconds.
#[derive(Clone, Copy)]
struct Direct {
    kernels: Kernels,
    /// Bytes from the address of an item to its first element.
    offset: isize,
    /// Elements of an item.
    elements: usize,
}

/// An operator bound to a datatype: everything that can be looked up has been.
#[derive(Clone)]
pub struct Reducer {
    direct: Option<Direct>,
    datatype: Datatype,
    /// See [`Reducer::named`].
    handle: usize,
    action: Action,
    /// See [`Reducer::is_exact`].
    exact: bool,
}

impl Op {
    /// Binds this operator to a type. More is allowed than [`Op::check`] permits: predefined operators
    /// take derived types whose basic items are all of one type, as `MPI_Accumulate` requires.
    pub fn bind(&self, datatype: &Datatype) -> Result<Reducer> {
        let action = self.action(datatype)?;
        let direct = match (&action, datatype.contiguous(2)) {
            (Action::Runs { kernels, bytes }, Some((offset, two))) => Some(Direct {
                kernels: *kernels,
                offset: offset as isize,
                elements: two as usize / 2 / bytes * kernels.lanes,
            }),
            (Action::Pairs(kernels), _) => Some(Direct { kernels: *kernels, offset: 0, elements: 1 }),
            _ => None,
        };
        Ok(Reducer { direct, datatype: datatype.clone(), handle: 0, action, exact: false })
    }

    /// Binds this operator to a type so that results are rounded once (`exact`). Returns `None` if that is
    /// not possible: for operators that do not round, for products of complex numbers, and for types with
    /// more than 64 bits.
    pub fn bind_exact(&self, datatype: &Datatype) -> Option<Reducer> {
        let OperatorKind::Predefined(operator) = self.0 else { return None };
        let row = self.row(operator, datatype).ok().filter(|_| datatype.is_predefined())?;
        let kernels = exact::select(operator, row)?;
        let direct = Some(Direct { kernels, offset: 0, elements: kernels.lanes });
        let action = Action::Runs { kernels, bytes: row.bytes.into() };
        Some(Reducer { direct, datatype: datatype.clone(), handle: 0, action, exact: true })
    }

    fn action(&self, datatype: &Datatype) -> Result<Action> {
        let operator = match &self.0 {
            OperatorKind::User { function, .. } => return Ok(Action::User(function.clone())),
            OperatorKind::Predefined(Operator::Replace) => return Ok(Action::Replace),
            OperatorKind::Predefined(Operator::Nothing) => return Ok(Action::Nothing),
            OperatorKind::Predefined(operator) => *operator,
        };
        let row: &Predefined = self.row(operator, datatype)?;
        let kernels = kernels::select(operator, row).expect("every type of an operator's groups has a loop");
        Ok(match (row.pair, datatype.basic()) {
            (Some(_), Some(pair)) if pair != datatype => {
                Action::PairRuns { kernels, pair, layout: Arc::new(datatype.pairs()) }
            }
            (Some(_), _) => Action::Pairs(kernels),
            (None, _) => Action::Runs { kernels, bytes: row.bytes.into() },
        })
    }

    /// Computes `inout[i] = input[i] op inout[i]` for `count` items. Fails for types that [`Op::bind`] does
    /// not permit.
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
        unsafe { self.bind(datatype)?.apply(input, inout, count) };
        Ok(())
    }
}

impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an operator on {:?}", self.datatype)
    }
}

impl Reducer {
    /// Gives a user's function this handle of the datatype: the one that the call named, as a program may
    /// have several for equal types. 0 where nobody named one.
    #[must_use]
    pub fn named(self, handle: usize) -> Reducer {
        Reducer { handle, ..self }
    }

    /// Returns true if `other` is certainly the same operator on the same datatype, by the same handle where
    /// that matters.
    #[inline]
    pub fn is_same(&self, other: &Reducer) -> bool {
        Arc::ptr_eq(&self.datatype.0, &other.datatype.0)
            && self.action.is_same(&other.action)
            && self.exact == other.exact
            && (self.handle == other.handle || !self.calls_user())
    }

    /// Returns true if results are rounded once ([`Op::bind_exact`]). Then all operands of an element must be
    /// combined at once: a partial result would be rounded too.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns true if the operator is a function of the user's.
    pub fn calls_user(&self) -> bool {
        matches!(self.action, Action::User(_))
    }

    /// Returns the datatype to which the operator is bound.
    #[inline]
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// Computes `inout[i] = input[i] op inout[i]` for `count` items.
    ///
    /// # Safety
    /// Both buffers hold `count` items and are disjoint.
    #[inline]
    pub unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: u64) {
        // SAFETY: passed on.
        unsafe { self.apply_into(input, inout, inout, count) }
    }

    /// Computes `into[i] = left[i] op right[i]` for `count` items.
    ///
    /// # Safety
    /// The buffers hold `count` items each. `into` is `right`, or disjoint from it, and disjoint from `left`.
    #[inline]
    pub unsafe fn apply_into(&self, left: *const u8, right: *const u8, into: *mut u8, count: u64) {
        if let Some(Direct { kernels, offset, elements }) = self.direct {
            let (left, right) = (left.wrapping_offset(offset), right.wrapping_offset(offset));
            // SAFETY: the caller's promise.
            unsafe { (kernels.three)(left, right, into.wrapping_offset(offset), count as usize * elements) };
            return;
        }
        // SAFETY: passed on.
        unsafe { self.fold(&[left, right], into, count, false) }
    }

    /// Computes `into[i] = s0[i] op (s1[i] op (.. op sn[i]))` for `count` items. The operands are in the
    /// order of their ranks and combined from right to left. The result has the same bits as repeated
    /// [`Reducer::apply`] from the last operand but one to the first on a copy of the last one. That holds
    /// for any number of items anywhere in memory. A single operand is copied.
    ///
    /// # Safety
    /// There is at least one source, and all buffers hold `count` items. `into` is one of the sources or
    /// disjoint from them.
    pub unsafe fn apply_many(&self, sources: &[*const u8], into: *mut u8, count: u64) {
        // SAFETY: passed on.
        unsafe { self.fold(sources, into, count, false) }
    }

    /// Combines operands that lie one after the other in `left` with those in `right`, which gets the result:
    /// `right[i] = l0[i] op (l1[i] op (.. op right[i]))`.
    ///
    /// # Safety
    /// `left` holds `operands * count` items, `right` holds `count`; they are disjoint.
    pub unsafe fn apply_rows(&self, left: *const u8, operands: u64, right: *mut u8, count: u64) {
        let row = self.datatype.extent() as isize * count as isize;
        let first = |number: u64| left.wrapping_offset(number as isize * row);
        if operands == 1 {
            // SAFETY: passed on.
            return unsafe { self.apply(left, right, count) };
        }
        let mut few = [std::ptr::null(); FEW];
        let many: Vec<*const u8>;
        let sources: &[*const u8] = match few.get_mut(..=operands as usize) {
            Some(few) => {
                few.iter_mut().zip(0..).for_each(|(source, number)| *source = first(number));
                few[operands as usize] = right;
                few
            }
            None => {
                many = (0..operands).map(first).chain([right.cast_const()]).collect();
                &many
            }
        };
        // SAFETY: passed on; the result is the last operand.
        unsafe { self.apply_many(sources, right, count) }
    }

    /// Computes the result of [`Reducer::apply_many`] and stores it past the caches where the type permits:
    /// for results that do not fit into them.
    ///
    /// # Safety
    /// As for [`Reducer::apply_many`].
    pub unsafe fn apply_many_streaming(&self, sources: &[*const u8], into: *mut u8, count: u64) {
        // SAFETY: passed on.
        unsafe { self.fold(sources, into, count, true) }
    }

    /// # Safety
    /// As for [`Reducer::apply_many`].
    unsafe fn fold(&self, sources: &[*const u8], into: *mut u8, count: u64, streaming: bool) {
        let datatype = &self.datatype;
        let (Some(&first), Some(&last)) = (sources.first(), sources.last()) else { return };
        // SAFETY: the caller's promise; the walk names runs of these buffers.
        unsafe {
            match (&self.action, self.direct) {
                (_, Some(Direct { kernels, offset, elements })) => {
                    let run = Run { kernels, streaming, sources, into };
                    run.fold(offset, count as usize * elements);
                }
                (Action::Runs { kernels, bytes }, None) => {
                    let run = Run { kernels: *kernels, streaming, sources, into };
                    let mut runs = Runs { run, bytes: *bytes };
                    datatype.layout().walk(&mut runs, 0, datatype.packed_bytes(count));
                }
                (Action::PairRuns { kernels, pair, layout }, None) => {
                    let run = Run { kernels: *kernels, streaming, sources, into };
                    let mut runs = Runs { run, bytes: pair.extent() as usize };
                    layout.walk(&mut runs, 0, layout.shape.size * count);
                }
                (Action::Pairs(_), None) => unreachable!("pairs are arrays of elements"),
                (Action::Replace, None) => self.copy(first, into, count),
                (Action::Nothing, None) => self.copy(last, into, count),
                (Action::User(function), None) => self.fold_by(function, sources, into, count),
            }
        }
    }

    /// # Safety
    /// Both buffers hold `count` items; they are the same or disjoint.
    unsafe fn copy(&self, from: *const u8, into: *mut u8, count: u64) {
        if !std::ptr::eq(from, into) {
            // SAFETY: the caller's promise.
            unsafe { moving::copy(&self.datatype, from, count, &self.datatype, into, count) };
        }
    }

    /// # Safety
    /// As for [`Reducer::apply_many`].
    unsafe fn fold_by(&self, function: &UserFunction, sources: &[*const u8], into: *mut u8, count: u64) {
        let (last, rest) = sources.split_last().expect("a reduction has operands");
        let taken = rest.iter().any(|source| std::ptr::eq(*source, into));
        let mut scratch = None;
        let sum = match taken {
            true => scratch.insert(Scratch::new(&self.datatype, count)).origin(),
            false => into,
        };
        // SAFETY: the caller's promise; a scratch holds `count` items, and a sum in `into` overwrites no
        // operand but the last.
        unsafe {
            self.copy(*last, sum, count);
            for source in rest.iter().rev() {
                function(*source, sum, count as i64, &self.datatype, self.handle);
            }
            self.copy(sum, into, count);
        }
    }

    /// Combines packed items with those in memory where packed bytes from `position` on belong, as an
    /// accumulate does. Position and length are whole predefined items, pairs among them (whole items of the
    /// type for user functions); returns the bytes used.
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
            Action::PairRuns { kernels, pair, layout } => {
                let (packed, bytes) = (pair.size() as u64, pair.extent() as u64);
                let pairs = take / packed;
                let mut scratch = Scratch::new(pair, pairs);
                let origin = scratch.origin();
                // SAFETY: the scratch holds so many pairs.
                unsafe { pair.unpack(origin, pairs, 0, &input[..take as usize]) };
                let mut arrays = Packed { kernels: *kernels, bytes: bytes as usize, input: origin, inout };
                layout.walk(&mut arrays, position / packed * bytes, pairs * bytes);
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
        if size == 0 {
            return;
        }
        let mut scratch = Scratch::new(datatype, 1);
        let origin = scratch.origin();
        for (i, item) in input[..take as usize].chunks_exact(size as usize).enumerate() {
            let index = (position / size) as i64 + i as i64;
            let place = inout.wrapping_offset((index * datatype.extent()) as isize);
            // SAFETY: the scratch holds an item; `place` is an item of the caller's buffer.
            unsafe {
                datatype.unpack(origin, 1, 0, item);
                self.apply(origin, place, 1);
            }
        }
    }
}

impl Action {
    fn is_same(&self, other: &Action) -> bool {
        let same = |one: &Kernels, two: &Kernels| {
            std::ptr::fn_addr_eq(one.three, two.three) && one.lanes == two.lanes
        };
        match (self, other) {
            (Action::Runs { kernels: one, bytes }, Action::Runs { kernels: two, bytes: others }) => {
                same(one, two) && bytes == others
            }
            (Action::Pairs(one), Action::Pairs(two))
            | (Action::PairRuns { kernels: one, .. }, Action::PairRuns { kernels: two, .. }) => {
                same(one, two)
            }
            (Action::User(one), Action::User(two)) => Arc::ptr_eq(one, two),
            (Action::Replace, Action::Replace) | (Action::Nothing, Action::Nothing) => true,
            _ => false,
        }
    }
}

/// Memory for items, aligned so that a user's function finds them as in its own arrays.
struct Scratch {
    words: Vec<u128>,
    /// Offset in bytes of the position from which the items' displacements count.
    origin: isize,
}

impl Scratch {
    fn new(datatype: &Datatype, count: u64) -> Scratch {
        let (low, high) = datatype.span(count).unwrap_or((0, 0));
        // Moved so that offset `low` lies in the first word.
        let origin = (low.rem_euclid(16) - low) as isize;
        Scratch { words: vec![0u128; (high - low) as usize / 16 + 2], origin }
    }

    fn origin(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast::<u8>().wrapping_offset(self.origin)
    }
}

/// Buffers of one layout.
struct Run<'a> {
    kernels: Kernels,
    streaming: bool,
    sources: &'a [*const u8],
    into: *mut u8,
}

impl Run<'_> {
    /// Combines `elements` elements at `offset` of all buffers.
    ///
    /// # Safety
    /// So many are in each buffer; `into` is one of the sources or disjoint from them.
    unsafe fn fold(&self, offset: isize, elements: usize) {
        let Run { kernels, streaming, sources, into } = *self;
        let many = if streaming { kernels.streaming } else { kernels.many };
        // SAFETY: passed on.
        unsafe { many(sources, into, offset, elements) };
    }
}

/// Combines the same runs of several buffers.
struct Runs<'a> {
    run: Run<'a>,
    bytes: usize,
}

impl Visitor for Runs<'_> {
    fn run(&mut self, offset: i64, bytes: u64, _unit: Unit) -> bool {
        let elements = bytes as usize / self.bytes * self.run.kernels.lanes;
        // SAFETY: the walk names runs of buffers that the caller of the reduction promised.
        unsafe { self.run.fold(offset as isize, elements) };
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
        unsafe { (self.kernels.three)(self.input, inout, inout, elements) };
        self.input = self.input.wrapping_add(bytes as usize);
        true
    }
}
