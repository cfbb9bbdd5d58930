//! The machine of the job, and what of it this process is confined to (MPI-5 section 9.1.2,
//! MPI_Get_hw_resource_info).

use std::sync::OnceLock;

use tutti_sys::cpu;
use tutti_topo::Machine;
use tutti_topo::resource;

use crate::process;

/// The machine of the job.
pub(crate) fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| match process::process() {
        Some(process) => Machine::of_job(process.job.machine()),
        None => Machine::local(),
    })
}

/// Every type of resource, and whether this process is confined to one instance of it. Works before MPI_Init.
pub fn confinement() -> Vec<(&'static str, bool)> {
    resource::confinement(machine(), &cpu::affinity().unwrap_or_default())
}
