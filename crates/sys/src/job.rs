//! The job object: one anonymous shared memory object for each node and job.
//!
//! The launcher creates it, writes the header and passes the descriptor to every rank that it starts. A
//! program that is started without a launcher creates one for itself. Its parts are, in this order:
//!
//! | part | written by | read by |
//! |---|---|---|
//! | [`Header`] | launcher, before the first rank starts | all |
//! | one [`RankBlock`] for each local rank | that rank (the doorbell: all) | launcher, ranks |
//! | machine description (text of `tutti_topo`), may be empty | launcher | ranks, on demand |
//! | world ranks of the local ranks; with several hosts, the place of every rank | launcher | ranks |
//! | with several hosts: the machine of each, once all are known | launcher | ranks |
//! | ring area: see the shm transport | transport | transport |
//! | [`NodeBlock`] | ranks | ranks |
//! | table of regions and, not mapped here, their area: see [`crate::regions`] | ranks | ranks |
//! | slots, from 2^47 bytes on, once a rank takes one | ranks | ranks |
//!
//! Slots hold the memory of windows ([`Slot`]), and one more object of this layout for each further MPI
//! program of the ranks ([`Job::join`]).
//!
//! Pages exist only after they are touched, so the areas may be large.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tutti_base::config::MAX_LANES;
use tutti_base::{BankSizes, Placement};

use crate::memory::{self, Mapping};
use crate::regions::{self, GRANULE};
use crate::{clock, cpu, kept, refusal, remap};

mod arrivals;
mod generations;
mod network;
mod reach;
mod shared_words;
mod slots;
mod wait_card;

pub use reach::{Declaration, Reach, ReachDeclaration, Roll};
pub use shared_words::MOST_GENERATIONS;
use shared_words::{Arrivals, Generations};
pub use slots::{Slot, Slots};
pub use wait_card::{CARD_BYTES, WaitCard};

/// Start of the line with the name of the job's programs, when they are tuned. The line stands before the
/// text of the machine's costs.
pub const PROGRAM_LINE: &str = "# program ";

/// Environment variable: number of the inherited descriptor of the job object.
pub const ENV_FD: &str = "TUTTI_JOB_FD";
/// Environment variable with the I/O servers that the launcher has started: a mount without its key, which
/// is derived from the secret.
pub const ENV_IO: &str = "TUTTI_JOB_IO";
/// Environment variable: the rank of this process in the job's `MPI_COMM_WORLD`.
pub const ENV_RANK: &str = "TUTTI_JOB_RANK";
/// Environment variable: number of requested processes of this program.
pub const ENV_MAXPROCS: &str = "TUTTI_JOB_MAXPROCS";
/// Environment variable, in jobs of several hosts: number of an inherited descriptor. A rank uses it to ask
/// its daemon for the addresses of others; see `tutti_sys::directory`.
pub const ENV_DIRECTORY_FD: &str = "TUTTI_DIRECTORY_FD";
/// Environment variable, in jobs of several hosts: descriptors of the local ranks' bells, by local rank,
/// separated by commas. A bell is an eventfd on which a rank sleeps that also waits for network
/// descriptors.
pub const ENV_BELL_FDS: &str = "TUTTI_BELL_FDS";

const MAGIC: u64 = 0x3130_4954_5455_5401;
const LAYOUT_VERSION: u32 = 14;
const PAGE: u64 = 4096;
/// Number of levels of a machine (those of `tutti_topo`).
pub const LEVELS: usize = 7;
/// Longest address of a rank in the network, in bytes.
pub const ADDRESS_BYTES: usize = 64;
/// Longest name of an interface (an address of the host), in bytes.
pub const INTERFACE_BYTES: usize = 64;
/// Maximum number of connected foreign jobs that a rank can record.
pub const TIES: usize = 63;
/// Longest description of the operation that a rank waits for, in bytes.
pub const WAIT_TEXT_BYTES: usize = 240;

