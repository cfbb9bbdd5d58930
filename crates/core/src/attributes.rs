//! Attributes cached on communicators, datatypes and windows (MPI-5 section 7.7).
//!
//! All three kinds of objects share one implementation. Each object owns an [`Attributes`], and [`Keyvals`]
//! holds the keys of the process. A freed key lives on in the attributes that use it. It can still be named
//! there by its number, until the last of them is deleted.
//!
//! Invariant: callbacks run while nothing is borrowed, since they may call MPI and change the very
//! attributes that are being walked. So every walk uses a copy, and checks again before each step.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use tutti_base::{Error, ErrorClass, Result};

use crate::lanes::{FirstLaneCell, LaneGuard};

/// Kind of an object that has attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A communicator, as MPI_Comm.
    Communicator,
    /// A datatype, as MPI_Datatype.
    Datatype,
    /// A window, as MPI_Win.
    Window,
}

/// User's copy function. Arguments: handle of the object that is duplicated, number of the key, value.
/// Returns the value for the new object, `None` if it gets none, or a user's error code.
pub type CopyFunction = dyn Fn(usize, i32, usize) -> std::result::Result<Option<usize>, i32> + Send + Sync;

/// User's delete function. Arguments: handle of the object, number of the key, value.
pub type DeleteFunction = dyn Fn(usize, i32, usize) -> std::result::Result<(), i32> + Send + Sync;

/// Action for an attribute when its object is duplicated.
#[derive(Clone)]
pub enum OnCopy {
    /// `MPI_NULL_COPY_FN`: the new object does not get the attribute.
    Nothing,
    /// `MPI_DUP_FN`: the new object gets the same value.
    Duplicate,
    /// A user's function decides about the copy.
    Call(Arc<CopyFunction>),
}

/// Action for an attribute when it is deleted.
#[derive(Clone)]
pub enum OnDelete {
    /// `MPI_NULL_DELETE_FN`: nothing happens.
    Nothing,
    /// A user's function is called.
    Call(Arc<DeleteFunction>),
}

/// A key of attributes.
pub struct Keyval {
    /// Number by which programs name the key.
    number: i32,
    /// Kind of objects for which the key was made.
    kind: ObjectKind,
    on_copy: OnCopy,
    on_delete: OnDelete,
}

/// Table of the keys of a process.
#[derive(Debug)]
pub struct Keyvals {
    /// Number that is tried next for a new key.
    next: i32,
    /// Keys by number, including freed keys that attributes still use.
    known: BTreeMap<i32, Entry>,
}

/// Table of the keys of this process.
pub static KEYVALS: FirstLaneCell<Keyvals> = FirstLaneCell::new(Keyvals::new());

/// The attributes of one object, in the order in which they were set.
#[derive(Debug, Default)]
pub struct Attributes(FirstLaneCell<Vec<Attribute>>);

/// State of a key in the table.
#[derive(Debug)]
enum Entry {
    /// The program holds the key.
    InUse(Arc<Keyval>),
    /// The program has freed the key; attributes may still hold it.
    Freed(Weak<Keyval>),
}

/// An attribute of one object.
#[derive(Clone, Debug)]
struct Attribute {
    keyval: Arc<Keyval>,
    /// Value that the program has set.
    value: usize,
}

impl fmt::Debug for Keyval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyval({} of a {:?})", self.number, self.kind)
    }
}

impl Keyval {
    /// Returns the number by which programs name the key.
    pub fn number(&self) -> i32 {
        self.number
    }
}

impl Default for Keyvals {
    fn default() -> Keyvals {
        Keyvals::new()
    }
}

impl Keyvals {
    /// First number of a program's keys; the predefined ones of the ABI are smaller.
    const FIRST: i32 = 1024;

    /// Makes a table without keys.
    pub const fn new() -> Keyvals {
        Keyvals { next: Self::FIRST, known: BTreeMap::new() }
    }

    /// Creates a key and returns its number. Once all numbers have been used, those that no key has are
    /// used again.
    ///
    /// # Errors
    /// Returns `Other` if no number is free.
    pub fn create(&mut self, kind: ObjectKind, on_copy: OnCopy, on_delete: OnDelete) -> Result<i32> {
        self.known.retain(|_, entry| entry.is_alive());
        let number = self.free_number()?;
        self.known.insert(number, Entry::InUse(Arc::new(Keyval { number, kind, on_copy, on_delete })));
        Ok(number)
    }

