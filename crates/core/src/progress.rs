//! Moving everything forward, and waiting.
//!
//! Nothing here waits without end in a loop: [`wait_until`] spins for a bounded time, yields a bounded number of
//! times and then parks until a peer rings (see `tutti_transport::wait`). Whoever waits for long says what for.

use std::time::Duration;

use tutti_base::config::MAX_LANES;
use tutti_base::{ErrorClass, WorldRank};
use tutti_sys::clock;
use tutti_sys::job::Sleeper;
use tutti_transport::waiting::{Contention, Turn};
use tutti_transport::{Peer, Watch};

use crate::inside;
use crate::lanes::{self, Lane, LaneGuard};
pub use crate::messenger::tell_threads;
use crate::messenger::{Activity, AllLinks, Messenger};
use crate::p2p::Notice;
use crate::separation::{self, Counterpart};

/// Takes in messages and moves the operations that go on by themselves; whether anything happened.
#[inline]
pub fn progress(held: &LaneGuard, messenger: &Messenger) -> bool {
    move_on(held, messenger, false)
}

/// As [`progress`]; with `patient` the caller waits, and an operation that is alone may look at its flags for longer.
#[inline]
fn move_on(held: &LaneGuard, messenger: &Messenger, patient: bool) -> bool {
    let any = take_in(held, messenger);
    let moved = held.lane().is_first()
        && !messenger.activities.borrow(held).is_empty()
        && advance(held, messenger, patient);
    any || moved
}

/// Moves messages.
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

#[cold]
fn heed(held: &LaneGuard, messenger: &Messenger, notice: Notice) {
    match notice {
        Notice::Fault(fault) => messenger.fail(ErrorClass::Intern, &fault),
        Notice::Lost(lost) => give_up(messenger, &lost),
        Notice::Calls => (messenger.above.answer_calls)(held, messenger),
        Notice::Inquiry { from, envelope, signature } => {
            (messenger.above.answer)(held, from, envelope, signature);
        }
    }
}

/// How long to leave it to the launcher to say why a peer is gone.
const LAUNCHER_FIRST: Duration = Duration::from_secs(1);

/// Ends the job as a peer cannot be reached. Most often it has died: then the launcher, who knows of what,
/// says so and ends this process within milliseconds.
fn give_up(messenger: &Messenger, why: &str) -> ! {
    std::thread::sleep(LAUNCHER_FIRST);
    messenger.fail(ErrorClass::ProcAborted, why)
}

/// As [`progress`] in the first lane, without anything that calls the program.
pub fn advance_unattended(held: &LaneGuard, messenger: &Messenger) -> bool {
    let any = take_in(held, messenger);
    let unattended = |activity: &dyn Activity| activity.is_unattended();
    let moved =
        !messenger.activities.borrow(held).is_empty() && advance_some(held, messenger, false, unattended);
    any || moved
}

/// Before who [`advance_unattended`]s sleeps: whether there is something to do first.
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

/// Moves the other lanes in which this thread has started something, where nobody else is; whether anything happened.
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

/// Whether nothing is under way in a lane.
fn is_at_rest(held: &LaneGuard, messenger: &Messenger) -> bool {
    let messages = messenger.messages.borrow(held);
    let is_first = held.lane().is_first();
    messages.state.requests.is_empty()
        && messages.is_idle()
        && (!is_first || messenger.activities.borrow(held).is_empty())
}

/// Before a wait: moves on an operation that is alone, which may be all that is waited for.
#[inline]
pub fn advance_alone(held: &LaneGuard, messenger: &Messenger) {
    if !held.lane().is_first() {
        return;
    }
    let mut activities = messenger.activities.borrow_mut(held);
    let alone = if activities.len() == 1 { activities.pop().flatten() } else { None };
    drop(activities);
    // As in `advance`: it may call users' operators.
    if let Some(activity) = alone.and_then(|activity| activity.advance(held, messenger, true)) {
        messenger.add_activity(held, activity);
    }
}

/// One look, for functions that do not wait (MPI_Test, MPI_Iprobe); what a program that calls them in a loop leaves to others, see
/// [`tutti_transport::waiting::Polling`]. Whether anything may have happened.
#[inline]
pub fn poll(held: &mut LaneGuard, messenger: &Messenger) -> bool {
    if lanes::threads_allowed() || !inside::is_off() || !is_quiet(held, messenger) {
        return look(held, messenger);
    }
    let waiting = &messenger.waiting;
    let is_shared = waiting.is_shared(messenger.is_crowded());
    match waiting.polling.in_vain(&waiting.contention, is_shared, clock::now_ns) {
        Turn::Stay => false,
        turn => {
            give_turn(held, messenger, turn);
            true
        }
    }
}

