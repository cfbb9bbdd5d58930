//! A file for the verifier: symbolic bytes, of which each rank sees some. Bytes that ranks contribute are
//! written once, to their positions; all other bytes remain unchanged.

use super::Fault;
use super::case::{Case, Pattern, Sums, sums};
use super::value::{Atom, Values};
use crate::shape::Collective;

/// The bytes of a file.
pub(super) struct Disk {
    case: Case,
    atoms: Vec<Atom>,
    /// Positions of each rank's bytes.
    views: Vec<Vec<u64>>,
}

impl Disk {
    /// Returns the file of a case, if it has one.
    pub fn new(case: &Case) -> Option<Disk> {
        let bytes = case.file_bytes()?;
        let views: Vec<Vec<u64>> = (0..case.ranks).map(|rank| case.view(rank)).collect();
        let atoms = match case.collective {
            Collective::FileRead => (0..bytes).map(|place| Values::own(0, place)).collect(),
            _ => vec![Atom::UNDEFINED; bytes as usize],
        };
        Some(Disk { case: *case, atoms, views })
    }

    /// Returns the positions of the bytes of a window, in their order in memory.
    fn places(&self, window: u64) -> Vec<usize> {
        let bytes = self.case.window_bytes();
        let range = window * bytes..(window + 1) * bytes;
        let inside = |place: &&u64| range.contains(*place);
        self.views.iter().flat_map(|view| view.iter().filter(inside)).map(|place| *place as usize).collect()
    }

    pub fn read(&self, window: u64, length: u64) -> Result<Vec<Atom>, Fault> {
        let places = self.places(window);
        if places.len() as u64 != length {
            let what = format!("reads {length} units of window {window}, which has {}", places.len());
            return Err(Fault::new(what));
        }
        Ok(places.into_iter().map(|place| self.atoms[place]).collect())
    }

    pub fn write(&mut self, window: u64, from: &[Atom]) -> Result<(), Fault> {
        let places = self.places(window);
        if places.len() != from.len() {
            let what = format!("writes {} units to window {window}, which has {}", from.len(), places.len());
            return Err(Fault::new(what));
        }
        for (place, atom) in places.into_iter().zip(from) {
            if *atom == Atom::UNDEFINED || self.atoms[place] != Atom::UNDEFINED {
                let what = format!("writes nothing, or twice, to byte {place} of the file");
                return Err(Fault::new(what));
            }
            self.atoms[place] = *atom;
        }
        Ok(())
    }

    pub fn check(&self) -> Result<(), Fault> {
        if self.case.collective != Collective::FileWrite {
            return Ok(());
        }
        let mut expected = vec![Atom::UNDEFINED; self.atoms.len()];
        for (rank, view) in (0..).zip(&self.views) {
            for (unit, place) in (0..).zip(view) {
                expected[*place as usize] = Values::own(rank, unit);
            }
        }
        match expected.iter().zip(&self.atoms).position(|(wanted, found)| wanted != found) {
            Some(place) => Err(Fault::new(format!("byte {place} of the file has a wrong value"))),
            None => Ok(()),
        }
    }
}

impl Case {
    fn file(&self) -> Option<(u32, u32, u32)> {
        match self.pattern {
            Pattern::File { window, aggregators, seed } => Some((window, aggregators, seed)),
            _ => None,
        }
    }

    /// Returns the units of the file, if there is one.
    fn file_bytes(&self) -> Option<u64> {
        self.file().map(|_| self.count * u64::from(self.ranks + 1))
    }

    fn window_bytes(&self) -> u64 {
        self.file().map_or(1, |(window, ..)| u64::from(window))
    }

