//! Typed views of the arguments that a C caller passes.
//!
//! The generated entry points turn every argument into a view. Implementations see no raw pointer except
//! [`Address`]. A view contains the name of its argument, for error messages.
//!
//! # Safety
//! Making a view is unsafe: the caller of the MPI function guarantees its pointers as MPI-5 section 2.5
//! requires. A pointer is null where that is allowed, or points to the memory that the parameter's type and
//! the other arguments describe. Using a view is safe. Null pointers are detected and refused. The lifetime
//! `'s` is that of the call.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;

use tutti_base::{Error, ErrorClass, Result};

use crate::generated::constants::{MPI_IN_PLACE, MPI_UNDEFINED};
use crate::handles::kind::Kind;
use crate::handles::{self, Stored};
use crate::status::{StatusIn, StatusOut, Statuses};
use crate::types::{MPI_Aint, MPI_Count, MPI_Offset, MPI_Status, Raw};

/// Scope of a call: no view of an argument outlives it.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'s>(PhantomData<&'s ()>);

/// An address given by the user: a message buffer, `extra_state`, an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(*mut u8);

/// A handle given by the user.
#[derive(Debug)]
pub struct In<'s, K> {
    raw: Raw<K>,
    name: &'static str,
    scope: PhantomData<&'s ()>,
}

/// Output argument for a handle, which may also be exchanged (MPI_Comm_free).
#[derive(Clone, Copy, Debug)]
pub struct HandleOut<'s, K> {
    place: Out<'s, Raw<K>>,
}

/// Output argument for one value, which may also be exchanged.
#[derive(Clone, Copy, Debug)]
pub struct Out<'s, T> {
    pointer: *mut T,
    name: &'static str,
    scope: PhantomData<&'s ()>,
}

/// Output argument for an integer that is wider in MPI_X_c than in MPI_X.
#[derive(Clone, Copy, Debug)]
pub struct CountOut<'s> {
    pointer: *mut c_void,
    wide: bool,
    name: &'static str,
    scope: PhantomData<&'s ()>,
}

/// An array given by the user; its length comes from other arguments.
#[derive(Clone, Copy, Debug)]
pub struct Array<'s, T> {
    pointer: *const T,
    name: &'static str,
    scope: PhantomData<&'s ()>,
}

/// An array to be filled, or filled anew.
#[derive(Clone, Copy, Debug)]
pub struct ArrayOut<'s, T> {
    pointer: *mut T,
    name: &'static str,
    scope: PhantomData<&'s ()>,
}

/// An array of counts or displacements, `int` in MPI_X and 64 bits wide in MPI_X_c.
#[derive(Clone, Copy, Debug)]
pub struct CountArray<'s> {
    pointer: *const c_void,
    wide: bool,
    name: &'static str,
    scope: PhantomData<&'s ()>,
}

/// A string given by the user.
#[derive(Clone, Copy, Debug)]
pub struct Text<'s> {
    pointer: *const c_char,
    name: &'static str,
    scope: PhantomData<&'s ()>,
}

/// Output argument for a string.
#[derive(Clone, Copy, Debug)]
pub struct TextOut<'s> {
    pointer: *mut c_char,
    name: &'static str,
    scope: PhantomData<&'s ()>,
}

/// Integers of the C interface.
pub trait Integer: Copy {
    /// Whether it has 64 bits.
    const WIDE: bool;
}

macro_rules! integers {
    ($($name:ty: $wide:literal),*) => { $(impl Integer for $name { const WIDE: bool = $wide; })* };
}
integers!(c_int: false, i64: true, isize: true);
const _: () =
    assert!(size_of::<MPI_Aint>() == 8 && size_of::<MPI_Count>() == 8 && size_of::<MPI_Offset>() == 8);

#[cold]
fn null(name: &str) -> Error {
    Error::new(ErrorClass::Arg, format!("argument {name} is a null pointer"))
}

/// Parses the length of an array, which must not be negative.
fn length(count: i64, name: &str) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| Error::new(ErrorClass::Arg, format!("array {name} has a negative length: {count}")))
}

