//! Synchronisation calls (MPI-5 section 12.5): fences, general active targets, locks, flushes.

use std::sync::atomic::{Ordering, compiler_fence, fence};

use tutti_base::{Error, ErrorClass, Result, WorldRank};
use tutti_hang::{Kind, Mode, Need};
use tutti_transport::window::turnstile::Kind as LockKind;

use super::polls::Then;
use super::wire::WindowRequestKind;
use super::{Lock, Window};
use crate::collective::WaitContext;
use crate::departed;
use crate::group::Group;
use crate::lanes::LaneGuard;
use crate::needs;
use crate::process::Process;
use crate::progress::{poll, progress, wait_for, wait_until};
use crate::special::PROC_NULL;

/// Assertions of synchronisation calls (MPI-5 section 12.5.5).
pub mod assertion {
    /// No wait is needed, as the other side is known to be ready.
    pub const NOCHECK: i32 = 1024;
    /// No memory was accessed before the fence.
    pub const NOPRECEDE: i32 = 2048;
    /// The memory will not be written by puts.
    pub const NOPUT: i32 = 4096;
    /// The memory was not stored to locally.
    pub const NOSTORE: i32 = 8192;
    /// No memory will be accessed after the fence.
    pub const NOSUCCEED: i32 = 16384;
    /// Sum of all assertions.
    pub const ALL: i32 = NOCHECK | NOPRECEDE | NOPUT | NOSTORE | NOSUCCEED;
}

/// Number of barriers of a window that use messages: enough for the two fences of one epoch.
const MEETINGS: u32 = 2;

fn check_assertion(assert: i32) -> Result<()> {
    if assert & !assertion::ALL == 0 {
        return Ok(());
    }
    let reason =
        format!("argument assert is {assert:#x}, which is no sum of MPI_MODE_* constants for windows");
    Err(Error::new(ErrorClass::Assert, reason))
}

impl Window {
    /// Performs MPI_Win_fence: ends an epoch and begins the next.
    ///
    /// # Errors
    /// `Assert`; `RmaSync` in another epoch; the error of a message.
    pub fn fence(&self, held: &mut LaneGuard, process: &Process, assert: i32) -> Result<()> {
        check_assertion(assert)?;
        self.epochs.borrow(held).fence()?;
        self.flush_messages(held, process, None, "MPI_Win_fence");
        fence(Ordering::SeqCst);
        self.meet(held, process, false)?;
        self.epochs.borrow_mut(held).fenced(assert & assertion::NOSUCCEED == 0);
        Ok(())
    }

    /// Waits until all members have called this function. `is_last` is true when the window is freed. Banks
    /// are created only for a window with more than a few fences.
    pub(super) fn meet(&self, held: &mut LaneGuard, process: &Process, is_last: bool) -> Result<()> {
        let meetings = *self.meetings.borrow(held);
        *self.meetings.borrow_mut(held) = meetings.saturating_add(1);
        if meetings < MEETINGS || is_last && meetings == MEETINGS {
            WaitContext::new(held, process, &self.comm).barrier_by_messages()
        } else {
            WaitContext::new(held, process, &self.comm).barrier()
        }
    }

    /// Performs MPI_Win_post: begins an exposure epoch.
    ///
    /// # Errors
    /// `Assert`, `Group`; `RmaSync` in an exposure epoch.
    pub fn post(&self, held: &mut LaneGuard, process: &Process, group: &Group, assert: i32) -> Result<()> {
        check_assertion(assert)?;
        let origins = self.ranks_of(group)?;
        self.epochs.borrow_mut(held).post(origins.len() as u32)?;
        self.counts.borrow_mut(held).origins.clone_from(&origins);
        fence(Ordering::SeqCst);
        for origin in origins {
            match self.members[origin as usize].station {
                Some(station) => {
                    self.control.posts(station, self.station).count();
                    self.wake(process, station);
                }
                None => self.tell(held, process, origin, WindowRequestKind::Post, false),
            }
        }
        Ok(())
    }

    /// Performs MPI_Win_start: begins an access epoch and waits for the posts of all targets.
    ///
    /// # Errors
    /// `Assert`, `Group`; `RmaSync` in an access epoch.
    pub fn start(&self, held: &mut LaneGuard, process: &Process, group: &Group, assert: i32) -> Result<()> {
        check_assertion(assert)?;
        let targets = self.ranks_of(group)?;
        self.epochs.borrow_mut(held).start(targets.clone())?;
        for target in targets {
            let what = || {
                needs::note(|| needs::of_all(Kind::Post, self.describe(), [self.world(target)]));
                format!("MPI_Win_start of {}: MPI_Win_post by rank {target}", self.describe())
            };
            if !self.is_posted(held, target) {
                let counterpart = process.counterpart(self.world(target));
                let awaited = || vec![self.world(target)];
                wait_for(held, process, counterpart, &what, |held| {
                    let is_over = || self.is_posted(held, target);
                    departed::check_wait(held, process, &what, awaited, is_over);
                    is_over()
                });
            }
            self.take_post(held, target);
        }
        Ok(())
    }