    /// Returns the positions of a rank's bytes: random pieces of the file, some of which belong to no rank.
    /// In a read, some also belong to the next rank.
    pub(super) fn view(&self, rank: u32) -> Vec<u64> {
        let (Some((.., seed)), Some(bytes)) = (self.file(), self.file_bytes()) else { return Vec::new() };
        let owner = |piece: u64| {
            let mixed = (piece + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(seed) << 7;
            (mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % u64::from(self.ranks + 1)
        };
        let is_mine = |place: &u64| {
            let owner = owner(place / (1 + u64::from(seed) % 5));
            let shared = self.collective == Collective::FileRead && owner == u64::from(rank + 1);
            owner == u64::from(rank) || shared
        };
        (0..bytes).filter(is_mine).collect()
    }

    /// Returns the aggregators, the ranks in charge of windows.
    pub fn aggregators(&self) -> Vec<u32> {
        let (_, aggregators, _) = self.file().unwrap_or((1, 1, 0));
        (0..aggregators).map(|number| number * self.ranks / aggregators).collect()
    }

    /// Returns the number of windows of each aggregator.
    pub fn rounds(&self) -> u32 {
        let windows = self.file_bytes().unwrap_or(0).div_ceil(self.window_bytes());
        windows.div_ceil(self.aggregators().len() as u64) as u32
    }

    fn within(&self, rank: u32, window: u64) -> u64 {
        let range = window * self.window_bytes()..(window + 1) * self.window_bytes();
        self.view(rank).iter().filter(|place| range.contains(*place)).count() as u64
    }

    /// Returns the tables of a rank: its own bytes in every window, and those of all ranks in its windows.
    pub(super) fn file_sums(&self, rank: u32) -> Sums {
        let aggregators = self.aggregators();
        let (number, rounds) = (aggregators.len() as u64, u64::from(self.rounds()));
        let own = sums((0..rounds * number).map(|window| self.within(rank, window)));
        let place = aggregators.iter().position(|other| *other == rank);
        let slots = place.map_or(Vec::new(), |place| {
            let windows = (0..rounds).map(|round| round * number + place as u64);
            sums(windows.flat_map(|window| (0..self.ranks).map(move |other| self.within(other, window))))
        });
        if self.collective == Collective::FileWrite { Sums::new(own, slots) } else { Sums::new(slots, own) }
    }

    /// Returns the largest number of units that all ranks have in a window of this rank.
    pub fn slot(&self, rank: u32) -> u64 {
        let sums = self.file_sums(rank);
        let tables = sums.tables();
        let slots = if self.collective == Collective::FileWrite { tables.recv } else { tables.send };
        let round = |ends: &[u64]| ends[self.ranks as usize] - ends[0];
        slots.windows(self.ranks as usize + 1).step_by(self.ranks as usize).map(round).max().unwrap_or(0)
    }

    /// Returns an upper bound of the units of a rank's temporaries in an operation on a file. It is a window
    /// for each round in flight, twice that if ranks read the same bytes.
    pub(super) fn window_bound(&self) -> Option<u64> {
        self.file().map(|(window, ..)| 2 * u64::from(window) * u64::from(self.params.window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::files::{self, Exchange};
    use crate::ir::{Kind, Schedule};
    use crate::shape::Params;
    use crate::verify::verify;

    fn case(
        collective: Collective,
        ranks: u32,
        count: u64,
        pattern: (u32, u32, u32),
        in_flight: u32,
    ) -> Case {
        let (window, aggregators, seed) = pattern;
        Case {
            collective,
            ranks,
            root: 0,
            count,
            commutative: true,
            in_place: false,
            params: Params { window: in_flight, ..Params::DEFAULT },
            pattern: Pattern::File { window, aggregators, seed },
        }
    }

    fn schedules(case: &Case) -> Vec<Schedule> {
        let aggregators = case.aggregators();
        let schedule = |rank| {
            let exchange = Exchange {
                ranks: case.ranks,
                rank,
                aggregators: &aggregators,
                rounds: case.rounds(),
                slot: case.slot(rank),
                in_flight: case.params.window,
            };
            if case.collective == Collective::FileWrite {
                files::write(&exchange)
            } else {
                files::read(&exchange)
            }
        };
        (0..case.ranks).map(schedule).collect()
    }

    fn check(case: &Case, expected: &str, schedules: &[Schedule]) {
        match (verify(case, schedules), expected) {
            (Ok(()), "") => {}
            (Err(fault), expected) if !expected.is_empty() && fault.to_string().contains(expected) => {}
            (found, _) => panic!("{case:?}: expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn both_directions_for_any_ranks_windows_and_aggregators() {
        for collective in [Collective::FileRead, Collective::FileWrite] {
            for ranks in 1..=9 {
                for aggregators in 1..=ranks {
                    for (window, seed, in_flight) in [(1, 0, 1), (7, 3, 2), (16, 1, 2), (64, 9, 3)] {
                        let case = case(collective, ranks, 11, (window, aggregators, seed), in_flight);
                        check(&case, "", &schedules(&case));
                    }
                }
            }
        }
    }

    #[test]
    fn many_ranks() {
        for collective in [Collective::FileRead, Collective::FileWrite] {
            for ranks in [16, 33, 64] {
                let case = case(collective, ranks, 5, (32, 1 + ranks / 4, 5), 2);
                check(&case, "", &schedules(&case));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        let case = case(Collective::FileWrite, 3, 11, (8, 2, 1), 2);
        let right = schedules(&case);
        let mut other = right.clone();
        for step in &mut other[0].steps {
            if let Kind::FileWrite { window, .. } = &mut step.kind {
                window.base += 1;
            }
        }
        check(&case, "window", &other);
        let mut early = right.clone();
        for step in &mut early[0].steps {
            if let Kind::FileWrite { .. } = step.kind {
                step.after = Box::default();
            }
        }
        check(&case, "not ordered", &early);
        let mut crowded = right;
        crowded[0].temporaries[0] *= 5;
        check(&case, "units of temporaries", &crowded);
    }
}
