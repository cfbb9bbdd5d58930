//! Epochs of a window (MPI-5 section 12.5): rules for the accesses and calls that are allowed at each time.
//! This is a pure state machine.
//!
//! A fence may open an epoch or not. As long as no memory was accessed after it, another kind of epoch may
//! begin. `L` is the type of a lock.

use tutti_base::{Error, ErrorClass, Result};

/// Epochs of one process at one window.
#[derive(Debug)]
pub struct Epochs<L> {
    access: Access<L>,
    /// Number of origins to which the memory is posted; None outside exposure epochs.
    posted: Option<u32>,
    /// Allocated memory for locks, kept while there are none.
    spare: Vec<(u32, L)>,
}

/// Access epoch of a process.
#[derive(Debug)]
enum Access<L> {
    None,
    /// Epoch between fences; true if memory was accessed.
    Fence(bool),
    /// Epoch of MPI_Win_start, with its targets.
    Started(Vec<u32>),
    /// Epoch of MPI_Win_lock, with the locked targets.
    Locks(Vec<(u32, L)>),
    /// Epoch of MPI_Win_lock_all, with the targets that are locked so far.
    All(Vec<(u32, L)>),
}

#[cold]
fn wrong(reason: impl Into<String>) -> Error {
    Error::new(ErrorClass::RmaSync, reason.into())
}

impl<L> Default for Epochs<L> {
    fn default() -> Epochs<L> {
        Epochs { access: Access::None, posted: None, spare: Vec::new() }
    }
}

impl<L> Epochs<L> {
    /// Notes an access to the memory of `target`.
    ///
    /// # Errors
    /// `RmaSync` outside an epoch for this target.
    #[inline(always)]
    pub fn access(&mut self, target: u32) -> Result<()> {
        match &mut self.access {
            Access::All(_) => Ok(()),
            Access::Fence(used) => {
                *used = true;
                Ok(())
            }
            _ => self.access_to(target),
        }
    }

    /// Checks an access whose permission depends on the target.
    fn access_to(&self, target: u32) -> Result<()> {
        match &self.access {
            Access::All(_) | Access::Fence(_) => Ok(()),
            Access::Locks(locks) if locks.iter().any(|(rank, _)| *rank == target) => Ok(()),
            Access::Started(targets) if targets.contains(&target) => Ok(()),
            Access::None => Err(wrong(
                "no access epoch is open: call MPI_Win_fence, MPI_Win_start, MPI_Win_lock or MPI_Win_lock_all first",
            )),
            Access::Started(_) => {
                Err(wrong(format!("rank {target} is not in the group that was given to MPI_Win_start")))
            }
            Access::Locks(_) => Err(wrong(format!("rank {target} is not locked"))),
        }
    }

    /// Checks that an operation with a request may start (MPI-5 section 12.3.5).
    ///
    /// # Errors
    /// `RmaSync` outside an epoch of MPI_Win_lock or MPI_Win_lock_all.
    pub fn passive(&self, function: &str) -> Result<()> {
        match &self.access {
            Access::Locks(_) | Access::All(_) => Ok(()),
            _ => Err(wrong(format!("{function} outside an epoch of MPI_Win_lock or MPI_Win_lock_all"))),
        }
    }

    /// Checks that a fence may start.
    ///
    /// # Errors
    /// `RmaSync` inside another kind of epoch.
    pub fn fence(&self) -> Result<()> {
        self.is_free("MPI_Win_fence")?;
        match self.posted {
            None => Ok(()),
            Some(_) => Err(wrong("MPI_Win_fence in an exposure epoch: call MPI_Win_wait first")),
        }
    }

    /// Notes the end of a fence. `succeed` is true if accesses may follow.
    pub fn fenced(&mut self, succeed: bool) {
        self.access = if succeed { Access::Fence(false) } else { Access::None };
    }

    /// Begins an epoch of MPI_Win_start.
    ///
    /// # Errors
    /// `RmaSync` inside an access epoch.
    pub fn start(&mut self, targets: Vec<u32>) -> Result<()> {
        self.may_begin("MPI_Win_start")?;
        self.access = Access::Started(targets);
        Ok(())
    }

    /// Returns true if the access epoch is one of MPI_Win_start.
    #[inline]
    pub fn is_started(&self) -> bool {
        matches!(self.access, Access::Started(_))
    }

