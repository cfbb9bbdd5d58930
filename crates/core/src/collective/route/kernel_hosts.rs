//! Offloaded collectives where hosts have several ranks. The ranks of a host meet by its banks and flags;
//! the leader of each host uses the kernel together with the other leaders.
//!
//! An operation has up to three parts: *up* to the leader of the host, by the kernel, and *down* again.
//! Each part runs on a communicator of its own. On each of them the parts begin in the order in which the
//! operations were called ([`Turns`]). So all members begin them in the same order, whatever the progress
//! of each.
//!
//! # Safety
//! As for [`Operation`]: its maker has promised the memory that its parts use. The block that ranks of a
//! host reduce into belongs to the activity, which outlives its parts.
#![allow(unsafe_code)]

use std::sync::Arc;

use tutti_base::Result;
use tutti_coll::{Collective, lower};
use tutti_data::Datatype;
use tutti_offload::layout::AREA_BYTES;

use super::kernel::{BCAST, Kind, buffer};
use crate::buffer::Buffer;
use crate::collective;
use crate::collective::context::{CommContext, root_of};
use crate::communicator::collectives::call::{Arguments, Call, OwnedCall, Side};
use crate::communicator::collectives::offload_state::Hosts;
use crate::completion;
use crate::engine::Array;
use crate::lanes::LaneGuard;
use crate::messenger::{Activity, Messenger};
use crate::offload::OffloadedCall;
use crate::process::{Process, started};
use crate::request::{Request, RequestId, Work};

/// MPI_BYTE in the standard ABI.
const BYTE: u32 = 0x247;

/// Current part of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The ranks of the host combine their data at the leader.
    Up,
    /// The leader waits for its turn to call the kernel.
    Call,
    /// The kernel works together with the other hosts.
    Kernel,
    /// The leader distributes the result on its host, in the order of calls.
    Down,
    /// Only the last request is missing.
    Over,
}

/// An active operation of this kind.
#[derive(Debug)]
struct Ascent {
    hosts: Arc<Hosts>,
    call: OwnedCall,
    kind: Kind,
    /// Host of the root and its number on that host.
    root: (u32, u32),
    /// Host of this rank and its number on that host.
    mine: (u32, u32),
    /// Position of the operation in the order of calls.
    turn: u32,
    part: Part,
    /// Request of the current part.
    pending: Option<RequestId>,
    /// Call of the kernel, at the leader.
    offloaded: Option<OffloadedCall>,
    /// Data that the ranks of the host reduce into.
    block: Box<[u64; AREA_BYTES / 8]>,
    request: RequestId,
}

/// Starts an operation of this kind behind a request.
pub(in crate::collective) fn start(
    cx: CommContext<'_>,
    call: &Call<'_>,
    (hosts, kind): (Arc<Hosts>, Kind),
) -> RequestId {
    let shape = call.shape();
    let work = Work::Collective(shape.collective.name(), root_of(shape.collective, shape.root));
    let request =
        cx.process.messages.borrow_mut(cx.lane).state.insert(Request::new(work, cx.comm.context().0));
    let turn = {
        let mut turns = hosts.turns();
        turns.next += 1;
        turns.next - 1
    };
    let member = |rank: u32| hosts.members.get(rank as usize).copied().unwrap_or_default();
    let (root, mine) = (member(shape.root), member(cx.comm.rank().0));
    // SAFETY: see the module's Safety section.
    let call = unsafe { OwnedCall::new(call) };
    let ascent = Box::new(Ascent {
        hosts,
        call,
        kind,
        root,
        mine,
        turn,
        part: Part::Up,
        pending: None,
        offloaded: None,
        block: Box::new([0; AREA_BYTES / 8]),
        request,
    });
    if let Some(activity) = ascent.advance(cx.lane, cx.process, false) {
        cx.process.add_activity(cx.lane, activity);
    }
    request
}

impl Activity for Ascent {
    fn advance(mut self: Box<Self>, held: &LaneGuard, _: &Messenger, _: bool) -> Option<Box<dyn Activity>> {
        let process = started();
        let error = match self.move_on(held, process) {
            Ok(false) => return Some(self),
            Ok(true) => None,
            Err(error) => {
                // Operations behind this one end independently.
                self.pass(true);
                self.pass(false);
                Some(error)
            }
        };
        process.messages.borrow_mut(held).state.requests.complete(self.request, error);
        None
    }

    fn is_unattended(&self) -> bool {
        true
    }
}

impl Ascent {
    /// Takes all steps that are possible now; returns true if the operation has ended.
    fn move_on(&mut self, held: &LaneGuard, process: &Process) -> Result<bool> {
        loop {
            if let Some(request) = self.pending {
                let Some(finished) = completion::finish_if_over(held, process, request)? else {
                    return Ok(false);
                };
                self.pending = None;
                finished.result?;
            }
            match self.part {
                Part::Up => {
                    self.pending = self.climb(held, process);
                    self.part = if self.hosts.place.is_some() { Part::Call } else { Part::Down };
                }
                Part::Call => {
                    if self.hosts.turns().called < self.turn {
                        return Ok(false);
                    }
                    self.call(held, process);
                    self.part = Part::Kernel;
                }
                Part::Kernel => {
                    if !self.is_called(held, process)? {
                        return Ok(false);
                    }
                    self.part = Part::Down;
                }
                Part::Down => {
                    if self.hosts.turns().descended < self.turn {
                        return Ok(false);
                    }
                    self.pass(false);
                    self.pending = self.descend(held, process);
                    self.part = Part::Over;
                }
                Part::Over => return Ok(true),
            }
        }
    }