/// Decisions of the launcher before any rank runs. Plain numbers, fixed for the life of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    magic: u64,
    version: u32,
    /// Ranks on this node.
    pub local_ranks: u32,
    /// Ranks in the job.
    pub world_size: u32,
    /// Hosts in the job.
    pub hosts: u32,
    /// Number of this host.
    pub host: u32,
    /// Processors the job may use on this node (its cpuset).
    pub processors: u32,
    /// Value of the attribute MPI_UNIVERSE_SIZE.
    pub universe_size: u32,
    /// Slots of a ring between two ranks; a power of two.
    pub ring_slots: u32,
    /// Payload bytes of a ring between two ranks; a multiple of the page size.
    pub ring_bytes: u64,
    /// Lanes, at least one; see [`MAX_LANES`].
    pub lanes: u32,
    /// Random number that distinguishes this job from others.
    pub job_id: u64,
    /// Number of MPI programs that the ranks of this object have run before; 0 in the first object of a
    /// node.
    pub generation: u32,
    /// Sizes of the banks of collectives; the area is a multiple of [`GRANULE`].
    pub banks: BankSizes,
    /// Secret that only members of the job know. It proves that a packet or a connection belongs to this
    /// job.
    pub secret: Secret,
    interface: [u8; INTERFACE_BYTES],
    blocks_offset: u64,
    machine_offset: u64,
    machine_bytes: u64,
    places_offset: u64,
    rings_offset: u64,
    node_offset: u64,
    table_offset: u64,
    regions_offset: u64,
}

/// Secret of a job. It is never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Secret(pub [u8; 32]);

impl Secret {
    /// Returns a new random secret.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub fn random() -> io::Result<Secret> {
        let mut bytes = [0; 32];
        for eight in bytes.chunks_exact_mut(8) {
            eight.copy_from_slice(&crate::process::random()?.to_ne_bytes());
        }
        Ok(Secret(bytes))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// State of a rank as the launcher sees it, in [`RankBlock::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RankState {
    /// The rank has not called MPI_Init (or an equivalent).
    Started = 0,
    /// The rank is between MPI_Init and MPI_Finalize.
    Running = 1,
    /// The rank has returned from MPI_Finalize and may exit with any status.
    Finalized = 2,
    /// The rank has called MPI_Abort: `abort_code` is set, and the launcher ends the job.
    Aborted = 3,
    /// The rank has returned from MPI_Finalize, but other ranks have not called it yet.
    Left = 4,
}

impl RankState {
    /// Returns the state with this number, if there is one.
    pub fn from_number(number: u32) -> Option<RankState> {
        use RankState as S;
        [S::Started, S::Running, S::Finalized, S::Aborted, S::Left]
            .into_iter()
            .find(|state| *state as u32 == number)
    }
}

/// Words on which a rank sleeps and by which others wake it. A cache line of its own.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Doorbell {
    /// Low byte: threads of the rank that sleep or will sleep soon. Other bits: number of times that
    /// sleepers were woken. See `bell` in the transport.
    pub sleeping: AtomicU32,
    /// Futex word, changed by each process that rings.
    pub futex: AtomicU32,
    /// Not 0 while a thread of the rank sleeps on the rank's bell and other descriptors instead of the futex.
    pub polled: AtomicU32,
    /// While a thread of the rank waits and yields its processor: 1 + the number of that processor;
    /// otherwise 0.
    away: AtomicU32,
}

impl Doorbell {
    /// Bits of `sleeping` that count threads.
    pub const SLEEPERS: u32 = 0xff;

    /// Yields the processor as [`cpu::yield_now`] does, and records it meanwhile. Only the owner calls
    /// this.
    pub fn yield_now(&self) {
        let processor = cpu::current().map_or(0, |processor| processor as u32);
        self.away.store(1 + processor, Ordering::Relaxed);
        cpu::yield_now();
        self.away.store(0, Ordering::Relaxed);
    }

    /// Returns true if the rank waits without a processor, according to its own record. The result is a
    /// hint.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed) != 0
            || self.sleeping.load(Ordering::Relaxed) & Doorbell::SLEEPERS != 0
    }

    /// Returns the processor that the rank has yielded and waits for, if any. The result is a hint.
    pub fn away_from(&self) -> Option<usize> {
        self.away.load(Ordering::Relaxed).checked_sub(1).map(|processor| processor as usize)
    }
}

