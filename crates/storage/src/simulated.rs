//! A file in memory that fails at random, determined by a seed, for tests of higher layers. Acknowledged
//! bytes are in the file.

use std::io::{IoSlice, IoSliceMut};
use std::sync::{Mutex, PoisonError};

use tutti_base::{Error, ErrorClass, Result};

use crate::driver::{Driver, Moved};

/// File with simulated failures; see the module.
#[derive(Debug)]
pub struct Simulated {
    state: Mutex<State>,
    /// Capacity of the device in bytes.
    room: u64,
    /// Number of failing accesses of 1000.
    failures: u64,
}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    /// Number of writes of each byte.
    writes: Vec<u32>,
    seed: u64,
}

impl Simulated {
    /// Creates an empty file.
    pub fn new(seed: u64, room: u64, failures: u64) -> Simulated {
        let state = State { bytes: Vec::new(), writes: Vec::new(), seed };
        Simulated { state: Mutex::new(state), room, failures }
    }

    /// Returns the content, and the number of writes of each byte.
    pub fn contents(&self) -> (Vec<u8>, Vec<u32>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.bytes.clone(), state.writes.clone())
    }
}

impl State {
    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below.max(1)
    }

    /// Returns the number of bytes that are moved before a failure, if the access fails.
    fn fails_after(&mut self, bytes: u64, failures: u64) -> Option<u64> {
        (self.draw(1000) < failures).then(|| self.draw(bytes + 1))
    }

    fn grow(&mut self, bytes: u64) {
        let bytes = self.bytes.len().max(bytes as usize);
        self.bytes.resize(bytes, 0);
        self.writes.resize(bytes, 0);
    }
}

fn broken() -> Option<Error> {
    Some(Error::new(ErrorClass::Io, "the device has failed"))
}

impl Driver for Simulated {
    fn read(&self, offset: u64, into: &mut [IoSliceMut<'_>]) -> Moved {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: u64 = into.iter().map(|piece| piece.len() as u64).sum();
        let there = (state.bytes.len() as u64).saturating_sub(offset).min(wanted);
        let fails = state.fails_after(there, self.failures);
        let take = fails.unwrap_or(there);
        let mut at = offset as usize;
        let end = at + take as usize;
        for piece in into {
            let bytes = piece.len().min(end.saturating_sub(at));
            if bytes > 0 {
                piece[..bytes].copy_from_slice(&state.bytes[at..at + bytes]);
            }
            at += bytes;
        }
        Moved { bytes: take, fault: fails.and_then(|_| broken()) }
    }

    fn write(&self, offset: u64, from: &[IoSlice<'_>]) -> Moved {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: u64 = from.iter().map(|piece| piece.len() as u64).sum();
        let fits = self.room.saturating_sub(offset).min(wanted);
        let fails = state.fails_after(fits, self.failures);
        let take = fails.unwrap_or(fits);
        if take > 0 {
            state.grow(offset + take);
        }
        let written = from.iter().flat_map(|piece| piece.iter()).take(take as usize);
        for (at, byte) in (offset as usize..).zip(written) {
            state.bytes[at] = *byte;
            state.writes[at] += 1;
        }
        let full = || Some(Error::new(ErrorClass::NoSpace, "the device is full"));
        let fault = match fails {
            Some(_) => broken(),
            None if fits < wanted => full(),
            None => None,
        };
        Moved { bytes: take, fault }
    }

    fn bytes(&self) -> Result<u64> {
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner).bytes.len() as u64)
    }

    fn resize(&self, bytes: u64) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes.resize(bytes as usize, 0);
        state.writes.resize(bytes as usize, 0);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        if bytes > self.room {
            return Err(Error::new(ErrorClass::NoSpace, "the device is full"));
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).grow(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        "in memory".to_string()
    }
}
