//! Memory of one execution: the user's buffers and the temporaries, and the translation from ranges of a
//! schedule to addresses.
//!
//! # Safety
//! The caller of [`Bindings::bind`] promises that [`Buffer`]'s requirements hold for all memory of the
//! arrays, until the execution is complete or abandoned. It also promises that the arrays are as large as the
//! plan's shape and tables say. The verifier has shown that the ranges of a schedule lie inside the buffers
//! of its shape. It has also shown that concurrent steps touch different memory, and that both sides of a
//! copy or a reduction are disjoint. So every address made here is valid for its use.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::sync::Arc;

use tutti_coll::Schedule;
use tutti_coll::ir::{Access, BufferId, Kind, Order, Range, StepId, Tables, Unit};
use tutti_data::{Datatype, Reducer};

use super::compiled::{BANK, Bases, Lookup};
use crate::buffer::Buffer;

/// Items of a datatype in the user's memory.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    /// Address given by the user.
    pub base: *mut u8,
    /// Number of items in memory.
    pub count: u64,
    /// Datatype of each item.
    pub datatype: &'a Datatype,
}

/// Send or receive buffer given by the user.
pub enum Memory<'a> {
    /// No buffer: it is not significant at this rank, or MPI_IN_PLACE was given.
    None,
    /// Single array of items.
    Whole(Array<'a>),
    /// One array for each rank, in order (the v and w collectives).
    Entries(&'a mut dyn Iterator<Item = Array<'a>>),
}

/// Buffer of the schedule as addresses.
#[derive(Debug, Default)]
pub(super) enum Place {
    #[default]
    Absent,
    /// Contiguous memory: unit u begins at `base + u * scale`.
    Run {
        base: *mut u8,
        scale: usize,
    },
    /// Packed units, with unit u at `base + u * scale`: a bank, or the substitute for exposed memory with
    /// gaps.
    Packed {
        base: *mut u8,
        scale: usize,
    },
    /// Items of a datatype with gaps. A unit is a packed byte or an item.
    Typed {
        base: *mut u8,
        count: u64,
        datatype: Datatype,
        /// Packed bytes of one unit.
        size: u64,
    },
    Entries(Vec<Place>),
    /// Packed bytes of a buffer that was created before.
    Buffer(Buffer),
}

impl Place {
    /// Returns the place of an array, as contiguous memory if possible.
    #[inline]
    fn new(array: Array<'_>, unit: Unit) -> Place {
        let size = match unit {
            Unit::Byte => 1,
            Unit::Element => array.datatype.size() as u64,
        };
        match array.datatype.contiguous(array.count) {
            Some((offset, _)) => {
                Place::Run { base: array.base.wrapping_offset(offset as isize), scale: size as usize }
            }
            None => {
                let Array { base, count, datatype } = array;
                Place::Typed { base, count, datatype: datatype.clone(), size }
            }
        }
    }

    /// Returns true if elements are packed.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Place::Packed { .. })
    }

    /// Returns the memory of `length` units, starting at unit `start`.
    #[inline]
    pub(super) fn buffer(&self, start: u64, length: u64) -> Buffer {
        match self {
            // SAFETY: the module's Safety section.
            Place::Run { base, scale } | Place::Packed { base, scale } => unsafe {
                let bytes = length * *scale as u64;
                Buffer::bytes_at(base.wrapping_add(start as usize * scale), bytes)
            },
            // SAFETY: the module's Safety section.
            Place::Typed { base, count, datatype, size } => unsafe {
                Buffer::part(*base, *count, datatype, start * size, length * size)
            },
            Place::Buffer(buffer) => buffer.slice(start, length),
            Place::Absent | Place::Entries(_) => {
                unreachable!("a verified schedule uses the buffers that its collective has")
            }
        }
    }

    /// Returns the address from which the displacements of element `start` count.
    #[inline]
    pub(super) fn element(&self, start: u64, element: &Datatype) -> *mut u8 {
        match self {
            // The datatype has no gaps, but may begin before or after its origin.
            Place::Run { base, scale } => {
                base.wrapping_add(start as usize * scale).wrapping_offset(-(element.true_lb() as isize))
            }
            Place::Packed { base, scale } => base.wrapping_add(start as usize * scale),
            Place::Typed { base, .. } => base.wrapping_offset(start as isize * element.extent() as isize),
            Place::Absent | Place::Entries(_) | Place::Buffer(_) => {
                unreachable!("a verified schedule uses the buffers that its collective has")
            }
        }
    }
}

/// One cache line of temporary memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(#[allow(dead_code, reason = "only its address is used")] [u8; Line::BYTES]);