#[allow(clippy::missing_safety_doc, reason = "one promise for all: see the module's Safety section")]
impl<'s> Scope<'s> {
    /// Returns the scope of a new call. Only the entry wrapper calls this.
    pub(crate) fn new() -> Scope<'s> {
        Scope(PhantomData)
    }

    /// Makes a view of an address.
    #[inline(always)]
    pub unsafe fn address(self, pointer: *mut c_void) -> Address {
        Address(pointer.cast())
    }

    /// Makes a view of a handle.
    #[inline(always)]
    pub unsafe fn handle<K>(self, raw: Raw<K>, name: &'static str) -> In<'s, K> {
        In { raw, name, scope: PhantomData }
    }

    /// Makes a view of an output argument for a handle.
    #[inline(always)]
    pub unsafe fn handle_out<K>(self, pointer: *mut Raw<K>, name: &'static str) -> HandleOut<'s, K> {
        HandleOut { place: Out { pointer, name, scope: PhantomData } }
    }

    /// Makes a view of an output argument for a value.
    #[inline(always)]
    pub unsafe fn out<T>(self, pointer: *mut T, name: &'static str) -> Out<'s, T> {
        Out { pointer, name, scope: PhantomData }
    }

    /// Makes a view of an output argument for an integer of either width.
    #[inline(always)]
    pub unsafe fn count_out<T: Integer>(self, pointer: *mut T, name: &'static str) -> CountOut<'s> {
        CountOut { pointer: pointer.cast(), wide: T::WIDE, name, scope: PhantomData }
    }

    /// Makes a view of an array.
    #[inline(always)]
    pub unsafe fn array<T>(self, pointer: *const T, name: &'static str) -> Array<'s, T> {
        Array { pointer, name, scope: PhantomData }
    }

    /// Makes a view of an array for output.
    #[inline(always)]
    pub unsafe fn array_out<T>(self, pointer: *mut T, name: &'static str) -> ArrayOut<'s, T> {
        ArrayOut { pointer, name, scope: PhantomData }
    }

    /// Makes a view of an array of integers of either width.
    #[inline(always)]
    pub unsafe fn counts<T: Integer>(self, pointer: *const T, name: &'static str) -> CountArray<'s> {
        CountArray { pointer: pointer.cast(), wide: T::WIDE, name, scope: PhantomData }
    }

    /// Makes a view of a string.
    #[inline(always)]
    pub unsafe fn text(self, pointer: *const c_char, name: &'static str) -> Text<'s> {
        Text { pointer, name, scope: PhantomData }
    }

    /// Makes a view of an output argument for a string.
    #[inline(always)]
    pub unsafe fn text_out(self, pointer: *mut c_char, name: &'static str) -> TextOut<'s> {
        TextOut { pointer, name, scope: PhantomData }
    }

    /// Makes a view of a status.
    #[inline(always)]
    pub unsafe fn status(self, pointer: *const MPI_Status, name: &'static str) -> StatusIn<'s> {
        // SAFETY: the caller vouches for the pointer.
        unsafe { StatusIn::new(pointer, name) }
    }

    /// Makes a view of an output argument for a status, which may be MPI_STATUS_IGNORE.
    #[inline(always)]
    pub unsafe fn status_out(self, pointer: *mut MPI_Status) -> StatusOut<'s> {
        // SAFETY: the caller vouches for the pointer.
        unsafe { StatusOut::new(pointer) }
    }

    /// Places for statuses, or MPI_STATUSES_IGNORE.
    #[inline(always)]
    pub unsafe fn statuses(self, pointer: *mut MPI_Status) -> Statuses<'s> {
        // SAFETY: the caller vouches for the pointer.
        unsafe { Statuses::new(pointer) }
    }
}

impl Address {
    /// Null address, which belongs to no memory.
    pub const NOWHERE: Address = Address(std::ptr::null_mut());

    /// Returns the address as a pointer.
    #[inline(always)]
    pub fn pointer(self) -> *mut u8 {
        self.0
    }

    /// Returns the address as a number: the value of an attribute.
    #[inline(always)]
    pub fn bits(self) -> usize {
        self.0 as usize
    }

    /// Returns the address `bytes` bytes further (or before, if negative). The user guarantees that it is
    /// valid where it is used.
    #[inline(always)]
    pub fn offset(self, bytes: isize) -> Address {
        Address(self.0.wrapping_offset(bytes))
    }

    /// Returns true if the address is null, which is `MPI_BOTTOM` for a buffer.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns true if the address is `MPI_IN_PLACE`.
    #[inline(always)]
    pub fn is_in_place(self) -> bool {
        self.bits() == MPI_IN_PLACE
    }

    /// Writes a pointer-sized value to this address, which the standard calls `void*` but which is the
    /// address of a pointer (`baseptr`, `attribute_val` of MPI_Comm_get_attr).
    ///
    /// # Errors
    /// Fails with `Arg` if it is null.
    pub fn store(self, value: usize, name: &'static str) -> Result<()> {
        if self.is_null() {
            return Err(null(name));
        }
        // SAFETY: the caller of the MPI function says that a pointer may be stored here.
        unsafe { self.0.cast::<usize>().write_unaligned(value) };
        Ok(())
    }

    /// Writes bytes to this address.
    ///
    /// # Errors
    /// Fails with `Arg` if it is null.
    pub fn store_bytes(self, bytes: &[u8], name: &'static str) -> Result<()> {
        if self.is_null() {
            return Err(null(name));
        }
        // SAFETY: the caller of the MPI function says that as many bytes may be stored here.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len()) };
        Ok(())
    }
}

impl<K> Clone for In<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for In<'_, K> {}

impl<'s, K: Kind> In<'s, K> {
    /// Returns the handle as the caller passed it.
    #[inline(always)]
    pub fn raw(self) -> Raw<K> {
        self.raw
    }

    /// Returns the name of the argument.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns true if the handle is the null handle of its kind.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.raw.bits() == K::NULL
    }

    /// Returns the error that describes an invalid handle.
    pub fn complaint(self) -> Error {
        handles::complaint(self.raw, self.name)
    }
}

impl<'s, K: Stored> In<'s, K> {
    /// Returns the object that the handle denotes.
    ///
    /// # Errors
    /// Fails with the class of the kind if the handle is null, freed, of another kind or garbage.
    #[inline]
    pub fn get(self) -> Result<&'s K::Object> {
        // SAFETY: `'s` ends with the call.
        unsafe { handles::resolve(self.raw, self.name) }
    }

    /// Returns the object, or `None` for the null handle.
    ///
    /// # Errors
    /// Fails like [`In::get`].
    #[inline]
    pub fn optional(self) -> Result<Option<&'s K::Object>> {
        if self.is_null() { Ok(None) } else { self.get().map(Some) }
    }
}

impl<'s, K: Kind> HandleOut<'s, K> {
    /// Stores a handle in the caller's variable.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    #[inline]
    pub fn set(self, raw: Raw<K>) -> Result<()> {
        self.place.set(raw)
    }

    /// Returns the null handle.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    pub fn set_null(self) -> Result<()> {
        self.place.set(Raw::predefined(K::NULL))
    }

    /// Returns the handle in the caller's variable.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    #[inline]
    pub fn input(self) -> Result<In<'s, K>> {
        Ok(In { raw: self.place.get()?, name: self.place.name, scope: PhantomData })
    }

    /// Refuses a null pointer before anything has been done.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    #[inline]
    pub fn check(self) -> Result<()> {
        self.place.check()
    }
}

impl HandleOut<'_, crate::handles::kind::Request> {
    /// Refuses a null pointer, and a request more than there may be, before anything has been done.
    ///
    /// # Errors
    /// `Arg` for a null pointer, `NoMem`.
    #[inline]
    pub fn check_new(self) -> Result<()> {
        self.place.check()?;
        tutti_core::request::check_room()
    }
}

impl<K> HandleOut<'_, K> {
    /// Returns true if the user passed a null pointer where the standard lets it be left out.
    pub fn is_absent(self) -> bool {
        self.place.pointer.is_null()
    }
}

