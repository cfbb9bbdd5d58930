//! Locking of the library: at most one thread is inside each *lane*.
//!
//! The threads of a program with `MPI_THREAD_MULTIPLE` mostly use different communicators. So messages are
//! divided into lanes. Each lane has its own rings, matcher, requests and lock. A communicator has its
//! point-to-point messages in one lane if all its members support lanes (see `Communicator::lane`). The first
//! lane also protects everything else: objects, collectives, other hosts. Most calls take its lock.
//!
//! A program with a lower thread level takes no lock: [`enter`] is one load. An exception is a thread of the
//! library itself, which may be started by any call ([`allow_helper`]). Otherwise the first entry of a thread
//! into a lane locks a mutex. Entries from callbacks (user operators, attribute callbacks, error handlers)
//! nest. A thread that waits admits others by [`LaneGuard::relax`]. That function takes the guard mutably, so
//! that no data reached through it are still borrowed.
//!
//! Mutable state is in a [`FirstLaneCell`], for holders of the first lane, or in [`LaneCells`], one for each
//! lane. No borrow may be alive while a user's callback runs, since the callback may enter again.
//!
//! Order of locks: a holder of the first lane may enter another lane and wait for it. A holder of another
//! lane only tries ([`try_enter`]). So no two threads wait for each other.
//!
//! # Safety
//! `FirstLaneCell` and `LaneCells` are `Sync` though their `RefCell`s are not. A borrow counter is touched
//! only by the thread that holds the lane, which each borrow checks. Below `MPI_THREAD_MULTIPLE` only one
//! thread calls, as MPI-5 section 11.6 requires of the program. `LaneGuard` is neither `Send` nor `Sync`, and
//! borrows end before it does. A lock's guard is touched only by the thread that has locked it.
#![allow(unsafe_code)]

use std::cell::{Cell, Ref, RefCell, RefMut, UnsafeCell};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use tutti_base::config::MAX_LANES;

/// Number of a lane; below [`count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(u8);

/// Lock of one lane, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Lock {
    mutex: Mutex<()>,
    /// Guard of the mutex while it is locked. It is here so that a [`LaneGuard`] has few bytes and stays in
    /// registers.
    guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    owner: AtomicUsize,
    waiters: AtomicUsize,
}

// SAFETY: see the module's Safety section.
unsafe impl Sync for Lock {}

static LOCKS: [Lock; MAX_LANES as usize] = [const { Lock::new() }; MAX_LANES as usize];
/// Number of lanes if several threads may be inside, otherwise 0.
static LANES: AtomicU32 = AtomicU32::new(0);

/// True if more than one thread may wait at a time.
static SEVERAL_WAIT: AtomicBool = AtomicBool::new(false);

/// Number of threads in a wait that has become long.
static WAITING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static MARK: u8 = const { 0 };
    /// Lanes in which this thread has started operations, one bit each.
    static ENGAGED: Engaged = const { Engaged(Cell::new(0)) };
}

/// Lanes with operations of threads that have ended, one bit each. The next wait of any thread progresses
/// them.
static LEFT: AtomicU32 = AtomicU32::new(0);

/// Lanes of a thread, which are passed to the others when it ends: a buffered send may still be active then.
struct Engaged(Cell<u32>);

impl Drop for Engaged {
    fn drop(&mut self) {
        LEFT.fetch_or(self.0.get(), Ordering::Relaxed);
    }
}

/// Proof that this thread is inside a lane.
#[derive(Debug)]
pub struct LaneGuard {
    lane: Lane,
    /// True if this entry has locked the lane, false for a nested entry.
    locks: bool,
    not_send: PhantomData<*const ()>,
}

/// Guard that counts this thread as waiting.
#[derive(Debug)]
pub struct Waits(());

/// Proof that this thread is inside a lane, which may differ from that of the original [`LaneGuard`].
#[derive(Debug)]
pub enum InLane<'a> {
    /// Same lane as that of the original guard.
    Same(&'a LaneGuard),
    /// Second lane, entered for the lifetime of this value.
    Other(LaneGuard),
}

/// State that only the holder of the first lane can access.
#[derive(Debug, Default)]
pub struct FirstLaneCell<T>(RefCell<T>);

/// State that exists once in each lane.
#[derive(Debug)]
pub struct LaneCells<T> {
    first: RefCell<T>,
    further: Box<[RefCell<T>]>,
}

// SAFETY: see the module's Safety section.
unsafe impl<T: Send> Sync for FirstLaneCell<T> {}
// SAFETY: see the module's Safety section.
unsafe impl<T: Send> Sync for LaneCells<T> {}