/// Returns true if a poll would find nothing and no operation goes on by itself, as for most tests of a
/// polling program.
#[inline]
fn is_quiet(held: &LaneGuard, messenger: &Messenger) -> bool {
    messenger.activities.borrow(held).is_empty() && messenger.messages.borrow(held).is_quiet()
}

/// Polls where something may have arrived, or several threads are inside.
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
        Turn::Stay => held.relax(),
        turn => give_turn(held, messenger, turn),
    }
    true
}

/// Gives the processor away and polls once more.
#[cold]
fn give_turn(held: &mut LaneGuard, messenger: &Messenger, turn: Turn) {
    let (waiting, begun_ns) = (&messenger.waiting, clock::now_ns());
    (messenger.above.watch_departed)(held);
    if let Turn::Sleep(time) = turn {
        tell_threads(held, messenger);
        held.release_while(|| std::thread::sleep(time));
    } else {
        yield_now(held, messenger);
    }
    waiting.polling.given(&waiting.contention, begun_ns, clock::now_ns());
    progress(held, messenger);
}

/// Looks of a wait before it is prepared for waiting long: in a stream the next message arrives within some.
const EARLY_LOOKS: u32 = 16;
/// The last look before a sleep at which a wait writes down what it is for: that before its second one, some
/// milliseconds after it began. To make the text is a seventh of what a rank does in a barrier of 16 ranks on
/// shared processors.
const SAYS_AT: u32 = 3;

/// Progress until `done`, in the lane that is held and in those in which this thread has started something. `what` is what a person is told who asks where this rank waits.
pub fn wait_until(
    held: &mut LaneGuard,
    messenger: &Messenger,
    what: &dyn Fn() -> String,
    done: impl FnMut(&LaneGuard) -> bool,
) {
    wait_for(held, messenger, None, what, done);
}

/// As [`wait_until`], for something that `counterpart` does ([`crate::host::Host::counterpart`]).
pub fn wait_for(
    held: &mut LaneGuard,
    messenger: &Messenger,
    counterpart: Option<Counterpart<'_>>,
    what: &dyn Fn() -> String,
    mut done: impl FnMut(&LaneGuard) -> bool,
) {
    let (lane, _inside) = (held.lane(), inside::measure());
    lanes::engage(lane);
    if !messenger.waiting.limits.has_network() && is_soon(held, messenger, &mut done) {
        return tell_threads(held, messenger);
    }
    let mut waiter = messenger.waiter();
    let _waits = lanes::wait();
    let (block, watch) = (messenger.block(), messenger.watch());
    if watch.is_none() && messenger.messages.borrow_mut(held).link.bridges().any_far() {
        waiter = waiter.sleeping_shortly();
    }
    let (sleepers, bells) = sleepers(messenger, lane);
    let (mut last_looks, mut looks) = (0, 0);
    let (mut parting, ranks) = (counterpart, messenger.job.header().local_ranks);
    let (partnership, limits) = (&messenger.partnership, &messenger.waiting.limits);
    let mut most = counterpart.as_ref().map_or(0, |_| partnership.borrow_mut(held).looks(limits));
    loop {
        let mut any = move_on(held, messenger, true);
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
            // Asked only before sleeping: the wait has become long.
            waiter.pause_watching(&sleepers[..bells], watch.as_ref(), || {
                last_looks += 1;
                if last_looks == SAYS_AT {
                    block.set_waiting(&what());
                }
                let held = lanes::enter_lane(lane);
                last_look(&held, messenger, watch.as_ref(), heard, &mut done)
            })
        });
        separation::after(paused, &mut parting, held, (&messenger.separation, ranks));
    }
    if last_looks >= SAYS_AT {
        block.set_waiting("");
    }
    tell_threads(held, messenger);
}

