//! Tuning of the loops of a program (S11): selects the operations of a communicator that become units of
//! [`tutti_coll::tune`], and applies their decisions.
//!
//! Most operations of most programs need no tuning and cost a counter only. A communicator sleeps at first,
//! then watches for a while whether its operations form a cycle ([`Watch`]). If they do not, it sleeps for
//! longer each time, and in the end for ever. The places of a cycle ([`Cycle`]) become units. Only one unit
//! explores at a time, in the order of their first operations, because its trials disturb the measurements
//! of the others. Decisions of units also hold for operations outside of the loop ([`Tuning::known`]).
//! While the communicator sleeps, operations run as without tuning ([`Tuning::take_nap`]).
//!
//! Two kinds of state must not be mixed:
//!
//! | kind | state | changes when an operation |
//! |---|---|---|
//! | by calls | stage, cycle, short way | is called |
//! | by beginnings | units, known results | begins, maybe later ([`crate::collective`], `deferred`) |
//!
//! Ranks call and begin operations in the same order. So each kind of state is the same on all ranks at the
//! same operation, though not both at the same time.
//!
//! An operation that needs no turn of its unit takes a fast path, called *short way* ([`Tuning::way`]). An
//! idle execution of it must exist on this rank. Ranks may differ in that, so both ways must change the
//! state equally: the short way counts its operations ([`Steady::done`]), and the unit adds them before its
//! next turn.

use std::collections::HashMap;

use tutti_base::config::Tune;
use tutti_coll::Shape;
use tutti_coll::explanation::Explanation;
use tutti_coll::tune::cycle::{Cycle, CyclePlace, Watch};
use tutti_coll::tune::{CallForm, Proposal, UnitKey};

use super::key::CallKey;
use super::learnings::Learnings;
use super::ledger::Ledger;
use super::repertoire::Best;
use super::unit::{News, Says, Unit, UnitAnswer};
use crate::inside::Reading;

/// Maximum number of units of one communicator. Operations beyond it use the default.
const MOST_UNITS: usize = 256;
/// Operations of a communicator's first sleep. A sleep after a loop was left takes this, doubled for each
/// loop.
const FIRST_NAP: u32 = 64;
/// Operations of the first sleep after a watch without a cycle. Each further one is four times as long.
const NAP: u32 = 1024;
/// Number of sleeps after watches without a cycle. Then tuning ends for this communicator.
const MOST_NAPS: u32 = 5;
/// Maximum number of doublings of [`NAP`] after loops in which all units keep the default.
const MOST_RESTS: u32 = 12;
/// Maximum number of doublings of [`FIRST_NAP`] after loops that were left.
const MOST_LOOPS: u32 = 8;

/// Position of a call in the program's loops.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallSpot {
    /// Outside of any loop.
    Loose(UnitKey),
    /// CyclePlace in a loop, and the number of that loop on the communicator, from 1.
    Placed(CyclePlace, u32),
}

/// Tuning state of one communicator.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    /// Mode in force. Another mode resets the state.
    mode: Tune,
    /// Phase of the search for loops.
    stage: Stage,
    /// Sleeps after watches without a cycle.
    naps: u32,
    /// Loops found so far.
    loops: u32,
    /// Sleeps after loops in which all units keep the default.
    rests: u32,
    /// Calls that can take the short way, by position in the cycle.
    steady: Vec<Option<Steady>>,
    /// Generation of plans, and the collectives that are not tuned in it, as bits.
    exempt: Option<(u32, u32)>,
    /// True if results may be known for operations outside of loops.
    has_known: bool,
    /// True if results were known when the mode was set.
    had_known: bool,
    units: HashMap<CyclePlace, Unit>,
    /// Unit that explores.
    active: Option<CyclePlace>,
    /// Number of the loop of the latest operation that has begun.
    lap: u32,
    /// Best algorithms of operations outside of loops. `None` means that nothing is known: the default. All
    /// are defaults unless [`Tuning::has_known`].
    known: Vec<(UnitKey, Option<Best>)>,
}

/// Phase of the search for loops.
#[derive(Debug)]
enum Stage {
    /// Sleeps for this number of operations.
    Asleep(u32),
    /// Watches whether operations form a cycle.
    Watching(Watch),
    /// Follows a loop.
    Following(Cycle),
    /// Sleeps for ever.
    Off,
}

