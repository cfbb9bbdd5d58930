//! Progress of messages and operations, and waiting.
//!
//! No wait loops without bound. [`wait_until`] spins for a bounded time, yields a bounded number of times and
//! then sleeps until a peer rings its doorbell (see `tutti_transport::wait`). A long wait publishes its
//! reason.

use std::time::Duration;

use tutti_base::config::MAX_LANES;
use tutti_base::{ErrorClass, WorldRank};
use tutti_sys::job::Sleeper;
use tutti_sys::{clock, event};
use tutti_transport::waiting::{Contention, PollStep, Waiter};
use tutti_transport::{Forged, Peer, Watch};

use crate::followers;
use crate::inside;
use crate::lanes::{self, Lane, LaneGuard};
pub use crate::messenger::tell_threads;
use crate::messenger::{Activity, AllLinks, Messenger};
use crate::p2p::Notice;
use crate::separation::{self, Counterpart};

/// Processes arrived messages and runs the progress handlers. Returns true if anything happened.
#[inline]
pub fn progress(held: &LaneGuard, messenger: &Messenger) -> bool {
    move_on(held, messenger, false)
}

/// Makes progress. With `patient` the caller waits, so an operation that is alone may poll its flags for
/// longer.
#[inline]
fn move_on(held: &LaneGuard, messenger: &Messenger, patient: bool) -> bool {
    let any = take_in(held, messenger);
    let moved = held.lane().is_first()
        && !messenger.activities.borrow(held).is_empty()
        && advance(held, messenger, patient);
    any || moved
}

/// Makes progress with messages only, and handles events that they cause.
#[inline(always)]
pub(crate) fn take_in(held: &LaneGuard, messenger: &Messenger) -> bool {
    let mut messages = messenger.messages.borrow_mut(held);
    let any = messages.progress();
    if let Some(notice) = messages.notice() {
        drop(messages);
        heed(held, messenger, notice);
    }
    any
}

/// Handles an event that progress has found.
#[cold]
fn heed(held: &LaneGuard, messenger: &Messenger, notice: Notice) {
    match notice {
        Notice::Fault(fault) => messenger.fail(ErrorClass::Intern, &fault),
        Notice::Lost(lost) => give_up(messenger, &lost),
        Notice::Calls => messenger.above.calls.answer_calls(held, messenger),
        Notice::Inquiry { from, envelope, signature } => {
            messenger.above.inquiries.answer_inquiry(held, from, envelope, signature);
        }
    }
}

/// Time for which the launcher gets the chance to report why a peer is gone.
const LAUNCHER_FIRST: Duration = Duration::from_secs(1);

/// Aborts the job because a peer cannot be reached. Usually it has died. The launcher knows the cause,
/// reports it and ends this process within milliseconds. A rank that has rejected forged data knows the cause
/// itself. It reports first, as its peer finds no more than a broken connection.
fn give_up(messenger: &Messenger, why: &str) -> ! {
    if !why.contains(Forged::WORDS) {
        std::thread::sleep(LAUNCHER_FIRST);
    }
    messenger.fail(ErrorClass::ProcAborted, why)
}

/// Makes progress in the first lane without calling code of the program.
pub fn advance_unattended(held: &LaneGuard, messenger: &Messenger) -> bool {
    let any = take_in(held, messenger);
    let unattended = |activity: &dyn Activity| activity.is_unattended();
    let moved =
        !messenger.activities.borrow(held).is_empty() && advance_some(held, messenger, false, unattended);
    any || moved
}

/// Performs the last check before a thread that calls [`advance_unattended`] sleeps. Returns true if there is
/// work.
pub(crate) fn before_unattended_sleep(
    held: &LaneGuard,
    messenger: &Messenger,
    watch: Option<&Watch<'_>>,
) -> bool {
    let found = advance_unattended(held, messenger);
    let mut messages = messenger.messages.borrow_mut(held);
    let pending = messages.pending();
    !rest_on(held, messenger, watch, &mut messages.link) || pending || found
}