    /// Lets the next operation call the kernel, or go down.
    fn pass(&self, calls: bool) {
        let mut turns = self.hosts.turns();
        let turn = if calls { &mut turns.called } else { &mut turns.descended };
        *turn = (*turn).max(self.turn + 1);
    }

    /// Starts the part among the ranks of this host that comes first.
    fn climb(&mut self, held: &LaneGuard, process: &Process) -> Option<RequestId> {
        let Ascent { hosts, call, kind, root, mine, block, .. } = self;
        let up = &hosts.up;
        let begin = |part| {
            let cx = CommContext::new(held, process, up);
            Some(collective::start(cx, &Call::new(up, part)))
        };
        let whole = call.call();
        let (send, recv) = whole.sides();
        // SAFETY: see the module's Safety section.
        unsafe {
            match (kind.collective, recv) {
                _ if hosts.is_alone() && kind.collective != Collective::Allreduce => None,
                (Collective::Barrier, _) => {
                    begin(Arguments::new(Collective::Barrier, Side::Absent, Side::Absent))
                }
                (Collective::Bcast, Side::Block(_)) => (root.0 == mine.0)
                    .then(|| Arguments::new(Collective::Bcast, Side::Absent, recv.clone()).with_root(root.1))
                    .and_then(begin),
                (_, Side::Block(all)) => {
                    let own = if let Side::Block(_) = send { send } else { recv };
                    if hosts.is_alone() {
                        let bytes = buffer(own).map_or(Vec::new(), |buffer| buffer.to_vec());
                        let words = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
                        block.iter_mut().zip(words).for_each(|(to, word)| *to = word);
                        return None;
                    }
                    let sum = Side::Block(Array { base: block.as_mut_ptr().cast(), ..*all });
                    let sum = if mine.1 == 0 { sum } else { Side::Absent };
                    let (reducer, commutes) = whole.operator()?;
                    let part = Arguments::new(Collective::Reduce, own.clone(), sum).with_root(0);
                    begin(part.with_operator(reducer.clone(), *commutes))
                }
                _ => None,
            }
        }
    }

    /// Starts the part in the kernel.
    fn call(&mut self, held: &LaneGuard, process: &Process) {
        self.pass(true);
        let Some(place) = &self.hosts.place else { return };
        let bytes = usize::from(self.kind.bytes);
        let data = match self.kind.collective {
            Collective::Bcast if self.root.0 == self.mine.0 => {
                self.result().map_or(Vec::new(), |own| own.to_vec())
            }
            Collective::Allreduce => {
                self.block.iter().flat_map(|word| word.to_ne_bytes()).take(bytes).collect()
            }
            _ => Vec::new(),
        };
        let program = self.kind.program + if self.kind.program == BCAST { self.root.0 as u8 } else { 0 };
        let operation = lower::Operation { program, operator: self.kind.operator, bytes: self.kind.bytes };
        let synchronises = self.kind.collective != Collective::Bcast;
        self.offloaded =
            Some(place.call(&mut process.library.kernel.borrow_mut(held), operation, synchronises, data));
    }

    /// Returns true if the kernel has finished; the result is then in the user's buffer.
    fn is_called(&mut self, held: &LaneGuard, process: &Process) -> Result<bool> {
        let (Some(place), Some(call)) = (&self.hosts.place, &mut self.offloaded) else { return Ok(true) };
        if !place.advance(&mut process.library.kernel.borrow_mut(held), call)? {
            return Ok(false);
        }
        let is_root = self.kind.collective == Collective::Bcast && self.root.0 == self.mine.0;
        if self.kind.collective != Collective::Barrier && !is_root {
            let mut block = [0; AREA_BYTES];
            let block = &mut block[..usize::from(self.kind.bytes)];
            place.result(call, block);
            if let Some(result) = self.result() {
                result.unpack(0, block);
            }
        }
        Ok(true)
    }

    /// Returns the buffer of the result, or of a broadcast's data.
    fn result(&self) -> Option<Buffer> {
        buffer(self.call.call().sides().1)
    }

    /// Starts the part among the ranks of this host that comes last.
    fn descend(&mut self, held: &LaneGuard, process: &Process) -> Option<RequestId> {
        let Ascent { hosts, call, kind, root, mine, block, .. } = self;
        if hosts.is_alone() || kind.collective == Collective::Bcast && root.0 == mine.0 {
            return None;
        }
        let byte = Datatype::predefined(BYTE)?;
        let result = match kind.collective {
            Collective::Barrier => {
                Side::Block(Array { base: block.as_mut_ptr().cast(), count: 1, datatype: byte })
            }
            _ => call.call().sides().1.clone(),
        };
        // SAFETY: see the module's Safety section.
        let part = unsafe { Arguments::new(Collective::Bcast, Side::Absent, result) }.with_root(0);
        let cx = CommContext::new(held, process, &hosts.down);
        Some(collective::start(cx, &Call::new(cx.comm, part)))
    }
}
