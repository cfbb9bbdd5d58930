//! Variables for the library's results, until they are translated for the program.
//!
//! Each variable records whether the library has written to it. If not, the program's memory stays unchanged.
//! Null pointers of the program are passed on, so that the library reports them.
//!
//! # Safety
//! The program guarantees its pointers, as for the functions of the standard. Variables read and write the
//! memory that they were created with.
#![allow(clippy::missing_safety_doc, reason = "the module has it")]

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

pub use crate::shared::kind::{Handle, answer};

use crate::abi::MPI_Status;
use crate::shared::library::library;
use crate::shared::standard::{self, Status};

/// Value that no handle has: the library has not written.
const UNTOUCHED: usize = usize::MAX;
/// Arrays up to this length live on the stack.
const FEW: usize = 64;

/// Output argument for a handle.
pub struct HandlePlace<H> {
    program: *mut H,
    value: usize,
    before: usize,
}

impl<H: Handle> HandlePlace<H> {
    /// Creates a variable for a value that is only returned.
    #[inline(always)]
    pub unsafe fn out(program: *mut H) -> HandlePlace<H> {
        HandlePlace { program, value: UNTOUCHED, before: UNTOUCHED }
    }

    /// Creates a variable for an argument that is read and returned.
    #[inline(always)]
    pub unsafe fn inout(program: *mut H) -> HandlePlace<H> {
        // SAFETY: the module's Safety section.
        let value = unsafe { program.as_ref() }.map_or(UNTOUCHED, |handle| handle.standard());
        HandlePlace { program, value, before: value }
    }

    /// Returns the pointer for the library's argument.
    #[inline(always)]
    pub fn place(&mut self) -> *mut usize {
        if self.program.is_null() { null_mut() } else { &raw mut self.value }
    }

    /// Copies the handle to the program's variable, if the library has written one.
    #[inline(always)]
    pub unsafe fn finish(self) {
        if self.value != self.before {
            // SAFETY: the library wrote, so it had a place, and the program's pointer is not null.
            unsafe { self.program.write(H::foreign(self.value)) };
        }
    }
}

/// Some values, on the stack if they are few.
struct Row<T> {
    few: [MaybeUninit<T>; FEW],
    many: Vec<T>,
    length: usize,
}

impl<T: Copy> Row<T> {
    #[inline(always)]
    fn new(length: usize, value: impl Fn(usize) -> T) -> Row<T> {
        let mut row = Row { few: [const { MaybeUninit::uninit() }; FEW], many: Vec::new(), length };
        if length > FEW {
            row.many = (0..length).map(value).collect();
        } else {
            for (index, place) in row.few[..length].iter_mut().enumerate() {
                place.write(value(index));
            }
        }
        row
    }

    /// Returns a pointer to the first of the `length` values. It is valid until this row is moved or
    /// dropped: a short row holds its values in itself.
    #[inline(always)]
    fn pointer(&mut self) -> *mut T {
        if self.length > FEW { self.many.as_mut_ptr() } else { self.few.as_mut_ptr().cast() }
    }

    fn get(&self, index: usize) -> T {
        debug_assert!(index < self.length);
        // SAFETY: the first `length` were written when the row was made.
        if self.length > FEW { self.many[index] } else { unsafe { self.few[index].assume_init() } }
    }
}

/// An array of handles.
pub struct Handles {
    row: Row<usize>,
    absent: bool,
}

impl Handles {
    /// Converts `length` handles. A negative length, which the library refuses, converts none.
    #[inline(always)]
    pub unsafe fn new<H: Handle>(program: *const H, length: isize) -> Handles {
        let length = if program.is_null() { 0 } else { usize::try_from(length).unwrap_or(0) };
        // SAFETY: the module's Safety section.
        let row = Row::new(length, |index| unsafe { *program.add(index) }.standard());
        Handles { row, absent: program.is_null() }
    }

    /// Returns the pointer for the library's argument.
    #[inline(always)]
    pub fn place(&mut self) -> *mut usize {
        if self.absent { null_mut() } else { self.row.pointer() }
    }