/// Call that needs no turn of its unit, and its algorithm.
#[derive(Debug)]
struct Steady {
    key: CallKey,
    best: Option<Best>,
    /// Number of times that it may still take the short way; `u32::MAX`: without limit.
    left: u32,
    /// Number of times that it took the short way and its unit has not counted.
    done: u32,
}

/// Description of the execution that a call on the short way may use.
#[derive(Debug)]
pub(crate) enum Way<'t> {
    /// The operation is not tuned.
    Exempt,
    /// No loop is known; with the form of the call.
    Loose(&'t Tuning, CallForm),
    /// The call is next in the loop and has this key and algorithm (`None`: the default). The key must be
    /// compared, because calls with equal keys may have lists of counts with other sums.
    Placed(UnitKey, Option<&'t Proposal>),
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::Asleep(FIRST_NAP)
    }
}

impl Way<'_> {
    /// Returns true if the call may use an execution of this shape. `tuned` is set if tuning has chosen the
    /// execution; then `is_of` returns true for its proposals.
    #[inline]
    pub fn is_meant(&self, shape: &Shape, tuned: bool, is_of: impl Fn(&Proposal) -> bool) -> bool {
        let is_right = |proposal: Option<&Proposal>| proposal.map_or(!tuned, |one| tuned && is_of(one));
        match self {
            Way::Exempt => !tuned,
            Way::Placed(key, proposal) => UnitKey::new(shape, key.form) == *key && is_right(*proposal),
            Way::Loose(tuning, _) if !tuning.has_known => !tuned,
            Way::Loose(tuning, form) => match tuning.known_of(&UnitKey::new(shape, *form)) {
                None => false,
                Some(best) => is_right(best.as_ref().and_then(Best::proposal)),
            },
        }
    }
}

impl Tuning {
    /// Sets the mode. Another mode than before resets the state.
    pub fn set_mode(&mut self, mode: Tune, has_known: bool) {
        if mode != self.mode {
            let follows = mode == Tune::On || has_known;
            let stage = if follows { Stage::default() } else { Stage::Off };
            *self = Tuning { mode, stage, has_known, had_known: has_known, ..Tuning::default() };
        }
        self.has_known |= has_known;
    }

    /// Takes over the results of a communicator with the same members. Must be called at the same operation
    /// on all of them, when all operations called on `other` have begun.
    pub fn inherit(&mut self, other: &Tuning, mode: Tune) {
        self.set_mode(mode, false);
        let known = other.known.iter().filter(|(_, best)| best.is_some());
        self.known = known.cloned().collect();
        self.has_known = other.has_known;
        self.had_known = other.has_known;
    }

    /// Returns the collectives that are not tuned, as bits, or `None` if they were not determined for this
    /// generation of plans.
    #[inline]
    pub fn exempt(&self, generation: u32) -> Option<u32> {
        self.exempt.filter(|(known, _)| *known == generation).map(|(_, exempt)| exempt)
    }

    /// Sets the collectives that are not tuned in this generation of plans, as bits.
    pub fn set_exempt(&mut self, generation: u32, exempt: u32) {
        self.exempt = Some((generation, exempt));
    }

    /// Records a call that does not take the short way, and returns its position.
    pub fn meet(&mut self, shape: &Shape, form: CallForm) -> CallSpot {
        self.catch_up();
        self.note(UnitKey::new(shape, form))
    }

