//! Who is inside the library: at most one thread in each lane.
//!
//! What threads do that ask for `MPI_THREAD_MULTIPLE` mostly concerns different communicators. So messages
//! are divided into *lanes*: each has its own rings, matcher, requests and lock, and a communicator whose
//! members all speak in lanes has its point-to-point messages in one of them (see `Communicator::lane`). The
//! first lane is also the place of everything else (objects, collectives, other hosts): its lock is the one
//! that most calls take.
//!
//! A program that asked for less than `MPI_THREAD_MULTIPLE` takes no lock: [`enter`] is one load. (Unless the
//! library has a thread of its own, perhaps from some call on: [`allow_helper`].) Otherwise
//! the first entry of a thread into a lane locks a mutex; entries from callbacks (user operators, attribute
//! callbacks, error handlers) nest. A thread that waits lets others in by [`LaneGuard::relax`], which takes
//! the token mutably so that nothing reached through it is still borrowed.
//!
//! Mutable state sits in a [`FirstLaneCell`], which opens for who holds the first lane, or in [`LaneCells`],
//! of which the one opens whose lane is held. Rule: no borrow is alive while a user's callback runs, since
//! the callback may enter again.
//!
//! Order of locks: who holds the first lane may enter another one and wait for it; who holds another one only
//! tries ([`try_enter`]). So no two threads wait for each other.
//!
//! # Safety
//! `FirstLaneCell` and `LaneCells` are `Sync` though their `RefCell`s are not: a borrow counter is touched
//! only by the thread that holds the lane, which each borrow checks (or by the only thread, below
//! `MPI_THREAD_MULTIPLE`, as MPI-5 section 11.6 demands of the program). `LaneGuard` is neither `Send` nor
//! `Sync` and borrows end before it does. A lock's guard is touched only by the thread that has locked it.
#![allow(unsafe_code)]

use std::cell::{Cell, Ref, RefCell, RefMut, UnsafeCell};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use tutti_base::config::MAX_LANES;

/// A lane; below [`count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(u8);

/// One lock, away from the cache lines of the others.
#[derive(Debug)]
#[repr(align(128))]
struct Lock {
    mutex: Mutex<()>,
    /// While it is locked: what gives it back. Here, since a [`LaneGuard`] of a few bytes stays in registers.
    guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    owner: AtomicUsize,
    waiters: AtomicUsize,
}

// SAFETY: see the module's Safety section.
unsafe impl Sync for Lock {}

static LOCKS: [Lock; MAX_LANES as usize] = [const { Lock::new() }; MAX_LANES as usize];
/// Lanes if several threads may be inside, otherwise 0.
static LANES: AtomicU32 = AtomicU32::new(0);

/// Whether it may be more than one thread that waits.
static SEVERAL_WAIT: AtomicBool = AtomicBool::new(false);

/// Threads that are in a wait which has become long.
static WAITING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static MARK: u8 = const { 0 };
    /// Bit by bit the lanes in which this thread has started something.
    static ENGAGED: Engaged = const { Engaged(Cell::new(0)) };
}

/// Bit by bit the lanes in which a thread that has ended had started something: who waits next moves them.
static LEFT: AtomicU32 = AtomicU32::new(0);

/// Lanes of a thread, left to the others when it ends: a buffered send may still be under way then.
struct Engaged(Cell<u32>);

impl Drop for Engaged {
    fn drop(&mut self) {
        LEFT.fetch_or(self.0.get(), Ordering::Relaxed);
    }
}

/// Proof that this thread is the one inside a lane.
#[derive(Debug)]
pub struct LaneGuard {
    lane: Lane,
    /// Whether it was this entry that locked the lane, not one around it.
    locks: bool,
    not_send: PhantomData<*const ()>,
}

/// A thread's wait, as long as it lives.
#[derive(Debug)]
pub struct Waits(());

/// Proof that this thread is inside a lane which perhaps is not that of the [`LaneGuard`] it comes from.
#[derive(Debug)]
pub enum InLane<'a> {
    /// The same.
    Same(&'a LaneGuard),
    /// Another one, entered for as long as this lives.
    Other(LaneGuard),
}

/// State that only the holder of the first lane can reach.
#[derive(Debug, Default)]
pub struct FirstLaneCell<T>(RefCell<T>);

/// State of which there is one in each lane.
#[derive(Debug)]
pub struct LaneCells<T> {
    first: RefCell<T>,
    further: Box<[RefCell<T>]>,
}

// SAFETY: see the module's Safety section.
unsafe impl<T: Send> Sync for FirstLaneCell<T> {}
// SAFETY: see the module's Safety section.
unsafe impl<T: Send> Sync for LaneCells<T> {}