/// State that the ranks of a node share besides their own blocks. A page of its own.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct NodeBlock {
    /// Number of the node's threads that sleep on a doorbell or will do so soon. A rank that wakes many
    /// others reads this first.
    pub parked: AtomicU32,
    /// Not 0 once the launcher ends the job because of a failure: jobs connected with it cannot continue.
    pub failed: AtomicU32,
    /// Not 0 once the grouping of hosts into machines is known: the number of processors of a machine, used
    /// to choose algorithms.
    machine_processors: AtomicU32,
    arrivals: Arrivals,
    generations: Generations,
    /// Bits of the taken slots for windows.
    pub slots: Slots,
    /// Present distance between the processors of the ranks.
    pub distance: Distance,
    roll: Roll,
}

/// Measurements by the ranks of the distance between their processors. A cache line of its own, as it is
/// read often and rarely changes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Distance {
    /// Votes for far processors minus votes for near ones, within bounds that the ranks know. A vote may
    /// get lost.
    pub votes: AtomicU32,
}

/// Shared words that a thread needs to sleep.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper<'a> {
    /// Doorbell of the thread's rank.
    pub doorbell: &'a Doorbell,
    /// Count of sleeping threads ([`NodeBlock::parked`]).
    pub parked: &'a AtomicU32,
}

/// State that a rank publishes about itself. Pages of its own, first touched by its owner.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct RankBlock {
    state: AtomicU32,
    /// Argument of the rank's call of MPI_Abort.
    pub abort_code: AtomicI32,
    /// Generation of the program that this rank runs; used in the first object of a node only.
    generation: AtomicU32,
    /// Number of the program in a job of several programs (attribute MPI_APPNUM), written by the launcher.
    pub app_number: AtomicU32,
    standing: ReachDeclaration,
    /// Doorbell of the first lane.
    pub doorbell: Doorbell,
    further_doorbells: [Doorbell; MAX_LANES as usize - 1],
    /// Is 1 if threads of the rank may communicate concurrently: the rank then listens in all lanes.
    /// Written once, before any message is sent.
    pub in_lanes: AtomicU32,
    wait_version: AtomicU32,
    wait_bytes: [AtomicU32; WAIT_TEXT_BYTES / 4],
    wait_since_ns: AtomicU64,
    /// Number of the launcher's latest request for a card; 0 before the first one.
    card_request: AtomicU32,
    /// For each level of the machine: 1 + the instance that the rank is bound to, or 0.
    places: [AtomicU32; LEVELS],
    /// Length of the address in bytes; 0 until the rank has published it.
    address_bytes: AtomicU32,
    address: [AtomicU8; ADDRESS_BYTES],
    /// Numbers of the foreign jobs that this rank is connected with (MPI-5 section 11.10.4); 0 in unused
    /// entries.
    ties: [AtomicU64; TIES],
    card: WaitCard,
}

/// Parameters with which a launcher creates a job object.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of this host.
    pub host: u32,
    /// Hosts on which the ranks of the job run.
    pub placement: Placement,
    /// Secret that only members of the job know.
    pub secret: Secret,
    /// Address of this host that its ranks use and listen on; empty when there is no choice to make.
    pub interface: String,
    /// Processors the job may use on this node.
    pub processors: u32,
    /// Value of the attribute MPI_UNIVERSE_SIZE.
    pub universe_size: u32,
    /// Payload bytes of a ring between two ranks, rounded up to pages.
    pub ring_bytes: u64,
    /// Number of sets of rings, for threads that communicate concurrently.
    pub lanes: u32,
    /// Random number of the job.
    pub job_id: u64,
    /// Sizes of the banks of collectives.
    pub banks: BankSizes,
    /// Description of this node (text of `tutti_topo::Machine`), or empty. After [`TEXTS_END`] follow its
    /// costs (text of `tutti_coll::Model`), if they are known.
    pub machine: Vec<u8>,
}

