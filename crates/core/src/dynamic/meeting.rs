//! Connecting two groups of processes: the only way in which communicators come to span jobs.
//!
//! | step | root of the accepting side | root of the connecting side |
//! |---|---|---|
//! | 1 | | sends the names of its members, with the job objects in which they sleep |
//! | 2 | makes the bridge; sends the same of its own group, with the bridge | |
//! | 3 | passes the received data on to its members | the same |
//! | 4 | all members enter the bridge (between hosts: [`crossing`]); roots exchange the outcome | the same |
//! | 5 | exchanges the maxima of the agreement on a context | the same |
//!
//! Data for members is sent by collectives of their communicator, descriptors over a socket of the root.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Rank, Result, WorldRank};
use tutti_sys::job::{Job, Plan, Secret};
use tutti_sys::letter::{self, Fields, Letter};
use tutti_sys::local_socket::{Carries, Listener};
use tutti_sys::process as system;
use tutti_transport::bridges::Way;
use tutti_transport::shm::Home;
use tutti_transport::{Peer, ShmLink};

use super::background::{wait_beside, wait_for};
use super::connected_jobs::{look_out, tie};
use super::crossing::{self, Crossing};
use super::line::Line;
use super::ports;
use crate::collective::WaitContext;
use crate::communicator::Communicator;
use crate::constructors::create::{self, between};
use crate::group::Group;
use crate::lanes::LaneGuard;
use crate::other_jobs::{NAME_BYTES, Name, names};
use crate::process::Process;

/// Role of a group in the meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The group that waits at a port.
    Accepts,
    /// The group that connects to the port.
    Connects,
}

/// Description of a group, which the roots exchange.
#[derive(Debug, Default)]
pub(super) struct Introduction {
    /// Size of a ring in bytes.
    ring_bytes: u64,
    /// Names of the members.
    members: Vec<u8>,
    /// For each job of a member: the number of doorbells of its ranks on this host.
    bells: Vec<u64>,
    /// True if a member is on another host than its root.
    pub(super) is_spread: bool,
    /// Network address of the root, if its job uses the network.
    pub(super) interface: String,
    /// Secret for both sides, from the accepting one; only if they are on one host.
    pub(super) secret: Vec<u8>,
}

/// Data that a member needs to enter a bridge, except the descriptors.
#[derive(Debug)]
pub(super) struct Notice {
    /// Names of the other group's members.
    pub(super) members: Vec<u8>,
    /// For each of their jobs: the number of doorbells.
    bells: Vec<u64>,
    /// Name of the socket at which the root hands out descriptors.
    place: Vec<u8>,
    /// Parameters of a bridge over the network.
    crossing: Option<Crossing>,
}

/// Data of the root after the exchange: the other group's description, the bridge, and their job objects
/// with doorbells.
#[derive(Debug)]
struct Met {
    /// Description of the other group.
    theirs: Introduction,
    /// Descriptors of the bridge, and of their job objects and doorbells.
    descriptors: Vec<OwnedFd>,
    /// Parameters of a bridge over the network.
    crossing: Option<Crossing>,
}

/// Makes an error of `class` from an error of the system.
pub(super) fn failed(class: ErrorClass, what: &str, error: &io::Error) -> Error {
    Error::new(class, format!("{what}: {error}"))
}

/// Makes the error for a message that cannot be decoded.
pub(super) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other side says something that makes no sense")
}

