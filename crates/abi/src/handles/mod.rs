//! The handle table: returns the object of a handle without a lock or a hash.
//!
//! A handle is `kind (5 bits) | generation (27) | index (32)`. Predefined handles are numbers below 0x1000
//! and index an array. Slots sit in chunks of doubling size that never move, so a lookup is a few loads.
//! Freeing a slot changes its generation: a stale handle is recognised, and so is a handle of another kind or
//! a stranger's pointer (its top bits are zero). Requests are core's: see [`request`].
//!
//! Objects that were removed are retired, not dropped: another call, nested in a callback or waiting in
//! another thread, may still refer to them. They are dropped when no call is under way ([`drop_retired`]).

pub mod kind;
pub mod request;

use std::any::Any;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tutti_base::{Error, ErrorClass, Result};

use self::kind::Kind;
use crate::types::Raw;

const FIRST_CHUNK: usize = 64;
const CHUNKS: usize = 24;
const MAX_PREDEFINED: usize = 256;
const GENERATIONS: u32 = 1 << 27;
/// Lowest bit of the kind of a handle.
pub const KIND_SHIFT: u32 = 59;
/// Numbers from here on are never predefined handles: `MPI_X_toint` gives `0x1000 + index`.
pub const FIRST_INT: usize = 0x1000;

static RETIRED: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
static ANY_RETIRED: AtomicBool = AtomicBool::new(false);

/// A kind whose objects the abi stores.
pub trait Stored: Kind {
    /// Type of the objects that handles of this kind denote.
    type Object: Send + Sync + 'static;
    /// Returns the table that contains the objects.
    fn table() -> &'static Table<Self::Object>;
    /// Makes the predefined object with this number when it is first used. `None` if there is none, or not
    /// now (the world communicator before MPI_Init). The null handle never gets here.
    fn predefined(number: usize) -> Option<Self::Object>;
}

/// All objects of one kind.
pub struct Table<T: 'static> {
    predefined: [AtomicPtr<T>; MAX_PREDEFINED],
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    free: Mutex<Free>,
}

struct Slot<T> {
    generation: AtomicU32,
    object: AtomicPtr<T>,
}

struct Free {
    indices: Vec<u32>,
    next: u32,
}

impl<T: Send + Sync + 'static> Table<T> {
    /// Creates a table without objects.
    #[allow(clippy::new_without_default, reason = "only ever a static")]
    pub const fn new() -> Table<T> {
        Table {
            predefined: [const { AtomicPtr::new(null_mut()) }; MAX_PREDEFINED],
            chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
            free: Mutex::new(Free { indices: Vec::new(), next: 0 }),
        }
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let (chunk, within) = place(index);
        let slots = self.chunks.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: a chunk that is set has `FIRST_CHUNK << chunk` slots, `within` is below that, and chunks
        // are never freed.
        (!slots.is_null()).then(|| unsafe { &*slots.add(within) })
    }

    /// Reserves a free slot, and allocates its chunk if necessary.
    fn claim(&self) -> Option<(u32, &Slot<T>)> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let index = free.indices.pop().unwrap_or(free.next);
        if index == free.next {
            let (chunk, within) = place(index);
            if within == 0 {
                let slots: Box<[Slot<T>]> = (0..FIRST_CHUNK << chunk).map(|_| Slot::empty()).collect();
                self.chunks.get(chunk)?.store(Box::leak(slots).as_mut_ptr(), Ordering::Release);
            }
            free.next += 1;
        }
        Some((index, self.slot(index)?))
    }
}

impl<T> Slot<T> {
    fn empty() -> Slot<T> {
        Slot { generation: AtomicU32::new(1), object: AtomicPtr::new(null_mut()) }
    }
}

#[inline]
fn place(index: u32) -> (usize, usize) {
    if (index as usize) < FIRST_CHUNK {
        return (0, index as usize);
    }
    let scaled = index as usize / FIRST_CHUNK + 1;
    let chunk = scaled.ilog2() as usize;
    (chunk, index as usize - FIRST_CHUNK * ((1 << chunk) - 1))
}

fn bits<K: Kind>(index: u32, generation: u32) -> usize {
    (K::CODE as usize) << KIND_SHIFT | (generation as usize) << 32 | index as usize
}

fn index_and_generation(bits: usize) -> (u32, u32) {
    (bits as u32, (bits >> 32) as u32 & (GENERATIONS - 1))
}

