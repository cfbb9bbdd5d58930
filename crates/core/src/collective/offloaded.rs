//! Collectives in the kernel's packet program (S9): which communicators and operations use it, and its
//! blocking, non-blocking and persistent calls.
//!
//! Members agree once, before their first blocking operation. After that, the route of each operation
//! follows from what all members know of it. So nothing is decided while an operation is active, and other
//! operations may use schedules at the same time.
//!
//! Starts of persistent operations need not follow those of others (MPI-5 section 6.13). So each of them is
//! a group of its own in the kernel, with its own records.
//!
//! # Safety
//! As for [`Operation`]: its maker has promised the memory that is packed and unpacked here.
#![allow(unsafe_code)]

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tutti_base::config::{Config, Offload};
use tutti_base::{Error, ErrorClass, Result, WorldRank};
use tutti_coll::ir::Schedule;
use tutti_coll::lower::{self, Program, lower};
use tutti_coll::{Collective, Params, Shape, registry, select};
use tutti_data::{Datatype, Op, Reducer};
use tutti_offload::layout::{AREA_BYTES, OPERAND_BYTES, Operator, PEERS, PORT, PROGRAMS};
use tutti_offload::seat::{AnswerLimit, Peer, Seat};
use tutti_sys::kept;
use tutti_sys::process::host_name;
use tutti_transport::adaptive::tag::{Key, Use};

use super::hosts;
use super::{Activity, Channel, LANE_BITS, Operation, failures, internal, waiting_for};
use crate::buffer::Buffer;
use crate::communicator::Communicator;
use crate::communicator::collectives::hosts::{Hosts, Standing};
use crate::communicator::collectives::operation::{Owned, Side};
use crate::completion;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::messenger::Messenger;
use crate::offload::{Call, OffloadGroup};
use crate::process::{Process, started};
use crate::progress;
use crate::request::{Request, RequestId, Restart, Restarted, Work};
use crate::special::UNDEFINED;

/// Numbers of the kernel's programs; broadcasts follow, one for each root.
const BARRIER: u8 = 0;
const ALLREDUCE: u8 = 1;
pub(super) const BCAST: u8 = 2;
/// Time limit for the first operation of a communicator, after which packets count as lost: hosts may be
/// busy. With TUTTI_OFFLOAD=on, TUTTI_SILENCE_MS applies if it is longer.
const TRIAL: Duration = Duration::from_secs(5);
/// Sleep between two checks of that operation.
const LOOK: Duration = Duration::from_micros(50);

/// Decides together with all members whether the kernel does operations of a communicator, unless that is
/// decided.
///
/// # Errors
/// Returns the error of a message that failed; with TUTTI_OFFLOAD=on, also the reason if the kernel cannot
/// do it.
#[inline]
pub(super) fn agree(held: &mut LaneGuard, process: &Process, comm: &Communicator) -> Result<()> {
    if !matches!(*comm.collectives.offloaded.borrow(held), Standing::Open) {
        return Ok(());
    }
    establish(held, process, comm)
}

/// Negotiates the offload with all members, and stores the result.
#[cold]
fn establish(held: &mut LaneGuard, process: &Process, comm: &Communicator) -> Result<()> {
    *comm.collectives.offloaded.borrow_mut(held) = Standing::None;
    // Packets of the kernel's program are authenticated, not encrypted.
    let is_meant = process.config.collectives.offload != Offload::Off
        && process.config.network.protection.allows_readable()
        && matches!(comm.collectives.channel, Channel::Own);
    if !is_meant || comm.inter().is_some() || comm.collectives.node.numbers(process, comm).is_none() {
        return Ok(());
    }
    let found = match has_several(process, comm) {
        true => negotiate_hosts(held, process, comm)?,
        false => negotiate(held, process, comm)?,
    };
    let standing = match found {
        Ok(standing) => standing,
        Err(why) => {
            if process.config.collectives.explain.is_on() && comm.rank().0 == 0 {
                eprintln!("Tutti: the kernel does no collectives of {}: {why}", comm.context().0);
            }
            return match process.config.collectives.offload {
                Offload::On => {
                    Err(Error::new(ErrorClass::Other, format!("TUTTI_OFFLOAD=on, but here not: {why}")))
                }
                _ => Ok(()),
            };
        }
    };
    if process.config.collectives.explain.is_on() && comm.rank().0 == 0 {
        eprintln!("Tutti: the kernel does small collectives of communicator {}", comm.context().0);
    }
    *comm.collectives.offloaded.borrow_mut(held) = standing;
    Ok(())
}