impl<'s, K: Stored> HandleOut<'s, K> {
    /// Stores an object and returns its new handle.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer, `NoMem`.
    pub fn create(self, object: K::Object) -> Result<Raw<K>> {
        self.place.check()?;
        let raw = handles::insert::<K>(object)?;
        self.place.set(raw)?;
        Ok(raw)
    }

    /// Takes the object of the handle that is there out of the table and puts the null handle there. The
    /// object stays usable until the call ends.
    ///
    /// # Errors
    /// Fails like [`In::get`]; predefined objects cannot be removed.
    pub fn remove(self) -> Result<&'s K::Object> {
        let input = self.input()?;
        // SAFETY: `'s` ends with the call.
        let object = unsafe { handles::remove(input.raw, input.name)? };
        self.set_null()?;
        Ok(object)
    }
}

impl<T: Copy> Out<'_, T> {
    /// Stores a value in the caller's variable.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    #[inline]
    pub fn set(self, value: T) -> Result<()> {
        self.check()?;
        // SAFETY: not null, and the caller vouches for it.
        unsafe { self.pointer.write(value) };
        Ok(())
    }

    /// Returns the value in the caller's variable.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    #[inline]
    pub fn get(self) -> Result<T> {
        self.check()?;
        // SAFETY: not null, and the caller vouches for it.
        Ok(unsafe { self.pointer.read() })
    }

    /// Refuses a null pointer before anything has been done.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    #[inline]
    pub fn check(self) -> Result<()> {
        if self.pointer.is_null() { Err(null(self.name)) } else { Ok(()) }
    }

    /// Returns true if the user passed a null pointer where the standard lets it be left out.
    pub fn is_absent(self) -> bool {
        self.pointer.is_null()
    }
}