impl Plan {
    /// Returns the plan of a job on one host with defaults: small rings, an empty description and secret.
    ///
    /// # Panics
    /// If `ranks` is 0: a job has at least one rank.
    pub fn one_host(ranks: u32) -> Plan {
        Plan {
            host: 0,
            placement: Placement::one_host(ranks),
            secret: Secret([0; 32]),
            interface: String::new(),
            processors: 1,
            universe_size: ranks,
            ring_bytes: PAGE,
            lanes: 1,
            job_id: 1,
            banks: BankSizes::default(),
            machine: Vec::new(),
        }
    }
}

/// Byte that ends the description of the node in [`Plan::machine`].
pub const TEXTS_END: u8 = 0x0c;

/// Slots of every ring, of 64 bytes each.
pub const RING_SLOTS: u32 = 256;

/// Job object that is mapped in this process.
#[derive(Debug)]
pub struct Job {
    header: Header,
    mapping: Mapping,
    fd: OwnedFd,
    /// Offset of the object in the memory of the descriptor, in bytes.
    base: u64,
    /// The first object of the node, if this is a later one.
    first: Option<Box<Job>>,
    /// Inode and device of the object.
    identity: (u64, (u32, u32)),
    bells: OnceLock<Vec<OwnedFd>>,
}

impl Job {
    /// Creates the object of one host. The descriptor is close-on-exec: the launcher makes it inheritable
    /// in the child that it starts.
    ///
    /// # Errors
    /// The system's error, for example no memory.
    ///
    /// # Panics
    /// If the placement has no such host: a bug of the caller.
    pub fn create(plan: &Plan) -> io::Result<Job> {
        let (world_size, hosts) = (plan.placement.ranks(), plan.placement.hosts());
        assert!(plan.host < hosts, "host {} of {hosts}", plan.host);
        let places = network::table(&plan.placement, plan.host);
        let local_ranks = places.len() as u32 - if hosts > 1 { 2 * world_size } else { 0 };
        let blocks_offset = PAGE;
        let machine_offset = blocks_offset + u64::from(local_ranks) * size_of::<RankBlock>() as u64;
        let machine_bytes = plan.machine.len() as u64;
        let places_offset = (machine_offset + machine_bytes).next_multiple_of(8);
        let rings_offset = round_up(places_offset + network::table_bytes(local_ranks, world_size, hosts));
        let ring_bytes = round_up(plan.ring_bytes.max(1));
        let area_bytes = plan.banks.area_bytes / GRANULE * GRANULE;
        let mut header = Header {
            magic: MAGIC,
            version: LAYOUT_VERSION,
            local_ranks,
            world_size,
            hosts,
            host: plan.host,
            processors: plan.processors,
            universe_size: plan.universe_size,
            ring_slots: RING_SLOTS,
            ring_bytes,
            lanes: plan.lanes.clamp(1, MAX_LANES),
            job_id: plan.job_id,
            generation: 0,
            banks: BankSizes { area_bytes, ..plan.banks },
            secret: plan.secret,
            interface: network::interface_bytes(&plan.interface),
            blocks_offset,
            machine_offset,
            machine_bytes,
            places_offset,
            rings_offset,
            node_offset: 0,
            table_offset: 0,
            regions_offset: 0,
        };
        header.node_offset =
            rings_offset + u64::from(header.lanes) * u64::from(local_ranks) * inbox_bytes(&header);
        header.table_offset = header.node_offset + size_of::<NodeBlock>() as u64;
        header.regions_offset = header.table_offset + round_up(regions::table_bytes(area_bytes));
        let name: &CStr = c"tutti-job";
        let fd = memory::create_shared(name, header.regions_offset + area_bytes, header.regions_offset)?;
        let mapping = Mapping::range(fd.as_fd(), 0, header.regions_offset as usize)?;
        // SAFETY: the mapping has room for all of this, and no other process knows the object yet.
        unsafe {
            regions::initialise(mapping.base().add(header.table_offset as usize).as_ptr())?;
            mapping.base().cast::<Header>().write(header);
            let machine = mapping.base().add(machine_offset as usize);
            machine.copy_from_nonoverlapping(
                std::ptr::NonNull::from(&plan.machine[..]).cast(),
                plan.machine.len(),
            );
            let tables = mapping.base().add(places_offset as usize);
            tables
                .cast::<u32>()
                .copy_from_nonoverlapping(std::ptr::NonNull::from(&places[..]).cast(), places.len());
        }
        let identity = remap::identity(fd.as_fd())?;
        Ok(Job { header, mapping, fd, identity, base: 0, first: None, bells: OnceLock::new() })
    }