/// Returns the object behind a handle.
///
/// # Errors
/// Fails with the class of the kind; the message contains `argument` and the problem.
///
/// # Safety
/// The reference is used only until the call that looked it up ends (see the module's doc).
#[inline(always)]
pub unsafe fn resolve<'s, K: Stored>(raw: Raw<K>, argument: &str) -> Result<&'s K::Object> {
    let number = raw.bits().wrapping_sub(K::NULL);
    if number < K::NUMBERS {
        let object = K::table().predefined[number].load(Ordering::Acquire);
        if !object.is_null() {
            // SAFETY: predefined objects live until no call is under way after they were taken away.
            return Ok(unsafe { &*object });
        }
    } else if (raw.bits() >> KIND_SHIFT) as u8 == K::CODE {
        let (index, generation) = index_and_generation(raw.bits());
        if let Some(slot) = K::table().slot(index) {
            let object = slot.object.load(Ordering::Acquire);
            if !object.is_null() && slot.generation.load(Ordering::Relaxed) == generation {
                // SAFETY: a linked object is alive, and retired objects live until no call is under way.
                return Ok(unsafe { &*object });
            }
        }
    }
    first_use(raw, argument)
}

/// Creates a predefined object at its first use. For other handles, returns an error with the reason.
#[cold]
fn first_use<'s, K: Stored>(raw: Raw<K>, argument: &str) -> Result<&'s K::Object> {
    let number = raw.bits().wrapping_sub(K::NULL);
    let object = (number > 0 && number < K::NUMBERS).then(|| K::predefined(raw.bits())).flatten();
    match object {
        Some(object) => Ok(set_predefined::<K>(raw, object)),
        None => Err(complaint(raw, argument)),
    }
}

/// Gives a predefined handle its object, unless it has one.
pub fn set_predefined<'s, K: Stored>(raw: Raw<K>, object: K::Object) -> &'s K::Object {
    let cell = &K::table().predefined[raw.bits() - K::NULL];
    let fresh = Box::into_raw(Box::new(object));
    match cell.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: predefined objects live until no call is under way after they were taken away.
        Ok(_) => unsafe { &*fresh },
        Err(present) => {
            // SAFETY: `fresh` came from a box and was not published; `present` as above.
            unsafe {
                drop(Box::from_raw(fresh));
                &*present
            }
        }
    }
}

/// Takes the object of a predefined handle away (the world communicator, in MPI_Finalize). It stays usable
/// until no call is under way.
pub fn clear_predefined<K: Stored>(raw: Raw<K>) {
    let unlinked = K::table().predefined[raw.bits() - K::NULL].swap(null_mut(), Ordering::AcqRel);
    if !unlinked.is_null() {
        // SAFETY: the pointer came from a box in `set_predefined`; the swap made this call its only owner.
        retire(unsafe { Box::from_raw(unlinked) });
    }
}

/// Drops an object when no call is under way.
fn retire(object: Box<dyn Any + Send>) {
    RETIRED.lock().unwrap_or_else(PoisonError::into_inner).push(object);
    ANY_RETIRED.store(true, Ordering::Relaxed);
}

/// Stores an object under a new handle.
///
/// # Errors
/// Fails with `NoMem` if there are 2^30 objects of the kind.
pub fn insert<K: Stored>(object: K::Object) -> Result<Raw<K>> {
    let (index, slot) = K::table()
        .claim()
        .ok_or_else(|| Error::new(ErrorClass::NoMem, format!("too many handles for {}s", K::WHAT)))?;
    slot.object.store(Box::into_raw(Box::new(object)), Ordering::Release);
    Ok(Raw::from_bits(bits::<K>(index, slot.generation.load(Ordering::Relaxed))))
}

/// Makes a removed handle valid again, for this object, until it is removed once more.
///
/// # Errors
/// Returns the object, if the handle was never issued, or if its slot has a newer handle.
pub fn revive<K: Stored>(raw: Raw<K>, object: K::Object) -> std::result::Result<(), K::Object> {
    let (index, generation) = index_and_generation(raw.bits());
    let is_own = (raw.bits() >> KIND_SHIFT) as u8 == K::CODE;
    let Some(slot) = K::table().slot(index).filter(|_| is_own) else { return Err(object) };
    let mut free = K::table().free.lock().unwrap_or_else(PoisonError::into_inner);
    let is_latest = slot.generation.load(Ordering::Relaxed) == following(generation);
    // A slot that is free has no handle with its present generation.
    let place = free.indices.iter().rposition(|free| *free == index).filter(|_| is_latest);
    let Some(place) = place else { return Err(object) };
    free.indices.swap_remove(place);
    slot.generation.store(generation, Ordering::Relaxed);
    slot.object.store(Box::into_raw(Box::new(object)), Ordering::Release);
    Ok(())
}