    /// Returns the short way of a call, or `None` if the call needs a turn of its unit. `generation` is
    /// that of the communicator's plans.
    #[inline]
    pub fn way(&self, mode: Tune, generation: u32, form: CallForm, call_key: &CallKey) -> Option<Way<'_>> {
        if mode != self.mode {
            return None;
        }
        if self.exempt(generation)? & 1 << call_key.collective as u32 != 0 {
            return Some(Way::Exempt);
        }
        let Stage::Following(cycle) = &self.stage else { return Some(Way::Loose(self, form)) };
        let steady = self.steady.get(cycle.position())?.as_ref()?;
        let key = cycle.next_key();
        let is_free = steady.left > 0 && key.form == form && steady.key == *call_key;
        is_free.then(|| Way::Placed(key, steady.best.as_ref().and_then(Best::proposal)))
    }

    /// Records a call that took the short way.
    #[inline]
    pub fn went(&mut self, form: CallForm, shape: &Shape) {
        match &mut self.stage {
            Stage::Off => {}
            Stage::Asleep(left) if *left > 1 => *left -= 1,
            Stage::Asleep(_) | Stage::Watching(_) => {
                self.note(UnitKey::new(shape, form));
            }
            Stage::Following(cycle) => {
                let steady = self.steady[cycle.position()].as_mut().expect("its way was known");
                if steady.left < u32::MAX {
                    steady.left -= 1;
                    steady.done += 1;
                }
                cycle.advance();
            }
        }
    }

    /// Advances the stage by one operation that does not take the short way, or is in no loop.
    fn note(&mut self, key: UnitKey) -> CallSpot {
        match &mut self.stage {
            Stage::Off => {}
            Stage::Asleep(left) => {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.stage = Stage::Watching(Watch::default());
                }
            }
            Stage::Watching(watch) => {
                if let Some(cycle) = watch.note(key) {
                    self.steady.clear();
                    self.steady.resize_with(cycle.period(), || None);
                    self.loops += 1;
                    self.stage = Stage::Following(cycle);
                } else if watch.is_over() {
                    self.naps += 1;
                    let nap = Stage::Asleep(NAP << (2 * (self.naps - 1).min(MOST_NAPS)));
                    self.stage = if self.naps > MOST_NAPS { Stage::Off } else { nap };
                }
            }
            Stage::Following(cycle) => {
                let position = cycle.position();
                if let Some(place) = cycle.meet(key) {
                    self.steady[position] = None;
                    return CallSpot::Placed(place, self.loops);
                }
                if cycle.is_left() {
                    self.stage = Stage::Asleep(FIRST_NAP << self.loops.min(MOST_LOOPS));
                }
            }
        }
        CallSpot::Loose(key)
    }

    /// Adds the operations on the short way to their units.
    fn catch_up(&mut self) {
        let Stage::Following(cycle) = &self.stage else { return };
        for (position, steady) in self.steady.iter_mut().enumerate() {
            let Some(steady) = steady.as_mut().filter(|steady| steady.done > 0) else { continue };
            let done = std::mem::take(&mut steady.done);
            if let Some(unit) = self.units.get_mut(&cycle.place(position)) {
                unit.skip(done);
            }
        }
    }

    /// Returns the number of operations that need not be recorded, if the communicator goes to sleep. With
    /// results known from the start it never does. Uses only state by calls.
    pub fn take_nap(&mut self) -> Option<u32> {
        match self.stage {
            _ if self.had_known => None,
            Stage::Off => Some(u32::MAX),
            Stage::Asleep(operations) => {
                self.stage = Stage::Watching(Watch::default());
                Some(operations)
            }
            Stage::Watching(_) | Stage::Following(_) => None,
        }
    }

    /// Returns the best algorithm of operations with this key outside of loops. The outer `None` means that
    /// it was not looked up, the inner one that nothing is known.
    #[inline]
    pub fn known_of(&self, key: &UnitKey) -> Option<&Option<Best>> {
        let found = self.known.iter().find(|(known, _)| known == key).map(|(_, best)| best);
        found.or_else(|| (self.known.len() >= MOST_UNITS).then_some(&None))
    }

    /// Returns true if results may be known for operations outside of loops.
    pub fn has_known(&self) -> bool {
        self.has_known
    }

    /// Sets the looked-up result for operations with this key outside of loops, unless there is one
    /// already.
    pub fn set_known(&mut self, key: UnitKey, best: Option<Best>) {
        if self.known_of(&key).is_none() {
            self.known.push((key, best));
        }
    }

    /// Returns true if the place has a unit, or will never have one because of the limit.
    pub fn has_unit(&self, place: CyclePlace) -> bool {
        self.units.contains_key(&place) || self.units.len() >= MOST_UNITS
    }

    /// Creates the unit at a place.
    pub fn add(&mut self, place: CyclePlace, news: News) {
        self.units.insert(place, Unit::new(place, news));
    }

    /// Returns the unit at a place.
    pub fn unit(&mut self, place: CyclePlace) -> Option<&mut Unit> {
        self.units.get_mut(&place)
    }

    /// Takes the turn of an operation at a place of the loop with number `lap`. `reading` is the time of
    /// the call.
    pub fn turn(
        &mut self,
        (place, lap): (CyclePlace, u32),
        reading: Reading,
        learnings: &Learnings,
        ledger: &mut Ledger,
    ) -> UnitAnswer {
        if lap != self.lap {
            (self.lap, self.active) = (lap, None);
        }
        let Some(unit) = self.units.get_mut(&place) else { return UnitAnswer::Says(Says::default()) };
        let was_decided = unit.decision().is_some();
        if !was_decided && *self.active.get_or_insert(place) != place {
            unit.forget_open();
            return UnitAnswer::Says(Says { best: unit.standing(), ..Says::default() });
        }
        let is_first = unit.lap != lap;
        if is_first {
            unit.forget_open();
        }
        let mut answer = unit.turn(place, reading, learnings, ledger);
        if let UnitAnswer::Says(says) = &mut answer {
            // Not before the answer: some ranks have to wait and take the turn again, others do not.
            unit.lap = lap;
            says.is_landmark |= is_first;
        }
        let is_decided = unit.decision().is_some();
        if is_decided && self.active == Some(place) {
            self.active = None;
            // The others need their turns now.
            self.steady.iter_mut().for_each(|steady| *steady = None);
        }
        if let UnitAnswer::Says(Says { decided: Some(_), .. }) = &answer {
            self.know(place);
        }
        answer
    }

    /// Applies the decision of a unit to operations with its key outside of loops, unless another place has
    /// decided otherwise.
    fn know(&mut self, place: CyclePlace) {
        let of_key = |(other, unit): (&CyclePlace, &Unit)| {
            (other.key == place.key && unit.decision().is_some()).then(|| unit.learned())
        };
        let number = |best: &Option<Best>| best.as_ref().map_or(0, |best| best.number);
        let all: Vec<Option<Best>> = self.units.iter().filter_map(of_key).collect();
        let is_one = all.iter().all(|best| number(best) == number(&all[0]));
        let best = all.first().cloned().flatten().filter(|_| is_one);
        self.has_known |= number(&best) > 0;
        match self.known.iter().position(|(key, _)| *key == place.key) {
            Some(known) => self.known[known].1 = best,
            None if self.known.len() < MOST_UNITS => self.known.push((place.key, best)),
            None => {}
        }
    }

    /// Prepares the short way of the latest call. Called when the operation is over, or has begun if it is
    /// non-blocking. `key` identifies the call; `None` if it cannot be repeated by it.
    pub fn settle(&mut self, place: CyclePlace, key: Option<CallKey>) {
        let (Some(key), Stage::Following(cycle)) = (key, &self.stage) else { return };
        let position = cycle.last_position();
        if cycle.place(position) != place {
            return;
        }
        let (best, left) = match self.units.get(&place) {
            // This unit keeps its algorithm until the one that explores has decided.
            Some(unit) if unit.decision().is_none() && self.active != Some(place) => {
                (unit.standing(), u32::MAX)
            }
            Some(unit) => (unit.standing(), unit.free_turns()),
            None => (None, u32::MAX),
        };
        self.steady[position] = Some(Steady { key, best, left, done: 0 });
    }

    /// Goes to sleep if all units of the loop keep the default, for longer each time. Called at a landmark
    /// ([`Says::is_landmark`]) when all called operations have begun: at the same operation on all ranks.
    pub fn rest(&mut self) {
        let Stage::Following(cycle) = &self.stage else { return };
        let rests = |position| self.units.get(&cycle.place(position)).is_some_and(Unit::rests);
        if (0..cycle.period()).all(rests) {
            self.stage = Stage::Asleep(NAP << self.rests.min(MOST_RESTS));
            self.rests += 1;
            self.steady.clear();
        }
    }

    /// Explains each unit without a decision.
    pub fn undecided(&self) -> impl Iterator<Item = Explanation> {
        let open = self.units.iter().filter(|(_, unit)| unit.decision().is_none());
        open.map(|(place, unit)| unit.describe(*place, 0, "as at the beginning, nothing is decided yet"))
    }
}
