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

use super::kernel_hosts;
use crate::buffer::Buffer;
use crate::collective::context::{CommContext, WaitContext, describe_wait, root_of};
use crate::collective::signature::message_signature;
use crate::communicator::Communicator;
use crate::communicator::collectives::Channel;
use crate::communicator::collectives::call::{Call, OwnedCall, Side};
use crate::communicator::collectives::offload_state::{Hosts, OffloadState};
use crate::completion;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::messenger::{Activity, Messenger};
use crate::offload::{OffloadGroup, OffloadedCall};
use crate::p2p::agreement::LANE_BITS;
use crate::process::{self, Process, started};
use crate::progress;
use crate::request::{Request, RequestId, Restart, Restarted, Work};
use crate::special::UNDEFINED;

/// Numbers of the kernel's programs; broadcasts follow, one for each root.
const BARRIER: u8 = 0;
const ALLREDUCE: u8 = 1;
pub(in crate::collective) const BCAST: u8 = 2;
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
pub(in crate::collective) fn agree(cx: &mut WaitContext<'_>) -> Result<()> {
    if !matches!(*cx.comm.collectives.offloaded.borrow(cx.lane), OffloadState::Open) {
        return Ok(());
    }
    establish(cx)
}

/// Negotiates the offload with all members, and stores the result.
#[cold]
fn establish(cx: &mut WaitContext<'_>) -> Result<()> {
    *cx.comm.collectives.offloaded.borrow_mut(cx.lane) = OffloadState::None;
    // Packets of the kernel's program are authenticated, not encrypted.
    let is_meant = cx.process.config.collectives.offload != Offload::Off
        && cx.process.config.network.protection.allows_readable()
        && matches!(cx.comm.collectives.channel, Channel::Own);
    if !is_meant
        || cx.comm.inter().is_some()
        || cx.comm.collectives.node.numbers(cx.process, cx.comm).is_none()
    {
        return Ok(());
    }
    let found = match has_several(cx.process, cx.comm) {
        true => negotiate_hosts(cx)?,
        false => negotiate(cx)?,
    };
    let standing = match found {
        Ok(standing) => standing,
        Err(why) => {
            if cx.process.config.collectives.explain.is_on() && cx.comm.rank().0 == 0 {
                eprintln!("Tutti: the kernel does no collectives of {}: {why}", cx.comm.context().0);
            }
            return match cx.process.config.collectives.offload {
                Offload::On => {
                    Err(Error::new(ErrorClass::Other, format!("TUTTI_OFFLOAD=on, but here not: {why}")))
                }
                _ => Ok(()),
            };
        }
    };
    if cx.process.config.collectives.explain.is_on() && cx.comm.rank().0 == 0 {
        eprintln!("Tutti: the kernel does small collectives of communicator {}", cx.comm.context().0);
    }
    *cx.comm.collectives.offloaded.borrow_mut(cx.lane) = standing;
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
fn negotiate_hosts(cx: &mut WaitContext<'_>) -> Result<std::result::Result<OffloadState, String>> {
    let mut hosts = Vec::new();
    let mut members: Vec<(u32, u32)> = Vec::new();
    for world in cx.comm.group().iter() {
        let host = cx.process.job.place(world.0).host;
        let known = hosts.iter().position(|known| *known == host);
        let number = known.unwrap_or_else(|| {
            hosts.push(host);
            hosts.len() - 1
        }) as u32;
        let before = members.iter().filter(|(other, _)| *other == number).count() as u32;
        members.push((number, before));
    }
    let rank = cx.comm.rank().0;
    let (host, number) = members[rank as usize];
    let mine = if number == 0 { seat(cx.shared()).map(drop) } else { Ok(()) };
    if cx.maximum(u64::from(mine.is_err()))? > 0 {
        return Ok(Err(mine.err().unwrap_or_else(|| OTHERS.into())));
    }
    let mut split =
        |color: i32| cx.process.library.splitter.split(cx.lane, cx.process, cx.comm, color, rank as i32);
    let (up, down) = (split(host as i32)?, split(host as i32)?);
    let color = if number == 0 { 0 } else { UNDEFINED };
    let leaders = split(color)?;
    // Agreements of these communicators do not use the kernel.
    for part in [&up, &down, &leaders].into_iter().flatten() {
        *part.collectives.offloaded.borrow_mut(cx.lane) = OffloadState::None;
    }
    let found = leaders.as_ref().map(|leaders| negotiate(&mut cx.within(leaders))).transpose()?.transpose();
    if cx.maximum(u64::from(found.is_err()))? > 0 {
        return Ok(Err(found.err().unwrap_or_else(|| OTHERS.into())));
    }
    let place = match found {
        Ok(Some(OffloadState::Ready(place, _))) => Some(place),
        _ => None,
    };
    let (Some(up), Some(down)) = (up, down) else { unreachable!("every member has a host") };
    Ok(Ok(OffloadState::Several(Arc::new(Hosts {
        up,
        down,
        leaders,
        place,
        members,
        turns: Mutex::default(),
    }))))
}

/// Negotiates where each member has a host of its own. All members end alike, with reasons of their own.
fn negotiate(cx: &mut WaitContext<'_>) -> Result<std::result::Result<OffloadState, String>> {
    let mine = seat(cx.shared());
    if cx.maximum(u64::from(mine.is_err()))? > 0 {
        return Ok(Err(mine.err().unwrap_or_else(|| OTHERS.into())));
    }
    let address = mine.as_ref().map_or(Ipv4Addr::UNSPECIFIED, |(_, address)| *address);
    let all = cx.allgather_bytes(&address.octets())?;
    let hosts: Arc<[Ipv4Addr]> = all.as_chunks::<4>().0.iter().map(|bytes| Ipv4Addr::from(*bytes)).collect();
    let place = mine.and_then(|(seat, _)| install(&seat, (cx.process, cx.comm), &hosts, cx.comm.context().0));
    if cx.maximum(u64::from(place.is_err()))? > 0 {
        return Ok(Err(place.err().unwrap_or_else(|| OTHERS.into())));
    }
    let place = place.map(|place| try_out(cx.lane, (cx.process, cx.comm), Arc::new(place)));
    let fails = !matches!(place, Ok(Some(_)));
    if cx.maximum(u64::from(fails))? > 0 {
        return Ok(Err(format!("packets of UDP port {PORT} do not get from each host to each other one")));
    }
    let place = place.ok().flatten().expect("nobody has failed");
    Ok(Ok(OffloadState::Ready(place, hosts)))
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
    let mut call = place.call(&mut process.library.kernel.borrow_mut(held), operation, true, Vec::new());
    loop {
        let over = place.advance(&mut process.library.kernel.borrow_mut(held), &mut call);
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
fn seat(cx: CommContext<'_>) -> std::result::Result<(Arc<Seat>, Ipv4Addr), String> {
    if cx.comm.group().iter().any(|world| cx.process.is_foreign(world)) {
        return Err("members are of several jobs".into());
    }
    let header = cx.process.job.header();
    let told = kept::host_address(cx.process.job.place(cx.process.rank.0).host);
    let address = told.map_or_else(|| header.interface().parse(), Ok);
    let address: Ipv4Addr = address.map_err(|_| format!("{:?} is no address of IPv4", header.interface()))?;
    let derived = Key::new(&header.secret.0, Use::Derived);
    let tag = derived.tag(&[b"netd"]);
    // The number is secret, so no other process takes it first.
    let [a, b, c, d, ..] = derived.tag(&[b"netd number"]);
    let number = u32::from_le_bytes([a, b, c, d]);
    let mut kernel = cx.process.library.kernel.borrow_mut(cx.lane);
    kernel.go_on().map_err(|error| error.message.clone().into_owned())?;
    let seat = kernel.seat(|| Seat::take(number, tag, address, patience(&cx.process.config)))?;
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
pub(in crate::collective) struct Carried {
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
pub(in crate::collective) fn may_carry(cx: CommContext<'_>, collective: Collective) -> bool {
    matches!(collective, Collective::Barrier | Collective::Bcast | Collective::Allreduce)
        && matches!(
            *cx.comm.collectives.offloaded.borrow(cx.lane),
            OffloadState::Ready(..) | OffloadState::Several(_)
        )
}

/// Largest operation for the kernel, in bytes.
pub(in crate::collective) const MOST_BYTES: u64 = AREA_BYTES as u64;

/// Returns true if tuning may try the kernel for blocking operations of a shape. That holds if the result
/// has the same bits as any algorithm's, and if the shape alone decides.
pub(in crate::collective) fn is_candidate(cx: CommContext<'_>, shape: &Shape) -> bool {
    let is_one = match shape.collective {
        Collective::Barrier => true,
        Collective::Bcast => bcast_of(shape).is_some(),
        _ => false,
    };
    is_one && may_carry(cx, shape.collective)
}

/// Returns the program of a broadcast, if there is one for its root and size.
fn bcast_of(shape: &Shape) -> Option<u8> {
    let fits = (shape.root as usize) < PROGRAMS - usize::from(BCAST)
        && (1..=AREA_BYTES as u64).contains(&shape.bytes());
    fits.then(|| BCAST + shape.root as u8)
}

/// The kernel's part in an operation.
#[derive(Debug)]
pub(in crate::collective) enum KernelRoute {
    /// Each member is alone on its host, and calls the kernel with these arguments.
    Alone(Arc<OffloadGroup>, Carried),
    /// Hosts have several members, whose leaders call the kernel.
    Leaders(Arc<Hosts>, Kind),
}

/// Returns the kernel's part in an operation; `None` if the kernel does not do it. All members decide alike.
pub(in crate::collective) fn find(cx: CommContext<'_>, call: &Call<'_>) -> Option<KernelRoute> {
    match &*cx.comm.collectives.offloaded.borrow(cx.lane) {
        OffloadState::Ready(place, _) => {
            Some(KernelRoute::Alone(Arc::clone(place), what_of(cx.process, call)?))
        }
        OffloadState::Several(hosts) => {
            let kind = Kind::of(cx.process, call)?;
            let root = hosts.members.get(call.shape().root as usize).map_or(0, |(host, _)| *host);
            let has_program = (root as usize) < PROGRAMS - usize::from(BCAST);
            has_program.then(|| KernelRoute::Leaders(Arc::clone(hosts), kind))
        }
        OffloadState::Open | OffloadState::None => None,
    }
}

/// Kind of operation in the kernel.
#[derive(Clone, Copy, Debug)]
pub(in crate::collective) struct Kind {
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
    fn of(process: &Process, call: &Call<'_>) -> Option<Kind> {
        let shape = call.shape();
        let bytes = shape.bytes();
        let (program, operator, most) = match shape.collective {
            Collective::Barrier => (BARRIER, Operator::None, 0),
            Collective::Bcast if bytes > 0 => (BCAST, Operator::None, AREA_BYTES),
            Collective::Allreduce if bytes > 0 => (ALLREDUCE, operator_of(call.reducer()?)?, OPERAND_BYTES),
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
fn what_of(process: &Process, call: &Call<'_>) -> Option<Carried> {
    let Kind { program, operator, bytes, .. } = Kind::of(process, call)?;
    let shape = call.shape();
    let program = if program == BCAST { bcast_of(shape)? } else { program };
    let (send, recv) = call.sides();
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
pub(in crate::collective) fn buffer(side: &Side<'_>) -> Option<Buffer> {
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
fn begin(held: &LaneGuard, process: &Process, place: &Arc<OffloadGroup>, carried: &Carried) -> OffloadedCall {
    let data = carried.gives.as_ref().map_or(Vec::new(), Buffer::to_vec);
    place.call(&mut process.library.kernel.borrow_mut(held), carried.operation, carried.synchronises, data)
}

/// Advances a call; returns true if it is over and the result is in `gets`.
fn move_on(
    held: &LaneGuard,
    process: &Process,
    place: &Arc<OffloadGroup>,
    call: &mut OffloadedCall,
    gets: Option<&Buffer>,
) -> Result<bool> {
    if !place.advance(&mut process.library.kernel.borrow_mut(held), call)? {
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

/// Runs an operation in the kernel and waits for its end.
///
/// # Errors
/// Returns the error of a message that failed.
pub(in crate::collective) fn run(
    cx: &mut WaitContext<'_>,
    call: &Call<'_>,
    route: KernelRoute,
) -> Result<()> {
    let comm = cx.comm;
    let what = || describe_wait(call.collective(), call.shape().root, comm);
    let (place, carried) = match route {
        KernelRoute::Alone(place, carried) => (place, carried),
        KernelRoute::Leaders(hosts, kind) => {
            let request = kernel_hosts::start(cx.shared(), call, (hosts, kind));
            cx.wait_until(&what, |cx| completion::is_complete(cx.lane, cx.process, request).unwrap_or(true));
            return completion::finish(cx.lane, cx.process, request).result.map(drop);
        }
    };
    let mut offloaded = begin(cx.lane, cx.process, &place, &carried);
    let mut result = Ok(false);
    cx.wait_until(&what, |cx| {
        if matches!(result, Ok(false)) {
            result = move_on(cx.lane, cx.process, &place, &mut offloaded, carried.gets.as_ref());
        }
        !matches!(result, Ok(false))
    });
    result.map(drop)
}

/// Starts an operation in the kernel, behind a request.
pub(in crate::collective) fn start(cx: CommContext<'_>, call: &Call<'_>, route: KernelRoute) -> RequestId {
    let (place, carried) = match route {
        KernelRoute::Alone(place, carried) => (place, carried),
        KernelRoute::Leaders(hosts, kind) => return kernel_hosts::start(cx, call, (hosts, kind)),
    };
    let shape = call.shape();
    let work = Work::Collective(shape.collective.name(), root_of(shape.collective, shape.root));
    let request =
        cx.process.messages.borrow_mut(cx.lane).state.insert(Request::new(work, cx.comm.context().0));
    let offloaded = begin(cx.lane, cx.process, &place, &carried);
    let flight = Box::new(KernelCall { place, call: offloaded, gets: carried.gets, request });
    if let Some(activity) = flight.advance(cx.lane, cx.process, false) {
        cx.process.add_activity(cx.lane, activity);
    }
    request
}

/// Makes a persistent operation, if the kernel can do it; all members decide alike.
///
/// # Errors
/// Returns the error of a message that failed.
pub(in crate::collective) fn persistent(
    cx: &mut WaitContext<'_>,
    call: &Call<'_>,
) -> Result<Option<Arc<dyn Restart>>> {
    agree(cx)?;
    let hosts = match &*cx.comm.collectives.offloaded.borrow(cx.lane) {
        OffloadState::Ready(_, hosts) => Arc::clone(hosts),
        OffloadState::Open | OffloadState::None | OffloadState::Several(_) => return Ok(None),
    };
    let Some(carried) = what_of(cx.process, call) else { return Ok(None) };
    let signature = message_signature(call.shape(), cx.comm);
    let number = cx.take_number(signature)?;
    let tag = (number << LANE_BITS) as i32;
    // Contexts of communicators are smaller, and netd accepts each number once.
    let group = 1 << 31 | (number & 0x7fff) << 16 | cx.comm.context().0 & 0xffff;
    let seat = cx.process.library.kernel.borrow_mut(cx.lane).seat(|| Err("there is no seat".into()));
    let place = seat.and_then(|seat| install(&seat, (cx.process, cx.comm), &hosts, group));
    if cx.maximum(u64::from(place.is_err()))? > 0 {
        cx.comm.collectives.forget_persistent(cx.lane, tag);
        return Ok(None);
    }
    let place = Arc::new(place.expect("nobody has failed"));
    let root = root_of(call.collective(), call.shape().root);
    let what = (call.collective(), root);
    // SAFETY: see the module's Safety section.
    let owner = unsafe { OwnedCall::new(call) };
    Ok(Some(Arc::new(Repeated {
        comm: Arc::clone(cx.comm),
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
    _owner: FirstLaneCell<OwnedCall>,
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
    call: OffloadedCall,
    /// Buffer of the result, if this rank gets one.
    gets: Option<Buffer>,
    request: RequestId,
}

impl Activity for KernelCall {
    fn advance(mut self: Box<Self>, held: &LaneGuard, _: &Messenger, _: bool) -> Option<Box<dyn Activity>> {
        let process = process::current();
        let KernelCall { place, call, gets, request } = &mut *self;
        let error = match move_on(held, process, place, call, gets.as_ref()) {
            Ok(false) => return Some(self),
            Ok(true) => None,
            Err(error) => Some(error),
        };
        process.messages.borrow_mut(held).state.requests.complete(*request, error);
        None
    }

    fn is_unattended(&self) -> bool {
        true
    }
}