/// Makes an intercommunicator of `comm` and the group at the other end of `line`. Only the root passes a
/// line, or the reason why there is none. Collective over both groups. Errors are of `class`, and equal at
/// all members.
///
/// # Errors
/// Returns the reason why the groups cannot meet.
pub fn meet(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    root: Rank,
    line: Option<Result<Line>>,
    (part, class): (Part, ErrorClass),
) -> Result<Arc<Communicator>> {
    let mut line = line;
    let met = match line.take() {
        None => None,
        Some(Err(error)) => Some(Err(error)),
        Some(Ok(connection)) => Some(introduce(held, process, comm, (part, class), connection)),
    };
    let (met, line) = match met {
        None => (None, None),
        Some(Ok((met, line))) => (Some(Ok(met)), Some(Arc::new(line))),
        Some(Err(error)) => (Some(Err(error)), None),
    };
    let (notice, descriptors) = spread(held, process, comm, root, met, class)?;
    let entered = match &notice.crossing {
        None => enter(held, process, comm, part, &notice, descriptors),
        Some(plan) => {
            let mut swap =
                |held: &mut LaneGuard, own| swap(held, process, comm, root, line.as_ref(), own, class);
            crossing::enter(held, process, comm, part, (plan, &notice.members), &mut swap)?
        }
    };
    let bad = u64::from(entered.is_err());
    let anybody = both(held, process, comm, root, line.as_ref(), bad, class)?;
    let remote = match entered {
        Ok(remote) if anybody == 0 => remote,
        Ok(_) => {
            return Err(Error::new(class, "another process could not enter the bridge between the groups"));
        }
        Err(error) => return Err(failed(class, "the bridge between the groups cannot be entered", &error)),
    };
    tie(held, process);
    let lookout = line.clone().filter(|_| notice.crossing.is_some());
    let local = create::duplicate_bare(held, process, comm)?;
    let serial = create::agree_by(held, process, |held, value| {
        both(held, process, comm, root, line.as_ref(), value, class)
    })?;
    if let Some(line) = lookout {
        look_out(held, process, line, names(&notice.members));
    }
    Ok(between(held, process, comm, local, remote, serial))
}

/// Returns the maximum of a number over both groups.
fn both(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    root: Rank,
    line: Option<&Arc<Line>>,
    value: u64,
    class: ErrorClass,
) -> Result<u64> {
    let own = WaitContext::new(held, process, comm).maximum(value)?;
    let theirs = swap(held, process, comm, root, line, own.to_le_bytes().to_vec(), class)?;
    let theirs = theirs.try_into().map_err(|_| failed(class, "the other group", &damaged()))?;
    Ok(own.max(u64::from_le_bytes(theirs)))
}

/// Sends data of this group's root to the other root, and returns that root's data at all members.
fn swap(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    root: Rank,
    line: Option<&Arc<Line>>,
    own: Vec<u8>,
    class: ErrorClass,
) -> Result<Vec<u8>> {
    let mut said = Vec::new();
    if let Some(line) = line {
        let line = Arc::clone(line);
        let work = move || {
            line.send(&own, &[])?;
            line.receive().map(|letter| letter.bytes)
        };
        let theirs = wait_beside(held, process, "the root of the other group", Some(comm), work);
        let theirs = theirs.and_then(|theirs| theirs);
        said = theirs.unwrap_or_default();
    }
    WaitContext::new(held, process, comm).broadcast_bytes(root, &mut said)?;
    if said.is_empty() { Err(Error::new(class, "the other group has gone away")) } else { Ok(said) }
}

/// Performs steps 1 and 2, at the root.
fn introduce(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    (part, class): (Part, ErrorClass),
    line: Line,
) -> Result<(Met, Line)> {
    let introduction = own_introduction(held, process, comm);
    let (own, enclosed) = introduction.map_err(|error| {
        let error = failed(class, "this group cannot be met", &error);
        // The other side gets the reason too, if it is still there.
        let _ = line.send(&refusal(&error), &[]);
        error
    })?;
    let work = move || exchange(&line, part, &own, enclosed).map(|met| (met, line));
    let met = wait_beside(held, process, "the root of the other group", Some(comm), work);
    let met = met.and_then(|met| met);
    met.map_err(|error| failed(class, "the other group cannot be met", &error))
}

