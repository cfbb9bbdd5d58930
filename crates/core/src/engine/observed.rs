//! Trace events of the steps of an execution.

use std::borrow::Cow;

use tutti_base::trace::{Action, Event, Level};
use tutti_coll::Plan;
use tutti_coll::cursor::Instance;
use tutti_coll::ir::{Index, Kind, Span};

use super::memory::Bindings;
use super::port::NodePort;
use crate::trace;

/// Start times of active steps.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Start time of the execution; 0 while it is idle.
    began_ns: u64,
    under_way: Vec<(Instance, u64)>,
}

impl Observed {
    /// Notes the start of the execution, unless it is noted already.
    pub(super) fn begin(&mut self) {
        if self.began_ns == 0 {
            self.began_ns = trace::since();
        }
    }

    /// Notes the start of a step.
    pub(super) fn started(&mut self, instance: Instance, since_ns: u64) {
        self.under_way.push((instance, since_ns));
    }

    /// Records the event of a step that has ended.
    pub(super) fn over<P: NodePort>(
        &mut self,
        plan: &Plan,
        bindings: &Bindings,
        instance: Instance,
        port: &P,
    ) {
        let Some(place) = self.under_way.iter().position(|(other, _)| *other == instance) else { return };
        let (_, start_ns) = self.under_way.swap_remove(place);
        let iteration = instance.iteration;
        let bytes = |span: &Span| {
            if span.is_signal() {
                0
            } else {
                span.in_iteration(iteration, &bindings.tables()).length * plan.shape.unit_bytes
            }
        };
        let with = |peer: &Index| {
            let (world, level) = port.whereabouts(peer.in_iteration(iteration) as u32);
            Event { peer: world, level, key: port.mark(), ..trace::event(Action::Send, start_ns) }
        };
        let alone = |action| trace::event(action, start_ns);
        let lane = |event: Event, lane: u16| Event { key: event.key ^ u64::from(lane), ..event };
        let event = match &plan.schedule.steps[instance.step.0 as usize].kind {
            Kind::Send { peer, lane: number, from } => {
                lane(Event { bytes: bytes(from), ..with(peer) }, *number)
            }
            Kind::Multicast { group, lane: number, from } => {
                let first = plan.schedule.groups[usize::from(*group)][0];
                lane(Event { bytes: bytes(from), ..with(&Index::from(first)) }, *number)
            }
            Kind::Recv { peer, lane: number, into } => {
                lane(Event { action: Action::Receive, bytes: bytes(into), ..with(peer) }, *number)
            }
            Kind::Copy { into, .. } | Kind::Pack { into, .. } => {
                Event { bytes: bytes(into), ..alone(Action::Copy) }
            }
            Kind::Unpack { peer, from, .. } => {
                Event { action: Action::Pull, bytes: bytes(from), ..with(peer) }
            }
            Kind::Reduce { right, .. } => Event { bytes: bytes(right), ..alone(Action::Reduce) },
            Kind::Post { flag, value } => {
                let event =
                    Event { key: port.mark(), value: value.in_iteration(iteration), ..alone(Action::Post) };
                lane(event, *flag)
            }
            Kind::Await { peer, flag, value } => {
                let event =
                    Event { action: Action::Await, value: value.in_iteration(iteration), ..with(peer) };
                lane(event, *flag)
            }
            Kind::Expose { what, .. } => Event { bytes: bytes(what), ..alone(Action::Expose) },
            Kind::Pull { peer, into, .. } => Event { action: Action::Pull, bytes: bytes(into), ..with(peer) },
            Kind::Push { peer, from, .. } => Event { action: Action::Push, bytes: bytes(from), ..with(peer) },
            Kind::FileRead { into, .. } => Event { bytes: bytes(into), ..alone(Action::FileRead) },
            Kind::FileWrite { from, .. } => Event { bytes: bytes(from), ..alone(Action::FileWrite) },
            Kind::Combine { peer, into, .. } => {
                Event { action: Action::Combine, bytes: bytes(into), ..with(peer) }
            }
        };
        trace::record(event);
    }

    /// Records the event of the execution, which has ended.
    pub(super) fn end<P: NodePort>(&mut self, plan: &Plan, port: &P) {
        let start_ns = std::mem::take(&mut self.began_ns);
        self.under_way.clear();
        let name = format!("{}/{}", plan.shape.collective, plan.choice.generator.name);
        trace::record(Event {
            bytes: plan.shape.bytes(),
            key: port.mark(),
            level: Level::Own,
            name: Cow::Owned(name),
            ..trace::event(Action::Operation, start_ns)
        });
    }
}
