//! Where ranks can be reached: each daemon keeps the table of its own host and of those that somebody asked for. Pure.
//!
//! A daemon that does not know asks its neighbour in the tree towards that host, once for all who ask it, and keeps the answer, which is the whole
//! table of the host as far as it is known: the other ranks of a host are asked for soon after the first. So a question that all ranks ask (who is
//! rank 0?) costs one message an edge of the tree, whatever their number, and what nobody asks for costs nothing. An answer that is not known yet comes when it is.

use std::collections::{BTreeMap, BTreeSet};

use tutti_sys::job::ADDRESS_BYTES;

use super::message::{Address, Ask, Table};

/// Who wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// A rank of this host, by its local number.
    Rank(u32),
    /// The parent daemon.
    Parent,
    /// A child daemon.
    Child(u32),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Pass the question on towards that host.
    Forward(Ask),
    /// Tell a local rank what it asked for.
    Tell {
        /// The local rank that asked.
        to: u32,
        /// What it asked for.
        ask: Ask,
        /// The answer.
        address: Address,
    },
    /// Tell a daemon.
    Send(Asker, Table),
}

/// Most entries in one answer: bounds a message. The rest is asked for when it is needed.
const ENTRIES: usize = 4096;

/// The tables of a daemon.
#[derive(Debug, Default)]
pub struct Directory {
    /// The host that this daemon serves, if any.
    own: Option<u32>,
    /// By host and generation.
    tables: BTreeMap<(u32, u32), BTreeMap<u32, Address>>,
    waiting: BTreeMap<Ask, BTreeSet<Asker>>,
    /// Local ranks of the own host that have ended.
    ended: BTreeSet<u32>,
}

impl Directory {
    /// Of the daemon that serves host `own`.
    pub fn new(own: Option<u32>) -> Directory {
        Directory { own, ..Directory::default() }
    }

    /// Somebody asks.
    pub fn ask(&mut self, asker: Asker, ask: Ask, steps: &mut Vec<Step>) {
        let table = self.tables.get(&(ask.host, ask.generation));
        let known = table.and_then(|table| table.get(&ask.local)).cloned();
        let has_ended = self.own == Some(ask.host) && self.ended.contains(&ask.local);
        if let Some(address) = known.or_else(|| has_ended.then(Address::new)) {
            self.answer(asker, ask, address, steps);
            return;
        }
        let waiting = self.waiting.entry(ask).or_default();
        let is_first = waiting.is_empty();
        waiting.insert(asker);
        if is_first && self.own != Some(ask.host) {
            steps.push(Step::Forward(ask));
        }
    }

    /// A rank of this host has an address in its program of this generation.
    pub fn publish(&mut self, local: u32, generation: u32, address: Address, steps: &mut Vec<Step>) {
        let Some(host) = self.own else { return };
        self.learn(Table { host, generation, entries: vec![(local, address)] }, steps);
    }

    /// A rank of this host has ended: addresses that it has not published by now it will never have.
    pub fn end(&mut self, local: u32, steps: &mut Vec<Step>) {
        let Some(host) = self.own else { return };
        self.ended.insert(local);
        let asks = self.waiting.keys().filter(|ask| (ask.host, ask.local) == (host, local));
        let asks: Vec<Ask> = asks.copied().collect();
        for ask in asks {
            for asker in self.waiting.remove(&ask).unwrap_or_default() {
                self.answer(asker, ask, Address::new(), steps);
            }
        }
    }

    /// Returns the number of ranks of this host that have published in their first program.
    pub fn published(&self) -> u32 {
        let own = self.own.and_then(|own| self.tables.get(&(own, 0)));
        own.map_or(0, |table| table.values().filter(|address| !address.is_empty()).count() as u32)
    }

    /// A daemon answers.
    pub fn learn(&mut self, table: Table, steps: &mut Vec<Step>) {
        let Table { host, generation, .. } = table;
        for (local, address) in table.entries {
            if address.len() > ADDRESS_BYTES {
                continue;
            }
            let ask = Ask { host, local, generation };
            self.tables.entry((host, generation)).or_default().insert(local, address.clone());
            for asker in self.waiting.remove(&ask).unwrap_or_default() {
                self.answer(asker, ask, address.clone(), steps);
            }
        }
    }