    /// Maps the object that the launcher passed: the first one of the node.
    ///
    /// # Errors
    /// InvalidData when the descriptor is something else or of another version.
    pub fn attach(fd: OwnedFd) -> io::Result<Job> {
        Job::attach_at(fd, 0)
    }

    /// Maps the object that begins at `base`.
    fn attach_at(fd: OwnedFd, base: u64) -> io::Result<Job> {
        let first =
            Mapping::range(fd.as_fd(), base, PAGE as usize).map_err(|error| {
                match refusal::errno(&error) {
                    Some(libc::ENOMEM) => error,
                    _ => io::Error::new(io::ErrorKind::InvalidData, "not a job object"),
                }
            })?;
        // SAFETY: the mapping is page aligned and long enough; Header is plain numbers.
        let header = unsafe { first.base().cast::<Header>().read() };
        if header.magic != MAGIC || header.version != LAYOUT_VERSION || !header.is_consistent() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a job object of this version"));
        }
        let mapping = Mapping::range(fd.as_fd(), base, header.regions_offset as usize)?;
        let identity = remap::identity(fd.as_fd())?;
        Ok(Job { header, mapping, fd, identity, base, first: None, bells: OnceLock::new() })
    }

    /// Returns the first object of the node, which has the data that stay the same from program to program.
    fn first(&self) -> &Job {
        self.first.as_deref().unwrap_or(self)
    }

    /// Returns the decisions of the launcher.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the number of the descriptor, to pass to a child.
    pub fn raw_fd(&self) -> RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.fd)
    }

    /// Returns the descriptor for mapping or changing the object.
    ///
    /// # Errors
    /// If the program has closed the descriptor, or replaced it by a file of its own, which is left alone.
    pub fn object(&self) -> io::Result<BorrowedFd<'_>> {
        let is_it = |identity| identity == self.identity || kept::has_restarted();
        if remap::identity(self.fd.as_fd()).is_ok_and(is_it) {
            return Ok(self.fd.as_fd());
        }
        Err(io::Error::other(
            "the descriptor of the job's shared memory does not stand for it any more: the program has closed it, or put \
             another file in its place; a program may do so only with descriptors that it has opened",
        ))
    }

    /// Returns the descriptor, to be inherited by a child.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the block of local rank `rank`.
    ///
    /// # Panics
    /// If there is no such rank: a bug of the caller.
    #[inline]
    pub fn block(&self, rank: u32) -> &RankBlock {
        assert!(rank < self.header.local_ranks, "local rank {rank} of {}", self.header.local_ranks);
        let offset = self.header.blocks_offset as usize + rank as usize * size_of::<RankBlock>();
        // SAFETY: the blocks lie inside the mapping, page aligned, and consist of atomics, for which
        // all-zero is valid; the reference lives no longer than the mapping.
        unsafe { self.mapping.base().add(offset).cast::<RankBlock>().as_ref() }
    }

    /// Returns the machine description that the launcher stored, empty if it stored none.
    pub fn machine(&self) -> &[u8] {
        let text = self.texts();
        &text[..text.iter().position(|byte| *byte == TEXTS_END).unwrap_or(text.len())]
    }

    /// Returns the costs of the machine (text of `tutti_coll::Model`), empty if the launcher stored none.
    pub fn model(&self) -> &[u8] {
        let text = self.texts();
        text.iter().position(|byte| *byte == TEXTS_END).map_or(&[], |end| &text[end + 1..])
    }

    fn texts(&self) -> &[u8] {
        let (offset, bytes) = (self.header.machine_offset as usize, self.header.machine_bytes as usize);
        // SAFETY: written before any rank was started, never changed after, and inside the mapping.
        unsafe { std::slice::from_raw_parts(self.mapping.base().add(offset).as_ptr(), bytes) }
    }

    /// Returns the state that the ranks of the node share.
    pub fn node(&self) -> &NodeBlock {
        // SAFETY: inside the mapping, page aligned, atomics for which zero is valid.
        unsafe { self.mapping.base().add(self.header.node_offset as usize).cast().as_ref() }
    }

    /// Returns the words that a thread of local rank `rank` needs to sleep in `lane`.
    ///
    /// # Panics
    /// If there is no such rank: a bug of the caller.
    pub fn sleeper(&self, rank: u32, lane: u32) -> Sleeper<'_> {
        Sleeper { doorbell: self.block(rank).doorbell_of(lane), parked: &self.node().parked }
    }

    /// Returns the table of regions and the length of their area in bytes.
    pub(crate) fn region_table(&self) -> (std::ptr::NonNull<u8>, u64) {
        // SAFETY: inside the mapping.
        let base = unsafe { self.mapping.base().add(self.header.table_offset as usize) };
        (base, self.header.banks.area_bytes)
    }

    /// Returns the offset of the area of the regions in the memory of the descriptor, in bytes.
    pub(crate) fn regions_offset(&self) -> u64 {
        self.base + self.header.regions_offset
    }

    /// Returns the first byte of the ring area of `receiver` in `lane`. The area is [`inbox_bytes`] long,
    /// page aligned, and initially zero.
    ///
    /// # Panics
    /// If there is no such rank or lane: a bug of the caller.
    pub fn inbox(&self, lane: u32, receiver: u32) -> std::ptr::NonNull<u8> {
        assert!(receiver < self.header.local_ranks && lane < self.header.lanes);
        let number = u64::from(lane) * u64::from(self.header.local_ranks) + u64::from(receiver);
        let offset = self.header.rings_offset + number * inbox_bytes(&self.header);
        // SAFETY: create and attach made sure that the ring area lies inside the mapping.
        unsafe { self.mapping.base().add(offset as usize) }
    }
}

