//! What can be used at all, and what floods the network.

use crate::cost::Environment;
use crate::generator::{Association, Generator, Need, Node, Parameter, Reason, Situation};
use crate::shape::{Params, Shape};

/// Messages of so many bytes fill the queues between hosts if all are sent at once, also those that ask
/// nobody.
const BULK: u64 = 4096;
/// So many may be under way then.
const NARROW: u32 = 4;

/// Multicasts of all hosts at once of more bytes together are slow (8 hosts of 16 KiB each: 1365 us, 491
/// point to point); presumably the buffers of their receivers overflow.
const AT_ONCE: u64 = 32 << 10;

/// Why an algorithm cannot be used for a shape; `None` if it can.
pub fn refusal(generator: &Generator, shape: &Shape, environment: &Environment) -> Option<String> {
    let free = shape.commutative;
    if let Err(reason) = generator.meets(&situation(shape, environment)) {
        return Some(reason.to_string());
    }
    let shape = &ordered(shape, environment);
    match generator.meets(&situation(shape, environment)) {
        Err(Reason::DoesNotCommute) if free => {
            return Some("deterministic results keep the order of ranks".to_string());
        }
        Err(reason) => return Some(reason.to_string()),
        Ok(()) => {}
    }
    if !generator.candidates(shape).iter().any(|params| allowed(generator, params, environment)) {
        return Some("it associates operands in its own way, which deterministic results forbid".to_string());
    }
    if generator.candidates(shape).iter().all(|params| floods(generator, params, shape, environment)) {
        return Some("messages so short would all be sent at once (unless it is forced)".to_string());
    }
    let fits = generator.candidates(shape).iter().any(|params| fits(generator, shape, params, environment));
    (!fits).then(|| format!("it needs a bank of more than {} bytes", environment.bank_bytes))
}

/// What needs are held against, for ranks in this environment.
pub(super) fn situation<'a>(shape: &'a Shape, environment: &'a Environment) -> Situation<'a> {
    let layout = &environment.layout;
    Situation {
        shape,
        hierarchy: Some(layout.hierarchy()),
        hosts: Some((environment.node, layout.hosts())),
        multicast: Some(environment.multicast),
    }
}

/// Whether messages between hosts would all be sent at once and overflow the queues on their way: TCP notices
/// by a time-out, which takes as long as the data do.
pub(super) fn floods(
    generator: &Generator,
    params: &Params,
    shape: &Shape,
    environment: &Environment,
) -> bool {
    let several = environment.layout.hosts() > 1;
    let nobody_waits = generator.parameters.has(Parameter::Asks) && !asks(params, shape, environment);
    let many = generator.parameters.has(Parameter::Window) && shape.bytes() >= BULK && params.window > NARROW;
    let hear_all = generator.requires(Need::Multicast) && generator.parameters.segments().is_none();
    let at_once = hear_all && shape.bytes() * u64::from(environment.layout.hosts()) > AT_ONCE;
    several && (nobody_waits || many || at_once)
}

/// Whether its messages between hosts are so long that their receivers are asked first.
pub(super) fn asks(params: &Params, shape: &Shape, environment: &Environment) -> bool {
    let bytes = match params.segment {
        0 => shape.bytes(),
        segment => shape.bytes().min(segment * shape.unit_bytes),
    };
    bytes as f64 > environment.model.longest_eager(true)
}

/// Whether the node has banks as large as the algorithm asks for; which is the same on all ranks.
pub(super) fn fits(generator: &Generator, shape: &Shape, params: &Params, environment: &Environment) -> bool {
    let bytes = || {
        let hierarchy = Some(environment.layout.hierarchy());
        generator.generate_on(shape, params, hierarchy).bank * shape.unit_bytes
    };
    generator.node() == Node::Any || bytes() <= environment.bank_bytes
}

/// The shape that schedules are written for. Where results are to be deterministic, every operator is one
/// that does not commute: the order of ranks is kept.
pub(super) fn ordered(shape: &Shape, environment: &Environment) -> Shape {
    let free = !environment.deterministic || Association::of(shape.collective).is_none();
    Shape { commutative: shape.commutative && free, ..*shape }
}

/// Whether it may be taken with these parameters.
pub(super) fn allowed(generator: &Generator, params: &Params, environment: &Environment) -> bool {
    !environment.deterministic || generator.is_canonical(params)
}