    /// Returns true if the target has posted its memory to this process.
    fn is_posted(&self, held: &LaneGuard, target: u32) -> bool {
        match self.members[target as usize].station {
            Some(station) => {
                let seen = self.counts.borrow(held).posts.get(station as usize).copied().unwrap_or(0);
                self.control.posts(self.station, station).now() != seen
            }
            None => self.remote.borrow(held).posts.get(&target).is_some_and(|posts| *posts > 0),
        }
    }

    /// Counts the post of a target as used.
    fn take_post(&self, held: &LaneGuard, target: u32) {
        match self.members[target as usize].station {
            Some(station) => {
                let posts = &mut self.counts.borrow_mut(held).posts;
                if posts.len() <= station as usize {
                    posts.resize(station as usize + 1, 0);
                }
                posts[station as usize] = posts[station as usize].wrapping_add(1);
            }
            None => *self.remote.borrow_mut(held).posts.entry(target).or_insert(1) -= 1,
        }
    }

    /// Performs MPI_Win_complete: ends an access epoch.
    ///
    /// # Errors
    /// `RmaSync` without MPI_Win_start.
    pub fn complete(&self, held: &mut LaneGuard, process: &Process) -> Result<()> {
        let targets = self.epochs.borrow_mut(held).complete()?;
        self.await_answers(held, process, None, "MPI_Win_complete");
        fence(Ordering::SeqCst);
        for target in targets {
            match self.members[target as usize].station {
                Some(station) => {
                    // Sent operations must be complete before the completion is reported.
                    self.flush_messages(held, process, Some(target), "MPI_Win_complete");
                    self.station_of(station).completed.count();
                    self.wake(process, station);
                }
                None => self.tell(held, process, target, WindowRequestKind::Complete, false),
            }
        }
        Ok(())
    }

    /// Performs MPI_Win_wait: waits for the end of the exposure epoch.
    ///
    /// # Errors
    /// `RmaSync` without MPI_Win_post.
    pub fn wait(&self, held: &mut LaneGuard, process: &Process) -> Result<()> {
        let origins = self.epochs.borrow(held).posted("MPI_Win_wait")?;
        if !self.is_completed(held, origins) {
            let all = self.origins(held);
            let what = || {
                // Some of the origins may have completed already; those that are left are among all of them.
                let need = || needs::of_all(Kind::Complete, self.describe(), all.iter().copied());
                needs::note(|| Need { mode: if all.len() == 1 { Mode::All } else { Mode::Any }, ..need() });
                format!("MPI_Win_wait of {}: MPI_Win_complete by {origins} ranks", self.describe())
            };
            let only_origin = if let [only] = all[..] { Some(only) } else { None };
            let counterpart = only_origin.and_then(|origin| process.counterpart(origin));
            let awaited = || all.clone();
            wait_for(held, process, counterpart, &what, |held| {
                let is_over = || self.is_completed(held, origins);
                departed::check_wait(held, process, &what, awaited, is_over);
                is_over()
            });
        }
        self.unpost(held, origins);
        Ok(())
    }

    /// Performs MPI_Win_test. Returns true if the exposure epoch has ended.
    ///
    /// # Errors
    /// `RmaSync` without MPI_Win_post.
    pub fn test(&self, held: &mut LaneGuard, process: &Process) -> Result<bool> {
        let origins = self.epochs.borrow(held).posted("MPI_Win_test")?;
        if !self.is_completed(held, origins) {
            poll(held, process);
        }
        let over = self.is_completed(held, origins);
        if over {
            self.unpost(held, origins);
        } else if departed::have_left_for_good(held, process, || self.origins(held))
            && !self.is_completed(held, origins)
        {
            let reason = "all ranks that the window is posted to have called MPI_Finalize without \
                          MPI_Win_complete";
            return Err(Error::new(ErrorClass::RmaSync, reason));
        }
        Ok(over)
    }

    /// Returns the ranks of the world to which the own memory is posted.
    fn origins(&self, held: &LaneGuard) -> Vec<WorldRank> {
        self.counts.borrow(held).origins.iter().map(|origin| self.world(*origin)).collect()
    }