impl Header {
    /// Returns true if the parts follow each other in the layout of [`Job::create`].
    fn is_consistent(&self) -> bool {
        let tables = network::table_bytes(self.local_ranks, self.world_size, self.hosts);
        if self.places_offset.checked_add(tables).is_none_or(|end| end > self.rings_offset) {
            return false;
        }
        let inboxes = inbox_bytes(self)
            .checked_mul(u64::from(self.local_ranks))
            .and_then(|bytes| bytes.checked_mul(u64::from(self.lanes)))
            .filter(|_| (1..=MAX_LANES).contains(&self.lanes));
        inboxes.and_then(|bytes| self.rings_offset.checked_add(bytes)) == Some(self.node_offset)
            && self.node_offset.checked_add(size_of::<NodeBlock>() as u64) == Some(self.table_offset)
            && self.banks.area_bytes.is_multiple_of(GRANULE)
            && self.table_offset.checked_add(round_up(regions::table_bytes(self.banks.area_bytes)))
                == Some(self.regions_offset)
    }
}

/// Returns the length of the ring area of one receiver in bytes. It has a page of announcements for each
/// 32768 senders. Then follow, for each sender, a page for the ring's indices, its slots and its payload.
pub fn inbox_bytes(header: &Header) -> u64 {
    announce_bytes(header) + u64::from(header.local_ranks) * ring_stride(header)
}

/// Returns the length of the announcements at the start of an inbox in bytes.
pub fn announce_bytes(header: &Header) -> u64 {
    round_up(u64::from(header.local_ranks).div_ceil(8) + 64)
}

/// Returns the distance between the rings of two neighbouring senders in an inbox, in bytes.
pub fn ring_stride(header: &Header) -> u64 {
    PAGE + round_up(u64::from(header.ring_slots) * 64) + header.ring_bytes
}