/// Returns the generation after this one: never 0.
fn following(generation: u32) -> u32 {
    ((generation + 1) % GENERATIONS).max(1)
}

/// Makes a handle invalid. The object stays usable until the call ends.
///
/// # Errors
/// Fails like [`resolve`]; predefined objects cannot be removed.
///
/// # Safety
/// As [`resolve`].
pub unsafe fn remove<'s, K: Stored>(raw: Raw<K>, argument: &str) -> Result<&'s K::Object> {
    // SAFETY: the caller's promise.
    let object = unsafe { resolve(raw, argument)? };
    if raw.bits() < FIRST_INT {
        let reason = format!("argument {argument} is predefined and cannot be freed");
        return Err(Error::new(K::CLASS, reason));
    }
    let (index, generation) = index_and_generation(raw.bits());
    let slot = K::table().slot(index).expect("a handle that resolved has a slot");
    let unlinked = slot.object.swap(null_mut(), Ordering::AcqRel);
    if unlinked.is_null() {
        return Err(complaint(raw, argument));
    }
    slot.generation.store(following(generation), Ordering::Relaxed);
    // SAFETY: the pointer came from a box in `insert`; the swap made this call its only owner.
    retire(unsafe { Box::from_raw(unlinked) });
    K::table().free.lock().unwrap_or_else(PoisonError::into_inner).indices.push(index);
    Ok(object)
}

/// Returns all objects of a kind that are alive and not predefined, with their handles.
///
/// # Safety
/// As [`resolve`].
pub unsafe fn all<'s, K: Stored>() -> Vec<(Raw<K>, &'s K::Object)> {
    let next = K::table().free.lock().unwrap_or_else(PoisonError::into_inner).next;
    let object = |index| {
        let slot = K::table().slot(index)?;
        let object = slot.object.load(Ordering::Acquire);
        let raw = Raw::from_bits(bits::<K>(index, slot.generation.load(Ordering::Relaxed)));
        // SAFETY: a linked object is alive; see `resolve`.
        (!object.is_null()).then(|| (raw, unsafe { &*object }))
    };
    (0..next).filter_map(object).collect()
}

/// Returns true if [`drop_retired`] has anything to do.
#[inline]
pub fn any_retired() -> bool {
    ANY_RETIRED.load(Ordering::Relaxed)
}

/// Drops retired objects, if no call is in progress.
#[cold]
pub fn drop_retired() {
    ANY_RETIRED.store(false, Ordering::Relaxed);
    let retired = std::mem::take(&mut *RETIRED.lock().unwrap_or_else(PoisonError::into_inner));
    drop(retired);
}

/// Returns the number of a handle in an `int` (MPI_Comm_toint and its like).
pub fn to_int<K: Kind>(raw: Raw<K>) -> i32 {
    if raw.bits() < FIRST_INT {
        return raw.bits() as i32;
    }
    (FIRST_INT as u32 + raw.bits() as u32) as i32
}

/// Returns the handle with this number, or the null handle if no object has it.
pub fn from_int<K: Stored>(number: i32) -> Raw<K> {
    let number = number as u32 as usize;
    if number < FIRST_INT {
        return Raw::predefined(number);
    }
    let index = (number - FIRST_INT) as u32;
    let slot = K::table().slot(index).filter(|slot| !slot.object.load(Ordering::Acquire).is_null());
    slot.map_or(Raw::predefined(K::NULL), |slot| {
        Raw::from_bits(bits::<K>(index, slot.generation.load(Ordering::Relaxed)))
    })
}