/// Allows several threads to call MPI at the same time (`MPI_THREAD_MULTIPLE`), in `lanes` lanes. It must be
/// called before a second thread can be inside.
pub fn allow_threads(lanes: u32) {
    tutti_base::traffic::share();
    SEVERAL_WAIT.store(true, Ordering::Relaxed);
    LANES.store(lanes.clamp(1, MAX_LANES), Ordering::Relaxed);
}

/// Allows a thread of the library itself to be inside, which never waits there. It must be called while no
/// MPI call is active.
pub fn allow_helper() {
    if !threads_allowed() {
        tutti_base::traffic::share();
        LANES.store(1, Ordering::Relaxed);
    }
}

/// Returns true if several threads may wait at the same time.
#[inline]
pub fn several_wait() -> bool {
    SEVERAL_WAIT.load(Ordering::Relaxed)
}

/// Returns true if several threads may be inside the library at the same time.
#[inline]
pub fn threads_allowed() -> bool {
    LANES.load(Ordering::Relaxed) != 0
}

/// Returns the number of lanes in use.
#[inline]
pub fn count() -> u32 {
    LANES.load(Ordering::Relaxed).max(1)
}

/// Counts this thread as waiting until the result is dropped.
pub fn wait() -> Option<Waits> {
    threads_allowed().then(|| {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Waits(())
    })
}

/// Returns the number of waiting threads of this process. Each needs a processor to poll.
#[inline]
pub fn waiting() -> u32 {
    WAITING.load(Ordering::Relaxed)
}

/// Enters the first lane. Nested entries of one thread do not block.
#[inline]
pub fn enter() -> LaneGuard {
    enter_lane(Lane::FIRST)
}

/// Enters while only one thread exists: without lock or lanes. The caller has checked [`threads_allowed`].
#[inline(always)]
pub fn enter_alone() -> LaneGuard {
    LaneGuard { lane: Lane::FIRST, locks: false, not_send: PhantomData }
}

/// Enters a lane. The caller must not be inside another lane than the first.
#[inline]
pub fn enter_lane(lane: Lane) -> LaneGuard {
    LaneGuard { lane, locks: threads_allowed() && lock(lane), not_send: PhantomData }
}

/// Enters a lane if no other thread is inside.
pub fn try_enter(lane: Lane) -> Option<LaneGuard> {
    let lock = &LOCKS[lane.index()];
    lock.keep(lock.try_lock()?, me());
    Some(LaneGuard { lane, locks: true, not_send: PhantomData })
}

/// Notes that this thread has started an operation in a lane. Its waits then progress that lane too.
#[inline]
pub fn engage(lane: Lane) {
    if threads_allowed() {
        change_engaged(|lanes| lanes | 1 << lane.0);
    }
}

/// Notes that this thread has no more operations in a lane.
pub fn disengage(lane: Lane) {
    change_engaged(|lanes| lanes & !(1 << lane.0));
}

/// Returns the lanes for which this thread, or a thread that has ended, has called [`engage`].
pub fn engaged() -> impl Iterator<Item = Lane> {
    let left = if LEFT.load(Ordering::Relaxed) == 0 { 0 } else { LEFT.swap(0, Ordering::Relaxed) };
    let lanes = change_engaged(|lanes| lanes | left);
    (0..MAX_LANES as u8).filter(move |lane| lanes >> lane & 1 != 0).map(Lane)
}

/// Changes the lanes of this thread and returns the new ones. A thread that is ending (whose destructors call
/// MPI) passes them to the others.
#[inline]
fn change_engaged(change: impl Fn(u32) -> u32) -> u32 {
    let changed = ENGAGED.try_with(|engaged| {
        engaged.0.set(change(engaged.0.get()));
        engaged.0.get()
    });
    changed.unwrap_or_else(|_| {
        let left = change(0);
        LEFT.fetch_or(left, Ordering::Relaxed);
        left
    })
}

impl Lane {
    /// First lane, which always exists.
    pub const FIRST: Lane = Lane(0);

    /// Returns the lane with this number, if it is in use.
    #[inline]
    pub fn new(number: u32) -> Option<Lane> {
        (number < count()).then_some(Lane(number as u8))
    }

    /// Returns the lane with this [`Lane::number`], which must exist.
    #[inline]
    pub(crate) fn numbered(number: u32) -> Lane {
        Lane(number as u8)
    }

    /// Returns the number of the lane.
    #[inline]
    pub fn number(self) -> u32 {
        self.0.into()
    }

    /// Returns true for the first lane.
    #[inline]
    pub fn is_first(self) -> bool {
        self.0 == 0
    }

    fn index(self) -> usize {
        self.0.into()
    }
}

