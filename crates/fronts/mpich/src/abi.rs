//! ABI of MPICH: handles are integers, and their upper bits contain the kind.
//!
//! MPICH's own handles that are not predefined have the bits 0x80000000 or 0xc0000000. Ours are 0xc0000000
//! plus the number that the library assigns to a handle (MPI_Comm_toint and similar functions). So one test
//! distinguishes them from predefined handles.
#![allow(missing_docs, non_camel_case_types, non_upper_case_globals, reason = "the names are those of MPICH")]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::null;

use crate::constants::*;
use crate::shared::kind::{self, FIRST_DYNAMIC, Handle, INVALID, Kind};
use crate::shared::library::library;
use crate::shared::standard::{self, Status};

/// Name of the ABI in messages to users.
pub const NAME: &str = "MPICH and its kin (libmpi.so.12)";

/// The two upper bits of a handle that is not predefined.
const DYNAMIC: c_int = -0x4000_0000;

/// Handle of MPICH's ABI, of one kind.
#[repr(transparent)]
pub struct Number<K> {
    bits: c_int,
    kind: PhantomData<fn() -> K>,
}

/// A file, which is an address in MPICH: null, or the bits of the standard handle, which is no address of a program.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct MPI_File(*const c_void);

pub type MPI_Comm = Number<kind::Comm>;
pub type MPI_Group = Number<kind::Group>;
pub type MPI_Datatype = Number<kind::Datatype>;
pub type MPI_Op = Number<kind::Op>;
pub type MPI_Request = Number<kind::Request>;
pub type MPI_Info = Number<kind::Info>;
pub type MPI_Errhandler = Number<kind::Errhandler>;
pub type MPI_Win = Number<kind::Win>;
pub type MPI_Session = Number<kind::Session>;
pub type MPI_Message = Number<kind::Message>;

impl<K> Clone for Number<K> {
    fn clone(&self) -> Number<K> {
        *self
    }
}

impl<K> Copy for Number<K> {}

/// A kind whose handles are numbers.
pub trait Numbered: Kind {
    const PREDEFINED: &'static Predefined;
    /// Calls the library's function that returns the handle with this number.
    fn from_int(number: c_int) -> usize;
    fn to_int(handle: usize) -> c_int;
}

macro_rules! numbered {
    ($($kind:ident $pairs:ident $from:ident $to:ident;)*) => {
        $(
            impl Numbered for kind::$kind {
                const PREDEFINED: &'static Predefined = {
                    static TABLE: Predefined = Predefined::new($pairs, <kind::$kind as Kind>::NULL);
                    &TABLE
                };

                #[inline(always)]
                fn from_int(number: c_int) -> usize {
                    // SAFETY: a number.
                    unsafe { (library().$from)(number) }
                }

                #[inline(always)]
                fn to_int(handle: usize) -> c_int {
                    // SAFETY: a handle of the library.
                    unsafe { (library().$to)(handle) }
                }
            }
        )*
    };
}

numbered! {
    Comm COMM MPI_Comm_fromint MPI_Comm_toint;
    Group GROUP MPI_Group_fromint MPI_Group_toint;
    Datatype DATATYPE MPI_Type_fromint MPI_Type_toint;
    Op OP MPI_Op_fromint MPI_Op_toint;
    Request REQUEST MPI_Request_fromint MPI_Request_toint;
    Info INFO MPI_Info_fromint MPI_Info_toint;
    Errhandler ERRHANDLER MPI_Errhandler_fromint MPI_Errhandler_toint;
    Win WIN MPI_Win_fromint MPI_Win_toint;
    Session SESSION MPI_Session_fromint MPI_Session_toint;
    Message MESSAGE MPI_Message_fromint MPI_Message_toint;
}

const SLOTS: usize = 256;
const NUMBERS: usize = 256;

/// The predefined handles of a kind, both ways: hashed by MPICH's numbers, and by the standard's.
pub struct Predefined {
    /// MPICH's number and the standard's; a standard number of 0 where there is none. Collisions go to the next slot.
    slots: [(c_int, u16); SLOTS],
    foreign: [c_int; NUMBERS],
}

const fn slot_of(number: c_int) -> usize {
    ((number as u32).wrapping_mul(0x9e37_79b1) >> 24) as usize
}

