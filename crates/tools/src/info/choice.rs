//! What the library would choose for a collective on this machine, and why.

use std::sync::Arc;

use tutti_base::config::Config;
use tutti_coll::registry::Node;
use tutti_coll::select::candidates;
use tutti_coll::simulate::{Binding, Layout, Reach};
use tutti_coll::{Environment, Model, select};
use tutti_launch::ranks;
use tutti_topo::{Level, Machine};

use super::machine;
use crate::sim::{Operation, refusals, rows};

/// What a job of `ranks` ranks on this machine chooses by, as its launcher would set it up.
pub fn environment(ranks: u32, config: &Config, model: Model) -> Environment {
    let machine = Machine::local();
    let cores = machine.count(Level::Core).max(1) as u32;
    let (node, reach) = match ranks::reach(config) {
        tutti_sys::job::Reach::None => (Node::Shared, Reach::Call),
        tutti_sys::job::Reach::Call => (Node::Exposed, Reach::Call),
        tutti_sys::job::Reach::Mapped => (Node::Exposed, Reach::Mapped),
    };
    let model = Arc::new(model.under(config));
    let mut environment = Environment {
        node,
        reach,
        bank_bytes: config.bank_sizes_for(ranks).large_bytes_for(ranks),
        deterministic: config.deterministic,
        ..Environment::in_job(ranks, ranks, cores, model)
    };
    // Ranks are bound where there is a core for each, and none is left.
    if ranks == cores {
        environment.layout = Arc::new(Layout::bound(&machine, &Binding::Compact, ranks, 1));
    }
    environment
}

/// The same on several hosts like this machine, with so many ranks on each.
pub fn environment_on(hosts: u32, per_host: u32, config: &Config, model: Model) -> Environment {
    let ranks = hosts * per_host;
    let own = environment(per_host, config, model);
    let of = |rank: u32| rank / per_host;
    let layout = Layout::across(&(0..ranks).map(of).collect::<Vec<_>>(), own.cores);
    Environment {
        node: own.node,
        reach: own.reach,
        bank_bytes: own.bank_bytes,
        deterministic: own.deterministic,
        ..Environment::on_hosts(Arc::new(layout), own.model)
    }
}

/// The choice for an operation of all ranks of a job on this machine, the others with their times, and those that cannot
/// be used with the reason.
///
/// # Errors
/// The model cannot be read.
pub fn explain(operation: &Operation, config: &Config) -> Result<String, String> {
    let environment = environment(operation.ranks, config, operation.model(true)?);
    let cores = environment.cores;
    let shape = operation.shape();
    let forced = config.algorithm_of(shape.collective.name());
    let choice = select(&shape, &environment, forced);
    let how = match (forced, choice.is_forced()) {
        (None, _) => "least time by the model".to_string(),
        (Some(name), true) => format!("forced by TUTTI_ALGORITHM: {name}"),
        (Some(name), false) => {
            format!("least time by the model; TUTTI_ALGORITHM names {name}, which does not suit")
        }
    };
    Ok(format!(
        "{} of {} bytes on {} ranks, {cores} cores: {} ({}), {how}\n{}{}  single copy: {}\n",
        shape.collective,
        operation.bytes,
        shape.ranks,
        choice.generator.name,
        choice.params,
        rows(&candidates(&shape, &environment)),
        refusals(&shape, &environment),
        machine::single_copy(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_coll::Collective;

    fn check(algorithm: &str, part: &str) {
        let operation = Operation {
            collective: Collective::Allreduce,
            bytes: 4096,
            ranks: 3,
            ordered: true,
            model: None,
        };
        let config = Config { algorithm: algorithm.to_string(), ..Config::default() };
        let text = explain(&operation, &config).unwrap();
        assert!(text.contains(part), "{text}");
    }

    #[test]
    fn the_choice_is_explained() {
        check("", "allreduce of 4096 bytes on 3 ranks");
        check("", "ring: not possible, the operator does not commute");
        check("allreduce=tree:radix=3", "tree (radix 3 segment");
        check("allreduce=ring", "TUTTI_ALGORITHM names ring, which does not suit");
    }
}
