//! What can be used at all, and what floods the network.

use crate::cost::Environment;
use crate::registry::{Association, Generator, Node, Requirements};
use crate::shape::{Params, Shape};

/// Messages of so many bytes fill the queues between hosts if all are sent at once, also those that ask nobody.
const BULK: u64 = 4096;
/// So many may be under way then.
const NARROW: u32 = 4;

/// Why an algorithm cannot be used for a shape; `None` if it can.
pub fn refusal(generator: &Generator, shape: &Shape, environment: &Environment) -> Option<String> {
    let requires = generator.requires;
    if requires.commutative && !shape.commutative {
        return Some("the operator does not commute".to_string());
    }
    if requires.power_of_two && !shape.ranks.is_power_of_two() {
        return Some("the number of ranks is no power of two".to_string());
    }
    if requires.few_ranks && shape.ranks > Requirements::FEW {
        return Some(format!("there are more than {} ranks", Requirements::FEW));
    }
    if requires.two_groups != (shape.first_group > 0) {
        let what = if requires.two_groups { "an intercommunicator" } else { "one group" };
        return Some(format!("it is for {what}"));
    }
    let hosts = environment.layout.hosts();
    if requires.node <= environment.node && !requires.are_met(environment.node, hosts) {
        let why = if hosts > 1 { "the ranks are on several hosts" } else { "the ranks are on one host" };
        return Some(why.to_string());
    }
    if requires.node > environment.node {
        return Some(match requires.node {
            Node::Exposed => "ranks cannot get at each other's memory".to_string(),
            _ => "the ranks do not share a node's memory".to_string(),
        });
    }
    let shape = &ordered(shape, environment);
    if requires.commutative && !shape.commutative {
        return Some("deterministic results keep the order of ranks".to_string());
    }
    if !generator.suits_on(shape, environment.layout.hierarchy()) {
        return Some("operands keep the order of ranks and hosts do not hold consecutive ranks".to_string());
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

/// Whether messages between hosts would all be sent at once and overflow the queues on their way: TCP notices by a time-out, which
/// takes as long as the data do.
pub(super) fn floods(
    generator: &Generator,
    params: &Params,
    shape: &Shape,
    environment: &Environment,
) -> bool {
    let several = environment.layout.hosts() > 1;
    let nobody_waits = generator.parameters.asks && !asks(params, shape, environment);
    let many = generator.parameters.window && shape.bytes() >= BULK && params.window > NARROW;
    several && (nobody_waits || many)
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
    generator.requires.node == Node::Any || bytes() <= environment.bank_bytes
}

/// The shape that schedules are written for. Where results are to be deterministic, every operator is one that does not
/// commute: the order of ranks is kept.
pub(super) fn ordered(shape: &Shape, environment: &Environment) -> Shape {
    let free = !environment.deterministic || Association::of(shape.collective).is_none();
    Shape { commutative: shape.commutative && free, ..*shape }
}

/// Whether it may be taken with these parameters.
pub(super) fn allowed(generator: &Generator, params: &Params, environment: &Environment) -> bool {
    !environment.deterministic || generator.is_canonical(params)
}
