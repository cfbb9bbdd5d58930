//! The messages of one collective operation on one communicator, for the engine.

use tutti_base::{Rank, Result};
use tutti_coll::ir::Access;

use super::LANE_BITS;
use crate::buffer::Buffer;
use crate::communicator::Communicator;
use crate::completion;
use crate::engine::{Exposed, NodePort, Port, Remote, Started};
use crate::giant::Held;
use crate::matching::{Envelope, Pattern};
use crate::p2p::{Mode, ReceiveSpec, SendSpec};
use crate::process::Process;
use crate::request::{Request, RequestId, Work};
use tutti_transport::Peer;

/// See the module.
#[derive(Debug)]
pub struct CommPort<'a> {
    held: &'a Held,
    process: &'a Process,
    comm: &'a Communicator,
    tag: i32,
}

impl<'a> CommPort<'a> {
    /// The messages under `tag` (whose low bits become the lane).
    #[inline]
    pub fn new(held: &'a Held, process: &'a Process, comm: &'a Communicator, tag: i32) -> CommPort<'a> {
        debug_assert_eq!(tag & ((1 << LANE_BITS) - 1), 0);
        CommPort { held, process, comm, tag }
    }

    fn envelope(&self, source: u32, lane: u16) -> Envelope {
        let context = self.comm.context().plane(self.comm.collectives.plane());
        Envelope { context, source, tag: self.tag | i32::from(lane) }
    }
}

impl Port for CommPort<'_> {
    type Handle = RequestId;

    #[inline]
    fn send(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<RequestId>> {
        let envelope = self.envelope(self.comm.rank().0, lane);
        let peer = self.comm.group().get(Rank(peer)).expect("a schedule names ranks of its communicator");
        let spec = SendSpec { buffer, peer, envelope, mode: Mode::Standard, signature: 0 };
        let mut messages = self.process.messages.borrow_mut(self.held);
        if messages.send_now(&spec) {
            return Ok(Started::Done);
        }
        let id = messages.state.insert(Request::new(Work::Other, self.comm.context().0));
        messages.start_send(id, spec);
        Ok(Started::Pending(id))
    }

    #[inline]
    fn recv(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<RequestId>> {
        let Envelope { context, source, tag } = self.envelope(peer, lane);
        let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
        let from = self.comm.group().get(Rank(peer)).map(|world| Peer(world.0));
        let spec = ReceiveSpec { buffer, pattern, from, check: None };
        let mut messages = self.process.messages.borrow_mut(self.held);
        // It may be there already: then it needs no request.
        if messages.may_receive_directly(&spec)
            && let Some(finished) = messages.receive_directly(&spec)
        {
            return finished.result.map(|_| Started::Done);
        }
        let id = messages.state.insert(Request::new(Work::Other, self.comm.context().0));
        messages.start_receive(id, spec);
        Ok(Started::Pending(id))
    }

    #[inline]
    fn done(&mut self, id: &mut RequestId) -> Result<bool> {
        {
            let mut messages = self.process.messages.borrow_mut(self.held);
            if !messages.state.requests.user(*id)?.complete {
                return Ok(false);
            }
        }
        completion::finish(self.held, self.process, *id).result.map(|_| true)
    }

    fn cancel(&mut self, id: RequestId) {
        let mut messages = self.process.messages.borrow_mut(self.held);
        messages.state.cancel(id);
        let requests = &mut messages.state.requests;
        let Some(request) = requests.get_mut(id) else { return };
        if request.complete {
            requests.remove(id);
            return;
        }
        request.detached = true;
        // A message that is on its way goes nowhere.
        if let Work::Receive { buffer, .. } = &mut request.work {
            *buffer = Buffer::empty();
        }
    }
}

impl NodePort for CommPort<'_> {
    fn granted(&mut self) -> bool {
        todo!()
    }
    fn post(&mut self, _flag: u16, _value: u64) {
        todo!()
    }
    fn reached(&mut self, _peer: u32, _flag: u16, _value: u64) -> bool {
        todo!()
    }
    fn bank(&mut self, _peer: u32) -> *mut u8 {
        todo!()
    }
    fn expose(&mut self, _slot: u16, _memory: Exposed<'_>, _access: Access) -> Result<()> {
        todo!()
    }
    fn direct(&mut self, _from: Remote, _bytes: u64) -> Option<*const u8> {
        todo!()
    }
    fn pull(&mut self, _from: Remote, _into: &Buffer) -> Result<()> {
        todo!()
    }
    fn push(&mut self, _from: &Buffer, _into: Remote) -> Result<()> {
        todo!()
    }
    fn leave(&mut self) {
        todo!()
    }
}