impl Line {
    pub(super) const BYTES: usize = 64;
}

/// Memory of an execution, kept for later executions.
pub struct Bindings {
    pub(super) unit: Unit,
    /// True if a compiled program needs the addresses of all buffers.
    compiled: bool,
    /// True if temporaries are packed: within a node they are read and exposed as the bank is.
    packed: bool,
    temporary_units: Vec<u64>,
    user: [Place; 2],
    /// True for each user's buffer that this rank exposes, completely or in parts.
    exposes: [bool; 2],
    /// True for each buffer that is exposed as one contiguous piece, even if a table describes it.
    joins: [bool; 2],
    /// True for each buffer that the operation writes, so that its substitute is copied back.
    returns: [bool; 2],
    /// Substitutes for exposed memory with gaps.
    stand_ins: Vec<StandIn>,
    temporaries: Vec<Place>,
    storage: Vec<MaybeUninit<Line>>,
    bank: Place,
    sums: [Vec<u64>; 2],
    permutation: Arc<[u32]>,
    pub(super) reducer: Option<Reducer>,
    /// True if elements are adjacent without gaps in all buffers.
    pub(super) dense: bool,
    /// Memory for elements that are unpacked or fetched before they are combined.
    pub(super) scratch: Vec<MaybeUninit<Line>>,
    /// True if the temporaries have addresses.
    ready: bool,
    /// Start of every buffer: send, receive, bank, temporaries.
    bases: Vec<*mut u8>,
    /// First step at which this rank waits for ranks that use its memory.
    pub(super) parting: StepId,
    /// True if every buffer is contiguous.
    flat: bool,
    /// Distance from the user's addresses to the bases of send and receive; None without a buffer.
    origins: [Option<isize>; 2],
    /// Offsets of the entries from these addresses, for a program that was compiled for these entries.
    offsets: [Vec<isize>; 2],
}

/// Packed substitute for exposed memory of the user that has gaps.
#[derive(Debug)]
struct StandIn {
    /// Memory of the user that it replaces.
    original: Place,
    /// Start of each entry in `packed`, if the original has entries.
    sums: Vec<u64>,
    packed: Vec<u8>,
    returns: bool,
}

impl StandIn {
    /// Calls `each` with pairs of buffers of equal content: the user's, and its part of the substitute.
    fn buffers(&self, mut each: impl FnMut(Buffer, Buffer)) {
        let packed = |start: u64, bytes: u64| {
            let base = self.packed.as_ptr().cast_mut().wrapping_add(start as usize);
            // SAFETY: the vector lives as long as the stand-in. No other code uses it while this value is
            // borrowed.
            unsafe { Buffer::bytes_at(base, bytes) }
        };
        let bytes = self.packed.len() as u64;
        match &self.original {
            Place::Typed { size, .. } => {
                each(self.original.buffer(0, bytes / (*size).max(1)), packed(0, bytes));
            }
            Place::Entries(entries) => {
                for (entry, ends) in entries.iter().zip(self.sums.windows(2)) {
                    let length = ends[1] - ends[0];
                    each(entry.buffer(0, length), packed(ends[0], length));
                }
            }
            _ => unreachable!("only memory with gaps"),
        }
    }
}

/// Replaces memory with gaps by a packed substitute. Returns None for contiguous memory.
fn packed(place: &mut Place, returns: bool) -> Option<StandIn> {
    let Place::Typed { count, datatype, size, .. } = &*place else { return None };
    let (bytes, scale) = (*count * datatype.size() as u64, *size as usize);
    let mut packed = vec![0; (bytes / (*size).max(1) * *size) as usize];
    let base = packed.as_mut_ptr();
    let original = std::mem::replace(place, Place::Packed { base, scale });
    Some(StandIn { original, sums: Vec::new(), packed, returns })
}

/// Joins entries to one contiguous piece, with a substitute if they are not adjacent. `sums` has the start of
/// each entry in that piece.
fn join(entries: Vec<Place>, sums: &[u64], returns: bool) -> (Place, Option<StandIn>) {
    let long = || entries.iter().zip(sums.windows(2)).filter(|(_, ends)| ends[1] > ends[0]);
    let origin = |(entry, ends): (&Place, &[u64])| match entry {
        Place::Run { base, .. } => Some(base.wrapping_sub(ends[0] as usize)),
        _ => None,
    };
    let first = long().next().map(origin);
    match first {
        Some(Some(base)) if long().all(|entry| origin(entry) == Some(base)) => {
            return (Place::Run { base, scale: 1 }, None);
        }
        _ => {}
    }
    let mut packed = vec![0; sums.last().map_or(0, |end| *end as usize)];
    let base = packed.as_mut_ptr();
    let original = Place::Entries(entries);
    let stand_in = StandIn { original, sums: sums.to_vec(), packed, returns };
    (Place::Packed { base, scale: 1 }, Some(stand_in))
}