/// Makes progress in the other lanes in which this thread has started operations, unless another thread holds
/// them. Returns true if anything happened.
#[inline]
fn advance_other_lanes(held: &LaneGuard, messenger: &Messenger) -> bool {
    if !lanes::threads_allowed() {
        return false;
    }
    let mut any = false;
    for lane in lanes::engaged().filter(|lane| *lane != held.lane()) {
        let Some(other) = lanes::try_enter(lane) else { continue };
        any |= move_on(&other, messenger, false);
        tell_threads(&other, messenger);
        if is_at_rest(&other, messenger) {
            lanes::disengage(lane);
        }
    }
    any
}

/// Returns true if a lane has no active operation.
fn is_at_rest(held: &LaneGuard, messenger: &Messenger) -> bool {
    let messages = messenger.messages.borrow(held);
    let is_first = held.lane().is_first();
    messages.state.requests.is_empty()
        && messages.is_idle()
        && (!is_first || messenger.activities.borrow(held).is_empty())
}

/// Runs the progress handler before a wait if there is only one. The wait may be for its operation alone.
#[inline]
pub fn advance_alone(held: &LaneGuard, messenger: &Messenger) {
    if !held.lane().is_first() {
        return;
    }
    let mut activities = messenger.activities.borrow_mut(held);
    let alone = if activities.len() == 1 { activities.pop().flatten() } else { None };
    drop(activities);
    // It is taken out, as it may call users' operators.
    if let Some(activity) = alone.and_then(|activity| activity.advance(held, messenger, true)) {
        messenger.add_activity(held, activity);
    }
}

/// Polls once, for functions that do not wait (MPI_Test, MPI_Iprobe). If a program calls them in a loop, the
/// processor is yielded at times (see [`tutti_transport::waiting::Polling`]). Returns true if anything may
/// have happened.
#[inline]
pub fn poll(held: &mut LaneGuard, messenger: &Messenger) -> bool {
    if lanes::threads_allowed() || !inside::is_off() || !is_quiet(held, messenger) {
        return look(held, messenger);
    }
    let waiting = &messenger.waiting;
    let is_shared = waiting.is_shared(messenger.is_crowded());
    match waiting.polling.in_vain(&waiting.contention, is_shared, clock::now_ns) {
        PollStep::Stay => false,
        turn => {
            give_turn(held, messenger, turn);
            true
        }
    }
}

/// Returns true if a poll would find nothing and there are no progress handlers. This holds for most tests of
/// a polling program.
#[inline]
fn is_quiet(held: &LaneGuard, messenger: &Messenger) -> bool {
    messenger.activities.borrow(held).is_empty() && messenger.messages.borrow(held).is_quiet()
}

/// Polls when something may have arrived, or when several threads are in the library.
fn look(held: &mut LaneGuard, messenger: &Messenger) -> bool {
    let _inside = inside::measure();
    if !inside::test_moves_on() {
        held.relax();
        return true;
    }
    let waiting = &messenger.waiting;
    if progress(held, messenger) | advance_other_lanes(held, messenger) {
        waiting.polling.found();
        held.relax();
        return true;
    }
    let is_shared = waiting.is_shared(messenger.is_crowded() || held.is_wanted());
    match waiting.polling.in_vain(&waiting.contention, is_shared, clock::now_ns) {
        PollStep::Stay => held.relax(),
        turn => give_turn(held, messenger, turn),
    }
    true
}

/// Yields the processor, or sleeps, and polls once more.
#[cold]
fn give_turn(held: &mut LaneGuard, messenger: &Messenger, turn: PollStep) {
    let (waiting, begun_ns) = (&messenger.waiting, clock::now_ns());
    messenger.above.peers.watch_departed(held);
    if let PollStep::Sleep(time) = turn {
        tell_threads(held, messenger);
        held.release_while(|| std::thread::sleep(time));
    } else {
        yield_now(held, messenger);
    }
    waiting.polling.given(&waiting.contention, begun_ns, clock::now_ns());
    progress(held, messenger);
}

/// Number of polls before a wait prepares for a long time. In a stream, the next message arrives within a
/// few.
const EARLY_LOOKS: u32 = 16;
/// Number of the last check before a sleep at which a wait publishes its reason. It precedes the second
/// sleep, some milliseconds after the wait began. Formatting the text takes a seventh of a rank's time in a
/// barrier of 16 ranks on shared processors.
const SAYS_AT: u32 = 3;