impl RankBlock {
    /// Returns the doorbell of a lane.
    ///
    /// # Panics
    /// If there is no such lane: a bug of the caller.
    #[inline]
    pub fn doorbell_of(&self, lane: u32) -> &Doorbell {
        if lane == 0 { &self.doorbell } else { &self.further_doorbells[lane as usize - 1] }
    }

    /// Returns the state of the rank between start and end.
    pub fn state(&self) -> RankState {
        RankState::from_number(self.state.load(Ordering::Acquire)).unwrap_or(RankState::Aborted)
    }

    /// Enters a state. Stores made before are visible to a process that sees the new state.
    pub fn set_state(&self, state: RankState) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// Records the rank's binding to places of the machine. The launcher calls this before any rank starts,
    /// so that all ranks see the same, even if bindings change later.
    pub fn set_places(&self, places: [Option<u32>; LEVELS]) {
        for (word, place) in self.places.iter().zip(places) {
            word.store(place.map_or(0, |instance| instance + 1), Ordering::Relaxed);
        }
    }

    /// Returns the rank's binding to places, level by level; all `None` if it is not bound.
    pub fn places(&self) -> [Option<u32>; LEVELS] {
        std::array::from_fn(|level| self.places[level].load(Ordering::Relaxed).checked_sub(1))
    }

    /// Records the foreign jobs that are connected with the rank. Jobs beyond `TIES` are left out.
    pub fn set_ties(&self, jobs: impl Iterator<Item = u64>) {
        for (room, job) in self.ties.iter().zip(jobs.chain(std::iter::repeat(0))) {
            room.store(job, Ordering::Release);
        }
    }

    /// Returns true if the rank is connected with this foreign job.
    pub fn is_tied_to(&self, job: u64) -> bool {
        self.ties.iter().any(|tie| tie.load(Ordering::Acquire) == job)
    }

    /// Publishes a description of the operation that the rank waits for; an empty text when it no longer
    /// waits. Only the owner calls this, and only after a long wait.
    pub fn set_waiting(&self, text: &str) {
        let version = self.wait_version.load(Ordering::Relaxed);
        self.wait_version.store(version | 1, Ordering::SeqCst);
        self.wait_since_ns.store(clock::now_ns(), Ordering::Relaxed);
        let bytes = &text.as_bytes()[..text.len().min(WAIT_TEXT_BYTES)];
        for (index, word) in self.wait_bytes.iter().enumerate() {
            let mut four = [0u8; 4];
            let piece = bytes.get(index * 4..).unwrap_or(&[]);
            let take = piece.len().min(4);
            four[..take].copy_from_slice(&piece[..take]);
            word.store(u32::from_le_bytes(four), Ordering::Relaxed);
            if take < 4 {
                break;
            }
        }
        self.wait_version.store((version | 1).wrapping_add(1), Ordering::SeqCst);
    }

    /// Requests a card from the rank, if it waits for long. Requests are counted; an odd number also asks for
    /// the place in the program, which takes some milliseconds to find.
    pub fn request_card(&self, request: u32) {
        self.card_request.store(request, Ordering::Release);
    }

    /// Returns the number of the latest request for a card.
    #[inline]
    pub fn card_request(&self) -> Option<u32> {
        Some(self.card_request.load(Ordering::Acquire)).filter(|request| *request != 0)
    }

    /// Answers a request with a card. Threads of the rank take turns.
    pub fn write_card(&self, request: u32, card: &[u8]) {
        self.card.write(request, card);
    }

    /// Returns the card that answers a request, once there is one.
    pub fn card(&self, request: u32) -> Option<Vec<u8>> {
        self.card.read(request)
    }

    /// Returns the start of the rank's present wait in nanoseconds, if it has waited for long.
    pub fn waits_since_ns(&self) -> Option<u64> {
        let version = self.wait_version.load(Ordering::SeqCst);
        let waits = version.is_multiple_of(2) && self.wait_bytes[0].load(Ordering::Relaxed) & 0xff != 0;
        let since_ns = self.wait_since_ns.load(Ordering::Relaxed);
        (waits && version == self.wait_version.load(Ordering::SeqCst)).then_some(since_ns)
    }