/// Returns true if a host has several members.
fn has_several(process: &Process, comm: &Communicator) -> bool {
    let mut hosts: Vec<u32> = comm.group().iter().map(|world| process.job.place(world.0).host).collect();
    hosts.sort_unstable();
    hosts.windows(2).any(|two| two[0] == two[1])
}

/// Reason shown at members that could use the kernel themselves.
const OTHERS: &str = "another member cannot; its `tutti info` says why";

/// Negotiates where hosts have several members. The inner result is the reason if the kernel is not used.
fn negotiate_hosts(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
) -> Result<std::result::Result<Standing, String>> {
    let mut hosts = Vec::new();
    let mut members: Vec<(u32, u32)> = Vec::new();
    for world in comm.group().iter() {
        let host = process.job.place(world.0).host;
        let known = hosts.iter().position(|known| *known == host);
        let number = known.unwrap_or_else(|| {
            hosts.push(host);
            hosts.len() - 1
        }) as u32;
        let before = members.iter().filter(|(other, _)| *other == number).count() as u32;
        members.push((number, before));
    }
    let rank = comm.rank().0;
    let (host, number) = members[rank as usize];
    let mine = if number == 0 { seat(held, process, comm).map(drop) } else { Ok(()) };
    if internal::maximum(held, process, comm, u64::from(mine.is_err()))? > 0 {
        return Ok(Err(mine.err().unwrap_or_else(|| OTHERS.into())));
    }
    let split = process.library.split;
    let mut of_host = || split(held, process, comm, host as i32, rank as i32);
    let (up, down) = (of_host()?, of_host()?);
    let color = if number == 0 { 0 } else { UNDEFINED };
    let leaders = split(held, process, comm, color, rank as i32)?;
    // Agreements of these communicators do not use the kernel.
    for part in [&up, &down, &leaders].into_iter().flatten() {
        *part.collectives.offloaded.borrow_mut(held) = Standing::None;
    }
    let found = leaders.as_ref().map(|leaders| negotiate(held, process, leaders)).transpose()?.transpose();
    if internal::maximum(held, process, comm, u64::from(found.is_err()))? > 0 {
        return Ok(Err(found.err().unwrap_or_else(|| OTHERS.into())));
    }
    let place = match found {
        Ok(Some(Standing::Ready(place, _))) => Some(place),
        _ => None,
    };
    let (Some(up), Some(down)) = (up, down) else { unreachable!("every member has a host") };
    Ok(Ok(Standing::Several(Arc::new(Hosts { up, down, leaders, place, members, turns: Mutex::default() }))))
}

/// Negotiates where each member has a host of its own. All members end alike, with reasons of their own.
fn negotiate(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
) -> Result<std::result::Result<Standing, String>> {
    let mine = seat(held, process, comm);
    if internal::maximum(held, process, comm, u64::from(mine.is_err()))? > 0 {
        return Ok(Err(mine.err().unwrap_or_else(|| OTHERS.into())));
    }
    let address = mine.as_ref().map_or(Ipv4Addr::UNSPECIFIED, |(_, address)| *address);
    let all = internal::allgather_bytes(held, process, comm, &address.octets())?;
    let hosts: Arc<[Ipv4Addr]> = all.as_chunks::<4>().0.iter().map(|bytes| Ipv4Addr::from(*bytes)).collect();
    let place = mine.and_then(|(seat, _)| install(&seat, (process, comm), &hosts, comm.context().0));
    if internal::maximum(held, process, comm, u64::from(place.is_err()))? > 0 {
        return Ok(Err(place.err().unwrap_or_else(|| OTHERS.into())));
    }
    let place = place.map(|place| try_out(held, (process, comm), Arc::new(place)));
    let fails = !matches!(place, Ok(Some(_)));
    if internal::maximum(held, process, comm, u64::from(fails))? > 0 {
        return Ok(Err(format!("packets of UDP port {PORT} do not get from each host to each other one")));
    }
    let place = place.ok().flatten().expect("nobody has failed");
    Ok(Ok(Standing::Ready(place, hosts)))
}