    /// Returns the next number that no key has.
    fn free_number(&mut self) -> Result<i32> {
        for _ in 0..=self.known.len() {
            let number = self.next;
            self.next = number.checked_add(1).unwrap_or(Self::FIRST);
            if !self.known.contains_key(&number) {
                return Ok(number);
            }
        }
        Err(Error::new(ErrorClass::Other, "there are no more keys for attributes"))
    }

    /// Releases the program's reference to a key. A key that attributes still use may be freed again, as
    /// delete functions do. It is gone once no attribute has it (MPI-5 section 7.7.2).
    ///
    /// # Errors
    /// Returns `Keyval` if `number` is not a key for `kind`, is predefined, or was freed before and is not
    /// in use.
    pub fn free(&mut self, number: i32, kind: ObjectKind) -> Result<()> {
        let keyval = self.find(number, kind)?;
        self.known.insert(number, Entry::Freed(Arc::downgrade(&keyval)));
        Ok(())
    }

    /// Returns the key with this number, if it is for objects of `kind`.
    ///
    /// # Errors
    /// Returns `Keyval` if there is none, or if it was freed and no attribute uses it any more.
    pub fn find(&self, number: i32, kind: ObjectKind) -> Result<Arc<Keyval>> {
        let keyval = self.known.get(&number).and_then(Entry::keyval);
        keyval.filter(|keyval| keyval.kind == kind).ok_or_else(|| no_keyval(number, kind))
    }
}

impl Entry {
    /// Returns the key, unless it was freed and no attribute uses it any more.
    fn keyval(&self) -> Option<Arc<Keyval>> {
        match self {
            Entry::InUse(keyval) => Some(Arc::clone(keyval)),
            Entry::Freed(keyval) => keyval.upgrade(),
        }
    }

    /// Returns true if the program or an attribute still holds the key.
    fn is_alive(&self) -> bool {
        match self {
            Entry::InUse(_) => true,
            Entry::Freed(keyval) => keyval.strong_count() > 0,
        }
    }
}

impl Attribute {
    /// Calls the delete function. Nothing may be borrowed.
    fn delete(&self, handle: usize) -> Result<()> {
        let OnDelete::Call(function) = &self.keyval.on_delete else { return Ok(()) };
        function(handle, self.keyval.number, self.value).map_err(|code| {
            let reason = format!("the delete function of key {} returned {code}", self.keyval.number);
            Error::with_code(code, reason)
        })
    }

    /// Calls the copy function. Nothing may be borrowed.
    fn copy(&self, handle: usize) -> Result<Option<Attribute>> {
        let value = match &self.keyval.on_copy {
            OnCopy::Nothing => None,
            OnCopy::Duplicate => Some(self.value),
            OnCopy::Call(function) => function(handle, self.keyval.number, self.value).map_err(|code| {
                let reason = format!("the copy function of key {} returned {code}", self.keyval.number);
                Error::with_code(code, reason)
            })?,
        };
        Ok(value.map(|value| Attribute { keyval: Arc::clone(&self.keyval), value }))
    }
}

impl Attributes {
    /// Makes a set without attributes.
    pub const fn new() -> Attributes {
        Attributes(FirstLaneCell::new(Vec::new()))
    }

    /// Returns the value of an attribute, if it is set.
    pub fn get(&self, held: &LaneGuard, keyval: &Keyval) -> Option<usize> {
        self.find(held, keyval).map(|attribute| attribute.value)
    }

    /// Sets an attribute of the object that the program knows by `handle`. An existing value is deleted
    /// first (MPI-5 section 7.7.2).
    ///
    /// # Errors
    /// Returns the code of the delete function of the existing value, which then stays.
    pub fn set(&self, held: &LaneGuard, handle: usize, keyval: &Arc<Keyval>, value: usize) -> Result<()> {
        if let Some(present) = self.find(held, keyval) {
            present.delete(handle)?;
        }
        let mut attributes = self.0.borrow_mut(held);
        let new = Attribute { keyval: Arc::clone(keyval), value };
        match attributes.iter_mut().find(|attribute| Arc::ptr_eq(&attribute.keyval, keyval)) {
            Some(attribute) => *attribute = new,
            None => attributes.push(new),
        }
        Ok(())
    }

    /// Deletes an attribute, after its delete function has agreed.
    ///
    /// # Errors
    /// Returns `Keyval` if it is not set, or the code of its delete function; then it stays.
    pub fn delete(&self, held: &LaneGuard, handle: usize, keyval: &Keyval) -> Result<()> {
        let attribute = self.find(held, keyval).ok_or_else(|| {
            let reason = format!("the object has no attribute of key {}", keyval.number);
            Error::new(ErrorClass::Keyval, reason)
        })?;
        attribute.delete(handle)?;
        self.remove(held, &attribute);
        Ok(())
    }