/// Exchanges the descriptions with the other root; the accepting one also makes the bridge.
fn exchange(line: &Line, part: Part, own: &Introduction, enclosed: Vec<OwnedFd>) -> io::Result<Met> {
    let is_far = |theirs: &Introduction| line.secret().is_some() || own.is_spread || theirs.is_spread;
    let crossing = |theirs: &Introduction, secret: &[u8]| -> io::Result<Option<Crossing>> {
        let far = is_far(theirs).then(|| Crossing::new(line, own, theirs, secret));
        far.transpose()
    };
    let lend = |own: &Introduction, fds: &[OwnedFd]| {
        line.send(&own.encode(), &fds.iter().map(AsFd::as_fd).collect::<Vec<_>>())
    };
    if part == Part::Connects {
        let enclosed = if line.secret().is_some() { Vec::new() } else { enclosed };
        lend(own, &enclosed)?;
        let Letter { bytes, descriptors } = line.receive()?;
        let theirs = Introduction::decode(&bytes)?;
        let crossing = crossing(&theirs, &theirs.secret)?;
        return Ok(Met { theirs, descriptors, crossing });
    }
    let Letter { bytes, mut descriptors } = line.receive()?;
    let theirs = Introduction::decode(&bytes)?;
    if is_far(&theirs) {
        let secret = if line.secret().is_some() { Vec::new() } else { Secret::random()?.0.to_vec() };
        let crossing = crossing(&theirs, &secret)?;
        lend(&own.with(secret), &[])?;
        return Ok(Met { theirs, descriptors: Vec::new(), crossing });
    }
    let ranks = (own.members.len() + theirs.members.len()) / NAME_BYTES;
    let ring_bytes = own.ring_bytes.max(theirs.ring_bytes);
    let bridge = Job::create(&Plan { ring_bytes, ..Plan::one_host(ranks as u32) })?;
    let bridge = bridge.fd().try_clone_to_owned()?;
    descriptors.insert(0, bridge.try_clone()?);
    let mut all = vec![bridge];
    all.extend(enclosed);
    lend(own, &all)?;
    Ok(Met { theirs, descriptors, crossing: None })
}

/// Returns the description of this group. If all members are on this host, also the objects of their jobs
/// and their doorbells.
fn own_introduction(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
) -> io::Result<(Introduction, Vec<OwnedFd>)> {
    let others = process.library.other_jobs.borrow(held);
    let members = others.encode(comm.group());
    let interface = ports::interface(process).map(|address| address.to_string()).unwrap_or_default();
    let mut jobs: Vec<Arc<Job>> = vec![Arc::clone(&process.job)];
    let mut is_spread = false;
    for member in comm.group().iter() {
        match others.home(process, member) {
            None => is_spread = true,
            Some(home) if !jobs.iter().any(|job| Arc::ptr_eq(job, &home.job)) => jobs.push(home.job),
            Some(_) => {}
        }
    }
    let ring_bytes = jobs.iter().map(|job| job.header().ring_bytes).max().unwrap_or(0);
    let introduction = Introduction { ring_bytes, members, is_spread, interface, ..Introduction::default() };
    if is_spread {
        return Ok((introduction, Vec::new()));
    }
    let mut enclosed = Vec::new();
    let mut bells = Vec::new();
    for job in &jobs {
        let own_bells = (0..job.header().local_ranks).map_while(|local| job.bell(local));
        let of_job: Vec<BorrowedFd<'_>> = [job.fd()].into_iter().chain(own_bells).collect();
        bells.push(of_job.len() as u64 - 1);
        for fd in of_job {
            enclosed.push(fd.try_clone_to_owned()?);
        }
    }
    Ok((Introduction { bells, ..introduction }, enclosed))
}

