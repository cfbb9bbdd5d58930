//! Handles of the tool information interface (MPI-5 section 15.3): numbers, by which stale ones are
//! recognised.

use std::ffi::c_int;

use tutti_base::{Error, Result};

use crate::generated::constants::MPI_T_ERR_OUT_OF_HANDLES;
use crate::types::Opaque;

/// Objects behind handles of one kind: the kind, a generation and a place.
#[derive(Debug)]
pub struct Slots<T> {
    kind: usize,
    places: Vec<(usize, Option<T>)>,
}

/// Bits of a handle for the place, and for the generation.
const PLACE_BITS: u32 = 20;
const GENERATION_BITS: u32 = 32;

impl<T> Slots<T> {
    /// Creates a table without objects for handles of `kind`.
    pub const fn new(kind: usize) -> Slots<T> {
        Slots { kind, places: Vec::new() }
    }

    /// Stores an object; its handle.
    pub fn insert(&mut self, object: T) -> Result<usize> {
        let place = match self.places.iter().position(|(_, held)| held.is_none()) {
            Some(place) => place,
            None if self.places.len() < 1 << PLACE_BITS => {
                self.places.push((0, None));
                self.places.len() - 1
            }
            None => return Err(refuse(MPI_T_ERR_OUT_OF_HANDLES, "a million handles are in use")),
        };
        let (generation, held) = &mut self.places[place];
        *generation = (*generation + 1) % (1 << GENERATION_BITS);
        *held = Some(object);
        Ok(self.bits(place))
    }

    fn bits(&self, place: usize) -> usize {
        (self.kind << GENERATION_BITS | self.places[place].0) << PLACE_BITS | place
    }

    fn place(&self, bits: usize) -> Option<usize> {
        let place = bits & ((1 << PLACE_BITS) - 1);
        (place < self.places.len() && self.bits(place) == bits).then_some(place)
    }

    /// Returns the object behind a handle.
    pub fn get(&mut self, bits: usize) -> Option<&mut T> {
        let place = self.place(bits)?;
        self.places[place].1.as_mut()
    }

    /// Takes the object behind a handle.
    pub fn remove(&mut self, bits: usize) -> Option<T> {
        let place = self.place(bits)?;
        self.places[place].1.take()
    }

    /// Removes all objects for which `keep` returns false.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.places
            .iter_mut()
            .filter(|(_, held)| held.as_ref().is_some_and(|one| !keep(one)))
            .for_each(|(_, held)| *held = None);
    }

    /// Returns all objects with a valid handle.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|(_, held)| held.as_mut())
    }

    /// Returns the handles in use.
    pub fn all(&self) -> Vec<usize> {
        let used = self.places.iter().enumerate().filter(|(_, (_, held))| held.is_some());
        used.map(|(place, _)| self.bits(place)).collect()
    }
}

/// Returns an error of the tool interface.
#[cold]
pub fn refuse(code: c_int, why: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::with_code(code, why)
}

/// Returns a handle as the program holds it.
pub fn pointer(bits: usize) -> *mut Opaque {
    bits as *mut Opaque
}