    /// Returns the time since the last call of [`RankBlock::set_waiting`].
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(clock::now_ns().saturating_sub(self.wait_since_ns.load(Ordering::Relaxed)))
    }

    /// Returns the description of the operation that the rank waits for, if it has waited for long. Also
    /// returns `None` if the text changes all the time.
    pub fn waiting(&self) -> Option<String> {
        for _ in 0..100 {
            let before = self.wait_version.load(Ordering::SeqCst);
            let bytes: Vec<u8> =
                self.wait_bytes.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
            if before.is_multiple_of(2) && before == self.wait_version.load(Ordering::SeqCst) {
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                return Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
                    .filter(|text| !text.is_empty());
            }
        }
        None
    }
}

fn round_up(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE) * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ranks: u32) -> Plan {
        plan_on(Placement::one_host(ranks), 0)
    }

    pub(super) fn plan_on(placement: Placement, host: u32) -> Plan {
        Plan {
            host,
            interface: "10.0.0.1".to_string(),
            ring_bytes: 65536,
            machine: b"<topology/>\x0cswitch 1".to_vec(),
            placement,
            ..Plan::one_host(1)
        }
    }

    #[test]
    fn attach_sees_what_create_wrote() {
        let one = Job::create(&plan(3)).unwrap();
        let two = Job::attach(one.fd.try_clone().unwrap()).unwrap();
        assert_eq!(one.header(), two.header());
        assert_eq!((two.machine(), two.model()), (&b"<topology/>"[..], &b"switch 1"[..]));
        one.block(2).set_state(RankState::Running);
        assert_eq!(two.block(2).state(), RankState::Running);
        assert_eq!(two.block(1).state(), RankState::Started);
        assert_eq!(one.inbox(0, 2).as_ptr() as usize % 4096, 0);
    }

    #[test]
    fn places_are_those_of_the_launcher() {
        let job = Job::create(&plan(2)).unwrap();
        let places = [Some(0), Some(1), None, Some(7), None, None, None];
        job.block(0).set_places(places);
        assert_eq!((job.block(0).places(), job.block(1).places()), (places, [None; LEVELS]));
    }

    #[test]
    fn ties_are_those_said_last() {
        let job = Job::create(&plan(1)).unwrap();
        let block = job.block(0);
        block.set_ties([5, 6].into_iter());
        assert_eq!([4, 5, 6].map(|job| block.is_tied_to(job)), [false, true, true]);
        block.set_ties([6].into_iter());
        assert_eq!([4, 5, 6].map(|job| block.is_tied_to(job)), [false, false, true]);
    }

    #[test]
    fn waiting_text_comes_and_goes() {
        let job = Job::create(&plan(1)).unwrap();
        assert_eq!(job.block(0).waiting(), None);
        job.block(0).set_waiting("MPI_Recv from rank 3, tag 7");
        assert_eq!(job.block(0).waiting().as_deref(), Some("MPI_Recv from rank 3, tag 7"));
        let since_ns = job.block(0).waits_since_ns().unwrap();
        std::thread::sleep(Duration::from_millis(2));
        assert!(job.block(0).waited() >= Duration::from_millis(2));
        job.block(0).set_waiting("short");
        assert_eq!(job.block(0).waiting().as_deref(), Some("short"));
        job.block(0).set_waiting(&"x".repeat(1000));
        assert_eq!(job.block(0).waiting().map(|text| text.len()), Some(WAIT_TEXT_BYTES));
        assert!(job.block(0).waits_since_ns().is_some_and(|later_ns| later_ns > since_ns));
        job.block(0).set_waiting("");
        assert_eq!((job.block(0).waiting(), job.block(0).waits_since_ns()), (None, None));
    }

    #[test]
    fn something_else_is_refused() {
        let fd = memory::create_object(c"other", 8192).unwrap();
        assert_eq!(Job::attach(fd).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_large_job_takes_addresses_not_memory() {
        let job = Job::create(&plan(200)).unwrap();
        assert!(job.mapping.bytes() > 200 * 200 * 65536);
    }
}