impl Out<'_, c_int> {
    /// Returns a logical value.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    #[inline]
    pub fn set_flag(self, flag: bool) -> Result<()> {
        self.set(c_int::from(flag))
    }
}

impl CountOut<'_> {
    /// Returns a value; `MPI_UNDEFINED` where an `int` cannot hold it.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    #[inline]
    pub fn set(self, value: i64) -> Result<()> {
        if self.pointer.is_null() {
            return Err(null(self.name));
        }
        // SAFETY: not null, of the width that the constructor noted, and the caller vouches for it.
        unsafe {
            if self.wide {
                self.pointer.cast::<i64>().write(value);
            } else {
                self.pointer.cast::<c_int>().write(c_int::try_from(value).unwrap_or(MPI_UNDEFINED));
            }
        }
        Ok(())
    }

    /// Returns the value in the caller's variable (`position` of MPI_Pack).
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    #[inline]
    pub fn get(self) -> Result<i64> {
        if self.pointer.is_null() {
            return Err(null(self.name));
        }
        // SAFETY: as in `set`.
        Ok(unsafe {
            if self.wide {
                self.pointer.cast::<i64>().read()
            } else {
                self.pointer.cast::<c_int>().read().into()
            }
        })
    }

    /// Returns true if this is the large-count variant.
    pub fn is_wide(self) -> bool {
        self.wide
    }
}

impl<'s, T> Array<'s, T> {
    /// Returns the array as a slice of `count` items. A null pointer is allowed where the count is zero.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer or a negative count.
    pub fn slice(self, count: i64) -> Result<&'s [T]> {
        let count = length(count, self.name)?;
        if count == 0 {
            return Ok(&[]);
        }
        if self.pointer.is_null() {
            return Err(null(self.name));
        }
        // SAFETY: not null, and the caller vouches for `count` items.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer, count) })
    }

    /// Returns the array's pointer, for comparison with sentinels such as MPI_UNWEIGHTED.
    pub fn pointer(self) -> *const T {
        self.pointer
    }

    /// Returns the name of the argument.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl<'s, K: Kind> Array<'s, Raw<K>> {
    /// Returns the handles, each with the name of the argument.
    ///
    /// # Errors
    /// Fails like [`Array::slice`].
    pub fn handles(self, count: i64) -> Result<impl ExactSizeIterator<Item = In<'s, K>> + Clone> {
        let name = self.name;
        Ok(self.slice(count)?.iter().map(move |raw| In { raw: *raw, name, scope: PhantomData }))
    }

    /// Returns the handles as numbers, for comparison with those of another call.
    pub fn numbers(self) -> CountArray<'s> {
        const { assert!(size_of::<Raw<K>>() == size_of::<i64>()) };
        CountArray { pointer: self.pointer.cast(), wide: true, name: self.name, scope: PhantomData }
    }
}

impl<'s, T> ArrayOut<'s, T> {
    /// Returns the array as a slice of `count` items. A null pointer is allowed where the count is zero.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer or a negative count.
    pub fn slice(self, count: i64) -> Result<&'s mut [T]> {
        let count = length(count, self.name)?;
        if count == 0 {
            return Ok(&mut []);
        }
        if self.pointer.is_null() {
            return Err(null(self.name));
        }
        // SAFETY: not null, and the caller vouches for `count` items that nobody else uses meanwhile.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer, count) })
    }

    /// Returns the array's pointer, for comparison with sentinels such as MPI_ERRCODES_IGNORE.
    pub fn pointer(self) -> *mut T {
        self.pointer
    }
}

impl<'s, K: Kind> ArrayOut<'s, Raw<K>> {
    /// Returns a handle of the array with the name of the argument.
    pub fn handle(self, raw: Raw<K>) -> In<'s, K> {
        In { raw, name: self.name, scope: PhantomData }
    }

    /// Returns the first `count` handles, as the call was given them.
    ///
    /// # Errors
    /// Fails like [`ArrayOut::slice`].
    pub fn handles(self, count: i64) -> Result<impl Iterator<Item = In<'s, K>> + Clone> {
        let handles: &'s [Raw<K>] = self.slice(count)?;
        Ok(handles.iter().map(move |raw| self.handle(*raw)))
    }
}