    /// Returns true if all `origins` have completed their access epochs.
    fn is_completed(&self, held: &LaneGuard, origins: u32) -> bool {
        let near = self.station_of(self.station).completed.now();
        let far = self.remote.borrow(held).completed;
        near.wrapping_add(far).wrapping_sub(self.counts.borrow(held).completed) >= origins
    }

    /// Ends the exposure epoch, after the puts that origins have left in the log.
    fn unpost(&self, held: &LaneGuard, origins: u32) {
        self.control.take_logged(self.station, |offset, data| self.store_own(offset, data));
        let mut counts = self.counts.borrow_mut(held);
        counts.completed = counts.completed.wrapping_add(origins);
        self.epochs.borrow_mut(held).unpost();
    }

    /// Performs MPI_Win_lock: waits for the lock of a target.
    ///
    /// # Errors
    /// `Assert`, `Rank`; `RmaSync` where it is locked, or in another epoch.
    pub fn lock(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        kind: LockKind,
        rank: i32,
        assert: i32,
    ) -> Result<()> {
        check_assertion(assert)?;
        if rank == PROC_NULL {
            return Ok(());
        }
        let target = self.member(rank, "rank")?;
        self.epochs.borrow(held).may_lock(target)?;
        let lock = self.take_lock(held, process, kind, target, assert);
        self.epochs.borrow_mut(held).locked(target, lock);
        Ok(())
    }

    /// Takes the lock of a target, and waits for it if necessary.
    fn take_lock(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        kind: LockKind,
        target: u32,
        assert: i32,
    ) -> Lock {
        if assert & assertion::NOCHECK != 0 {
            return Lock::Nothing;
        }
        let Some(station) = self.members[target as usize].station else {
            self.lock_by_message(held, process, target, kind);
            return Lock::Message;
        };
        let door = &self.station_of(station).door;
        let ticket = door.ask(kind, self.station);
        if !door.enter(ticket) {
            let holder = || {
                let station = door.sole_holder();
                let member = self.members.iter().position(|member| member.station == station);
                member
                    .filter(|_| station.is_some())
                    .map(|rank| self.world(rank as u32))
                    .into_iter()
                    .collect::<Vec<_>>()
            };
            let what = || {
                needs::note(|| needs::of_all(Kind::Lock, self.describe(), holder()));
                format!("MPI_Win_lock of {}: the lock of rank {target}", self.describe())
            };
            let mut inside = false;
            wait_until(held, process, &what, |held| {
                // A ticket that has entered must not try again.
                inside = inside || door.enter(ticket);
                if !inside {
                    departed::check_wait(held, process, &what, holder, || {
                        inside = door.enter(ticket);
                        inside
                    });
                }
                inside
            });
        }
        if kind == LockKind::Shared {
            self.wake_next(process, station);
        }
        Lock::Ticket(ticket)
    }

    /// Performs MPI_Win_unlock: completes all operations at a target.
    ///
    /// # Errors
    /// `Rank`; `RmaSync` where it is not locked.
    pub fn unlock(&self, held: &mut LaneGuard, process: &Process, rank: i32) -> Result<()> {
        if rank == PROC_NULL {
            return Ok(());
        }
        let target = self.member(rank, "rank")?;
        let lock = self.epochs.borrow_mut(held).unlock(target)?;
        self.give_lock(held, process, target, lock);
        self.await_or_go_on(held, process, Some(target), "MPI_Win_unlock");
        Ok(())
    }

    /// Waits for the replies of a target, or of all targets. Without outstanding replies it continues at
    /// once.
    fn await_or_go_on(&self, held: &mut LaneGuard, process: &Process, target: Option<u32>, what: &str) {
        if self.remote.borrow(held).is_answered(target) {
            self.go_on(held, process);
        } else {
            self.await_answers(held, process, target, what);
        }
    }

    /// Completes the operations at a target and releases its lock. If the target is on another host, its
    /// reply is awaited later.
    fn give_lock(&self, held: &mut LaneGuard, process: &Process, target: u32, lock: Lock) {
        match lock {
            // The target executes messages in order.
            Lock::Message => self.tell(held, process, target, WindowRequestKind::Unlock, true),
            Lock::Nothing => self.flush_messages(held, process, Some(target), "MPI_Win_unlock"),
            Lock::Ticket(ticket) => {
                self.flush_messages(held, process, Some(target), "MPI_Win_unlock");
                if let Some(station) = self.members[target as usize].station {
                    fence(Ordering::SeqCst);
                    self.station_of(station).door.leave(ticket);
                    self.wake_next(process, station);
                }
            }
        }
    }