/// Runs a barrier in the kernel, as all members do. Returns `None` if its packets do not get through.
fn try_out(
    held: &mut LaneGuard,
    (process, comm): (&Process, &Communicator),
    place: Arc<OffloadGroup>,
) -> Option<Arc<OffloadGroup>> {
    let begin = Instant::now();
    let limit = match process.config.collectives.offload {
        Offload::On => TRIAL.max(Duration::from_millis(process.config.launch.silence_ms)),
        _ => TRIAL,
    };
    let mut tells = limit > TRIAL && comm.rank().0 == 0;
    let operation = lower::Operation { program: BARRIER, operator: 0, bytes: 0 };
    let mut call = place.call(&mut process.kernel.borrow_mut(held), operation, true, Vec::new());
    loop {
        let over = place.advance(&mut process.kernel.borrow_mut(held), &mut call);
        if tells && begin.elapsed() > TRIAL {
            tells = false;
            eprintln!(
                "Tutti: waiting for the first packets of UDP port {PORT} between the hosts of communicator {} (TUTTI_OFFLOAD=on)",
                comm.context().0
            );
        }
        if !matches!(over, Ok(false)) || begin.elapsed() > limit {
            return over.is_ok_and(|over| over).then_some(place);
        }
        progress::progress(held, process);
        held.release_while(|| std::thread::sleep(LOOK));
    }
}

/// Minimum time limit for answers of `tutti netd` if the kernel must do collectives. On a busy machine,
/// loading a program takes seconds.
const BUSY_MACHINE: Duration = Duration::from_secs(30);

/// Returns the time limit for answers of `tutti netd`. If the kernel must do collectives, a busy machine
/// gets more time.
fn patience(config: &Config) -> AnswerLimit {
    match config.collectives.offload {
        Offload::On => AnswerLimit {
            limit: BUSY_MACHINE.max(Duration::from_millis(config.launch.silence_ms)),
            tell: || eprintln!("Tutti: waiting for `tutti netd` on host {} (TUTTI_OFFLOAD=on)", host_name()),
        },
        _ => AnswerLimit::default(),
    }
}

/// Returns this process's seat in the kernel, and the address of its host.
fn seat(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
) -> std::result::Result<(Arc<Seat>, Ipv4Addr), String> {
    if comm.group().iter().any(|world| process.is_foreign(world)) {
        return Err("members are of several jobs".into());
    }
    let header = process.job.header();
    let told = kept::host_address(process.job.place(process.rank.0).host);
    let address = told.map_or_else(|| header.interface().parse(), Ok);
    let address: Ipv4Addr = address.map_err(|_| format!("{:?} is no address of IPv4", header.interface()))?;
    let derived = Key::new(&header.secret.0, Use::Derived);
    let tag = derived.tag(&[b"netd"]);
    // The number is secret, so no other process takes it first.
    let [a, b, c, d, ..] = derived.tag(&[b"netd number"]);
    let number = u32::from_le_bytes([a, b, c, d]);
    let mut kernel = process.kernel.borrow_mut(held);
    kernel.go_on().map_err(|error| error.message.clone().into_owned())?;
    let seat = kernel.seat(|| Seat::take(number, tag, address, patience(&process.config)))?;
    Ok((seat, address))
}