    /// Returns the array for a call that only reads it, or a null pointer if the program gave one. The
    /// pointer is valid until this value is moved or dropped.
    #[inline(always)]
    pub fn pointer(&self) -> *const usize {
        match (self.absent, self.row.length > FEW) {
            (true, _) => std::ptr::null(),
            (false, true) => self.row.many.as_ptr(),
            (false, false) => self.row.few.as_ptr().cast(),
        }
    }

    /// Copies the handles to the program's array, after the library has changed them.
    #[inline(always)]
    pub unsafe fn give_back<H: Handle>(self, program: *mut H) {
        for index in 0..self.row.length {
            // SAFETY: the module's Safety section; it was read before.
            unsafe { program.add(index).write(H::foreign(self.row.get(index))) };
        }
    }
}

/// Status that the program passes as an argument.
pub struct StatusGiven(Option<Status>);

impl StatusGiven {
    /// Reads the program's status. For MPI_STATUS_IGNORE there is none, which the library reports as an
    /// error.
    pub unsafe fn new(program: *const MPI_Status) -> StatusGiven {
        // SAFETY: the module's Safety section.
        StatusGiven((!MPI_Status::is_ignored(program)).then(|| unsafe { (*program).standard() }))
    }

    /// Returns the status for the library, or a null pointer if the program gave MPI_STATUS_IGNORE. The
    /// pointer is valid until this value is moved or dropped.
    pub fn pointer(&self) -> *const Status {
        self.0.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
    }
}

/// Output argument for a status.
pub struct StatusPlace {
    program: *mut MPI_Status,
    value: Status,
}

impl StatusPlace {
    /// Creates a variable for a value that is only returned.
    #[inline(always)]
    pub unsafe fn out(program: *mut MPI_Status) -> StatusPlace {
        StatusPlace { program, value: Status::FRESH }
    }

    /// Creates a variable for a status that is read and returned.
    pub unsafe fn inout(program: *mut MPI_Status) -> StatusPlace {
        let ignored = MPI_Status::is_ignored(program);
        // SAFETY: the module's Safety section.
        StatusPlace { program, value: if ignored { Status::FRESH } else { unsafe { (*program).standard() } } }
    }

    /// Returns the pointer for the library's argument.
    #[inline(always)]
    pub fn place(&mut self) -> *mut Status {
        if MPI_Status::is_ignored(self.program) { null_mut() } else { &raw mut self.value }
    }

    /// Copies the status to the program's variable, unless the program ignores it.
    #[inline(always)]
    pub unsafe fn finish(self) {
        if !MPI_Status::is_ignored(self.program) {
            // SAFETY: the module's Safety section.
            unsafe { (*self.program).take(&self.value) };
        }
    }
}

/// An array of statuses that is returned.
pub struct StatusPlaces {
    program: *mut MPI_Status,
    row: Row<Status>,
}

impl StatusPlaces {
    /// Creates statuses for `length` requests, or none if the program ignores them.
    #[inline(always)]
    pub unsafe fn new(program: *mut MPI_Status, length: isize) -> StatusPlaces {
        let length = if MPI_Status::is_ignored(program) { 0 } else { usize::try_from(length).unwrap_or(0) };
        StatusPlaces { program, row: Row::new(length, |_| Status::FRESH) }
    }

    /// Returns the pointer for the library's argument.
    #[inline(always)]
    pub fn place(&mut self) -> *mut Status {
        if MPI_Status::is_ignored(self.program) { null_mut() } else { self.row.pointer() }
    }

    /// Copies all statuses to the program's array.
    #[inline(always)]
    pub unsafe fn finish(self) {
        for index in 0..self.row.length {
            // SAFETY: the module's Safety section.
            unsafe { (*self.program.add(index)).take(&self.row.get(index)) };
        }
    }
}

/// Output argument for an integer of a domain.
pub struct IntPlace {
    program: *mut c_int,
    value: c_int,
    before: c_int,
    translate: fn(c_int) -> c_int,
}

impl IntPlace {
    /// Creates a variable for a value that is only returned.
    pub unsafe fn out(program: *mut c_int, translate: fn(c_int) -> c_int) -> IntPlace {
        IntPlace { program, value: Status::UNTOUCHED, before: Status::UNTOUCHED, translate }
    }