/// Makes progress until `done` returns true. It covers the lane of `held` and the lanes in which this thread
/// has started operations. `what` returns the reason that is shown when the user asks where this rank waits.
pub fn wait_until(
    held: &mut LaneGuard,
    messenger: &Messenger,
    what: &dyn Fn() -> String,
    done: impl FnMut(&LaneGuard) -> bool,
) {
    wait_for(held, messenger, None, what, done);
}

/// Waits as [`wait_until`] does, for an action of `counterpart` ([`crate::host::Host::counterpart`]).
pub fn wait_for(
    held: &mut LaneGuard,
    messenger: &Messenger,
    counterpart: Option<Counterpart<'_>>,
    what: &dyn Fn() -> String,
    done: impl FnMut(&LaneGuard) -> bool,
) {
    wait_with(held, messenger, messenger.waiter(), counterpart, what, done);
}

/// Waits as [`wait_until`] does for what cannot happen before other ranks have run on this processor
/// ([`crate::host::Host::gives_way`]): gives them the processor first.
pub fn wait_for_all(
    held: &mut LaneGuard,
    messenger: &Messenger,
    what: &dyn Fn() -> String,
    mut done: impl FnMut(&LaneGuard) -> bool,
) {
    if !give_way(held, messenger, &mut done) {
        wait_with(held, messenger, messenger.waiter().after_giving_way(), None, what, done);
    }
}

fn wait_with(
    held: &mut LaneGuard,
    messenger: &Messenger,
    mut waiter: Waiter<'_>,
    counterpart: Option<Counterpart<'_>>,
    what: &dyn Fn() -> String,
    mut done: impl FnMut(&LaneGuard) -> bool,
) {
    let (lane, _inside) = (held.lane(), inside::measure());
    lanes::engage(lane);
    if !messenger.waiting.limits.has_network() && is_soon(held, messenger, &mut done) {
        return tell_threads(held, messenger);
    }
    let _waits = lanes::wait();
    let watch = messenger.watch();
    if watch.is_none() && messenger.messages.borrow_mut(held).link.bridges().any_far() {
        waiter = waiter.sleeping_shortly();
    }
    let (sleepers, bells) = sleepers(messenger, lane);
    let (mut publication, mut looks) = (Publication::default(), 0);
    let (mut parting, ranks) = (counterpart, messenger.job.header().local_ranks);
    let (partnership, limits) = (&messenger.partnership, &messenger.waiting.limits);
    let mut most = counterpart.as_ref().map_or(0, |_| partnership.borrow_mut(held).looks(limits));
    loop {
        let mut any = move_on(held, messenger, true) | run_continuations(held, messenger);
        let over = done(held);
        if (any || over) && looks > 0 {
            partnership.borrow_mut(held).helped();
            looks = 0;
        }
        if over {
            break;
        }
        any |= advance_other_lanes(held, messenger);
        tell_threads(held, messenger);
        if any {
            waiter.reset();
            continue;
        }
        let is_long = waiter.sleep_at_once_if(messenger.messages.borrow(held).link.waits_long());
        if !is_long && looks < most && counterpart.is_some_and(|other| !other.is_away()) {
            looks += 1;
            held.relax();
            continue;
        }
        if looks > 0 && looks == most {
            partnership.borrow_mut(held).was_in_vain();
            (looks, most) = (0, 0);
        }
        let heard = messenger.messages.borrow(held).state.requests.told;
        held.relax();
        let paused = held.release_while(|| {
            // This runs only before a sleep, when the wait has become long.
            waiter.pause_watching(&sleepers[..bells], watch.as_ref(), || {
                publication.look(messenger, what);
                let held = lanes::enter_lane(lane);
                last_look(&held, messenger, watch.as_ref(), heard, &mut done)
            })
        });
        if let Some(ready) = watch.as_ref().filter(|_| lane.is_first()).and_then(Watch::take_ready) {
            messenger.messages.borrow_mut(held).link.slept(&ready);
        }
        separation::after(paused, &mut parting, held, (&messenger.separation, ranks));
    }
    publication.end(messenger);
    tell_threads(held, messenger);
}