/// Registers the communicator and its programs in the kernel, under the given number.
fn install(
    seat: &Arc<Seat>,
    (process, comm): (&Process, &Communicator),
    hosts: &[Ipv4Addr],
    number: u32,
) -> std::result::Result<OffloadGroup, String> {
    let forced = process.config.algorithm_of(Collective::Bcast.name()).unwrap_or_default();
    let programs = programs(comm.size(), comm.rank().0, forced)?;
    let mut ranks: Vec<u32> = programs.iter().flat_map(Program::peers).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.len() > PEERS {
        return Err(format!("a rank has to do with {} others, {PEERS} fit", ranks.len()));
    }
    let worlds: Vec<WorldRank> = comm.group().iter().collect();
    let peer = |&rank: &u32| {
        let host = process.job.place(worlds[rank as usize].0).host;
        // Addresses agreed upon before a restart may belong to other hosts.
        let address = kept::host_address(host).unwrap_or(hosts[rank as usize]);
        Peer { rank, host, address }
    };
    let peers = ranks.iter().map(peer).collect();
    let group = seat.join(number, comm.rank().0, peers)?;
    for (number, program) in programs.iter().enumerate() {
        seat.install(&group, number, program).map_err(|_| "a program has unknown peers".to_string())?;
    }
    let silence = Duration::from_millis(process.config.launch.silence_ms);
    Ok(OffloadGroup::new(Arc::clone(seat), group, programs, BARRIER, silence))
}

/// Returns this rank's programs, in the order of their numbers. `forced` is the algorithm that the user
/// names for broadcasts. If it is a tree without segments, the kernel uses it too.
fn programs(ranks: u32, rank: u32, forced: &str) -> std::result::Result<Vec<Program>, String> {
    let roots = ranks.min((PROGRAMS - usize::from(BCAST)) as u32);
    let barrier =
        [(Collective::Barrier, "dissemination", 0), (Collective::Allreduce, "recursive_doubling", 0)];
    let tree = if forced.starts_with("kary") { "kary" } else { "knomial" };
    let all = barrier.into_iter().chain((0..roots).map(|root| (Collective::Bcast, tree, root)));
    all.map(|(collective, name, root)| {
        let found = registry().iter().find(|known| known.collective == collective && known.name == name);
        let generator = found.expect("these algorithms are registered");
        let count = u64::from(collective != Collective::Barrier);
        let shape = |rank| Shape { root, ..Shape::new(collective, ranks, rank, count) };
        let params = |shape: &Shape| {
            let mut params = Params::default();
            if forced.starts_with(name) {
                select::force(&mut params, forced, shape);
            }
            Params { segment: 0, ..params }
        };
        let schedules: Vec<Schedule> =
            (0..ranks).map(|rank| generator.generate(&shape(rank), &params(&shape(rank)))).collect();
        let lowered = lower(&shape(0), &schedules).map_err(|refusal| format!("{collective}: {refusal}"))?;
        Ok(lowered.into_iter().nth(rank as usize).expect("there is one a rank"))
    })
    .collect()
}

/// Arguments of the kernel for one operation.
#[derive(Debug)]
struct Carried {
    operation: lower::Operation,
    /// True if no member may finish before all have begun.
    synchronises: bool,
    /// Data that this rank contributes, if any.
    gives: Option<Buffer>,
    /// Buffer of the result, if this rank gets one.
    gets: Option<Buffer>,
}

/// Returns true if calls of a collective may go by the kernel. Then they are not replayed.
#[inline]
pub(super) fn may_carry(held: &LaneGuard, comm: &Communicator, collective: Collective) -> bool {
    matches!(collective, Collective::Barrier | Collective::Bcast | Collective::Allreduce)
        && matches!(*comm.collectives.offloaded.borrow(held), Standing::Ready(..) | Standing::Several(_))
}

/// Largest operation for the kernel, in bytes.
pub(super) const MOST_BYTES: u64 = AREA_BYTES as u64;

/// Returns true if tuning may try the kernel for blocking operations of a shape. That holds if the result
/// has the same bits as any algorithm's, and if the shape alone decides.
pub(super) fn is_candidate(held: &LaneGuard, comm: &Communicator, shape: &Shape) -> bool {
    let is_one = match shape.collective {
        Collective::Barrier => true,
        Collective::Bcast => bcast_of(shape).is_some(),
        _ => false,
    };
    is_one && may_carry(held, comm, shape.collective)
}