/// Performs step 3: sends every member the data it needs, from the root.
fn spread(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    root: Rank,
    met: Option<Result<Met>>,
    class: ErrorClass,
) -> Result<(Notice, Vec<OwnedFd>)> {
    let mut listener = None;
    let met = met.map(|met| {
        met.and_then(|met| {
            if met.crossing.is_some() {
                return Ok((met, Vec::new()));
            }
            let place = system::random().map(|number| format!("spread-{number:016x}").into_bytes());
            let place = place.and_then(|place| {
                listener = Some(Listener::bind(&place, Carries::Bytes)?);
                Ok(place)
            });
            place.map(|place| (met, place)).map_err(|error| failed(class, "no socket", &error))
        })
    });
    let mut words = match &met {
        None => Vec::new(),
        Some(Ok((met, place))) => notice(process, met, place),
        Some(Err(error)) => refusal(error),
    };
    WaitContext::new(held, process, comm).broadcast_bytes(root, &mut words)?;
    // The root keeps the class of its own error.
    let met = met.transpose()?;
    let notice = read_notice(process, &words, class)?;
    if notice.crossing.is_some() {
        return Ok((notice, Vec::new()));
    }
    let descriptors = match met {
        None => {
            let place = notice.place.clone();
            wait_for(held, process, "descriptors from the root", move || fetch(&place))
        }
        Some((met, _)) => {
            let others = comm.size() - 1;
            let hand_out =
                move || serve(listener.as_ref(), others, &met.descriptors).map(|()| met.descriptors);
            wait_for(held, process, "the members that fetch descriptors", hand_out)
        }
    };
    // A member without descriptors cannot enter, and reports that there.
    let descriptors = descriptors.and_then(|descriptors| descriptors).unwrap_or_default();
    Ok((notice, descriptors))
}

/// Sends the descriptors to `others` members, as they connect.
fn serve(listener: Option<&Listener>, others: u32, descriptors: &[OwnedFd]) -> io::Result<()> {
    let Some(listener) = listener else { return Ok(()) };
    let lent: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut left = others;
    while left > 0 {
        let Some(connection) = listener.accept()? else {
            super::ports::wait_at(listener);
            continue;
        };
        letter::send(&connection, &[], &lent)?;
        left -= 1;
    }
    Ok(())
}

/// Receives the descriptors from the root's socket.
fn fetch(place: &[u8]) -> io::Result<Vec<OwnedFd>> {
    let connection = super::ports::connect_to(place)?;
    letter::receive(&connection).map(|letter| letter.descriptors)
}

/// Performs step 4 on one host, and returns the other group.
fn enter(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    part: Part,
    notice: &Notice,
    descriptors: Vec<OwnedFd>,
) -> io::Result<Group> {
    let mut descriptors = descriptors.into_iter();
    let bridge = Arc::new(Job::attach(descriptors.next().ok_or_else(damaged)?)?);
    let mut others = process.library.other_jobs.borrow_mut(held);
    for &bells in &notice.bells {
        let job = Job::attach(descriptors.next().ok_or_else(damaged)?)?;
        let member = names(&notice.members).find(|name| name.job == job.header().job_id);
        let job = job.used_by(member.map_or(u32::MAX, |member| member.rank))?;
        let bells: Vec<OwnedFd> = descriptors.by_ref().take(bells as usize).collect();
        if others.job(job.header().job_id).is_none() {
            if !bells.is_empty() {
                job.set_bells(bells);
            }
            others.jobs.insert(job.header().job_id, Arc::new(job));
        }
    }
    let theirs: Vec<Name> = names(&notice.members).collect();
    let remote: Group = theirs.iter().map(|name| others.meet(*name)).collect();
    let (first, second) = match part {
        Part::Accepts => (comm.group(), &remote),
        Part::Connects => (&remote, comm.group()),
    };
    let all: Vec<WorldRank> = first.iter().chain(second.iter()).collect();
    let me = all.iter().position(|member| *member == process.rank).ok_or_else(damaged)?;
    let homes: Option<Box<[Home]>> = all.iter().map(|member| others.home(process, *member)).collect();
    drop(others);
    let homes = homes.filter(|homes| homes.len() == bridge.header().local_ranks as usize);
    let link = ShmLink::bridge(bridge, me as u32, homes.ok_or_else(damaged)?)?;
    let members = all.iter().map(|member| Peer(member.0)).collect();
    process.messages.borrow_mut(held).link.bridges().add(Way::Near(link), members);
    Ok(remote)
}

/// Encodes the data of a meeting for the members.
fn notice(process: &Process, met: &Met, place: &[u8]) -> Vec<u8> {
    let mut words = Vec::new();
    letter::put_number(&mut words, 1);
    letter::put(&mut words, &met.theirs.with(Vec::new()).encode());
    letter::put(&mut words, place);
    if let Some(crossing) = &met.crossing {
        letter::put(&mut words, &crossing.encode(&process.job.header().secret.0));
    }
    words
}