/// Says that several threads may call MPI at the same time from now on (`MPI_THREAD_MULTIPLE`), in so many
/// lanes. Called before a second thread can be inside.
pub fn allow_threads(lanes: u32) {
    tutti_base::traffic::share();
    SEVERAL_WAIT.store(true, Ordering::Relaxed);
    LANES.store(lanes.clamp(1, MAX_LANES), Ordering::Relaxed);
}

/// Says that a thread of the library's own may be inside at the same time, which never waits there. Called
/// while no call is under way.
pub fn allow_helper() {
    if !threads_allowed() {
        tutti_base::traffic::share();
        LANES.store(1, Ordering::Relaxed);
    }
}

/// Whether several threads may wait at the same time.
#[inline]
pub fn several_wait() -> bool {
    SEVERAL_WAIT.load(Ordering::Relaxed)
}

/// Whether several threads may call MPI at the same time.
#[inline]
pub fn threads_allowed() -> bool {
    LANES.load(Ordering::Relaxed) != 0
}

/// Lanes that threads may be in.
#[inline]
pub fn count() -> u32 {
    LANES.load(Ordering::Relaxed).max(1)
}

/// Counts this thread among those that wait.
pub fn wait() -> Option<Waits> {
    threads_allowed().then(|| {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Waits(())
    })
}

/// Threads of this process that wait: each wants a processor, to look.
#[inline]
pub fn waiting() -> u32 {
    WAITING.load(Ordering::Relaxed)
}

/// Enters the first lane; nested entries of one thread do not block.
#[inline]
pub fn enter() -> LaneGuard {
    enter_lane(Lane::FIRST)
}

/// Enters where there is one thread at a time: no lock, no lanes. For who has asked [`threads_allowed`].
#[inline(always)]
pub fn enter_alone() -> LaneGuard {
    LaneGuard { lane: Lane::FIRST, locks: false, not_send: PhantomData }
}

/// Enters a lane. Not for who is inside another one than the first.
#[inline]
pub fn enter_lane(lane: Lane) -> LaneGuard {
    LaneGuard { lane, locks: threads_allowed() && lock(lane), not_send: PhantomData }
}

/// Enters a lane in which nobody is.
pub fn try_enter(lane: Lane) -> Option<LaneGuard> {
    let lock = &LOCKS[lane.index()];
    lock.keep(lock.try_lock()?, me());
    Some(LaneGuard { lane, locks: true, not_send: PhantomData })
}

/// Notes that this thread has started something in a lane: its waits move that lane too.
#[inline]
pub fn engage(lane: Lane) {
    if threads_allowed() {
        change_engaged(|lanes| lanes | 1 << lane.0);
    }
}

/// Notes that nothing is left of what this thread has started in a lane.
pub fn disengage(lane: Lane) {
    change_engaged(|lanes| lanes & !(1 << lane.0));
}

/// The lanes that [`engage`] was called for by this thread, or by threads that have ended.
pub fn engaged() -> impl Iterator<Item = Lane> {
    let left = if LEFT.load(Ordering::Relaxed) == 0 { 0 } else { LEFT.swap(0, Ordering::Relaxed) };
    let lanes = change_engaged(|lanes| lanes | left);
    (0..MAX_LANES as u8).filter(move |lane| lanes >> lane & 1 != 0).map(Lane)
}

