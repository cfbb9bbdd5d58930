//! Addresses of ranks: each daemon has the table of its own host, and of hosts that were requested. The state
//! machine is pure.
//!
//! A daemon that lacks an address requests it from its neighbour in the tree towards that host. It does so
//! once for all requesting ranks, and keeps the answer. The answer is the whole table of the host as far as
//! it is known. The other ranks of a host are usually requested soon after the first.
//!
//! Thus a request that all ranks make (the address of rank 0) costs one message per edge of the tree. An
//! address that no rank requests costs nothing. A request for an address that is not known yet is answered
//! when it is.

use std::collections::{BTreeMap, BTreeSet};

use tutti_sys::job::ADDRESS_BYTES;

use super::message::{Address, Ask, Table};

/// Origin of a request for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// Rank of this host, by its local number.
    Rank(u32),
    /// Parent of this daemon.
    Parent,
    /// Child of this daemon, by its number.
    Child(u32),
}

/// Action that a daemon must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Forwards the request towards its host.
    Forward(Ask),
    /// Answers a rank of this host.
    Tell {
        /// Local number of the rank that requested the address.
        to: u32,
        /// Request that is answered.
        ask: Ask,
        /// Address of the requested rank; empty if it will never have one.
        address: Address,
    },
    /// Answers a neighbouring daemon.
    Send(Asker, Table),
}

/// Maximum number of entries in one answer, which bounds a message. Others are requested when they are
/// needed.
const ENTRIES: usize = 4096;

/// Address tables of a daemon, and the requests that wait.
#[derive(Debug, Default)]
pub struct Directory {
    /// Host that this daemon serves, if any.
    own: Option<u32>,
    /// Addresses by local rank, for each host and generation.
    tables: BTreeMap<(u32, u32), BTreeMap<u32, Address>>,
    waiting: BTreeMap<Ask, BTreeSet<Asker>>,
    /// Local numbers of ranks of this host that have ended.
    ended: BTreeSet<u32>,
}

impl Directory {
    /// Creates the empty directory of the daemon that serves host `own`.
    pub fn new(own: Option<u32>) -> Directory {
        Directory { own, ..Directory::default() }
    }

    /// Handles a request for an address.
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

    /// Records an address that a rank of this host has published in its program of this generation.
    pub fn publish(&mut self, local: u32, generation: u32, address: Address, steps: &mut Vec<Step>) {
        let Some(host) = self.own else { return };
        self.learn(Table { host, generation, entries: vec![(local, address)] }, steps);
    }

    /// Records the end of a rank of this host. It will never have addresses that it has not published yet.
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

    /// Records the table in a daemon's answer.
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

    /// Answers a request: a rank gets the address, a daemon gets the table of the host.
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

    /// Applies `act` to the directory of host 0 and checks the steps.
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