    /// Deletes all attributes in the reverse order of setting (MPI-5 section 11.4.1 requires that for
    /// `MPI_COMM_SELF`).
    ///
    /// # Errors
    /// Returns the code of the first delete function that fails. Its attribute and those set before it
    /// stay.
    pub fn delete_all(&self, held: &LaneGuard, handle: usize) -> Result<()> {
        let attributes = self.0.borrow(held).clone();
        for attribute in attributes.iter().rev() {
            // An earlier callback may have deleted it.
            if self.find(held, &attribute.keyval).is_some_and(|present| present.value == attribute.value) {
                attribute.delete(handle)?;
                self.remove(held, attribute);
            }
        }
        Ok(())
    }

    /// Returns the attributes of a duplicate of the object, in the order in which they were set.
    ///
    /// # Errors
    /// Returns the code of the first copy function that fails. Copies made before it are deleted.
    pub fn duplicate(&self, held: &LaneGuard, handle: usize) -> Result<Attributes> {
        let attributes = self.0.borrow(held).clone();
        let copies = Attributes::new();
        for attribute in &attributes {
            match attribute.copy(handle) {
                Ok(copy) => copies.0.borrow_mut(held).extend(copy),
                Err(error) => {
                    // The program gets the first error only.
                    let _ = copies.delete_all(held, handle);
                    return Err(error);
                }
            }
        }
        Ok(copies)
    }

    /// Moves all attributes of `other` here, the fresh attributes of a duplicate.
    pub fn adopt(&self, held: &LaneGuard, other: Attributes) {
        let taken = std::mem::take(&mut *other.0.borrow_mut(held));
        self.0.borrow_mut(held).extend(taken);
    }

    /// Returns a copy of the attribute with this key, if it is set.
    fn find(&self, held: &LaneGuard, keyval: &Keyval) -> Option<Attribute> {
        self.0.borrow(held).iter().find(|attribute| std::ptr::eq(&*attribute.keyval, keyval)).cloned()
    }

    /// Removes an attribute without calling its delete function.
    fn remove(&self, held: &LaneGuard, gone: &Attribute) {
        self.0.borrow_mut(held).retain(|attribute| !Arc::ptr_eq(&attribute.keyval, &gone.keyval));
    }
}

