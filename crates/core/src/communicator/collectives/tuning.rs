//! Tuning of what a program repeats (S11): which operations of a communicator are units of
//! [`tutti_coll::tune`], and what all others do.
//!
//! Most operations of most programs need no tuning, and cost nothing but a count: a communicator is asleep
//! at first, then looks for a while whether its operations go in a cycle ([`Watch`]). If they do not, it
//! sleeps for longer each time and in the end for ever. In a cycle ([`Cycle`]) the places become units. One
//! unit explores at a time, in the order in which units come up: what one tries would disturb what the others
//! measure. What units have decided holds for operations outside of the loop too ([`Tuning::known`]), unless
//! it sleeps: then operations go as without tuning ([`Tuning::take_nap`]).
//!
//! State of two kinds must not be mixed. *By calls* go the stage, the cycle and the short way; they change
//! when an operation is called for. *By beginnings* go units and what is known; they change when it begins,
//! which may be later ([`crate::collective`], `deferred`). Ranks call and begin operations in the same order,
//! so each kind is the same on all of them at the same operation, though not both at the same time.
//!
//! An operation that needs no turn of its unit goes the *short way* ([`Tuning::way`]), if its execution is at
//! rest on this rank. Which way it goes differs between ranks, so the short way changes the state as the long
//! one does: it is noted how often ([`Steady::done`]), and told the unit before its next turn.

use std::collections::HashMap;

use tutti_base::config::Tune;
use tutti_coll::Shape;
use tutti_coll::tune::cycle::{Cycle, Place, Watch};
use tutti_coll::tune::{CallForm, Proposal, UnitKey};

use super::learnings::Learnings;
use super::ledger::Ledger;
use super::repertoire::Best;
use super::unit::{News, Says, Unit, UnitAnswer};
use super::words::Words;
use crate::inside::Reading;

/// Units of one communicator; more are done by default.
const MOST_UNITS: usize = 256;
/// Operations that a communicator sleeps for at first,
const FIRST_NAP: u32 = 64;
/// after it has found no cycle, and four times as long each further time, up to so many times,
const NAP: u32 = 1024;
/// See [`NAP`].
const MOST_NAPS: u32 = 5;
/// After a loop in which nothing is to gain it sleeps for twice as long each time, up to so many times.
const MOST_RESTS: u32 = 12;
/// and after a loop was left, and twice as long each further time, up to so many times.
const MOST_LOOPS: u32 = 8;

/// An operation that was called for, as far as tuning goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallSpot {
    /// It belongs to no loop.
    Loose(UnitKey),
    /// It is at a place of a loop: of the so many-th loop of the communicator.
    Placed(Place, u32),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    /// What was asked for when the first operation came; what is asked for later begins anew.
    mode: Tune,
    stage: Stage,
    /// Naps after watches in vain, and loops so far.
    naps: u32,
    loops: u32,
    /// Naps after loops in which nothing is to gain.
    rests: u32,
    /// What calls do that need no turn, by their positions in the cycle.
    steady: Vec<Option<Steady>>,
    /// Collectives that are not tuned, as bits, and the generation of plans for which that holds.
    exempt: Option<(u32, u32)>,
    /// Whether something may be known of operations before they are units; and whether that was so at first.
    has_known: bool,
    had_known: bool,
    units: HashMap<Place, Unit>,
    /// Which unit explores.
    active: Option<Place>,
    /// The loop that operations are in that begin now.
    lap: u32,
    /// What is known of operations wherever they come; `None`: nothing. Only where [`Tuning::has_known`] may
    /// it be another algorithm than the default.
    known: Vec<(UnitKey, Option<Best>)>,
}

#[derive(Debug)]
enum Stage {
    /// For so many operations.
    Asleep(u32),
    Watching(Watch),
    Following(Cycle),
    /// For good.
    Off,
}