/// Encodes the reason why a meeting has failed.
fn refusal(error: &Error) -> Vec<u8> {
    let mut words = Vec::new();
    letter::put_number(&mut words, 0);
    letter::put(&mut words, error.message.as_bytes());
    words
}

/// Decodes the data of a meeting, or the reason why it has failed.
fn read_notice(process: &Process, words: &[u8], class: ErrorClass) -> Result<Notice> {
    let mut fields = Fields::new(words);
    let is_good = fields.number() == Some(1);
    let said = fields.field().unwrap_or_default();
    if !is_good {
        return Err(Error::new(class, String::from_utf8_lossy(said).into_owned()));
    }
    let wrong = |error: io::Error| failed(class, "the root", &error);
    let theirs = Introduction::decode(said).map_err(wrong)?;
    let place = fields.field().unwrap_or_default().to_vec();
    let crossing = fields.field().map(|plan| Crossing::decode(plan, &process.job.header().secret.0));
    let crossing = crossing.transpose().map_err(wrong)?;
    Ok(Notice { members: theirs.members, bells: theirs.bells, place, crossing })
}

impl Introduction {
    /// Encodes the description as a letter.
    fn encode(&self) -> Vec<u8> {
        let mut words = Vec::new();
        letter::put_number(&mut words, self.ring_bytes);
        letter::put(&mut words, &self.members);
        letter::put_number(&mut words, self.bells.len() as u64);
        self.bells.iter().for_each(|bells| letter::put_number(&mut words, *bells));
        letter::put_number(&mut words, self.is_spread.into());
        letter::put(&mut words, self.interface.as_bytes());
        letter::put(&mut words, &self.secret);
        words
    }

    /// Returns a copy with another secret.
    fn with(&self, secret: Vec<u8>) -> Introduction {
        let (members, bells, interface) = (self.members.clone(), self.bells.clone(), self.interface.clone());
        Introduction { members, bells, interface, secret, ..*self }
    }

    /// Decodes a description. Returns InvalidData if it is damaged, and Other with the reason if the other
    /// group refuses.
    fn decode(bytes: &[u8]) -> io::Result<Introduction> {
        let mut fields = Fields::new(bytes);
        let ring_bytes = fields.number().ok_or_else(damaged)?;
        let members = fields.field().ok_or_else(damaged)?.to_vec();
        if ring_bytes == 0 {
            return Err(io::Error::other(String::from_utf8_lossy(&members).into_owned()));
        }
        let count = fields.count().ok_or_else(damaged)?;
        let bells = (0..count).map(|_| fields.number()).collect::<Option<_>>().ok_or_else(damaged)?;
        if members.is_empty() || !members.len().is_multiple_of(NAME_BYTES) {
            return Err(damaged());
        }
        let is_spread = fields.number().ok_or_else(damaged)? != 0;
        let interface = String::from_utf8_lossy(fields.field().ok_or_else(damaged)?).into_owned();
        let secret = fields.field().ok_or_else(damaged)?.to_vec();
        Ok(Introduction { ring_bytes, members, bells, is_spread, interface, secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: std::result::Result<&[u64], &str>) {
        let got = Introduction::decode(bytes).map(|one| one.bells).map_err(|error| error.to_string());
        assert_eq!(got.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn introductions_survive_the_wire() {
        let none = Introduction::default;
        let nonsense = "the other side says something that makes no sense";
        let good =
            Introduction { ring_bytes: 4096, members: vec![7; 24], bells: vec![0, 3], ..none() }.encode();
        check(&good, Ok(&[0, 3]));
        check(&good[..good.len() - 1], Err(nonsense));
        check(&[], Err(nonsense));
        check(&Introduction { ring_bytes: 1, members: vec![7; 13], ..none() }.encode(), Err(nonsense));
        let mut refused = Vec::new();
        letter::put_number(&mut refused, 0);
        letter::put(&mut refused, b"no");
        check(&refused, Err("no"));
    }
}