    fn answer(&self, asker: Asker, ask: Ask, address: Address, steps: &mut Vec<Step>) {
        if let Asker::Rank(to) = asker {
            steps.push(Step::Tell { to, ask, address });
            return;
        }
        let Ask { host, generation, .. } = ask;
        let known = self.tables.get(&(host, generation)).into_iter().flatten();
        let others = known.filter(|(local, _)| **local != ask.local).take(ENTRIES - 1);
        let others = others.map(|(local, address)| (*local, address.clone()));
        let entries = [(ask.local, address)].into_iter().chain(others).collect();
        steps.push(Step::Send(asker, Table { host, generation, entries }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ask(host: u32, local: u32) -> Ask {
        Ask { host, local, generation: 0 }
    }

    fn tell(to: u32, host: u32, local: u32, address: &[u8]) -> Step {
        Step::Tell { to, ask: ask(host, local), address: address.to_vec() }
    }

    /// Applies `act` to the directory of host 0 and compares what is to be done.
    fn check(directory: &mut Directory, act: impl FnOnce(&mut Directory, &mut Vec<Step>), expected: &[Step]) {
        let mut steps = Vec::new();
        act(directory, &mut steps);
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_question_is_passed_on_once_and_its_answer_kept() {
        let mut own = Directory::new(Some(0));
        check(&mut own, |d, s| d.ask(Asker::Rank(1), ask(3, 7), s), &[Step::Forward(ask(3, 7))]);
        check(&mut own, |d, s| d.ask(Asker::Rank(2), ask(3, 7), s), &[]);
        check(&mut own, |d, s| d.ask(Asker::Child(4), ask(3, 7), s), &[]);
        let table = Table { host: 3, generation: 0, entries: vec![(7, b"x".to_vec()), (8, b"y".to_vec())] };
        let sent =
            Step::Send(Asker::Child(4), Table { host: 3, generation: 0, entries: vec![(7, b"x".to_vec())] });
        check(&mut own, |d, s| d.learn(table, s), &[tell(1, 3, 7, b"x"), tell(2, 3, 7, b"x"), sent]);
        check(&mut own, |d, s| d.ask(Asker::Rank(1), ask(3, 8), s), &[tell(1, 3, 8, b"y")]);
    }

    #[test]
    fn the_own_hosts_ranks_answer_when_they_have_published() {
        let mut own = Directory::new(Some(0));
        check(&mut own, |d, s| d.ask(Asker::Parent, ask(0, 1), s), &[]);
        check(&mut own, |d, s| d.publish(0, 0, b"a".to_vec(), s), &[]);
        let entries = vec![(1, b"b".to_vec()), (0, b"a".to_vec())];
        let sent = Step::Send(Asker::Parent, Table { host: 0, generation: 0, entries });
        check(&mut own, |d, s| d.publish(1, 0, b"b".to_vec(), s), &[sent]);
        assert_eq!(own.published(), 2);
        check(&mut own, |d, s| d.ask(Asker::Rank(5), ask(0, 2), s), &[]);
        check(&mut own, |d, s| d.end(2, s), &[tell(5, 0, 2, b"")]);
        assert_eq!(own.published(), 2);
        check(&mut own, |d, s| d.ask(Asker::Rank(5), ask(0, 2), s), &[tell(5, 0, 2, b"")]);
    }

    #[test]
    fn programs_of_one_generation_do_not_find_those_of_another() {
        let mut own = Directory::new(Some(0));
        let later = Ask { generation: 1, ..ask(0, 1) };
        let told = |address: &[u8]| Step::Tell { to: 0, ask: later, address: address.to_vec() };
        check(&mut own, |d, s| d.publish(1, 0, b"a".to_vec(), s), &[]);
        check(&mut own, |d, s| d.ask(Asker::Rank(0), later, s), &[]);
        check(&mut own, |d, s| d.publish(1, 1, b"b".to_vec(), s), &[told(b"b")]);
        check(&mut own, |d, s| d.ask(Asker::Rank(0), ask(0, 1), s), &[tell(0, 0, 1, b"a")]);
        assert_eq!(own.published(), 1);
    }
}
