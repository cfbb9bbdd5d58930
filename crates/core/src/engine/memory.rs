//! The memory that one execution works on: the user's buffers, the temporaries, and the way from a
//! range of units to addresses.
//!
//! # Safety
//! Who calls [`Bindings::bind`] promises what [`Buffer`] asks for, for all memory that the arrays
//! cover, until the execution is done or abandoned; and that the arrays are as large as the plan's
//! shape and tables say. The verifier has shown that the ranges of a schedule lie inside the buffers
//! of its shape, that concurrent steps do not touch the same memory, and that the two sides of a copy
//! or a reduction are disjoint; so every address made here is valid for its use.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use tutti_coll::Schedule;
use tutti_coll::ir::{BufferId, Range, Tables, Unit};
use tutti_data::{Datatype, Reducer};

use crate::buffer::Buffer;

/// Items of a datatype in the user's memory.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    /// The address that the user gave.
    pub base: *mut u8,
    /// How many items.
    pub count: u64,
    /// Of what.
    pub datatype: &'a Datatype,
}

/// What the user gave as send or receive buffer.
pub enum Memory<'a> {
    /// Nothing: not significant at this rank, or MPI_IN_PLACE.
    None,
    /// One array.
    Whole(Array<'a>),
    /// One array for each rank, in order (the v and w collectives).
    Entries(&'a mut dyn Iterator<Item = Array<'a>>),
}

/// A buffer of the schedule as addresses.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Absent,
    /// Unit u begins at `base + u * scale`.
    Run {
        base: *mut u8,
        scale: usize,
    },
    /// Units are packed bytes of (or whole) items of a datatype with gaps.
    Typed {
        base: *mut u8,
        count: u64,
        datatype: Datatype,
        /// Packed bytes of a unit.
        size: u64,
    },
    Entries(Vec<Place>),
}

impl Place {
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

    /// The memory of `length` units from `start` on.
    fn buffer(&self, start: u64, length: u64) -> Buffer {
        match self {
            // SAFETY: the module's Safety section.
            Place::Run { base, scale } => unsafe {
                let bytes = length * *scale as u64;
                Buffer::bytes_at(base.wrapping_add(start as usize * scale), bytes)
            },
            // SAFETY: the module's Safety section.
            Place::Typed { base, count, datatype, size } => unsafe {
                Buffer::part(*base, *count, datatype, start * size, length * size)
            },
            Place::Absent | Place::Entries(_) => {
                unreachable!("a verified schedule uses the buffers that its collective has")
            }
        }
    }

    /// The address from which the displacements of element `start` count.
    fn element(&self, start: u64, element: &Datatype) -> *mut u8 {
        match self {
            // The datatype has no gaps, but may begin beside its origin.
            Place::Run { base, scale } => {
                base.wrapping_add(start as usize * scale).wrapping_offset(-(element.true_lb() as isize))
            }
            Place::Typed { base, .. } => base.wrapping_offset(start as isize * element.extent() as isize),
            Place::Absent | Place::Entries(_) => {
                unreachable!("a verified schedule uses the buffers that its collective has")
            }
        }
    }
}

/// One cache line of temporary memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "only its address is used")] [u8; Line::BYTES]);

impl Line {
    const BYTES: usize = 64;
}

/// The memory of an execution. Kept from run to run.
pub struct Bindings {
    unit: Unit,
    temporary_units: Vec<u64>,
    user: [Place; 2],
    temporaries: Vec<Place>,
    storage: Vec<MaybeUninit<Line>>,
    sums: [Vec<u64>; 2],
    reducer: Option<Reducer>,
    /// The temporaries have their addresses.
    ready: bool,
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
    /// Room for the buffers of `schedule`; nothing is bound or allocated.
    pub(super) fn new(schedule: &Schedule) -> Bindings {
        Bindings {
            unit: schedule.unit,
            temporary_units: schedule.temporaries.clone(),
            user: [Place::Absent, Place::Absent],
            temporaries: Vec::new(),
            storage: Vec::new(),
            sums: [Vec::new(), Vec::new()],
            reducer: None,
            ready: false,
        }
    }

