//! Where the processes of a communicator are in the hardware (MPI-5 section 7.4.2, MPI_Comm_split_type).
//!
//! A process is in the instance of a level that holds all processors it may run on. Numbers of instances are the
//! machine's, the same in every process of a node.

use tutti_base::Result;
use tutti_sys::cpu;
use tutti_topo::model::{LEVELS, Level, Places};
use tutti_topo::resource::{self, Resource};

use crate::collective;
use crate::communicator::Communicator;
use crate::hardware::machine;
use crate::host::Host;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::special::UNDEFINED;

/// A colour that puts the processes of one resource together, and the type of the resource.
pub type Colored = (i32, Option<&'static str>);

const NOWHERE: Colored = (UNDEFINED, None);
const RECORD_BYTES: usize = 1 + 4 * LEVELS;
const NO_PLACE: u32 = u32::MAX;
/// More than a level of any machine has.
const INSTANCES: i32 = 1 << 14;

/// A hardware split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HardwareSplit {
    /// Info key `mpi_hw_resource_type` with this value, empty if it is missing. Nobody shares an unknown resource.
    Guided(String),
    /// The next lower level of the machine that divides the group.
    Unguided,
}

/// The colour of this process in a split by `how`; `None` for one that takes part without a place in the
/// result, or in another way. All members of `comm` call this, whatever they ask for: an unguided split depends
/// on where the others are.
///
/// # Errors
/// What went wrong with a message.
pub fn color(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    how: Option<&HardwareSplit>,
) -> Result<Colored> {
    let unguided = how == Some(&HardwareSplit::Unguided);
    let mine = unguided.then(|| machine(Some(process)).places(&cpu::affinity().unwrap_or_default()));
    let among = comm.inter().map_or(comm, |inter| &inter.local);
    let mut all = collective::allgather_bytes(held, process, among, &record(mine))?;
    if comm.inter().is_some() {
        let theirs = collective::swap_bytes(held, process, comm, all.clone())?;
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
    // Numbers of instances are those of one host.
    let on_host = |place: i32| place + process.job.header().host as i32 * INSTANCES;
    Ok((if place == UNDEFINED { place } else { on_host(place) }, resource))
}

fn guided(host: &Host, name: &str) -> Colored {
    let Some(resource) = Resource::from_name(name) else { return NOWHERE };
    let set = cpu::affinity().unwrap_or_default();
    let place = resource::resource_of(machine(Some(host)), &set, resource);
    place.map_or(NOWHERE, |place| (place as i32, Some(resource.name())))
}

fn at(places: &Places, level: Level) -> Colored {
    places[level as usize].map_or(NOWHERE, |place| (place as i32, Some(Resource::At(level).name())))
}

/// What a process tells the others: whether it splits by places, and the places.
fn record(places: Option<Places>) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[0] = u8::from(places.is_some());
    for (field, place) in record[1..].chunks_exact_mut(4).zip(places.unwrap_or_default()) {
        field.copy_from_slice(&place.unwrap_or(NO_PLACE).to_le_bytes());
    }
    record
}

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