/// Publication of a wait that has become long, for users and for the launcher.
#[derive(Debug, Default)]
struct Publication {
    /// Number of last checks before a sleep.
    looks: u32,
    /// Latest request for a card that this wait has answered.
    answered: u32,
}

impl Publication {
    /// Publishes the reason of the wait at the check [`SAYS_AT`], and answers requests for cards after it.
    fn look(&mut self, messenger: &Messenger, what: &dyn Fn() -> String) {
        let block = messenger.block();
        self.looks = self.looks.saturating_add(1);
        if self.looks == SAYS_AT {
            block.set_waiting(&what());
        } else if self.looks > SAYS_AT
            && let Some(request) = block.card_request().filter(|request| *request != self.answered)
        {
            self.answered = request;
            messenger.above.cards.answer_card(messenger, request, what);
        }
    }

    /// Withdraws what was published.
    fn end(&self, messenger: &Messenger) {
        if self.looks >= SAYS_AT {
            messenger.block().set_waiting("");
        }
    }
}

/// Performs the last check before a sleep. Returns true if there is work. `heard` is the number of wake-ups
/// of threads when `done` was last called.
fn last_look(
    held: &LaneGuard,
    messenger: &Messenger,
    watch: Option<&Watch<'_>>,
    heard: u64,
    done: &mut impl FnMut(&LaneGuard) -> bool,
) -> bool {
    let lane = held.lane();
    if lane.is_first() {
        messenger.above.peers.watch_others(held);
    }
    messenger.above.peers.watch_departed(held);
    let mut messages = messenger.messages.borrow_mut(held);
    // Another thread may have completed the operation meanwhile.
    let mut found = messages.state.requests.told != heard;
    let news = std::mem::take(&mut messages.state.requests.news);
    drop(messages);
    found |= advance_other_lanes(held, messenger);
    found |= followers::any_ready() && lane.is_first();
    if lane.is_first() {
        // Operations within the node register for the flags that they await.
        found |= messenger.before_sleeping(|| {
            let moved = !messenger.activities.borrow(held).is_empty() && advance(held, messenger, false);
            done(held) || moved
        });
    } else {
        found |= done(held);
    }
    // The last calls may have sent messages, and may have found some for which other threads wait.
    let mut messages = messenger.messages.borrow_mut(held);
    found |= messages.state.requests.news || messages.pending();
    messages.state.requests.news |= news;
    if lane.is_first() {
        found |= !rest_on(held, messenger, watch, &mut messages.link);
    }
    found
}

/// Polls a few times. Returns true if `done` does.
#[inline]
fn is_soon(held: &mut LaneGuard, messenger: &Messenger, done: &mut impl FnMut(&LaneGuard) -> bool) -> bool {
    let mut spin = messenger.spin();
    for _ in (0..EARLY_LOOKS).take_while(|_| spin.goes_on(&messenger.waiting.limits, clock::now_ns)) {
        move_on(held, messenger, true);
        run_continuations(held, messenger);
        if done(held) {
            return true;
        }
        held.relax();
    }
    false
}

/// Runs ready continuations in a wait. Returns true if there may have been some.
#[inline]
fn run_continuations(held: &LaneGuard, messenger: &Messenger) -> bool {
    let runs = followers::any_ready() && held.lane().is_first();
    if runs {
        messenger.above.continuations.run_ready(held, messenger);
    }
    runs
}

/// Yields the processor before polling. Each poll would delay the ranks that have to run first, and all ranks
/// that wait for them. A yield during which another process computes is the last. Returns true if `done`
/// does.
fn give_way(held: &mut LaneGuard, messenger: &Messenger, mut done: impl FnMut(&LaneGuard) -> bool) -> bool {
    for _ in 0..messenger.waiting.limits.first_yields() {
        let begun_ns = clock::now_ns();
        yield_now(held, messenger);
        let was_held = Contention::was_held(begun_ns, clock::now_ns());
        if done(held) {
            return true;
        }
        move_on(held, messenger, true);
        if done(held) {
            return true;
        }
        if was_held {
            return false;
        }
    }
    false
}