// SAFETY: addresses with a promise about them, valid in every thread of the process; an execution is
// used by one thread at a time.
unsafe impl Send for Bindings {}

impl std::fmt::Debug for Bindings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bindings").field("unit", &self.unit).field("user", &self.user).finish_non_exhaustive()
    }
}

impl Bindings {
    /// Returns bindings for the buffers of `schedule`, without memory.
    pub(super) fn new(schedule: &Schedule, compiled: bool) -> Bindings {
        let exposes = |buffer: BufferId, joined: bool| {
            schedule.steps.iter().any(|step| match step.kind {
                Kind::Expose { what, .. } => what.buffer == buffer && !(joined && what.uses_table()),
                _ => false,
            })
        };
        let both = |joined| [BufferId::SEND, BufferId::RECV].map(|buffer| exposes(buffer, joined));
        Bindings {
            unit: schedule.unit,
            packed: schedule.order == Order::Program,
            compiled,
            exposes: both(false),
            joins: both(true),
            returns: [false, is_written(schedule)],
            stand_ins: Vec::new(),
            bank: Place::Absent,
            dense: true,
            scratch: Vec::new(),
            temporary_units: schedule.temporaries.clone(),
            user: [Place::Absent, Place::Absent],
            temporaries: Vec::new(),
            storage: Vec::new(),
            sums: [Vec::new(), Vec::new()],
            permutation: Arc::clone(&schedule.permutation),
            reducer: None,
            ready: false,
            bases: Vec::new(),
            parting: schedule.parting(),
            flat: false,
            origins: [None; 2],
            offsets: [Vec::new(), Vec::new()],
        }
    }

    /// Sets the operator, bound to the datatype of the elements. Reductions call it before
    /// [`Bindings::bind`]. It remains for later executions.
    pub fn operate(&mut self, reducer: &Reducer) {
        if self.reducer.as_ref().is_some_and(|bound| bound.is_same(reducer)) {
            return;
        }
        let element = reducer.datatype();
        let plain = element.extent() == element.size() && element.true_lb() == 0;
        self.dense = plain && element.contiguous(2).is_some();
        self.ready = false;
        self.reducer = Some(reducer.clone());
    }

    /// Binds the user's memory. `blocks` has the number of elements of each rank's block in reduce_scatter,
    /// and is empty for others. [`tutti_coll::Shape`] describes `send` and `recv` of each collective. A
    /// broadcast has only `recv`, also at the root.
    ///
    /// # Safety
    /// See the module's Safety section.
    #[inline]
    pub unsafe fn bind(&mut self, send: Memory<'_>, recv: Memory<'_>, blocks: &[u64]) {
        self.sums.iter_mut().for_each(Vec::clear);
        self.bind_user(0, send);
        self.bind_user(1, recv);
        if self.exposes != [false, false] {
            self.stand_in();
        }
        if !blocks.is_empty() {
            sum(&mut self.sums[1], blocks.iter().copied());
        }
        if !self.ready {
            self.place_temporaries();
        }
        if self.compiled {
            self.flatten();
        }
    }

    /// Binds buffers that exist already, with both tables as running sums. Used for operations on files.
    pub fn bind_buffers(&mut self, user: [Option<Buffer>; 2], sums: [Vec<u64>; 2]) {
        self.user = user.map(|buffer| buffer.map_or(Place::Absent, Place::Buffer));
        self.sums = sums;
        if !self.ready {
            self.place_temporaries();
        }
    }

    /// Binds the bank for the steps of a schedule.
    #[inline]
    pub(super) fn bind_bank(&mut self, base: *mut u8) {
        self.bank = Place::Packed { base, scale: self.unit_bytes() };
    }

    /// Binds the bank for a compiled program.
    #[inline]
    pub(super) fn bind_bank_of_program(&mut self, base: *mut u8) {
        self.bases[BANK] = base;
    }

    /// Returns true if every buffer is contiguous and its elements are adjacent.
    #[inline]
    pub(super) fn is_flat(&self) -> bool {
        self.flat
    }

    /// Returns the addresses of the buffers, and the operator.
    #[inline]
    pub(super) fn flat(&self) -> (&Bases, Option<&Reducer>) {
        (&self.bases, self.reducer.as_ref())
    }

