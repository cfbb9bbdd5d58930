//! What the library would choose for a collective on this machine, and why.

use std::sync::Arc;

use tutti_base::config::Config;
use tutti_coll::registry::Node;
use tutti_coll::select::candidates;
use tutti_coll::simulate::Reach;
use tutti_coll::{Environment, Model, select};
use tutti_topo::{Level, Machine};

use super::machine;
use crate::sim::{Operation, refusals, rows};

/// The choice for an operation of all ranks of a job on this machine, the others with their times, and those that cannot
/// be used with the reason.
///
/// # Errors
/// The model cannot be read.
pub fn explain(operation: &Operation, config: &Config) -> Result<String, String> {
    let cores = Machine::local().count(Level::Core).max(1) as u32;
    let model = Model { eager_bytes: config.eager_bytes as f64, ..operation.model(true)? };
    let single_copy = machine::single_copy();
    let reach = if single_copy.starts_with("refused") { Reach::Mapped } else { Reach::Call };
    let environment = Environment {
        node: Node::Exposed,
        reach,
        ..Environment::in_job(operation.ranks, operation.ranks, cores, Arc::new(model))
    };
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
        "{} of {} bytes on {} ranks, {cores} cores: {} ({}), {how}\n{}{}  single copy: {single_copy}\n",
        shape.collective,
        operation.bytes,
        shape.ranks,
        choice.generator.name,
        choice.params,
        rows(&candidates(&shape, &environment)),
        refusals(&shape, &environment),
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