    /// Ends an epoch of MPI_Win_start and returns its targets.
    ///
    /// # Errors
    /// `RmaSync` without MPI_Win_start.
    pub fn complete(&mut self) -> Result<Vec<u32>> {
        match std::mem::replace(&mut self.access, Access::None) {
            Access::Started(targets) => Ok(targets),
            other => {
                self.access = other;
                Err(wrong("MPI_Win_complete without MPI_Win_start"))
            }
        }
    }

    /// Begins an exposure epoch for `origins` origins.
    ///
    /// # Errors
    /// `RmaSync` inside an exposure epoch.
    pub fn post(&mut self, origins: u32) -> Result<()> {
        if self.posted.is_some() {
            return Err(wrong("MPI_Win_post in an exposure epoch: call MPI_Win_wait first"));
        }
        if matches!(self.access, Access::Fence(true)) {
            return Err(wrong("MPI_Win_post in an epoch of MPI_Win_fence: call MPI_Win_fence first"));
        }
        self.posted = Some(origins);
        Ok(())
    }

    /// Returns the number of origins to which the memory is posted.
    ///
    /// # Errors
    /// `RmaSync` without MPI_Win_post.
    pub fn posted(&self, function: &str) -> Result<u32> {
        self.posted.ok_or_else(|| wrong(format!("{function} without MPI_Win_post")))
    }

    /// Ends the exposure epoch.
    pub fn unpost(&mut self) {
        self.posted = None;
    }

    /// Checks that this target may be locked.
    ///
    /// # Errors
    /// `RmaSync` if it is locked already, or inside another kind of epoch.
    pub fn may_lock(&self, target: u32) -> Result<()> {
        match &self.access {
            Access::Locks(locks) if locks.iter().any(|(rank, _)| *rank == target) => {
                Err(wrong(format!("rank {target} is locked already: call MPI_Win_unlock first")))
            }
            Access::Locks(_) => Ok(()),
            _ => self.may_begin("MPI_Win_lock"),
        }
    }

    /// Notes that the target is locked.
    pub fn locked(&mut self, target: u32, lock: L) {
        match &mut self.access {
            Access::Locks(locks) | Access::All(locks) => locks.push((target, lock)),
            _ => {
                let mut locks = std::mem::take(&mut self.spare);
                locks.push((target, lock));
                self.access = Access::Locks(locks);
            }
        }
    }

    /// Begins an epoch of MPI_Win_lock_all.
    ///
    /// # Errors
    /// `RmaSync` inside an access epoch.
    pub fn lock_all(&mut self) -> Result<()> {
        self.may_begin("MPI_Win_lock_all")?;
        self.access = Access::All(Vec::new());
        Ok(())
    }

    /// Returns true in an epoch of MPI_Win_lock_all in which this target is not locked yet.
    #[inline]
    pub fn lacks_lock(&self, target: u32) -> bool {
        matches!(&self.access, Access::All(locks) if !locks.iter().any(|(rank, _)| *rank == target))
    }

    /// Ends the lock of a target and returns it.
    ///
    /// # Errors
    /// `RmaSync` if the target is not locked.
    pub fn unlock(&mut self, target: u32) -> Result<L> {
        let Access::Locks(locks) = &mut self.access else {
            return Err(wrong(format!("MPI_Win_unlock of rank {target} without MPI_Win_lock")));
        };
        let place = locks.iter().position(|(rank, _)| *rank == target);
        let place = place.ok_or_else(|| wrong(format!("MPI_Win_unlock: rank {target} is not locked")))?;
        let (_, lock) = locks.swap_remove(place);
        if locks.is_empty() {
            self.spare = std::mem::take(locks);
            self.access = Access::None;
        }
        Ok(lock)
    }

    /// Ends an epoch of MPI_Win_lock_all and returns its locks.
    ///
    /// # Errors
    /// `RmaSync` without MPI_Win_lock_all.
    pub fn unlock_all(&mut self) -> Result<Vec<(u32, L)>> {
        match std::mem::replace(&mut self.access, Access::None) {
            Access::All(locks) => Ok(locks),
            other => {
                self.access = other;
                Err(wrong("MPI_Win_unlock_all without MPI_Win_lock_all"))
            }
        }
    }