/// Yields the processor outside the lane and marks this in the doorbell, where other processes see it.
fn yield_now(held: &mut LaneGuard, messenger: &Messenger) {
    tell_threads(held, messenger);
    let doorbell = messenger.sleeper(held.lane()).doorbell;
    held.release_while(|| doorbell.yield_now());
}

/// Returns the doorbells of the lanes that a wait in `lane` progresses, that of `lane` first, and their
/// number.
fn sleepers(messenger: &Messenger, lane: Lane) -> ([Sleeper<'_>; MAX_LANES as usize], usize) {
    let mut sleepers = [messenger.sleeper(lane); MAX_LANES as usize];
    let mut bells = 1;
    if lanes::threads_allowed() {
        for other in lanes::engaged().filter(|other| *other != lane) {
            sleepers[bells] = messenger.sleeper(other);
            bells += 1;
        }
    }
    (sleepers, bells)
}

/// Determines the descriptors of the network that the next sleep watches. Returns false if there is work
/// first.
fn rest_on(held: &LaneGuard, messenger: &Messenger, watch: Option<&Watch<'_>>, links: &mut AllLinks) -> bool {
    let Some(watch) = watch else {
        // A process that cannot watch the network sleeps for short times only ([`wait_until`]).
        let mut descriptors = Vec::new();
        return links.bridges().is_empty()
            || links.before_sleep(&mut descriptors).0 && !event::is_any_readable(&descriptors);
    };
    let mut quiet = false;
    watch.set(|descriptors| {
        let mut until;
        (quiet, until) = links.before_sleep(descriptors);
        quiet &= messenger.above.wakes.before_sleep(held, descriptors, &mut until);
        until
    });
    watch.set_room(links.wants_room());
    quiet
}

/// Passes all queued messages to the transport. Messages to peers that have left are ignored.
pub fn send_queued(held: &mut LaneGuard, messenger: &Messenger, what: &str) {
    wait_for_links(held, messenger, what, |_| true);
}

/// Passes all queued messages to the transport and waits until the network has delivered them, before the
/// process leaves. No messages may be sent or received afterwards.
pub fn drain(held: &mut LaneGuard, messenger: &Messenger) {
    wait_for_links(held, messenger, "MPI_Finalize", AllLinks::is_flushed);
}

/// Waits until nothing is queued and `done` holds for the links of all lanes.
fn wait_for_links(
    held: &mut LaneGuard,
    messenger: &Messenger,
    what: &str,
    done: impl Fn(&mut AllLinks) -> bool,
) {
    messenger.messages.lanes().for_each(lanes::engage);
    wait_until(held, messenger, &|| format!("{what}, for messages that are still to be sent"), |held| {
        let gone = |peer: Peer| messenger.above.peers.is_gone(held, WorldRank(peer.0));
        messenger.messages.lanes().all(|lane| {
            let inside = held.in_lane(lane);
            let mut messages = messenger.messages.borrow_mut(&inside);
            messages.is_idle_but_for(gone) && done(&mut messages.link)
        })
    });
}

/// Runs all progress handlers. They are taken out of the list meanwhile, as they may call users' operators,
/// which may enter MPI again.
#[inline]
fn advance(held: &LaneGuard, messenger: &Messenger, patient: bool) -> bool {
    advance_some(held, messenger, patient, |_| true)
}

/// Runs the progress handlers for which `which` returns true. Returns true if at least one has ended.
fn advance_some(
    held: &LaneGuard,
    messenger: &Messenger,
    patient: bool,
    which: impl Fn(&dyn Activity) -> bool,
) -> bool {
    let mut running = std::mem::take(&mut *messenger.activities.borrow_mut(held));
    let before = running.len();
    let patient = patient && before == 1;
    for place in running.iter_mut().filter(|place| place.as_deref().is_some_and(&which)) {
        *place = place.take().and_then(|activity| activity.advance(held, messenger, patient));
    }
    running.retain(Option::is_some);
    let finished = running.len() < before;
    let mut activities = messenger.activities.borrow_mut(held);
    running.append(&mut activities);
    *activities = running;
    finished
}