/// Returns the program of a broadcast, if there is one for its root and size.
fn bcast_of(shape: &Shape) -> Option<u8> {
    let fits = (shape.root as usize) < PROGRAMS - usize::from(BCAST)
        && (1..=AREA_BYTES as u64).contains(&shape.bytes());
    fits.then(|| BCAST + shape.root as u8)
}

/// Returns the kernel's group and arguments for an operation, if the kernel does it. All members decide
/// alike.
fn carried(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
) -> Option<(Arc<OffloadGroup>, Carried)> {
    let place = match &*comm.collectives.offloaded.borrow(held) {
        Standing::Ready(place, _) => Arc::clone(place),
        Standing::Open | Standing::None | Standing::Several(_) => return None,
    };
    Some((place, what_of(process, comm, operation)?))
}

/// Kind of operation in the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub collective: Collective,
    /// Program; for broadcasts the one of the first root.
    pub program: u8,
    /// Operator of the kernel, as its number.
    pub operator: u8,
    /// Bytes of data of one rank.
    pub bytes: u16,
}

impl Kind {
    /// Returns the kind of an operation, whatever its root is; `None` if the kernel cannot do it.
    fn of(process: &Process, comm: &Communicator, operation: &Operation<'_>) -> Option<Kind> {
        let shape = operation.shape(comm);
        let bytes = shape.bytes();
        let (program, operator, most) = match shape.collective {
            Collective::Barrier => (BARRIER, Operator::None, 0),
            Collective::Bcast if bytes > 0 => (BCAST, Operator::None, AREA_BYTES),
            Collective::Allreduce if bytes > 0 => {
                (ALLREDUCE, operator_of(operation.reducer()?)?, OPERAND_BYTES)
            }
            _ => return None,
        };
        // The kernel's sums are another expression than the deterministic one.
        let is_fixed = process.config.collectives.deterministic || shape.together;
        let differs = is_fixed && operator == Operator::SumF64;
        let fits = bytes <= most as u64 && !differs;
        let (operator, bytes) = (operator as u8, bytes as u16);
        fits.then_some(Kind { collective: shape.collective, program, operator, bytes })
    }
}

/// Returns the kernel's arguments for an operation; `None` if the kernel cannot do it.
fn what_of(process: &Process, comm: &Communicator, operation: &Operation<'_>) -> Option<Carried> {
    let Kind { program, operator, bytes, .. } = Kind::of(process, comm, operation)?;
    let shape = operation.shape(comm);
    let program = if program == BCAST { bcast_of(&shape)? } else { program };
    let (send, recv) = operation.sides();
    let (gives, gets) = match shape.collective {
        Collective::Barrier => (None, None),
        Collective::Bcast if shape.is_root() => (buffer(recv), None),
        Collective::Bcast => (None, buffer(recv)),
        _ if shape.in_place => (buffer(recv), buffer(recv)),
        _ => (buffer(send), buffer(recv)),
    };
    let operation = lower::Operation { program, operator, bytes };
    let synchronises = shape.collective != Collective::Bcast;
    Some(Carried { operation, synchronises, gives, gets })
}

/// Returns the buffer of a side that is one array.
pub(super) fn buffer(side: &Side<'_>) -> Option<Buffer> {
    let Side::Block(array) = side else { return None };
    // SAFETY: see the module's Safety section.
    unsafe { Buffer::user(array.base, array.count, array.datatype) }.ok()
}