/// Before a process sleeps: whether there is something to do first. `heard`: so often threads had been told of news when `done` was
/// asked.
fn last_look(
    held: &LaneGuard,
    messenger: &Messenger,
    watch: Option<&Watch<'_>>,
    heard: u64,
    done: &mut impl FnMut(&LaneGuard) -> bool,
) -> bool {
    let lane = held.lane();
    if lane.is_first() {
        (messenger.above.watch_others)(held);
    }
    (messenger.above.watch_departed)(held);
    let mut messages = messenger.messages.borrow_mut(held);
    // Another thread may have done it meanwhile.
    let mut found = messages.state.requests.told != heard;
    let news = std::mem::take(&mut messages.state.requests.news);
    drop(messages);
    found |= advance_other_lanes(held, messenger);
    if lane.is_first() {
        // Operations within the node say what they wait for.
        found |= messenger.before_sleeping(|| {
            let moved = !messenger.activities.borrow(held).is_empty() && advance(held, messenger, false);
            done(held) || moved
        });
    } else {
        found |= done(held);
    }
    // What was done last may have sent messages, and may have found some that others wait for.
    let mut messages = messenger.messages.borrow_mut(held);
    found |= messages.state.requests.news || messages.pending();
    messages.state.requests.news |= news;
    if lane.is_first() {
        found |= !rest_on(held, messenger, watch, &mut messages.link);
    }
    found
}

/// Looks a few times; whether it is `done`.
#[inline]
fn is_soon(held: &mut LaneGuard, messenger: &Messenger, done: &mut impl FnMut(&LaneGuard) -> bool) -> bool {
    let mut spin = messenger.spin();
    for _ in (0..EARLY_LOOKS).take_while(|_| spin.goes_on(&messenger.waiting.limits, clock::now_ns)) {
        move_on(held, messenger, true);
        if done(held) {
            return true;
        }
        held.relax();
    }
    false
}

/// Gives the processor away and asks whether it is `done` then, before all else that may have happened. For a
/// wait that cannot end before others have run here ([`crate::host::Host::gives_way`]): each look delays
/// them, and with them everybody who waits for them. A yield that met somebody who computes is the last.
pub fn give_way(
    held: &mut LaneGuard,
    messenger: &Messenger,
    mut done: impl FnMut(&LaneGuard) -> bool,
) -> bool {
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

/// Gives the processor to who wants it, out of the lane and where others can see it.
fn yield_now(held: &mut LaneGuard, messenger: &Messenger) {
    tell_threads(held, messenger);
    let doorbell = messenger.sleeper(held.lane()).doorbell;
    held.release_while(|| doorbell.yield_now());
}

/// The doorbells of the lanes that a wait in `lane` moves, that lane's first, and how many they are.
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

/// Writes down what of the network the next sleep watches; false if there is something to do first.
fn rest_on(held: &LaneGuard, messenger: &Messenger, watch: Option<&Watch<'_>>, links: &mut AllLinks) -> bool {
    let Some(watch) = watch else {
        // Who cannot watch the network sleeps shortly ([`wait_until`]).
        return links.bridges().is_empty() || links.before_sleep(&mut Vec::new()).0;
    };
    let mut quiet = false;
    watch.set(|descriptors| {
        let mut until;
        (quiet, until) = links.before_sleep(descriptors);
        quiet &= messenger.kernel.borrow_mut(held).before_sleep(descriptors, &mut until);
        until
    });
    watch.set_room(links.wants_room());
    quiet
}

/// Hands what is still queued over to the transport. A peer that has left needs nothing any more.
pub fn send_queued(held: &mut LaneGuard, messenger: &Messenger, what: &str) {
    wait_for_links(held, messenger, what, |_| true);
}

/// The same, before the process leaves; what the network has of it arrives too. Nothing may be sent or received afterwards.
pub fn drain(held: &mut LaneGuard, messenger: &Messenger) {
    wait_for_links(held, messenger, "MPI_Finalize", AllLinks::is_flushed);
}

/// Waits until nothing is queued, and the links of all lanes are `done` with it.
fn wait_for_links(
    held: &mut LaneGuard,
    messenger: &Messenger,
    what: &str,
    done: impl Fn(&mut AllLinks) -> bool,
) {
    messenger.messages.lanes().for_each(lanes::engage);
    wait_until(held, messenger, &|| format!("{what}, for messages that are still to be sent"), |held| {
        let gone = |peer: Peer| (messenger.above.is_gone)(held, WorldRank(peer.0));
        messenger.messages.lanes().all(|lane| {
            let inside = held.in_lane(lane);
            let mut messages = messenger.messages.borrow_mut(&inside);
            messages.is_idle_but_for(gone) && done(&mut messages.link)
        })
    });
}

/// Moves each activity forward. They are taken out meanwhile, since they may call users' operators, which may
/// enter MPI again.
#[inline]
fn advance(held: &LaneGuard, messenger: &Messenger, patient: bool) -> bool {
    advance_some(held, messenger, patient, |_| true)
}

/// As [`advance`], those for which `which` holds.
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