impl Lock {
    const fn new() -> Lock {
        Lock {
            mutex: Mutex::new(()),
            guard: UnsafeCell::new(None),
            owner: AtomicUsize::new(0),
            waiters: AtomicUsize::new(0),
        }
    }

    /// Locks the mutex if it is free.
    fn try_lock(&'static self) -> Option<MutexGuard<'static, ()>> {
        match self.mutex.try_lock() {
            Ok(guard) => Some(guard),
            // A panic aborts the process. So poison appears only in tests and has no meaning for the state.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Stores the guard of the calling thread until [`Lock::give_back`].
    fn keep(&'static self, guard: MutexGuard<'static, ()>, me: usize) {
        // SAFETY: this thread has locked it, as the guard shows.
        unsafe { *self.guard.get() = Some(guard) };
        self.owner.store(me, Ordering::Relaxed);
    }

    /// Unlocks the mutex. The calling thread must hold it.
    fn give_back(&'static self) {
        // SAFETY: a `LaneGuard` says that this thread has locked it; the guard is out of the cell before it
        // unlocks.
        let guard = unsafe { (*self.guard.get()).take() };
        // Release: see `lock_taken`.
        self.owner.store(0, Ordering::Release);
        drop(guard);
    }
}

impl LaneGuard {
    /// Returns the lane of this guard.
    #[inline]
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Enters `lane` if it is another one. Returns None otherwise.
    ///
    /// # Panics
    /// If this lane is not the first and `lane` differs from it, which is a bug (see the order of locks).
    #[inline(always)]
    pub fn other_lane(&self, lane: Lane) -> Option<LaneGuard> {
        (lane != self.lane).then(|| self.enter_other(lane))
    }

    #[cold]
    fn enter_other(&self, lane: Lane) -> LaneGuard {
        assert!(self.lane.is_first(), "from lane {} into lane {}", self.lane.0, lane.0);
        enter_lane(lane)
    }

    /// Enters `lane` for the lifetime of the result, if it is another one.
    ///
    /// # Panics
    /// The same as of [`LaneGuard::other_lane`].
    pub fn in_lane(&self, lane: Lane) -> InLane<'_> {
        self.other_lane(lane).map_or(InLane::Same(self), InLane::Other)
    }

    /// Leaves this lane for another one. Inside a callback of this thread the old lane remains locked.
    pub fn move_to(&mut self, lane: Lane) {
        self.unlock();
        *self = enter_lane(lane);
    }

    /// Returns true if another thread waits for this lane and can get it.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.locks && LOCKS[self.lane.index()].waiters.load(Ordering::Relaxed) > 0
    }

    /// Admits waiting threads and enters again. Does nothing inside a callback.
    #[inline]
    pub fn relax(&mut self) {
        if self.is_wanted() {
            self.release_while(std::thread::yield_now);
        }
    }

    /// Locks the lane if it was entered before threads were allowed.
    pub fn secure(&mut self) {
        self.locks = self.locks || threads_allowed() && lock(self.lane);
    }

    /// Runs `sleep` without the lock and takes it again. A nested entry keeps the lock.
    pub fn release_while<R>(&mut self, sleep: impl FnOnce() -> R) -> R {
        if !self.locks {
            return sleep();
        }
        self.unlock();
        let result = sleep();
        self.locks = lock(self.lane);
        result
    }

    fn unlock(&mut self) {
        if std::mem::take(&mut self.locks) {
            LOCKS[self.lane.index()].give_back();
        }
    }
}

impl Drop for LaneGuard {
    #[inline]
    fn drop(&mut self) {
        if self.locks {
            self.unlock();
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Deref for InLane<'_> {
    type Target = LaneGuard;

    #[inline]
    fn deref(&self) -> &LaneGuard {
        match self {
            InLane::Same(held) => held,
            InLane::Other(held) => held,
        }
    }
}

impl<T> FirstLaneCell<T> {
    /// Wraps a value that the first lane protects.
    pub const fn new(value: T) -> FirstLaneCell<T> {
        FirstLaneCell(RefCell::new(value))
    }

    /// Returns the value, which is no longer shared.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// Borrows the value for reading. The borrow ends before the guard does.
    ///
    /// # Panics
    /// If the value is borrowed mutably, or another lane is held: a bug (a callback ran under a borrow).
    #[inline(always)]
    pub fn borrow<'a>(&'a self, held: &'a LaneGuard) -> Ref<'a, T> {
        assert!(held.lane.is_first(), "what lies in the first lane");
        self.0.borrow()
    }

    /// Borrows the value for writing. The borrow ends before the guard does.
    ///
    /// # Panics
    /// If the value is borrowed, or another lane is held: a bug (a callback ran under a borrow).
    #[inline(always)]
    pub fn borrow_mut<'a>(&'a self, held: &'a LaneGuard) -> RefMut<'a, T> {
        assert!(held.lane.is_first(), "what lies in the first lane");
        self.0.borrow_mut()
    }
}

impl<T> LaneCells<T> {
    /// Returns cells with the state of the first lane, and those of all other lanes in use.
    pub fn new(first: T, further: impl IntoIterator<Item = T>) -> LaneCells<T> {
        LaneCells { first: RefCell::new(first), further: further.into_iter().map(RefCell::new).collect() }
    }

    /// Borrows the state of the held lane for reading. The borrow ends before the guard does.
    ///
    /// # Panics
    /// The same as of [`FirstLaneCell::borrow`].
    #[inline(always)]
    pub fn borrow<'a>(&'a self, held: &'a LaneGuard) -> Ref<'a, T> {
        self.cell(held).borrow()
    }

    /// Borrows the state of the held lane for writing. The borrow ends before the guard does.
    ///
    /// # Panics
    /// The same as of [`FirstLaneCell::borrow_mut`].
    #[inline(always)]
    pub fn borrow_mut<'a>(&'a self, held: &'a LaneGuard) -> RefMut<'a, T> {
        self.cell(held).borrow_mut()
    }

    /// Returns all lanes that have state.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + use<T> {
        (0..=self.further.len() as u8).map(Lane)
    }

    #[inline(always)]
    fn cell(&self, held: &LaneGuard) -> &RefCell<T> {
        if held.lane.is_first() { &self.first } else { &self.further[held.lane.index() - 1] }
    }
}

/// Returns a number that identifies this thread.
fn me() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

/// Locks a lane. Returns false if this thread holds it already.
fn lock(lane: Lane) -> bool {
    let (lock, me) = (&LOCKS[lane.index()], me());
    let is_new = lock.owner.load(Ordering::Relaxed) != me;
    if is_new {
        lock.keep(lock.try_lock().unwrap_or_else(|| lock_taken(lock)), me);
    }
    is_new
}

/// Waits for a lock that another thread holds.
#[cold]
fn lock_taken(Lock { mutex, waiters, owner, .. }: &'static Lock) -> MutexGuard<'static, ()> {
    waiters.fetch_add(1, Ordering::Relaxed);
    let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    waiters.fetch_sub(1, Ordering::Relaxed);
    // The mutex orders all of this already. A thread sanitizer does not see the slow path of the standard
    // library and needs this load.
    owner.load(Ordering::Acquire);
    guard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_in_each_lane_and_entries_nest() {
        allow_threads(3);
        let counts = LaneCells::new(0u64, [0, 0]);
        static OF_FIRST: FirstLaneCell<u64> = FirstLaneCell::new(0);
        std::thread::scope(|scope| {
            for thread in 0..6u8 {
                let counts = &counts;
                scope.spawn(move || {
                    let lane = Lane(thread % 3);
                    for _ in 0..1000 {
                        let mut outer = enter_lane(lane);
                        let inner = enter_lane(lane);
                        *counts.borrow_mut(&inner) += 1;
                        drop(inner);
                        outer.relax();
                        drop(outer);
                        let first = enter();
                        *OF_FIRST.borrow_mut(&first) += 1;
                        *counts.borrow_mut(&first.in_lane(lane)) += 1;
                    }
                });
            }
        });
        let first = enter();
        assert_eq!(*OF_FIRST.borrow(&first), 6000);
        for lane in counts.lanes() {
            assert_eq!(*counts.borrow(&first.in_lane(lane)), 4000);
        }
        assert!(Lane::new(3).is_none() && try_enter(Lane::FIRST).is_none());
        drop(first);
        assert!(try_enter(Lane(2)).is_some());
    }

    #[test]
    fn a_thread_notes_where_it_has_started_something() {
        allow_threads(3);
        // Other tests' threads may leave lanes to this one.
        let has = |lane| engaged().any(|one| one == lane);
        engage(Lane(2));
        engage(Lane::FIRST);
        assert!(has(Lane(0)) && has(Lane(2)));
        disengage(Lane(2));
        assert!(has(Lane(0)));
    }

    #[test]
    fn a_thread_that_ends_leaves_its_lanes_to_the_others() {
        allow_threads(3);
        // Another test may look in between.
        let is_left = || {
            std::thread::spawn(|| engage(Lane(1))).join().unwrap();
            engaged().any(|one| one == Lane(1))
        };
        assert!((0..100).any(|_| is_left()));
    }
}