    /// Creates a variable for an argument that is read and returned.
    pub unsafe fn inout(
        program: *mut c_int,
        given: fn(c_int) -> c_int,
        translate: fn(c_int) -> c_int,
    ) -> IntPlace {
        // SAFETY: the module's Safety section.
        let value = unsafe { program.as_ref() }.map_or(Status::UNTOUCHED, |value| given(*value));
        IntPlace { program, value, before: value, translate }
    }

    /// Returns the pointer for the library's argument.
    pub fn place(&mut self) -> *mut c_int {
        if self.program.is_null() { null_mut() } else { &raw mut self.value }
    }

    /// Copies the integer to the program's variable, if the library has written one.
    pub unsafe fn finish(self) {
        if self.value != self.before {
            // SAFETY: the library wrote, so the program's pointer is not null.
            unsafe { self.program.write((self.translate)(self.value)) };
        }
    }
}

/// Output argument for a text, with the room of the library's ABI (`N`). It is cut to the room of the
/// program.
pub struct TextPlace<const N: usize> {
    program: *mut c_char,
    room: usize,
    text: [c_char; N],
}

impl<const N: usize> TextPlace<N> {
    /// Creates a variable for a text. `room` is the size of the program's buffer, with the terminating zero.
    pub unsafe fn new(program: *mut c_char, room: usize) -> TextPlace<N> {
        TextPlace { program, room, text: [0; N] }
    }

    /// Returns the pointer for the library's argument.
    pub fn place(&mut self) -> *mut c_char {
        if self.program.is_null() { null_mut() } else { self.text.as_mut_ptr() }
    }

    /// Copies the text to the program's buffer. `length` is null, or the program's variable for its length.
    pub unsafe fn finish(self, length: *mut c_int) {
        let written = self.text.iter().position(|letter| *letter == 0).unwrap_or(N);
        if self.program.is_null() || written == 0 && length.is_null() {
            return;
        }
        let kept = written.min(self.room - 1);
        // SAFETY: the program has room for as many as its ABI says.
        unsafe {
            self.program.copy_from_nonoverlapping(self.text.as_ptr(), kept);
            self.program.add(kept).write(0);
            if let Some(length) = length.as_mut() {
                *length = (*length).min(kept as c_int);
            }
        }
    }
}

/// Returns the number of ranks with which a communicator's collectives exchange data.
pub fn peers(comm: crate::abi::MPI_Comm) -> c_int {
    let (mut inter, mut size, comm) = (0, 0, comm.standard());
    // SAFETY: places for the answers.
    unsafe {
        (library().MPI_Comm_test_inter)(comm, &raw mut inter);
        match inter {
            0 => (library().MPI_Comm_size)(comm, &raw mut size),
            _ => (library().MPI_Comm_remote_size)(comm, &raw mut size),
        };
    }
    size
}

/// Returns the number of neighbours from which a rank receives.
pub fn sources(comm: crate::abi::MPI_Comm) -> c_int {
    degrees(comm.standard()).0
}

/// Returns the number of neighbours to which a rank sends.
pub fn destinations(comm: crate::abi::MPI_Comm) -> c_int {
    degrees(comm.standard()).1
}

fn degrees(comm: usize) -> (c_int, c_int) {
    let (mut topology, mut one, mut two, mut rest) = (standard::MPI_UNDEFINED, 0, 0, 0);
    // SAFETY: places for the answers.
    unsafe {
        (library().MPI_Topo_test)(comm, &raw mut topology);
        match topology {
            standard::MPI_DIST_GRAPH => {
                (library().MPI_Dist_graph_neighbors_count)(comm, &raw mut one, &raw mut two, &raw mut rest);
                (one, two)
            }
            standard::MPI_CART => {
                (library().MPI_Cartdim_get)(comm, &raw mut one);
                (2 * one, 2 * one)
            }
            standard::MPI_GRAPH => {
                (library().MPI_Comm_rank)(comm, &raw mut two);
                (library().MPI_Graph_neighbors_count)(comm, two, &raw mut one);
                (one, one)
            }
            _ => (0, 0),
        }
    }
}
