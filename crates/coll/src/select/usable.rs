//! Algorithms that cannot be used, and those that flood the network.

use crate::cost::Environment;
use crate::generator::{Association, Generator, Need, Node, Parameter, Reason, Situation};
use crate::shape::{Params, Shape};

/// Bytes of an operation from which on messages fill the queues between hosts if all are sent at once, even
/// if they do not ask their receivers.
const BULK: u64 = 4096;
/// Largest number of messages under way for such data.
const NARROW: u32 = 4;

/// Bytes above which simultaneous multicasts of all hosts are slow (8 hosts of 16 KiB each: 1365 us, 491
/// point to point). Presumably the buffers of their receivers overflow.
const AT_ONCE: u64 = 32 << 10;

/// Returns the reason why an algorithm cannot be used for a shape, or `None` if it can.
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
    if shape.together != generator.combines_together() {
        let reason = match shape.together {
            true => "results that are rounded once need all operands at once",
            false => "it is for results that are rounded once",
        };
        return Some(reason.to_string());
    }
    if !generator.candidates(shape).iter().any(|params| allowed(generator, params, shape, environment)) {
        return Some("it associates operands in its own way, which deterministic results forbid".to_string());
    }
    if generator.candidates(shape).iter().all(|params| floods(generator, params, shape, environment)) {
        return Some("messages so short would all be sent at once (unless it is forced)".to_string());
    }
    let fits = generator.candidates(shape).iter().any(|params| fits(generator, shape, params, environment));
    (!fits).then(|| format!("it needs a bank of more than {} bytes", environment.bank_bytes))
}

/// Returns the known properties of an operation in this environment, against which needs are judged.
pub(super) fn situation<'a>(shape: &'a Shape, environment: &'a Environment) -> Situation<'a> {
    let layout = &environment.layout;
    Situation {
        shape,
        hierarchy: Some(layout.hierarchy()),
        hosts: Some((environment.node, layout.hosts())),
        multicast: Some(environment.multicast),
    }
}

/// Returns true if all messages between hosts would be sent at once and overflow the queues on their way. TCP
/// notices that by a time-out, which takes as long as the data.
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

/// Returns true if its messages between hosts are so long that they ask their receivers first.
pub(super) fn asks(params: &Params, shape: &Shape, environment: &Environment) -> bool {
    let bytes = match params.segment {
        0 => shape.bytes(),
        segment => shape.bytes().min(segment * shape.unit_bytes),
    };
    bytes as f64 > environment.model.longest_eager(true)
}

/// Returns true if the node has banks as large as the algorithm requires, which is the same on all ranks.
pub(super) fn fits(generator: &Generator, shape: &Shape, params: &Params, environment: &Environment) -> bool {
    let bytes = || {
        let hierarchy = Some(environment.layout.hierarchy());
        generator.generate_on(shape, params, hierarchy).bank * shape.unit_bytes
    };
    generator.node() == Node::Any || bytes() <= environment.bank_bytes
}

/// Returns the shape for which schedules are written. If results are to be deterministic, every operator
/// counts as one that does not commute, so that the order of ranks is kept.
pub(super) fn ordered(shape: &Shape, environment: &Environment) -> Shape {
    let combines = Association::deterministic_for(shape.collective).is_some();
    let free = !environment.deterministic || !combines || shape.together;
    Shape { commutative: shape.commutative && free, ..*shape }
}

/// Returns true if it may be used with these parameters.
pub(super) fn allowed(
    generator: &Generator,
    params: &Params,
    shape: &Shape,
    environment: &Environment,
) -> bool {
    if shape.together || generator.combines_together() {
        return shape.together && generator.combines_together();
    }
    !environment.deterministic || generator.is_canonical(params)
}
