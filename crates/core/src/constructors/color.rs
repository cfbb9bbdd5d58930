//! Colours of processes by their place in the hardware (MPI-5 section 7.4.2, MPI_Comm_split_type).
//!
//! A process is in that instance of a level which contains all processors it may run on. Numbers of
//! instances are the machine's, equal in every process of a node.

use std::sync::Arc;

use tutti_base::Result;
use tutti_sys::cpu;
use tutti_topo::model::{LEVELS, Level, Places};
use tutti_topo::resource::{self, Resource};

use crate::collective::WaitContext;
use crate::communicator::Communicator;
use crate::hardware::machine;
use crate::host::Host;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::special::UNDEFINED;

/// Colour that groups the processes of one resource, and the type of the resource.
pub type Colored = (i32, Option<&'static str>);

/// Colour of a process without a place in the result.
const NOWHERE: Colored = (UNDEFINED, None);
/// Size of a process's record: a flag and a number for each level.
const RECORD_BYTES: usize = 1 + 4 * LEVELS;
/// Number for a level at which a process has no place.
const NO_PLACE: u32 = u32::MAX;
/// Number of instances that no level of any machine exceeds.
const INSTANCES: i32 = 1 << 14;

/// Rule of a hardware split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HardwareSplit {
    /// Resource type from the info key `mpi_hw_resource_type`, empty if it is missing. No process shares an
    /// unknown resource.
    Guided(String),
    /// The next lower level of the machine that divides the group.
    Unguided,
}

/// Returns the colour of this process in a split by `how`. `None` stands for a process without a place in
/// the result, or with another kind of split. All members of `comm` must call this, since an unguided split
/// depends on the places of the others.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn color(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    how: Option<&HardwareSplit>,
) -> Result<Colored> {
    let unguided = how == Some(&HardwareSplit::Unguided);
    let mine = unguided.then(|| machine(Some(process)).places(&cpu::affinity().unwrap_or_default()));
    let among = comm.inter().map_or(comm, |inter| &inter.local);
    let mut all = WaitContext::new(held, process, among).allgather_bytes(&record(mine))?;
    if comm.inter().is_some() {
        let theirs = WaitContext::new(held, process, comm).swap_bytes(all.clone())?;
        all.extend(theirs);
    }
    let spans_hosts = among.group().iter().any(|world| process.local_rank(world).is_none());
    let (place, resource) = match (how, mine) {
        (Some(HardwareSplit::Guided(name)), _) => guided(process, name),
        (_, Some(_)) if spans_hosts => (0, Some(Resource::SharedMemory.name())),
        (_, Some(mine)) => {
            let others: Vec<Places> = all.chunks_exact(RECORD_BYTES).filter_map(places).collect();
            resource::unguided(machine(Some(process)), &others).map_or(NOWHERE, |level| at(&mine, level))
        }
        _ => NOWHERE,
    };
    // Instance numbers are unique on one host only.
    let on_host = |place: i32| place + process.job.header().host as i32 * INSTANCES;
    Ok((if place == UNDEFINED { place } else { on_host(place) }, resource))
}

/// Returns the colour of this process in a split by a named resource.
fn guided(host: &Host, name: &str) -> Colored {
    let Some(resource) = Resource::from_name(name) else { return NOWHERE };
    let set = cpu::affinity().unwrap_or_default();
    let place = resource::resource_of(machine(Some(host)), &set, resource);
    place.map_or(NOWHERE, |place| (place as i32, Some(resource.name())))
}

/// Returns the colour of a process in a split by a level of the machine.
fn at(places: &Places, level: Level) -> Colored {
    places[level as usize].map_or(NOWHERE, |place| (place as i32, Some(Resource::At(level).name())))
}

/// Encodes the data of a process for the others: whether it splits by places, and its places.
fn record(places: Option<Places>) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[0] = u8::from(places.is_some());
    for (field, place) in record[1..].chunks_exact_mut(4).zip(places.unwrap_or_default()) {
        field.copy_from_slice(&place.unwrap_or(NO_PLACE).to_le_bytes());
    }
    record
}

/// Decodes the places of a process; `None` if it does not split by places.
fn places(record: &[u8]) -> Option<Places> {
    let mut places = Places::default();
    for (place, field) in places.iter_mut().zip(record[1..].chunks_exact(4)) {
        let number = u32::from_le_bytes([field[0], field[1], field[2], field[3]]);
        *place = (number != NO_PLACE).then_some(number);
    }
    (record[0] != 0).then_some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_written() {
        let check = |given| assert_eq!(places(&record(given)), given);
        check(None);
        check(Some([None; LEVELS]));
        check(Some([None, Some(0), Some(1), None, Some(31), Some(31), Some(63)]));
    }
}