/// Returns the operator of the kernel that is equal to a reducer.
fn operator_of(reducer: &Reducer) -> Option<Operator> {
    /// Codes in the standard ABI: MPI_LONG, MPI_INT64_T and MPI_DOUBLE; MPI_SUM, MPI_MIN and MPI_MAX.
    const INTEGERS: [u32; 2] = [0x20a, 0x258];
    const DOUBLE: u32 = 0x214;
    const SUM: u32 = 0x21;
    const MIN: u32 = 0x22;
    const MAX: u32 = 0x23;
    let code = reducer.datatype().code()?;
    let is = |operator: u32| {
        let known = Op::predefined(operator).and_then(|known| known.bind(Datatype::predefined(code)?).ok());
        known.is_some_and(|known| known.is_same(reducer))
    };
    match code {
        DOUBLE if is(SUM) => Some(Operator::SumF64),
        _ if !INTEGERS.contains(&code) || reducer.datatype().size() != 8 => None,
        _ if is(SUM) => Some(Operator::SumI64),
        _ if is(MIN) => Some(Operator::MinI64),
        _ if is(MAX) => Some(Operator::MaxI64),
        _ => None,
    }
}

/// Calls the kernel with the data of this rank.
fn begin(held: &LaneGuard, messenger: &Messenger, place: &Arc<OffloadGroup>, carried: &Carried) -> Call {
    let data = carried.gives.as_ref().map_or(Vec::new(), Buffer::to_vec);
    place.call(&mut messenger.kernel.borrow_mut(held), carried.operation, carried.synchronises, data)
}

/// Advances a call; returns true if it is over and the result is in `gets`.
fn move_on(
    held: &LaneGuard,
    messenger: &Messenger,
    place: &Arc<OffloadGroup>,
    call: &mut Call,
    gets: Option<&Buffer>,
) -> Result<bool> {
    if !place.advance(&mut messenger.kernel.borrow_mut(held), call)? {
        return Ok(false);
    }
    if let Some(gets) = gets {
        let mut block = [0; AREA_BYTES];
        let block = &mut block[..gets.bytes() as usize];
        place.result(call, block);
        gets.unpack(0, block);
    }
    Ok(true)
}

/// Runs an operation if the kernel can do it.
pub(super) fn run(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
) -> Option<Result<()>> {
    let what = || waiting_for(operation.collective(), operation.shape(comm).root, comm);
    if let Some(request) = start_several(held, process, comm, operation) {
        let is_over = |held: &LaneGuard| completion::is_complete(held, process, request).unwrap_or(true);
        progress::wait_until(held, process, &what, is_over);
        return Some(completion::finish(held, process, request).result.map(drop));
    }
    let (place, carried) = carried(held, process, comm, operation)?;
    let mut call = begin(held, process, &place, &carried);
    let mut result = Ok(false);
    progress::wait_until(held, process, &what, |held| {
        if matches!(result, Ok(false)) {
            result = move_on(held, process, &place, &mut call, carried.gets.as_ref());
        }
        !matches!(result, Ok(false))
    });
    Some(result.map(drop))
}

/// Starts an operation where hosts have several members, if the kernel can do it.
fn start_several(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
) -> Option<RequestId> {
    let hosts = match &*comm.collectives.offloaded.borrow(held) {
        Standing::Several(hosts) => Arc::clone(hosts),
        _ => return None,
    };
    let kind = Kind::of(process, comm, operation)?;
    let root = hosts.members.get(operation.shape(comm).root as usize).map_or(0, |(host, _)| *host);
    let has_program = (root as usize) < PROGRAMS - usize::from(BCAST);
    has_program.then(|| hosts::start(held, process, comm, operation, (hosts, kind)))
}

/// Starts an operation as [`run`] does, behind a request.
pub(super) fn start(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
) -> Option<RequestId> {
    if let Some(request) = start_several(held, process, comm, operation) {
        return Some(request);
    }
    let (place, carried) = carried(held, process, comm, operation)?;
    let shape = operation.shape(comm);
    let work = Work::Collective(shape.collective.name(), super::root_of(shape.collective, shape.root));
    let request = process.messages.borrow_mut(held).state.insert(Request::new(work, comm.context().0));
    let call = begin(held, process, &place, &carried);
    let flight = Box::new(KernelCall { place, call, gets: carried.gets, request });
    if let Some(activity) = flight.advance(held, process, false) {
        process.add_activity(held, activity);
    }
    Some(request)
}

