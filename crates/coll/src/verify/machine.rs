//! Execution of the schedules of all ranks, each as far as it can run, until all have ended or none can
//! continue.

use std::collections::HashMap;

use super::Fault;
use super::case::{Case, Sums};
use super::clocks::{Clocks, Thread, Waiter};
use super::memory::{Memory, RankRange, Run};
use super::signals::Signals;
use super::value::{Atom, Values};
use crate::cursor::{Cursor, Instance};
use crate::hierarchy::{self, Hierarchy};
use crate::ir::{Index, Kind, LANES, Order, Schedule, Span};
use crate::shape::Collective;

/// One side of a message that waits for the other.
struct Posted {
    rank: u32,
    thread: Thread,
    peer: u32,
    lane: u16,
    instance: Instance,
    place: Option<RankRange>,
}

/// Execution of the schedules of all ranks on symbolic data.
pub(super) struct Machine<'a> {
    case: &'a Case,
    schedules: &'a [Schedule],
    /// Order of all schedules: [`Order::Program`].
    program: bool,
    pub values: Values,
    cursors: Vec<Cursor>,
    memory: Memory<'a>,
    clocks: Clocks,
    /// Posted sends, by the rank that receives.
    sends: Vec<Vec<Posted>>,
    recvs: Vec<Vec<Posted>>,
    /// Receiver and sender of messages that may have become complete.
    posted: Vec<(u32, u32)>,
    /// Completed waits for flags, each a rank and an instance.
    heard: Vec<(u32, Instance)>,
    /// Ranks that may continue.
    awake: Vec<u32>,
    /// Signals of a barrier that is not in program order.
    signals: Option<Signals>,
    /// Assignment of ranks to hosts, if there are several hosts.
    hosts: Option<&'a Hierarchy>,
    /// Numbers of multicast messages that have not been received, by rank and step.
    casts: HashMap<(u32, Instance), usize>,
    /// Owner of each lane, by rank, peer, lane and direction (true for receiving).
    lanes: HashMap<(u32, u32, u16, bool), Thread>,
}

