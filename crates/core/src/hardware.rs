//! Machine of the job, and the resources that this process is confined to (MPI-5 section 9.1.2,
//! MPI_Get_hw_resource_info).

use std::sync::OnceLock;

use tutti_sys::cpu;
use tutti_topo::Machine;
use tutti_topo::resource;

use crate::host::Host;

/// Returns the machine of the job. Before MPI_Init it is the machine on which this process runs.
pub(crate) fn machine(host: Option<&Host>) -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| match host {
        Some(host) => Machine::of_job(host.job.machine()),
        None => Machine::local(),
    })
}

/// Returns every type of resource, each with true if this process is confined to one instance of it. It works
/// before MPI_Init.
pub fn confinement(host: Option<&Host>) -> Vec<(&'static str, bool)> {
    resource::confinement(machine(host), &cpu::affinity().unwrap_or_default())
}