/// Makes the error for a number that is no key for objects of `kind`.
fn no_keyval(number: i32, kind: ObjectKind) -> Error {
    let reason = match number {
        0 => "argument keyval is MPI_KEYVAL_INVALID".to_string(),
        501..=507 | 601..=605 => {
            format!("argument keyval is {number}, a predefined key that cannot be changed")
        }
        _ => format!("argument keyval is {number}, not a key for attributes of a {kind:?}"),
    };
    Error::new(ErrorClass::Keyval, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::enter;
    use std::sync::Mutex;

    type Log = Arc<Mutex<Vec<String>>>;

    /// Makes a key that logs its callbacks. Copies add one; the value 13 cannot be copied, and 14 cannot be
    /// deleted.
    fn logged(keyvals: &mut Keyvals, log: &Log) -> Arc<Keyval> {
        let (copies, deletes) = (Arc::clone(log), Arc::clone(log));
        let on_copy = OnCopy::Call(Arc::new(move |handle, _, value| {
            copies.lock().unwrap().push(format!("copy {value} of {handle}"));
            if value == 13 { Err(99) } else { Ok(Some(value + 1)) }
        }));
        let on_delete = OnDelete::Call(Arc::new(move |handle, _, value| {
            deletes.lock().unwrap().push(format!("delete {value} of {handle}"));
            if value == 14 { Err(15) } else { Ok(()) }
        }));
        let number = keyvals.create(ObjectKind::Communicator, on_copy, on_delete).unwrap();
        keyvals.find(number, ObjectKind::Communicator).unwrap()
    }

    fn check(log: &Log, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut *log.lock().unwrap()), expected);
    }

    #[test]
    fn callbacks_run_in_order() {
        let (mut keyvals, log, held) = (Keyvals::new(), Log::default(), enter());
        let [a, b] = [(); 2].map(|()| logged(&mut keyvals, &log));
        let object = Attributes::new();
        object.set(&held, 7, &a, 1).unwrap();
        object.set(&held, 7, &b, 2).unwrap();
        object.set(&held, 7, &a, 3).unwrap();
        check(&log, &["delete 1 of 7"]);
        let duplicate = object.duplicate(&held, 7).unwrap();
        check(&log, &["copy 3 of 7", "copy 2 of 7"]);
        assert_eq!((duplicate.get(&held, &a), duplicate.get(&held, &b)), (Some(4), Some(3)));
        duplicate.delete_all(&held, 8).unwrap();
        check(&log, &["delete 3 of 8", "delete 4 of 8"]);
        object.delete(&held, 7, &b).unwrap();
        check(&log, &["delete 2 of 7"]);
        assert_eq!(object.delete(&held, 7, &b).unwrap_err().class, ErrorClass::Keyval);
    }

    #[test]
    fn failing_callbacks_stop_the_operation() {
        let (mut keyvals, log, held) = (Keyvals::new(), Log::default(), enter());
        let [a, b, c] = [(); 3].map(|()| logged(&mut keyvals, &log));
        let object = Attributes::new();
        for (keyval, value) in [(&a, 1), (&b, 13), (&c, 2)] {
            object.set(&held, 7, keyval, value).unwrap();
        }
        assert_eq!(object.duplicate(&held, 7).unwrap_err().code(), 99);
        check(&log, &["copy 1 of 7", "copy 13 of 7", "delete 2 of 7"]);
        object.set(&held, 7, &b, 14).unwrap();
        check(&log, &["delete 13 of 7"]);
        assert_eq!(object.delete_all(&held, 7).unwrap_err().code(), 15);
        check(&log, &["delete 2 of 7", "delete 14 of 7"]);
        assert_eq!([&a, &b, &c].map(|keyval| object.get(&held, keyval)), [Some(1), Some(14), None]);
    }

    #[test]
    fn freed_keys_live_as_long_as_their_attributes() {
        let (mut keyvals, held) = (Keyvals::new(), enter());
        let kind = ObjectKind::Window;
        let number = keyvals.create(kind, OnCopy::Duplicate, OnDelete::Nothing).unwrap();
        let object = Attributes::new();
        object.set(&held, 7, &keyvals.find(number, kind).unwrap(), 5).unwrap();
        assert!(keyvals.free(number, ObjectKind::Datatype).is_err());
        keyvals.free(number, kind).unwrap();
        keyvals.free(number, kind).unwrap();
        let keyval = keyvals.find(number, kind).unwrap();
        assert_eq!(object.get(&held, &keyval), Some(5));
        object.delete(&held, 7, &keyval).unwrap();
        drop(keyval);
        assert_eq!(keyvals.find(number, kind).unwrap_err().class, ErrorClass::Keyval);
        assert_eq!(keyvals.free(number, kind).unwrap_err().class, ErrorClass::Keyval);
        assert_eq!(keyvals.create(kind, OnCopy::Nothing, OnDelete::Nothing).unwrap(), number + 1);
    }

    #[test]
    fn numbers_come_again_at_their_end() {
        let mut keyvals = Keyvals { next: Keyvals::FIRST, ..Keyvals::new() };
        let kind = ObjectKind::Communicator;
        let create =
            |keyvals: &mut Keyvals| keyvals.create(kind, OnCopy::Nothing, OnDelete::Nothing).unwrap();
        assert_eq!([create(&mut keyvals), create(&mut keyvals)], [Keyvals::FIRST, Keyvals::FIRST + 1]);
        keyvals.free(Keyvals::FIRST + 1, kind).unwrap();
        keyvals.next = i32::MAX;
        let again = [(); 3].map(|()| create(&mut keyvals));
        assert_eq!(again, [i32::MAX, Keyvals::FIRST + 1, Keyvals::FIRST + 2], "the first is in use");
    }

    #[test]
    fn callbacks_may_enter_again() {
        static OBJECT: Attributes = Attributes::new();
        let (mut keyvals, held) = (Keyvals::new(), enter());
        let kind = ObjectKind::Communicator;
        let inner = keyvals.create(kind, OnCopy::Nothing, OnDelete::Nothing).unwrap();
        let inner = keyvals.find(inner, kind).unwrap();
        let reached = Arc::clone(&inner);
        let on_delete = OnDelete::Call(Arc::new(move |handle, _, _| {
            OBJECT.delete(&enter(), handle, &reached).map_err(|error| error.code())
        }));
        let outer = keyvals.create(kind, OnCopy::Nothing, on_delete).unwrap();
        let outer = keyvals.find(outer, kind).unwrap();
        OBJECT.set(&held, 7, &inner, 1).unwrap();
        OBJECT.set(&held, 7, &outer, 2).unwrap();
        OBJECT.delete_all(&held, 7).unwrap();
        assert_eq!((OBJECT.get(&held, &inner), OBJECT.get(&held, &outer)), (None, None));
    }
}