impl<'a> Machine<'a> {
    pub fn new(
        case: &'a Case,
        schedules: &'a [Schedule],
        sums: &'a [Sums],
        hosts: Option<&'a Hierarchy>,
    ) -> Machine<'a> {
        let cursors = schedules.iter().map(|schedule| {
            let mut cursor = Cursor::default();
            cursor.reset(schedule);
            cursor
        });
        let program = schedules.iter().any(|schedule| schedule.order == Order::Program);
        let strands = schedules.iter().map(|schedule| schedule.strands.len() as u32 + 1);
        let signals = case.collective == Collective::Barrier && !program;
        Machine {
            case,
            schedules,
            program,
            values: Values::new(case.ranks),
            cursors: cursors.collect(),
            memory: Memory::new(case, schedules, sums),
            clocks: Clocks::new(strands.filter(|_| program)),
            sends: schedules.iter().map(|_| Vec::new()).collect(),
            recvs: schedules.iter().map(|_| Vec::new()).collect(),
            posted: Vec::new(),
            heard: Vec::new(),
            awake: (0..schedules.len() as u32).rev().collect(),
            signals: signals.then(|| Signals::new(schedules.len())),
            hosts,
            casts: HashMap::new(),
            lanes: HashMap::new(),
        }
    }

    /// Returns the receive buffer of a rank.
    pub fn result(&self, rank: u32) -> &[Atom] {
        self.memory.result(rank)
    }

    pub fn run(&mut self) -> Result<(), Fault> {
        while let Some(rank) = self.awake.pop() {
            let mut cursor = std::mem::take(&mut self.cursors[rank as usize]);
            let schedule = &self.schedules[rank as usize];
            cursor.advance(schedule, |instance| {
                let thread = self.clocks.thread(rank, schedule.strand(instance.step));
                self.start(Run { rank, thread, instance })
                    .map_err(|fault| fault.in_step(instance).at_rank(rank))
            })?;
            self.cursors[rank as usize] = cursor;
            for (rank, instance) in self.heard.drain(..) {
                self.cursors[rank as usize].complete(instance);
                self.awake.push(rank);
            }
            while let Some((receiver, sender)) = self.posted.pop() {
                self.matches(receiver, sender)?;
            }
        }
        self.ended()?;
        match self.sends.iter().flatten().next() {
            Some(posted) => {
                Err(Fault::new("sends a message that no rank receives".into()).at_rank(posted.rank))
            }
            None => Ok(()),
        }
    }

    /// Checks that all ranks have ended, and otherwise reports where they wait.
    fn ended(&mut self) -> Result<(), Fault> {
        let open = |(cursor, schedule): (&mut Cursor, _)| !cursor.finished(schedule);
        let Some(rank) = self.cursors.iter_mut().zip(self.schedules).position(open) else { return Ok(()) };
        let mut waits: Vec<String> = Vec::new();
        for posted in self.sends.iter().chain(&self.recvs).flatten() {
            let Posted { rank, peer, instance, .. } = posted;
            waits.push(format!(
                "rank {rank} in step {} (iteration {}) for rank {peer}",
                instance.step.0, instance.iteration
            ));
        }
        for (peer, Waiter { rank, instance, flag, value, .. }) in self.clocks.waiters() {
            waits.push(format!(
                "rank {rank} in step {} (iteration {}) for flag {flag} of rank {peer} to be {value}",
                instance.step.0, instance.iteration
            ));
        }
        let all = waits.len();
        waits.truncate(16);
        Err(Fault::new(format!("deadlock; {all} wait: {}", waits.join("; "))).at_rank(rank as u32))
    }

    /// Starts a step. Whether it is complete.
    fn start(&mut self, run: Run) -> Result<bool, Fault> {
        let kind = &self.schedules[run.rank as usize].steps[run.instance.step.0 as usize].kind;
        match kind {
            Kind::Send { peer, lane, from } => return self.send_or_recv(run, false, *peer, *lane, from),
            Kind::Recv { peer, lane, into } => return self.send_or_recv(run, true, *peer, *lane, into),
            Kind::Multicast { group, lane, from } => return self.multicast(run, *group, *lane, from),
            Kind::Await { peer, flag, value } => {
                let (peer, value) = (self.neighbour(run, *peer)?, value.in_iteration(run.instance.iteration));
                let Run { rank, thread, instance } = run;
                return self.clocks.wait(peer, Waiter { rank, thread, instance, flag: *flag, value });
            }
            Kind::Post { flag, value } => {
                let value = value.in_iteration(run.instance.iteration);
                for ready in self.clocks.post(run.rank, run.thread, *flag, value)? {
                    self.heard.push((ready.rank, ready.instance));
                }
            }
            Kind::Expose { slot, what, access } => {
                self.memory.expose(run, *slot, what, *access, &self.clocks)?;
            }
            Kind::Copy { from, into } => {
                let (from, into) = (self.own(run, from, false)?, self.own(run, into, true)?);
                self.memory.apply(&mut self.values, &from, None, &into)?;
            }
            Kind::Reduce { left, right } => {
                let (left, right) = (self.own(run, left, false)?, self.own(run, right, true)?);
                self.memory.reduce(&mut self.values, &left, &right)?;
            }
            Kind::Pull { peer, from, into } => {
                let (from, into) = (self.remote(run, *peer, from, false)?, self.own(run, into, true)?);
                self.memory.apply(&mut self.values, &from, None, &into)?;
            }
            Kind::Combine { peer, from, with, into } => {
                let (from, with) = (self.remote(run, *peer, from, false)?, self.own(run, with, false)?);
                let into = self.own(run, into, true)?;
                self.memory.apply(&mut self.values, &from, Some(&with), &into)?;
            }
            Kind::Pack { from, into } => {
                let (from, into) = (self.own(run, from, false)?, self.own(run, into, true)?);
                self.memory.pack(&mut self.values, &from, &into)?;
            }
            Kind::Unpack { peer, from, into } => {
                let from = self.remote(run, *peer, from, false)?;
                let Some(into) = self.memory.own(run, into, true)? else {
                    return Err(Fault::new("uses a signal as data".into()));
                };
                // A block that is too long for the frame travels as a message.
                if Kind::fits(into.range.length, from.range.length) {
                    self.memory.touch(run, &into, true, &self.clocks)?;
                }
                self.memory.unpack(&mut self.values, &from, &into)?;
            }
            Kind::Push { peer, from, into } => {
                let (from, into) = (self.own(run, from, false)?, self.remote(run, *peer, into, true)?);
                self.memory.apply(&mut self.values, &from, None, &into)?;
            }
            Kind::FileRead { into, window } => {
                let into = self.own(run, into, true)?;
                self.memory.file_read(&into, window.in_iteration(run.instance.iteration))?;
            }
            Kind::FileWrite { from, window } => {
                let from = self.own(run, from, false)?;
                self.memory.file_write(&from, window.in_iteration(run.instance.iteration))?;
            }
        }
        Ok(true)
    }

    fn own(&mut self, run: Run, span: &Span, write: bool) -> Result<RankRange, Fault> {
        let Some(place) = self.memory.own(run, span, write)? else {
            return Err(Fault::new("uses a signal as data".into()));
        };
        self.memory.touch(run, &place, write, &self.clocks)?;
        Ok(place)
    }

    fn remote(&mut self, run: Run, peer: Index, span: &Span, write: bool) -> Result<RankRange, Fault> {
        let peer = self.neighbour(run, peer)?;
        let place = self.memory.remote(run, peer, span, write, &self.clocks)?;
        self.memory.touch(run, &place, write, &self.clocks)?;
        Ok(place)
    }

    fn peer(&self, run: Run, peer: Index) -> Result<u32, Fault> {
        let peer = peer.in_iteration(run.instance.iteration);
        let peer = u32::try_from(peer).ok().filter(|peer| *peer < self.case.ranks);
        peer.ok_or_else(|| Fault::new("has no such peer".into()))
    }

    /// Returns a peer, and checks that its flags and memory are accessible.
    fn neighbour(&self, run: Run, peer: Index) -> Result<u32, Fault> {
        let peer = self.peer(run, peer)?;
        let far = self.hosts.is_some_and(|hosts| hosts.distance(run.rank, peer) == hierarchy::NETWORK);
        if far {
            Err(Fault::new(format!("accesses rank {peer}, which is on another host")))
        } else {
            Ok(peer)
        }
    }

    fn send_or_recv(
        &mut self,
        run: Run,
        into: bool,
        peer: Index,
        lane: u16,
        span: &Span,
    ) -> Result<bool, Fault> {
        let Run { rank, thread, instance } = run;
        let peer = self.peer(run, peer)?;
        if peer == rank || lane >= LANES {
            return Err(Fault::new("has no such peer or lane".into()));
        }
        let owner = *self.lanes.entry((rank, peer, lane, into)).or_insert(thread);
        if owner != thread {
            return Err(Fault::new(format!("uses lane {lane}, which is another strand's")));
        }
        let place = self.memory.own(run, span, into)?;
        if place.is_some_and(|place| place.range.length == 0) {
            return Ok(true);
        }
        let waits = Posted { rank, thread, peer, lane, instance, place };
        if into {
            self.recvs[rank as usize].push(waits);
            self.posted.push((rank, peer));
        } else {
            if let Some(place) = place {
                self.memory.touch(run, &place, false, &self.clocks)?;
            }
            self.sends[peer as usize].push(waits);
            self.posted.push((peer, rank));
        }
        Ok(false)
    }

    /// Starts a multicast as a send to each member; it is complete when all of them are.
    fn multicast(&mut self, run: Run, group: u16, lane: u16, from: &Span) -> Result<bool, Fault> {
        let groups = &self.schedules[run.rank as usize].groups;
        let members = groups.get(usize::from(group)).filter(|members| !members.is_empty());
        let members =
            members.ok_or_else(|| Fault::new("sends to a group that does not exist or is empty".into()))?;
        if (1..).zip(members).any(|(next, member)| members[next..].contains(member)) {
            return Err(Fault::new("sends twice to a member of a group".into()));
        }
        let mut is_complete = true;
        for member in members {
            is_complete &= self.send_or_recv(run, false, Index::from(*member), lane, from)?;
        }
        if !is_complete {
            self.casts.insert((run.rank, run.instance), members.len());
        }
        Ok(is_complete)
    }

    /// Returns true if all of a multicast has been received, if it was one.
    fn is_last(&mut self, rank: u32, instance: Instance) -> bool {
        let Some(left) = self.casts.get_mut(&(rank, instance)) else { return true };
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.casts.remove(&(rank, instance));
        }
        is_last
    }

    /// Completes every message from `sender` to `receiver` of which both sides are there.
    fn matches(&mut self, receiver: u32, sender: u32) -> Result<(), Fault> {
        let mut seen = 0_u64;
        let mut next = 0;
        loop {
            let (sends, recvs) = (&mut self.sends[receiver as usize], &mut self.recvs[receiver as usize]);
            let Some(found) = sends[next..].iter().position(|send| send.rank == sender) else {
                return Ok(());
            };
            next += found;
            let lane = sends[next].lane;
            let recv = recvs.iter().position(|recv| recv.peer == sender && recv.lane == lane);
            let (Some(recv), 0) = (recv, seen >> lane & 1) else {
                seen |= 1 << lane;
                next += 1;
                continue;
            };
            let (send, recv) = (sends.remove(next), recvs.remove(recv));
            self.transfer(&send, &recv).map_err(|fault| fault.in_step(recv.instance).at_rank(receiver))?;
        }
    }

    fn transfer(&mut self, send: &Posted, recv: &Posted) -> Result<(), Fault> {
        if self.program {
            self.clocks.message(send.thread, recv.thread);
        }
        match (send.place, recv.place) {
            (Some(from), Some(into)) if from.range.length == into.range.length => {
                self.memory.apply(&mut self.values, &from, None, &into)?;
                let run = Run { rank: recv.rank, thread: recv.thread, instance: recv.instance };
                self.memory.touch(run, &into, true, &self.clocks)?;
            }
            (None, None) => {}
            (from, into) => {
                let (step, rank) = (send.instance.step.0, send.rank);
                return Err(Fault::new(format!(
                    "receives {into:?} where step {step} of rank {rank} sends {from:?}"
                )));
            }
        }
        if let Some(signals) = &mut self.signals {
            signals.message(self.schedules, (send.rank, send.instance), (recv.rank, recv.instance));
        }
        for side in [send, recv] {
            if !self.is_last(side.rank, side.instance) {
                continue;
            }
            self.cursors[side.rank as usize].complete(side.instance);
            self.awake.push(side.rank);
        }
        Ok(())
    }

    /// Checks the results of all ranks after the execution.
    pub fn check(&self) -> Result<(), Fault> {
        let ranks = self.case.ranks;
        if let Some(signals) = &self.signals {
            signals.check(ranks)?;
        }
        if self.program {
            self.memory.check(&self.clocks)?;
        }
        self.memory.file_check()?;
        for rank in 0..ranks {
            let heard = if self.program { self.clocks.heard(rank) } else { ranks };
            if self.case.collective == Collective::Barrier && heard < ranks {
                let what = format!("leaves the barrier after {heard} of {ranks} entered");
                return Err(Fault::new(what).at_rank(rank));
            }
            let [_, before] = self.case.initial(rank);
            self.case
                .check(rank, &before, self.memory.result(rank), &self.values)
                .map_err(|what| Fault::new(format!("wrong result: {what}")).at_rank(rank))?;
        }
        Ok(())
    }
}