impl Predefined {
    const fn new(pairs: &[(c_int, usize)], null: usize) -> Predefined {
        let mut table = Predefined { slots: [(0, 0); SLOTS], foreign: [pairs[0].0; NUMBERS] };
        let mut at = 0;
        while at < pairs.len() {
            let (foreign, standard) = pairs[at];
            let mut slot = slot_of(foreign);
            while table.slots[slot].1 != 0 {
                slot = (slot + 1) % SLOTS;
            }
            table.slots[slot] = (foreign, standard as u16);
            if standard - null < NUMBERS {
                table.foreign[standard - null] = foreign;
            }
            at += 1;
        }
        table
    }

    #[inline(always)]
    fn standard(&self, number: c_int) -> usize {
        let mut slot = slot_of(number);
        loop {
            let (foreign, standard) = self.slots[slot];
            if foreign == number && standard != 0 {
                return standard as usize;
            }
            if standard == 0 {
                return INVALID | number as u32 as usize;
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

impl<K: Numbered> Handle for Number<K> {
    #[inline(always)]
    fn standard(self) -> usize {
        if self.bits >> 30 == -1 {
            let handle = K::from_int(self.bits & !DYNAMIC);
            // A number that no handle has any more is no null handle.
            return if handle == K::NULL { INVALID | self.bits as u32 as usize } else { handle };
        }
        K::PREDEFINED.standard(self.bits)
    }

    #[inline(always)]
    fn foreign(standard: usize) -> Number<K> {
        let bits = match standard < FIRST_DYNAMIC {
            true => K::PREDEFINED.foreign[standard.wrapping_sub(K::NULL) % NUMBERS],
            false => DYNAMIC | K::to_int(standard),
        };
        Number { bits, kind: PhantomData }
    }

    fn fortran(self) -> c_int {
        self.bits
    }

    fn from_fortran(number: c_int) -> Number<K> {
        Number { bits: number, kind: PhantomData }
    }
}

impl Handle for MPI_File {
    fn standard(self) -> usize {
        if self.0.is_null() { kind::File::NULL } else { self.0 as usize }
    }

    fn foreign(standard: usize) -> MPI_File {
        MPI_File(if standard == kind::File::NULL { null() } else { standard as *const c_void })
    }

    fn fortran(self) -> c_int {
        // SAFETY: a handle of the library, or none.
        if self.0.is_null() { 0 } else { unsafe { (library().MPI_File_toint)(self.0 as usize) } }
    }

    fn from_fortran(number: c_int) -> MPI_File {
        if number == 0 {
            return MPI_File(null());
        }
        // SAFETY: a number.
        MPI_File::foreign(unsafe { (library().MPI_File_fromint)(number) })
    }
}

/// Status in the layout of MPICH.
#[repr(C)]
pub struct MPI_Status {
    count_lo: c_int,
    count_hi_and_cancelled: c_int,
    source: c_int,
    tag: c_int,
    error: c_int,
}

impl MPI_Status {
    /// Returns true if the pointer is MPI_STATUS_IGNORE or null.
    #[inline(always)]
    pub fn is_ignored(status: *const MPI_Status) -> bool {
        status as usize <= 1
    }

    /// Converts the status to the standard ABI.
    pub fn standard(&self) -> Status {
        let high = (self.count_hi_and_cancelled as u32) >> 1;
        let bytes = u64::from(self.count_lo as u32) | u64::from(high) << 32;
        let cancelled = self.count_hi_and_cancelled & 1 != 0;
        Status::new(rank_in(self.source), tag_in(self.tag), error_in(self.error), bytes, cancelled)
    }

    /// Converts a status of the standard ABI.
    pub fn from_standard(status: &Status) -> MPI_Status {
        let mut own = MPI_Status { count_lo: 0, count_hi_and_cancelled: 0, source: 0, tag: 0, error: 0 };
        own.take(status);
        own
    }

    /// Converts the status to the standard ABI, and leaves the error in `status` unchanged.
    pub fn tell(&self, status: &mut Status) {
        *status = Status { error: status.error, ..self.standard() };
    }

    /// Copies the fields that the library has written.
    #[inline]
    pub fn take(&mut self, status: &Status) {
        if status.source != Status::UNTOUCHED {
            let bytes = status.bytes();
            self.count_lo = bytes as c_int;
            self.count_hi_and_cancelled = ((bytes >> 32) as c_int) << 1 | c_int::from(status.cancelled());
            (self.source, self.tag) = (rank_out(status.source), tag_out(status.tag));
        }
        if status.error != Status::UNTOUCHED {
            self.error = error_out(status.error);
        }
    }

    /// Number of Fortran integers in a status; the layout is the same.
    pub const WORDS: usize = 5;
}

/// Translates the constants that a buffer argument may be; other addresses stay.
#[inline(always)]
pub fn buffer_in(buffer: *mut c_void) -> *mut c_void {
    match buffer as isize {
        MPI_IN_PLACE => standard::MPI_IN_PLACE as *mut c_void,
        MPI_BUFFER_AUTOMATIC => standard::MPI_BUFFER_AUTOMATIC as *mut c_void,
        _ => buffer,
    }
}

/// Translates a buffer that MPI_Buffer_detach has returned.
///
/// # Safety
/// `place` is null or where the library has written an address.
pub unsafe fn buffer_out(place: *mut *mut c_void) {
    // SAFETY: the caller's promise.
    if let Some(buffer) = unsafe { place.as_mut() }
        && *buffer as usize == standard::MPI_BUFFER_AUTOMATIC
    {
        *buffer = MPI_BUFFER_AUTOMATIC as *mut c_void;
    }
}

/// Returns true if the buffer is MPI_IN_PLACE.
pub fn is_in_place(buffer: *const c_void) -> bool {
    buffer as isize == MPI_IN_PLACE
}

/// A value that programs find by name, as an address.
#[repr(transparent)]
pub struct Address(*const c_void);

// SAFETY: an address that never changes.
unsafe impl Sync for Address {}

static UNWEIGHTED: [c_int; 1] = [0];
static EMPTY: [c_int; 1] = [0];
static STATUS: [c_int; MPI_Status::WORDS] = [0; MPI_Status::WORDS];
static STATUSES: [c_int; MPI_Status::WORDS] = [0; MPI_Status::WORDS];
static ALL_HANDLES: [c_int; 1] = [0];

#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: Address = Address((&raw const UNWEIGHTED).cast());
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: Address = Address((&raw const EMPTY).cast());
#[unsafe(no_mangle)]
pub static MPI_F_STATUS_IGNORE: Address = Address((&raw const STATUS).cast());
#[unsafe(no_mangle)]
pub static MPI_F_STATUSES_IGNORE: Address = Address((&raw const STATUSES).cast());
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_STATUS_IGNORE_OBJ: [c_int; MPI_Status::WORDS] = [0; MPI_Status::WORDS];
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: [c_int; MPI_Status::WORDS] = [0; MPI_Status::WORDS];
#[unsafe(no_mangle)]
pub static MPI_F08_STATUS_IGNORE: Address = Address((&raw const MPIR_F08_MPI_STATUS_IGNORE_OBJ).cast());
#[unsafe(no_mangle)]
pub static MPI_F08_STATUSES_IGNORE: Address = Address((&raw const MPIR_F08_MPI_STATUSES_IGNORE_OBJ).cast());
#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: Address = Address((&raw const ALL_HANDLES).cast());

/// Translates the weights of a graph, or a constant in their place.
pub fn weights_in(weights: *mut c_int) -> *mut c_int {
    if std::ptr::eq(weights.cast(), &raw const UNWEIGHTED) {
        standard::MPI_UNWEIGHTED as *mut c_int
    } else if std::ptr::eq(weights.cast(), &raw const EMPTY) {
        standard::MPI_WEIGHTS_EMPTY as *mut c_int
    } else {
        weights
    }
}

/// Translates a handle of a performance variable, or the constant for all of a session.
pub fn pvar_handle_in(handle: usize) -> usize {
    if handle == (&raw const ALL_HANDLES) as usize { standard::MPI_T_PVAR_ALL_HANDLES } else { handle }
}

/// Copies the value of an attribute (MPI_DUP_FN and its variants).
///
/// # Safety
/// As a copy function of the standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _keyval: c_int,
    _extra_state: *mut c_void,
    value: *mut c_void,
    copy: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: whoever calls it gives places for the answers.
    unsafe {
        copy.write(value);
        flag.write(1);
    }
    0
}