/// Makes a persistent operation, if the kernel can do it; all members decide alike.
///
/// # Errors
/// Returns the error of a message that failed.
pub(super) fn persistent(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> Result<Option<Arc<dyn Restart>>> {
    agree(held, process, comm)?;
    let hosts = match &*comm.collectives.offloaded.borrow(held) {
        Standing::Ready(_, hosts) => Arc::clone(hosts),
        Standing::Open | Standing::None | Standing::Several(_) => return Ok(None),
    };
    let Some(carried) = what_of(process, comm, operation) else { return Ok(None) };
    let signature = failures::signature_of(&operation.shape(comm), comm);
    let number = internal::take_number(held, process, comm, signature)?;
    let tag = (number << LANE_BITS) as i32;
    // Contexts of communicators are smaller, and netd accepts each number once.
    let group = 1 << 31 | (number & 0x7fff) << 16 | comm.context().0 & 0xffff;
    let seat = process.kernel.borrow_mut(held).seat(|| Err("there is no seat".into()));
    let place = seat.and_then(|seat| install(&seat, (process, comm), &hosts, group));
    if internal::maximum(held, process, comm, u64::from(place.is_err()))? > 0 {
        comm.collectives.forget_persistent(held, tag);
        return Ok(None);
    }
    let place = Arc::new(place.expect("nobody has failed"));
    let root = super::root_of(operation.collective(), operation.shape(comm).root);
    let what = (operation.collective(), root);
    // SAFETY: see the module's Safety section.
    let owner = unsafe { Owned::new(operation) };
    Ok(Some(Arc::new(Repeated {
        comm: Arc::clone(comm),
        tag,
        place,
        what,
        carried: FirstLaneCell::new(carried),
        _owner: FirstLaneCell::new(owner),
    })))
}

/// A persistent operation in the kernel.
#[derive(Debug)]
struct Repeated {
    comm: Arc<Communicator>,
    /// Number of the operation, as a tag.
    tag: i32,
    place: Arc<OffloadGroup>,
    /// Collective and root, if it has one.
    what: (Collective, Option<u32>),
    /// Arguments of each call.
    carried: FirstLaneCell<Carried>,
    /// Owner of the datatypes, which keeps them alive.
    _owner: FirstLaneCell<Owned>,
}

impl Restart for Repeated {
    fn restart(self: Arc<Self>, held: &LaneGuard, request: RequestId) -> Restarted {
        let process = started();
        let carried = self.carried.borrow(held);
        let (place, gets) = (Arc::clone(&self.place), carried.gets.clone());
        let mut call = begin(held, process, &place, &carried);
        drop(carried);
        match move_on(held, process, &place, &mut call, gets.as_ref()) {
            Ok(false) => {}
            over => return Restarted::Over(self, over.err()),
        }
        let operation: Arc<dyn Restart> = Arc::<Repeated>::clone(&self);
        let work = Work::Collective(self.what.0.name(), self.what.1);
        process.messages.borrow_mut(held).state.requests.under_way(request, operation, work);
        process.add_activity(held, Box::new(KernelCall { place, call, gets, request }));
        Restarted::UnderWay
    }

    fn retire(self: Arc<Self>, held: &LaneGuard) {
        self.comm.collectives.forget_persistent(held, self.tag);
    }
}

/// An operation of the kernel behind a request.
#[derive(Debug)]
struct KernelCall {
    place: Arc<OffloadGroup>,
    call: Call,
    /// Buffer of the result, if this rank gets one.
    gets: Option<Buffer>,
    request: RequestId,
}

impl Activity for KernelCall {
    fn advance(
        mut self: Box<Self>,
        held: &LaneGuard,
        messenger: &Messenger,
        _: bool,
    ) -> Option<Box<dyn Activity>> {
        let KernelCall { place, call, gets, request } = &mut *self;
        let error = match move_on(held, messenger, place, call, gets.as_ref()) {
            Ok(false) => return Some(self),
            Ok(true) => None,
            Err(error) => Some(error),
        };
        messenger.messages.borrow_mut(held).state.requests.complete(*request, error);
        None
    }

    fn is_unattended(&self) -> bool {
        true
    }
}