    /// Checks that one target, or all of them, may be flushed.
    ///
    /// # Errors
    /// `RmaSync` outside an epoch of MPI_Win_lock or MPI_Win_lock_all.
    #[inline]
    pub fn flush(&self, target: Option<u32>) -> Result<()> {
        match (&self.access, target) {
            (Access::All(_), _) | (Access::Locks(_), None) => Ok(()),
            (Access::Locks(locks), Some(target)) if locks.iter().any(|(rank, _)| *rank == target) => Ok(()),
            _ => Err(wrong("a flush outside an epoch of MPI_Win_lock or MPI_Win_lock_all for its target")),
        }
    }

    /// Checks that the window may be freed.
    ///
    /// # Errors
    /// `RmaSync` inside an epoch.
    pub fn free(&self) -> Result<()> {
        self.is_free("MPI_Win_free")?;
        match self.posted {
            None => Ok(()),
            Some(_) => Err(wrong("MPI_Win_free in an exposure epoch: call MPI_Win_wait first")),
        }
    }

    /// Checks that an access epoch other than that of a fence may begin.
    fn may_begin(&self, function: &str) -> Result<()> {
        match self.access {
            Access::Fence(true) => Err(wrong(format!(
                "{function} in an epoch of MPI_Win_fence in which memory was accessed: call MPI_Win_fence first"
            ))),
            _ => self.is_free(function),
        }
    }

    /// Checks that no access epoch other than that of a fence is open.
    fn is_free(&self, function: &str) -> Result<()> {
        let missing = match self.access {
            Access::None | Access::Fence(_) => return Ok(()),
            Access::Started(_) => "MPI_Win_complete",
            Access::Locks(_) => "MPI_Win_unlock",
            Access::All(_) => "MPI_Win_unlock_all",
        };
        Err(wrong(format!("{function} in an access epoch: call {missing} first")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs calls. The result has `.` for each that is allowed and `!` for each that is refused.
    fn check(calls: &str, expected: &str) {
        let mut epochs: Epochs<()> = Epochs::default();
        let mut out = String::new();
        for call in calls.split_whitespace() {
            let (name, rank) = call.split_once(':').unwrap_or((call, "0"));
            let rank: u32 = rank.parse().unwrap();
            let result = match name {
                "fence" => epochs.fence().map(|()| epochs.fenced(true)),
                "last" => epochs.fence().map(|()| epochs.fenced(false)),
                "start" => epochs.start(vec![rank]),
                "complete" => epochs.complete().map(drop),
                "post" => epochs.post(1),
                "wait" => epochs.posted("MPI_Win_wait").map(|_| epochs.unpost()),
                "lock" => epochs.may_lock(rank).map(|()| epochs.locked(rank, ())),
                "unlock" => epochs.unlock(rank),
                "all" => epochs.lock_all(),
                "none" => epochs.unlock_all().map(drop),
                "flush" => epochs.flush(Some(rank)),
                "free" => epochs.free(),
                _ => epochs.access(rank),
            };
            if let Err(error) = &result {
                assert_eq!(error.class, ErrorClass::RmaSync);
            }
            out.push(if result.is_ok() { '.' } else { '!' });
        }
        assert_eq!(out, expected, "{calls}");
    }

    #[test]
    fn accesses_need_an_epoch() {
        check("put", "!");
        check("fence put fence put last put free", ".....!.");
        check("lock:1 put:1 put:2 unlock:1 put:1", "..!.!");
        check("start:1 put:1 put:0 complete put:1", "..!.!");
        check("all put:0 put:7 none put:7", "....!");
    }

    #[test]
    fn epochs_do_not_mix() {
        check("fence lock:1 unlock:1 fence", "....");
        check("fence put lock:1 start:1 all post fence lock:1", "..!!!!..");
        check("lock:1 lock:1 lock:2 fence all start:0 unlock:2 unlock:2 unlock:1 free", ".!.!!!.!..");
        check("all lock:1 unlock:1 none none", ".!!.!");
        check("post post start:0 fence complete fence wait wait fence", ".!.!.!.!.");
        check("complete wait unlock:0", "!!!");
    }

    #[test]
    fn a_flush_needs_a_lock() {
        check("flush fence flush lock:1 flush:1 flush:2 unlock:1 all flush:2 none", "!.!..!....");
    }

    #[test]
    fn a_window_is_not_freed_in_an_epoch() {
        check("lock:1 free unlock:1 post free wait all free none free", ".!..!..!..");
    }
}