    /// Performs MPI_Win_lock_all. Targets on other hosts are locked at their first access.
    ///
    /// # Errors
    /// `Assert`; `RmaSync` in another epoch.
    pub fn lock_all(&self, held: &mut LaneGuard, process: &Process, assert: i32) -> Result<()> {
        check_assertion(assert)?;
        self.epochs.borrow_mut(held).lock_all()?;
        for target in 0..self.members.len() as u32 {
            if self.members[target as usize].station.is_some() || assert & assertion::NOCHECK != 0 {
                let lock = self.take_lock(held, process, LockKind::Shared, target, assert);
                self.epochs.borrow_mut(held).locked(target, lock);
            }
        }
        Ok(())
    }

    /// Performs MPI_Win_unlock_all: completes all operations at all targets.
    ///
    /// # Errors
    /// `RmaSync` without MPI_Win_lock_all.
    pub fn unlock_all(&self, held: &mut LaneGuard, process: &Process) -> Result<()> {
        let locks = self.epochs.borrow_mut(held).unlock_all()?;
        for (target, lock) in locks {
            self.give_lock(held, process, target, lock);
        }
        self.await_or_go_on(held, process, None, "MPI_Win_unlock_all");
        Ok(())
    }

    /// Performs MPI_Win_flush, or MPI_Win_flush_all if `rank` is None.
    ///
    /// # Errors
    /// `Rank`; `RmaSync` outside an epoch of MPI_Win_lock or MPI_Win_lock_all.
    #[inline(always)]
    pub fn flush(
        &self,
        held: &mut LaneGuard,
        process: impl FnOnce() -> Result<&'static Process>,
        rank: Option<i32>,
    ) -> Result<()> {
        let Some(target) = self.flushable(held, rank)? else { return Ok(()) };
        if self.remote.borrow(held).is_done(target) {
            match self.polls.next() {
                Then::Return => {}
                next => self.move_messages(held, process()?, next),
            }
        } else {
            self.flush_messages(held, process()?, target, "MPI_Win_flush");
        }
        self.order();
        Ok(())
    }

    /// Orders earlier accesses before later ones.
    #[inline(always)]
    fn order(&self) {
        // On x86 no access overtakes the locked exchange at the end of an accumulate (AMD64 manual, section
        // 7.4.2).
        if cfg!(target_arch = "x86_64") && self.is_ordered.load(Ordering::Relaxed) {
            self.is_ordered.store(false, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Performs MPI_Win_flush_local, or MPI_Win_flush_local_all if `rank` is None.
    ///
    /// # Errors
    /// The same as of [`Window::flush`].
    pub fn flush_local(&self, held: &mut LaneGuard, process: &Process, rank: Option<i32>) -> Result<()> {
        let Some(target) = self.flushable(held, rank)? else { return Ok(()) };
        self.await_or_go_on(held, process, target, "MPI_Win_flush_local");
        Ok(())
    }

    /// Checks a flush. Returns its target (the inner None means all targets), or None for `MPI_PROC_NULL`.
    #[inline(always)]
    fn flushable(&self, held: &LaneGuard, rank: Option<i32>) -> Result<Option<Option<u32>>> {
        let target = match rank {
            Some(PROC_NULL) => return Ok(None),
            Some(rank) => Some(self.member(rank, "rank")?),
            None => None,
        };
        self.epochs.borrow(held).flush(target)?;
        Ok(Some(target))
    }

    /// Performs the next action of a call without anything to await.
    #[inline(always)]
    fn go_on(&self, held: &mut LaneGuard, process: &Process) {
        match self.polls.next() {
            Then::Return => {}
            next => self.move_messages(held, process, next),
        }
    }

    /// Makes progress as `next` requires.
    #[cold]
    fn move_messages(&self, held: &mut LaneGuard, process: &Process, next: Then) {
        match next {
            Then::Return => {}
            Then::Progress => drop(progress(held, process)),
            Then::Look => drop(poll(held, process)),
        }
    }

    /// Performs MPI_Win_sync: orders memory accesses.
    pub fn synchronise(&self, held: &mut LaneGuard, process: &Process) {
        fence(Ordering::SeqCst);
        self.go_on(held, process);
    }

    /// Returns the ranks in the window of the members of a group.
    ///
    /// # Errors
    /// `Group` for a member that is not in the window.
    fn ranks_of(&self, group: &Group) -> Result<Vec<u32>> {
        let rank = |world: tutti_base::WorldRank| {
            self.group().rank_of(world).map(|rank| rank.0).ok_or_else(|| {
                let reason =
                    format!("argument group contains rank {world} of the world, which is not in the window");
                Error::new(ErrorClass::Group, reason)
            })
        };
        group.iter().map(rank).collect()
    }
}
