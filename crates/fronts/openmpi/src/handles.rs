//! Handles of Open MPI's ABI, which are addresses. A predefined handle is the address of an object that this
//! library exports ([`crate::objects`]). The first word of the object is the number of the standard handle.
//! So a copy that a program has made (a copy relocation) contains it too. Other handles are the bits of the
//! standard handle, which are no address in a program.

use std::ffi::c_int;
use std::marker::PhantomData;

use crate::objects;
use crate::shared::kind::{self, FIRST_DYNAMIC, Handle, INVALID, Kind};
use crate::shared::library::library;

/// Number of bits of addresses in user space: higher bits are zero.
const ADDRESS_BITS: u32 = 47;

/// Object whose address is a predefined handle.
#[repr(C, align(32))]
pub struct Object<const WORDS: usize> {
    standard: usize,
    // Private part of Open MPI's object, which no program accesses.
    rest: [usize; WORDS],
}

impl<const WORDS: usize> Object<WORDS> {
    /// Creates the object of this standard handle.
    pub const fn new(standard: usize) -> Object<WORDS> {
        Object { standard, rest: [0; WORDS] }
    }
}

/// A predefined handle in the standard ABI, in C and in Fortran (-1 where it has none).
pub struct Predefined {
    standard: usize,
    // The address that programs use, which may be that of their own copy: the dynamic linker fills it in.
    object: *const usize,
    fortran: c_int,
}

// SAFETY: addresses that never change.
unsafe impl Sync for Predefined {}

impl Predefined {
    /// Creates a predefined handle from its number, its object and its Fortran number.
    pub const fn new<const WORDS: usize>(
        standard: usize,
        object: *const Object<WORDS>,
        fortran: c_int,
    ) -> Predefined {
        Predefined { standard, object: object.cast(), fortran }
    }
}

/// Handle of Open MPI's ABI, of one kind.
#[repr(transparent)]
pub struct Pointer<K> {
    address: *const usize,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Pointer<K> {
    fn clone(&self) -> Pointer<K> {
        *self
    }
}

impl<K> Copy for Pointer<K> {}

const NUMBERS: usize = 256;
const FORTRAN_NUMBERS: usize = 80;

/// The predefined handles of a kind: which of them has a number of the standard, and which one of Fortran.
pub struct Indices {
    of_standard: [u8; NUMBERS],
    of_fortran: [u8; FORTRAN_NUMBERS],
}

const NONE: u8 = u8::MAX;

impl Indices {
    const fn new(all: &[Predefined], null: usize) -> Indices {
        let mut indices = Indices { of_standard: [NONE; NUMBERS], of_fortran: [NONE; FORTRAN_NUMBERS] };
        let mut at = all.len();
        // Backwards: of several objects for one handle the first counts.
        while at > 0 {
            at -= 1;
            let number = all[at].standard.wrapping_sub(null);
            if number < NUMBERS {
                indices.of_standard[number] = at as u8;
            }
            if all[at].fortran >= 0 {
                indices.of_fortran[all[at].fortran as usize] = at as u8;
            }
        }
        indices
    }
}

/// A kind of handle that is an address.
pub trait Addressed: Kind {
    /// Predefined handles of the kind.
    const PREDEFINED: &'static [Predefined];
    /// Tables from standard and Fortran numbers to indices of [`Addressed::PREDEFINED`].
    const INDICES: &'static Indices;
    /// Calls the library's function that returns the handle with this number.
    fn from_int(number: c_int) -> usize;
    /// Calls the library's function that returns the number of a handle.
    fn to_int(handle: usize) -> c_int;
}

macro_rules! addressed {
    ($($kind:ident $objects:ident $from:ident $to:ident;)*) => {
        $(
            impl Addressed for kind::$kind {
                const PREDEFINED: &'static [Predefined] = objects::$objects;
                const INDICES: &'static Indices = {
                    static INDICES: Indices = Indices::new(objects::$objects, <kind::$kind as Kind>::NULL);
                    &INDICES
                };

                fn from_int(number: c_int) -> usize {
                    // SAFETY: a number.
                    unsafe { (library().$from)(number) }
                }

                fn to_int(handle: usize) -> c_int {
                    // SAFETY: a handle of the library, or none.
                    unsafe { (library().$to)(handle) }
                }
            }
        )*
    };
}

addressed! {
    Comm COMM MPI_Comm_fromint MPI_Comm_toint;
    Group GROUP MPI_Group_fromint MPI_Group_toint;
    Datatype DATATYPE MPI_Type_fromint MPI_Type_toint;
    Op OP MPI_Op_fromint MPI_Op_toint;
    Request REQUEST MPI_Request_fromint MPI_Request_toint;
    Info INFO MPI_Info_fromint MPI_Info_toint;
    Errhandler ERRHANDLER MPI_Errhandler_fromint MPI_Errhandler_toint;
    Win WIN MPI_Win_fromint MPI_Win_toint;
    File FILE MPI_File_fromint MPI_File_toint;
    Session SESSION MPI_Session_fromint MPI_Session_toint;
    Message MESSAGE MPI_Message_fromint MPI_Message_toint;
}

impl<K: Addressed> Pointer<K> {
    fn from_address(address: *const usize) -> Pointer<K> {
        Pointer { address, kind: PhantomData }
    }

    fn predefined(index: u8) -> Pointer<K> {
        // The library never returns a handle that Open MPI does not have.
        let null = K::INDICES.of_standard[0];
        Pointer::from_address(K::PREDEFINED[usize::from(if index == NONE { null } else { index })].object)
    }
}

impl<K: Addressed> Handle for Pointer<K> {
    #[inline(always)]
    fn standard(self) -> usize {
        let bits = self.address as usize;
        if bits >> ADDRESS_BITS != 0 {
            bits
        } else if bits < FIRST_DYNAMIC {
            INVALID | bits
        } else {
            // SAFETY: the program vouches for its handles: an address is that of one of the objects.
            unsafe { self.address.read() }
        }
    }

    #[inline(always)]
    fn foreign(standard: usize) -> Pointer<K> {
        if standard < FIRST_DYNAMIC {
            return Pointer::predefined(K::INDICES.of_standard[standard.wrapping_sub(K::NULL) % NUMBERS]);
        }
        Pointer::from_address(standard as *const usize)
    }

    fn fortran(self) -> c_int {
        let standard = self.standard();
        let index = match standard < FIRST_DYNAMIC {
            true => K::INDICES.of_standard[standard.wrapping_sub(K::NULL) % NUMBERS],
            false => return K::to_int(standard),
        };
        if index == NONE { -1 } else { K::PREDEFINED[usize::from(index)].fortran }
    }

    fn from_fortran(number: c_int) -> Pointer<K> {
        match usize::try_from(number) {
            Ok(number) if number < FORTRAN_NUMBERS => Pointer::predefined(K::INDICES.of_fortran[number]),
            _ => Pointer::foreign(K::from_int(number)),
        }
    }
}