impl<'s> CountArray<'s> {
    /// Returns the first `count` numbers. A null pointer is allowed where the count is zero.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer or a negative count.
    pub fn read(self, count: i64) -> Result<impl ExactSizeIterator<Item = i64> + Clone + 's> {
        let count = length(count, self.name)?;
        if self.pointer.is_null() && count > 0 {
            return Err(null(self.name));
        }
        let (pointer, wide) = (self.pointer, self.wide);
        // SAFETY: not null or not read, of the width that the constructor noted; the caller vouches for it.
        Ok((0..count).map(move |index| unsafe {
            if wide {
                pointer.cast::<i64>().add(index).read()
            } else {
                pointer.cast::<c_int>().add(index).read().into()
            }
        }))
    }

    /// Returns true if the array starts with `numbers`. Long arrays are compared in groups, without a branch
    /// for each number.
    #[inline]
    pub fn starts_with(self, numbers: &[i64]) -> bool {
        if self.pointer.is_null() {
            return numbers.is_empty();
        }
        // SAFETY: not null, of the width that the constructor noted; the caller vouches for as many numbers
        // as are asked for.
        unsafe {
            if self.wide {
                return std::slice::from_raw_parts(self.pointer.cast::<i64>(), numbers.len()) == numbers;
            }
            let own = std::slice::from_raw_parts(self.pointer.cast::<c_int>(), numbers.len());
            let mut differences = own.iter().zip(numbers).map(|(own, number)| i64::from(*own) ^ number);
            match numbers.len() {
                0..16 => differences.all(|one| one == 0),
                _ => differences.fold(0, |all, one| all | one) == 0,
            }
        }
    }

    /// Returns the first `count` numbers as a vector.
    ///
    /// # Errors
    /// Fails like [`CountArray::read`].
    pub fn to_vec(self, count: i64) -> Result<Vec<i64>> {
        Ok(self.read(count)?.collect())
    }

    /// Returns true if this is the large-count variant.
    pub fn is_wide(self) -> bool {
        self.wide
    }

    /// Returns the name of the argument.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl<'s> Text<'s> {
    /// Returns the string without its zero.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    pub fn bytes(self) -> Result<&'s [u8]> {
        if self.pointer.is_null() {
            return Err(null(self.name));
        }
        // SAFETY: not null, and the caller vouches for the zero at the end.
        Ok(unsafe { CStr::from_ptr(self.pointer) }.to_bytes())
    }

    /// Returns the name of the argument.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl TextOut<'_> {
    /// Returns a string and its zero in a buffer of `capacity` bytes; cuts what does not fit. Gives the
    /// number of bytes written without the zero.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer.
    pub fn set(self, text: &[u8], capacity: usize) -> Result<usize> {
        if capacity == 0 {
            return Ok(0);
        }
        if self.pointer.is_null() {
            return Err(null(self.name));
        }
        let written = text.len().min(capacity - 1);
        // SAFETY: not null, and the caller vouches for `capacity` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.pointer.cast(), written);
            self.pointer.add(written).write(0);
        }
        Ok(written)
    }

    /// Returns true if the user passed a null pointer where the standard lets it be left out.
    pub fn is_absent(self) -> bool {
        self.pointer.is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numbers: &[c_int], known: &[i64], expected: bool) {
        let wide: Vec<i64> = numbers.iter().map(|number| i64::from(*number)).collect();
        // SAFETY: the vectors live through the comparison, and have as many numbers as are compared.
        let (short, long) = unsafe {
            let scope = Scope::new();
            (scope.counts(numbers.as_ptr(), "counts"), scope.counts(wide.as_ptr(), "counts"))
        };
        assert_eq!([short, long].map(|list| list.starts_with(known)), [expected; 2], "{numbers:?} {known:?}");
    }

    #[test]
    fn lists_are_compared_with_known_numbers() {
        check(&[1, 2, 3], &[1, 2], true);
        check(&[1, 2, 3], &[1, 3], false);
        check(&[-1], &[-1], true);
        check(&[-1], &[0xffff_ffff], false);
        let many: Vec<c_int> = (0..40).collect();
        let known: Vec<i64> = (0..40).collect();
        check(&many, &known, true);
        for place in 0..40 {
            let mut other = known.clone();
            other[place] -= 1;
            check(&many, &other, false);
        }
    }
}