    /// Sets the operator, bound to the datatype of the elements. Before [`Bindings::bind`], for
    /// reductions; stays for later runs.
    pub fn operate(&mut self, reducer: Reducer) {
        self.ready = false;
        self.reducer = Some(reducer);
    }

    /// Binds the user's memory. `blocks` are the elements of each rank's block in reduce_scatter, else
    /// empty. What `send` and `recv` are for each collective, [`tutti_coll::Shape`] says; a broadcast
    /// has only `recv`, of the root too.
    ///
    /// # Safety
    /// See the module's Safety section.
    pub unsafe fn bind(&mut self, send: Memory<'_>, recv: Memory<'_>, blocks: &[u64]) {
        self.sums.iter_mut().for_each(Vec::clear);
        self.bind_user(0, send);
        self.bind_user(1, recv);
        if !blocks.is_empty() {
            sum(&mut self.sums[1], blocks.iter().copied());
        }
        if !self.ready {
            self.place_temporaries();
        }
    }

    fn bind_user(&mut self, which: usize, memory: Memory<'_>) {
        let place = &mut self.user[which];
        match memory {
            Memory::None => *place = Place::Absent,
            Memory::Whole(array) => *place = Place::new(array, self.unit),
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

    fn place_temporaries(&mut self) {
        let element = match self.unit {
            Unit::Byte => None,
            Unit::Element => self.reducer.as_ref().map(|reducer| reducer.datatype().clone()),
        };
        // The bytes of `units` units around the address from which they count.
        let span = |units: u64| match &element {
            None => (0, units as i64),
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
                None => Place::Run { base, scale: 1 },
                Some(datatype) => Place::new(Array { base, count: units, datatype }, Unit::Element),
            });
            next = next.wrapping_add(lines(units) * Line::BYTES);
        }
        self.ready = true;
    }

    /// The tables of this run.
    pub(super) fn tables(&self) -> Tables<'_> {
        Tables { send: &self.sums[0], recv: &self.sums[1] }
    }

    /// The place of a range, and the range's start in it.
    fn find(&self, range: &Range) -> (&Place, u64) {
        if let Some(number) = range.buffer.temporary() {
            return (&self.temporaries[number], range.start);
        }
        debug_assert!(range.buffer <= BufferId::RECV);
        match &self.user[usize::from(range.buffer.0)] {
            Place::Entries(entries) => (&entries[range.block as usize], 0),
            place => (place, range.start),
        }
    }

    /// The memory of a range.
    pub(super) fn buffer(&self, range: &Range) -> Buffer {
        let (place, start) = self.find(range);
        place.buffer(start, range.length)
    }

    /// Copies one range to another.
    pub(super) fn copy(&mut self, from: &Range, into: &Range) {
        self.buffer(into).copy_from(&self.buffer(from));
    }

    /// `right = left op right`.
    pub(super) fn reduce(&mut self, left: &Range, right: &Range) {
        let reducer = self.reducer.as_ref().expect("a reduction has its operator before it starts");
        let element = reducer.datatype();
        let address = |range: &Range| {
            let (place, start) = self.find(range);
            place.element(start, element)
        };
        // SAFETY: the module's Safety section: both ranges lie in their buffers and are disjoint.
        unsafe { reducer.apply(address(left), address(right), right.length) };
    }
}

/// Replaces `sums` by the running sums of `lengths`, which begin with 0.
fn sum(sums: &mut Vec<u64>, lengths: impl Iterator<Item = u64>) {
    sums.clear();
    sums.push(0);
    let mut sum = 0;
    sums.extend(lengths.map(|length| {
        sum += length;
        sum
    }));
}