/// A call that needs no turn, and what it does.
#[derive(Debug)]
struct Steady {
    words: Words,
    best: Option<Best>,
    /// How often it may still be done so,
    left: u32,
    /// and how often it was, of which its unit has not heard.
    done: u32,
}

/// The short way of a call.
#[derive(Debug)]
pub(crate) enum Way<'t> {
    /// It is not tuned.
    Exempt,
    /// It belongs to no loop, as far as is known.
    Loose(&'t Tuning, CallForm),
    /// It is the next one of the loop, which has this key, and does this. Calls with equal words may have
    /// lists of other sums, and so other keys.
    Placed(UnitKey, Option<&'t Proposal>),
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::Asleep(FIRST_NAP)
    }
}

impl Way<'_> {
    /// Returns true if an execution is the one that the call takes: of this shape, chosen by tuning or not,
    /// and then of which proposals.
    #[inline]
    pub fn is_meant(&self, shape: &Shape, tuned: bool, is_of: impl Fn(&Proposal) -> bool) -> bool {
        let is_right = |proposal: Option<&Proposal>| proposal.map_or(!tuned, |one| tuned && is_of(one));
        match self {
            Way::Exempt => !tuned,
            Way::Placed(key, proposal) => UnitKey::of(shape, key.form) == *key && is_right(*proposal),
            Way::Loose(tuning, _) if !tuning.has_known => !tuned,
            Way::Loose(tuning, form) => match tuning.known_of(&UnitKey::of(shape, *form)) {
                None => false,
                Some(best) => is_right(best.as_ref().and_then(Best::proposal)),
            },
        }
    }
}

impl Tuning {
    /// Sees to it that it goes by this mode. With another mode than before it begins anew.
    pub fn set_mode(&mut self, mode: Tune, has_known: bool) {
        if mode != self.mode {
            let follows = mode == Tune::On || has_known;
            let stage = if follows { Stage::default() } else { Stage::Off };
            *self = Tuning { mode, stage, has_known, had_known: has_known, ..Tuning::default() };
        }
        self.has_known |= has_known;
    }

    /// Begins as the communicator whose members are the same has got to; called at the same operation on all
    /// of them, when all that was called for there has begun.
    pub fn inherit(&mut self, other: &Tuning, mode: Tune) {
        self.set_mode(mode, false);
        let known = other.known.iter().filter(|(_, best)| best.is_some());
        self.known = known.cloned().collect();
        self.has_known = other.has_known;
        self.had_known = other.has_known;
    }

    /// Which collectives are exempt, by their bits, if that was found for this generation of plans.
    #[inline]
    pub fn exempt(&self, generation: u32) -> Option<u32> {
        self.exempt.filter(|(known, _)| *known == generation).map(|(_, exempt)| exempt)
    }

    /// These collectives are exempt.
    pub fn set_exempt(&mut self, generation: u32, exempt: u32) {
        self.exempt = Some((generation, exempt));
    }

    /// Where an operation is that is called for now.
    pub fn meet(&mut self, shape: &Shape, form: CallForm) -> CallSpot {
        self.catch_up();
        self.note(UnitKey::of(shape, form))
    }