/// The lanes of this thread afterwards. A thread that is ending (whose destructors call MPI) has none of its
/// own any more.
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
    /// The one that is always there.
    pub const FIRST: Lane = Lane(0);

    /// The lane with this number, if there is one.
    #[inline]
    pub fn new(number: u32) -> Option<Lane> {
        (number < count()).then_some(Lane(number as u8))
    }

    /// The lane whose [`Lane::number`] this is.
    #[inline]
    pub(crate) fn numbered(number: u32) -> Lane {
        Lane(number as u8)
    }

    /// Its number.
    #[inline]
    pub fn number(self) -> u32 {
        self.0.into()
    }

    /// Whether it is the first.
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

    /// Locks it unless it is locked.
    fn try_lock(&'static self) -> Option<MutexGuard<'static, ()>> {
        match self.mutex.try_lock() {
            Ok(guard) => Some(guard),
            // A panic aborts the process, so poison only appears in tests and says nothing about the state.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// It is locked by the calling thread, until [`Lock::give_back`].
    fn keep(&'static self, guard: MutexGuard<'static, ()>, me: usize) {
        // SAFETY: this thread has locked it, as the guard shows.
        unsafe { *self.guard.get() = Some(guard) };
        self.owner.store(me, Ordering::Relaxed);
    }

    /// Unlocks it. For who has it.
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
    /// Where this thread is.
    #[inline]
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Enters `lane` if that is another one.
    ///
    /// # Panics
    /// If neither of the two is the one held nor the first is: a bug (see the order of locks).
    #[inline(always)]
    pub fn other_lane(&self, lane: Lane) -> Option<LaneGuard> {
        (lane != self.lane).then(|| self.enter_other(lane))
    }

    #[cold]
    fn enter_other(&self, lane: Lane) -> LaneGuard {
        assert!(self.lane.is_first(), "from lane {} into lane {}", self.lane.0, lane.0);
        enter_lane(lane)
    }

    /// Enters `lane` if that is another one, for as long as the result lives.
    ///
    /// # Panics
    /// As [`LaneGuard::other_lane`].
    pub fn in_lane(&self, lane: Lane) -> InLane<'_> {
        self.other_lane(lane).map_or(InLane::Same(self), InLane::Other)
    }

    /// Leaves this lane for another one. Does nothing but change the lane inside a callback of this thread in
    /// it.
    pub fn move_to(&mut self, lane: Lane) {
        self.unlock();
        *self = enter_lane(lane);
    }

    /// Whether another thread waits for this lane, and could have it.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.locks && LOCKS[self.lane.index()].waiters.load(Ordering::Relaxed) > 0
    }

    /// Lets other threads in, if any waits, and comes back. Does nothing inside a callback.
    #[inline]
    pub fn relax(&mut self) {
        if self.is_wanted() {
            self.release_while(std::thread::yield_now);
        }
    }

    /// Locks the lane, if it was entered before threads were allowed.
    pub fn secure(&mut self) {
        self.locks = self.locks || threads_allowed() && lock(self.lane);
    }

    /// Runs `sleep` without the lock (unless this is a nested entry) and takes it again.
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
    /// Wraps a value.
    pub const fn new(value: T) -> FirstLaneCell<T> {
        FirstLaneCell(RefCell::new(value))
    }

    /// Unwraps the value, which nobody shares any more.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// Reads. The borrow ends before the token does.
    ///
    /// # Panics
    /// If the value is borrowed mutably, or another lane is held: a bug (a callback ran under a borrow).
    #[inline(always)]
    pub fn borrow<'a>(&'a self, held: &'a LaneGuard) -> Ref<'a, T> {
        assert!(held.lane.is_first(), "what lies in the first lane");
        self.0.borrow()
    }

    /// Reads and writes. The borrow ends before the token does.
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
    /// The state of the first lane, and those of the others: as many as threads may be in.
    pub fn new(first: T, further: impl IntoIterator<Item = T>) -> LaneCells<T> {
        LaneCells { first: RefCell::new(first), further: further.into_iter().map(RefCell::new).collect() }
    }

    /// Reads the state of the lane that is held. The borrow ends before the token does.
    ///
    /// # Panics
    /// As [`FirstLaneCell::borrow`].
    #[inline(always)]
    pub fn borrow<'a>(&'a self, held: &'a LaneGuard) -> Ref<'a, T> {
        self.cell(held).borrow()
    }

    /// Reads and writes the state of the lane that is held. The borrow ends before the token does.
    ///
    /// # Panics
    /// As [`FirstLaneCell::borrow_mut`].
    #[inline(always)]
    pub fn borrow_mut<'a>(&'a self, held: &'a LaneGuard) -> RefMut<'a, T> {
        self.cell(held).borrow_mut()
    }

    /// The lanes.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + use<T> {
        (0..=self.further.len() as u8).map(Lane)
    }

    #[inline(always)]
    fn cell(&self, held: &LaneGuard) -> &RefCell<T> {
        if held.lane.is_first() { &self.first } else { &self.further[held.lane.index() - 1] }
    }
}

fn me() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

/// Locks a lane; false, and nothing is done, where this thread has it already.
fn lock(lane: Lane) -> bool {
    let (lock, me) = (&LOCKS[lane.index()], me());
    let is_new = lock.owner.load(Ordering::Relaxed) != me;
    if is_new {
        lock.keep(lock.try_lock().unwrap_or_else(|| lock_taken(lock)), me);
    }
    is_new
}

#[cold]
fn lock_taken(Lock { mutex, waiters, owner, .. }: &'static Lock) -> MutexGuard<'static, ()> {
    waiters.fetch_add(1, Ordering::Relaxed);
    let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    waiters.fetch_sub(1, Ordering::Relaxed);
    // The mutex orders all of this already; for a thread sanitizer, which does not see the standard library's
    // slow path, this does.
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
