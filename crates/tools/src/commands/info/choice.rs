//! Choice of an algorithm for a collective on this machine, with the reasons.

use std::sync::Arc;

use tutti_base::Machines;
use tutti_base::config::{Config, Multicast};
use tutti_coll::generator::Node;
use tutti_coll::select::candidates;
use tutti_coll::simulate::{Binding, Layout, Reach};
use tutti_coll::{Environment, Model, select};
use tutti_sys::cpu;
use tutti_topo::{Level, Machine};

use super::job::OwnJob;
use crate::commands::sim::{Operation, refusals, rows};
use crate::measure::machine;
use crate::simulate::spread::Spread;

/// Returns the environment by which a job of `ranks` ranks on this machine selects algorithms.
pub fn environment(ranks: u32, config: &Config, model: Model) -> Environment {
    let machine = Machine::local();
    let cores = cpu::usable_processors() as u32;
    let (node, reach) = match machine::reach(config) {
        tutti_sys::job::Reach::None => (Node::Shared, Reach::Call),
        tutti_sys::job::Reach::Call => (Node::Exposed, Reach::Call),
        tutti_sys::job::Reach::Mapped => (Node::Exposed, Reach::Mapped),
    };
    let model = Arc::new(model.under(config));
    let mut environment = Environment {
        node,
        reach,
        bank_bytes: config.bank_sizes_for(ranks).large_bytes_for(ranks),
        deterministic: config.collectives.deterministic,
        ..Environment::in_job(ranks, ranks, cores, model)
    };
    // Ranks are bound where there is a core for each, and none is left.
    if ranks as usize == machine.count(Level::Core) {
        environment.layout = Arc::new(Layout::bound(&machine, &Binding::Compact, ranks, 1));
    }
    environment
}

/// Returns the environment of a job on several hosts like this machine. `hosts` contains the host of each
/// rank.
pub fn environment_on(hosts: &[u32], machines: &Machines, config: &Config, model: Model) -> Environment {
    let layout = Layout::on_machines(hosts, machines);
    let own = environment(layout.ranks_on_host(), config, model);
    Environment {
        node: own.node,
        reach: own.reach,
        bank_bytes: own.bank_bytes,
        deterministic: own.deterministic,
        ..Environment::on_hosts(Arc::new(layout), own.model)
    }
}

/// Returns the environment by which an operation of all ranks selects its algorithm. It is that of the job on
/// several hosts that this process belongs to, or else that of a job with this `spread`.
fn surroundings(
    operation: &mut Operation,
    spread: &Spread,
    own_job: Option<&OwnJob>,
    config: &Config,
) -> Result<Environment, String> {
    let model = operation.model(true)?;
    if let Some(job) = own_job.filter(|job| job.has_other_hosts()) {
        let hosts = job.hosts();
        operation.ranks = hosts.len() as u32;
        let model = if operation.model.is_some() { model } else { job.model()? };
        // As after its communicators have found out that it works.
        let multicast = config.collectives.multicast != Multicast::Off;
        return Ok(Environment { multicast, ..environment_on(&hosts, &job.machines(), config, model) });
    }
    if spread.hosts == 1 {
        return Ok(environment(operation.ranks, config, model));
    }
    let machines = spread.machines(cpu::usable_processors() as u32);
    let environment = environment_on(&spread.hosts_of(operation.ranks), &machines, config, model);
    Ok(Environment { multicast: spread.multicast, ..environment })
}

/// Describes the choice for an operation of all ranks of a job, the other algorithms with their times, and
/// impossible ones with the reason.
///
/// # Errors
/// Fails if the model cannot be read.
pub fn explain(
    operation: &Operation,
    spread: &Spread,
    own_job: Option<&OwnJob>,
    config: &Config,
) -> Result<String, String> {
    let mut operation = operation.clone();
    let environment = surroundings(&mut operation, spread, own_job, config)?;
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
        "{} of {} bytes on {} ranks{}, {cores} cores{}: {}, {how}\n{}{}  single copy: {}\n",
        shape.collective,
        operation.bytes,
        shape.ranks,
        environment.layout.on_hosts(),
        if environment.layout.hosts() > 1 { " each" } else { "" },
        choice.described(),
        rows(&candidates(&shape, &environment), shape.unit_bytes),
        refusals(&shape, &environment),
        machine::single_copy(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::spread::NeighbourOrder;
    use tutti_coll::Collective;

    fn check(algorithm: &str, hosts: u32, part: &str) {
        let operation = Operation {
            collective: Collective::Allreduce,
            bytes: 4096,
            ranks: 4,
            ordered: true,
            model: None,
        };
        let config = Config::default().changed(|c| c.collectives.algorithm = algorithm.to_string());
        let spread = Spread { hosts, hosts_share: hosts > 2, map_by: NeighbourOrder::Core, multicast: false };
        let text = explain(&operation, &spread, None, &config).unwrap();
        assert!(text.contains(part), "{text}");
    }

    #[test]
    fn the_choice_is_explained() {
        check("", 1, "allreduce of 4096 bytes on 4 ranks, ");
        check("", 1, "ring: not possible, the operator does not commute");
        check("allreduce=tree:radix=3", 1, "tree (radix 3), forced");
        check("allreduce=ring", 1, "TUTTI_ALGORITHM names ring, which does not suit");
        check("", 2, "on 4 ranks on 2 hosts, ");
        check("", 4, "on 4 ranks on 4 hosts, up to 4 of them on one machine, 1 cores each");
    }
}