    /// Binds the same operation to other memory of the user. Returns false if the buffers are not flat, or
    /// null.
    ///
    /// # Safety
    /// The same as for [`Bindings::bind`].
    #[inline]
    pub(super) unsafe fn rebind(&mut self, given: [*mut u8; 2]) -> bool {
        let [to_send, to_recv] = self.origins;
        let [from, into, ..] = &mut self.bases[..] else { return false };
        if let Some(origin) = to_send {
            if given[0].is_null() {
                return false;
            }
            *from = given[0].wrapping_offset(origin);
        }
        if let Some(origin) = to_recv {
            if given[1].is_null() {
                return false;
            }
            *into = given[1].wrapping_offset(origin);
        }
        self.flat
    }

    /// Determines the start of all buffers, where some have entries. `given` has the user's addresses, from
    /// which the entries' displacements count; null without a buffer. Returns the tables for a program if
    /// every entry is contiguous.
    #[cold]
    pub(super) fn flatten_entries(&mut self, given: [*mut u8; 2]) -> Option<Lookup<'_>> {
        self.flatten();
        let Bindings { user, bases, offsets, origins, .. } = self;
        let mut flat = (self.unit == Unit::Byte || self.dense) && self.stand_ins.is_empty();
        for side in 0..2 {
            offsets[side].clear();
            match &user[side] {
                Place::Entries(entries) if !given[side].is_null() => {
                    for entry in entries {
                        let Place::Run { base, .. } = entry else { return None };
                        offsets[side].push((*base as isize).wrapping_sub(given[side] as isize));
                    }
                    (bases[side], origins[side]) = (given[side], Some(0));
                }
                Place::Entries(_) | Place::Typed { .. } | Place::Buffer(_) => flat = false,
                Place::Absent | Place::Run { .. } | Place::Packed { .. } => {}
            }
        }
        self.flat = flat;
        let entries = [0, 1].map(|side| {
            let has_entries = matches!(self.user[side], Place::Entries(_));
            has_entries.then_some((&self.offsets[side][..], &self.sums[side][..]))
        });
        flat.then(|| Lookup { tables: self.tables(), entries })
    }

    /// Determines the start of all buffers after they were bound.
    fn flatten(&mut self) {
        self.flat = (self.unit == Unit::Byte || self.dense) && self.stand_ins.is_empty();
        // The bank is bound later, when it is granted.
        let bank = std::iter::once(&Place::Absent);
        self.bases.clear();
        for place in self.user.iter().chain(bank).chain(&self.temporaries) {
            self.bases.push(match place {
                Place::Run { base, .. } | Place::Packed { base, .. } => *base,
                Place::Absent => std::ptr::null_mut(),
                Place::Typed { .. } | Place::Entries(_) | Place::Buffer(_) => {
                    self.flat = false;
                    std::ptr::null_mut()
                }
            });
        }
    }

    /// Copies substitutes back to the user's memory, after this rank's own steps.
    #[inline]
    pub(super) fn finish(&mut self) {
        for stand_in in self.stand_ins.iter().filter(|stand_in| stand_in.returns) {
            stand_in.buffers(|original, packed| {
                original.copy_from(&packed);
            });
        }
    }

    /// Copies the user's memory to its substitutes, before the first step.
    #[inline]
    pub(super) fn begin(&mut self) {
        for stand_in in &self.stand_ins {
            stand_in.buffers(|original, packed| {
                packed.copy_from(&original);
            });
        }
    }

    /// Returns the number of packed bytes of a unit.
    #[inline]
    pub(super) fn unit_bytes(&self) -> usize {
        match (self.unit, &self.reducer) {
            (Unit::Element, Some(reducer)) => reducer.datatype().size() as usize,
            _ => 1,
        }
    }

    /// Creates substitutes for exposed memory with gaps.
    fn stand_in(&mut self) {
        let Bindings { user, exposes, joins, returns, stand_ins, sums, .. } = self;
        stand_ins.clear();
        for side in (0..2).filter(|&side| exposes[side]) {
            let returns = returns[side];
            let mut pack = |place: &mut Place| stand_ins.extend(packed(place, returns));
            match &mut user[side] {
                Place::Entries(entries) if !joins[side] => entries.iter_mut().for_each(pack),
                Place::Entries(entries) => {
                    let (joined, stand_in) = join(std::mem::take(entries), &sums[side], returns);
                    user[side] = joined;
                    stand_ins.extend(stand_in);
                }
                place => pack(place),
            }
        }
    }

    /// Binds the send (0) or receive (1) buffer of the user.
    #[inline]
    fn bind_user(&mut self, which: usize, memory: Memory<'_>) {
        let place = &mut self.user[which];
        self.origins[which] = None;
        match memory {
            Memory::None => *place = Place::Absent,
            Memory::Whole(array) => {
                *place = Place::new(array, self.unit);
                if let Place::Run { base, .. } = place {
                    self.origins[which] = Some((*base as isize).wrapping_sub(array.base as isize));
                }
            }
            Memory::Entries(arrays) => {
                let mut entries = match std::mem::take(place) {
                    Place::Entries(entries) => entries,
                    _ => Vec::new(),
                };
                entries.clear();
                let sums = &mut self.sums[which];
                sum(
                    sums,
                    arrays.map(|array| {
                        entries.push(Place::new(array, Unit::Byte));
                        array.count * array.datatype.size() as u64
                    }),
                );
                *place = Place::Entries(entries);
            }
        }
    }

    /// Allocates the temporaries and determines their addresses.
    fn place_temporaries(&mut self) {
        let scale = self.unit_bytes();
        let element = match self.unit {
            Unit::Byte => None,
            Unit::Element if self.packed => None,
            Unit::Element => self.reducer.as_ref().map(|reducer| reducer.datatype().clone()),
        };
        // Offsets of the first and last byte of `units` units, relative to the address from which they count.
        let span = |units: u64| match &element {
            None => (0, units as i64 * scale as i64),
            Some(datatype) => datatype.span(units).unwrap_or((0, 0)),
        };
        let lines = |units: u64| {
            let (low, high) = span(units);
            ((high - low) as usize).div_ceil(Line::BYTES)
        };
        let total: usize = self.temporary_units.iter().map(|&units| lines(units)).sum();
        self.storage.clear();
        self.storage.reserve(total);
        // SAFETY: the capacity was just reserved, and the items need no initial value.
        unsafe { self.storage.set_len(total) };
        let mut next = self.storage.as_mut_ptr().cast::<u8>();
        self.temporaries.clear();
        for &units in &self.temporary_units {
            let base = next.wrapping_offset(-span(units).0 as isize);
            self.temporaries.push(match &element {
                None => Place::Packed { base, scale },
                Some(datatype) => Place::new(Array { base, count: units, datatype }, Unit::Element),
            });
            next = next.wrapping_add(lines(units) * Line::BYTES);
        }
        self.ready = true;
    }

    /// Returns the tables of the current execution.
    pub(super) fn tables(&self) -> Tables<'_> {
        Tables { send: &self.sums[0], recv: &self.sums[1], permutation: &self.permutation }
    }

    /// Returns the memory of a range, and the start of the range in it.
    #[inline]
    pub(super) fn find(&self, range: &Range) -> (&Place, u64) {
        if range.buffer == BufferId::BANK {
            return (&self.bank, range.start);
        }
        if let Some(number) = range.buffer.temporary() {
            return (&self.temporaries[number], range.start);
        }
        debug_assert!(range.buffer <= BufferId::RECV);
        match &self.user[usize::from(range.buffer.0)] {
            Place::Entries(entries) => (&entries[range.block as usize], range.within),
            place => (place, range.start),
        }
    }

    /// Returns the buffer of a range.
    pub(super) fn buffer(&self, range: &Range) -> Buffer {
        let (place, start) = self.find(range);
        place.buffer(start, range.length)
    }

    /// Returns the entries of a buffer that a table describes: their number, and a function for base and
    /// length of each. Every entry must be contiguous.
    pub(super) fn entries(&self, buffer: BufferId) -> Option<(u32, impl Fn(u32) -> (*mut u8, u64))> {
        let which = usize::from(buffer.0);
        let Some(Place::Entries(entries)) = self.user.get(which) else { return None };
        let sums = &self.sums[which];
        let entry = move |number: u32| {
            let number = number as usize;
            let length = sums[number + 1] - sums[number];
            let buffer = entries[number].buffer(0, length);
            (buffer.start(), length)
        };
        Some((entries.len() as u32, entry))
    }
}

/// Returns true if this rank or its peers write the receive buffer.
fn is_written(schedule: &Schedule) -> bool {
    schedule.steps.iter().any(|step| match step.kind {
        Kind::Expose { what, access, .. } => what.buffer == BufferId::RECV && access != Access::Read,
        kind => kind.writes().is_some_and(|span| span.buffer == BufferId::RECV),
    })
}

/// Replaces `sums` by the running sums of `lengths`, starting with 0.
fn sum(sums: &mut Vec<u64>, lengths: impl Iterator<Item = u64>) {
    sums.clear();
    sums.push(0);
    let mut sum = 0;
    sums.extend(lengths.map(|length| {
        sum += length;
        sum
    }));
}