    /// The short way of a call of this generation of plans, if it has one.
    #[inline]
    pub fn way(&self, mode: Tune, generation: u32, form: CallForm, words: &Words) -> Option<Way<'_>> {
        if mode != self.mode {
            return None;
        }
        if self.exempt(generation)? & 1 << words.collective as u32 != 0 {
            return Some(Way::Exempt);
        }
        let Stage::Following(cycle) = &self.stage else { return Some(Way::Loose(self, form)) };
        let steady = self.steady.get(cycle.position())?.as_ref()?;
        let key = cycle.next_key();
        let is_free = steady.left > 0 && key.form == form && steady.words == *words;
        is_free.then(|| Way::Placed(key, steady.best.as_ref().and_then(Best::proposal)))
    }

    /// A call of this shape went the short way.
    #[inline]
    pub fn went(&mut self, form: CallForm, shape: &Shape) {
        match &mut self.stage {
            Stage::Off => {}
            Stage::Asleep(left) if *left > 1 => *left -= 1,
            Stage::Asleep(_) | Stage::Watching(_) => {
                self.note(UnitKey::of(shape, form));
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

    /// Goes on by an operation that does not go the short way, or is in no loop.
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

    /// Units hear of what went the short way.
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

    /// Returns for how many operations it needs not be asked, if it goes to sleep. Where something was known
    /// from the start it is asked about each operation. Goes by calls.
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

    /// What is known of operations of a key wherever they come; `None` if it was not looked for.
    #[inline]
    pub fn known_of(&self, key: &UnitKey) -> Option<&Option<Best>> {
        let found = self.known.iter().find(|(known, _)| known == key).map(|(_, best)| best);
        found.or_else(|| (self.known.len() >= MOST_UNITS).then_some(&None))
    }

    /// Whether something may be known of operations that belong to no loop.
    pub fn has_known(&self) -> bool {
        self.has_known
    }

    /// What was found out of operations of a key before it was seen in a loop.
    pub fn set_known(&mut self, key: UnitKey, best: Option<Best>) {
        if self.known_of(&key).is_none() {
            self.known.push((key, best));
        }
    }

    /// Whether a unit is known, or will not be.
    pub fn has_unit(&self, place: Place) -> bool {
        self.units.contains_key(&place) || self.units.len() >= MOST_UNITS
    }

    /// A new unit.
    pub fn add(&mut self, place: Place, news: News) {
        self.units.insert(place, Unit::new(place, news));
    }

    /// The unit at a place.
    pub fn unit(&mut self, place: Place) -> Option<&mut Unit> {
        self.units.get_mut(&place)
    }

    /// What an operation at a place of a loop does that was called for at `reading`.
    pub fn turn(
        &mut self,
        (place, lap): (Place, u32),
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
            // Not before: some ranks ask again where others need not wait.
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

    /// What a unit has decided holds for its key wherever it comes, unless another place has decided
    /// otherwise.
    fn know(&mut self, place: Place) {
        let of_key = |(other, unit): (&Place, &Unit)| {
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

    /// The operation that was called for last is over, or has begun if it is not blocking. `words` name it,
    /// if it may be done again by them.
    pub fn settle(&mut self, place: Place, words: Option<Words>) {
        let (Some(words), Stage::Following(cycle)) = (words, &self.stage) else { return };
        let position = cycle.last_position();
        if cycle.place(position) != place {
            return;
        }
        let (best, left) = match self.units.get(&place) {
            // It goes on as it is until the one that explores has decided.
            Some(unit) if unit.decision().is_none() && self.active != Some(place) => {
                (unit.standing(), u32::MAX)
            }
            Some(unit) => (unit.standing(), unit.free_turns()),
            None => (None, u32::MAX),
        };
        self.steady[position] = Some(Steady { words, best, left, done: 0 });
    }

    /// Sleeps for longer if all units of the loop keep to the default. Called at a landmark, when all that
    /// was called for has begun: so at the same operation on all ranks.
    pub fn rest(&mut self) {
        let Stage::Following(cycle) = &self.stage else { return };
        let rests = |position| self.units.get(&cycle.place(position)).is_some_and(Unit::rests);
        if (0..cycle.period()).all(rests) {
            self.stage = Stage::Asleep(NAP << self.rests.min(MOST_RESTS));
            self.rests += 1;
            self.steady.clear();
        }
    }

    /// A sentence on each unit that is still being tried.
    pub fn undecided(&self) -> impl Iterator<Item = String> {
        let open = self.units.iter().filter(|(_, unit)| unit.decision().is_none());
        open.map(|(place, unit)| {
            unit.describe(*place, 0, "is what it began with, and nothing is decided yet")
        })
    }
}