/// Builds the error for an invalid handle: it describes the handle and names the argument.
#[cold]
pub fn complaint<K: Kind>(raw: Raw<K>, argument: &str) -> Error {
    let what = K::WHAT;
    let reason = if raw.bits() == K::NULL {
        format!("argument {argument} is {}", K::NULL_NAME)
    } else if let Some(other) = kind::name_of_number(raw.bits()) {
        if other == what {
            let when = match K::CLASS {
                ErrorClass::Comm => ": the world's communicators are there from MPI_Init to MPI_Finalize",
                _ => "",
            };
            format!("argument {argument} ({raw:?}) is not {what} that exists here{when}")
        } else {
            format!("argument {argument} is {other} ({raw:?}), not {what}")
        }
    } else {
        match kind::name_of_code((raw.bits() >> KIND_SHIFT) as u8) {
            Some(other) if other == what => format!("argument {argument} is {what} that was freed"),
            Some(other) => format!("argument {argument} is {other}, not {what}"),
            None => format!("argument {argument} ({raw:?}) is not a handle of MPI: was it initialised?"),
        }
    };
    Error::new(K::CLASS, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::kind::{Errhandler, Group, Info};
    use tutti_core::group::Group as CoreGroup;
    use tutti_core::lanes::FirstLaneCell;

    fn check<K: Stored>(raw: Raw<K>, expected: std::result::Result<(), &str>) {
        // SAFETY: the reference is dropped at once.
        match (unsafe { resolve(raw, "thing") }.map(drop), expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => {
                assert_eq!(error.class, K::CLASS);
                assert!(error.message.contains(part), "{error}");
            }
            (got, expected) => panic!("{raw:?}: {got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn handles_are_found_or_refused_in_words() {
        let raw = insert::<Group>(CoreGroup::world(3)).unwrap();
        check(raw, Ok(()));
        check(Raw::<Group>::predefined(0x109), Ok(()));
        check(Raw::<Group>::predefined(0x108), Err("argument thing is MPI_GROUP_NULL"));
        check(Raw::<Group>::predefined(0x101), Err("is a communicator (0x101), not a group"));
        check(Raw::<Errhandler>::from_bits(raw.bits()), Err("is a group, not an error handler"));
        check(Raw::<Group>::from_bits(0), Err("was it initialised?"));
        check(Raw::<Group>::from_bits(0x7fff_1234_5678), Err("is not a handle of MPI"));
        check(Raw::<Group>::from_bits(raw.bits() + 1000), Err("freed"));
        assert_eq!(from_int::<Group>(to_int(raw)), raw);
        // SAFETY: the reference is dropped at once.
        unsafe { remove(raw, "thing") }.unwrap();
        check(raw, Err("was freed"));
        assert_eq!(from_int::<Group>(to_int(raw)), Raw::predefined(0x108));
        // SAFETY: as above.
        let predefined = unsafe { remove(Raw::<Group>::predefined(0x109), "thing") };
        assert!(predefined.is_err_and(|error| error.message.contains("predefined")));
        drop_retired();
    }

    #[test]
    fn slots_are_reused_under_new_handles() {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let raw = insert::<Errhandler>(tutti_core::error_handler::ErrorHandler::Return).unwrap();
            assert!(seen.insert(raw.bits()));
            // SAFETY: the reference is dropped at once.
            unsafe { remove(raw, "thing") }.unwrap();
        }
        let many: Vec<_> = (0..500)
            .map(|_| insert::<Errhandler>(tutti_core::error_handler::ErrorHandler::Abort).unwrap())
            .collect();
        many.iter().for_each(|raw| check(*raw, Ok(())));
    }

    #[test]
    fn generations_come_again_without_zero() {
        let raw = insert::<Group>(CoreGroup::world(3)).unwrap();
        let (index, _) = index_and_generation(raw.bits());
        let slot = Group::table().slot(index).unwrap();
        slot.generation.store(GENERATIONS - 1, Ordering::Relaxed);
        let last = Raw::<Group>::from_bits(bits::<Group>(index, GENERATIONS - 1));
        check(last, Ok(()));
        // SAFETY: the reference is dropped at once.
        unsafe { remove(last, "thing") }.unwrap();
        assert_eq!(slot.generation.load(Ordering::Relaxed), 1);
        check(last, Err("was freed"));
        drop_retired();
    }

    #[test]
    fn a_removed_handle_can_be_valid_again() {
        // No other test has such objects.
        let object = || FirstLaneCell::new(tutti_core::info::Info::new());
        let raw = insert::<Info>(object()).unwrap();
        // SAFETY: the reference is dropped at once.
        let remove_it = || unsafe { remove(raw, "thing") }.map(drop).unwrap();
        assert!(revive(raw, object()).is_err(), "it is in use");
        for _ in 0..2 {
            remove_it();
            assert!(revive(raw, object()).is_ok());
            check(raw, Ok(()));
        }
        remove_it();
        check(raw, Err("was freed"));
        let other = insert::<Info>(object()).unwrap();
        assert!(other != raw && revive(raw, object()).is_err(), "its slot is in use");
        assert!(revive(Raw::<Info>::predefined(0x131), object()).is_err());
        assert!(revive(Raw::<Info>::from_bits(0), object()).is_err());
        drop_retired();
    }

    #[test]
    fn places_are_dense() {
        for (index, expected) in [(0, (0, 0)), (63, (0, 63)), (64, (1, 0)), (191, (1, 127)), (192, (2, 0))] {
            assert_eq!(place(index), expected);
        }
    }
}
