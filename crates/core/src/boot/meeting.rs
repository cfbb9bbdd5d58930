//! Rendezvous of the ranks of a host, where our launcher has not brought them together. The first of them
//! makes the job object and sends it to the others. They meet at a socket whose name is derived from the
//! starter's name of the job.
//!
//! The socket belongs to this user ([`tutti_sys::local_socket`]); the job object has no name. Ranks in
//! containers with a /tmp of their own do not find such a socket. For them the first rank also listens
//! under an abstract name, once ranks have been missing for [`APART`]. All ranks of the host wait for all
//! others. Only then the processors of each are known, which all must know when they select algorithms.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use tutti_sys::cpu::ProcessorSet;
use tutti_sys::event::{Interest, Poller};
use tutti_sys::local_socket::{Carries, Connection, DESCRIPTORS, Foreign, Listener};

/// First bytes of a greeting, which contain the version of the protocol.
const MAGIC: [u8; 8] = *b"tutti\0\0\x03";
/// First bytes of a refusal: no number of descriptors that an answer can have.
const REFUSAL: [u8; 4] = [0; 4];
/// Size of a refusal in bytes.
const REFUSAL_BYTES: usize = 12;
/// Maximum size of a greeting in bytes: a machine has at most 65536 processors.
const GREETING_BYTES: usize = 16 << 10;
/// Shortest and longest pause between attempts to connect while no rank listens yet.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];
/// Token of the listening socket in the poller.
const TOKEN_LISTENER: u64 = u64::MAX;
/// Token of the second listening socket in the poller.
const TOKEN_APART: u64 = u64::MAX - 1;
/// Time after which missing ranks are assumed to see other directories than the first one.
const APART: Duration = Duration::from_millis(300);

/// Message of a rank to the first rank of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Rank in the world.
    pub rank: u32,
    /// Number of its program in the job.
    pub program: u32,
    /// Processors that the rank may use.
    pub processors: ProcessorSet,
}

/// A rank that has connected to the first one.
#[derive(Debug)]
pub struct Guest {
    /// Message that it has sent.
    pub greeting: Greeting,
    connection: Connection,
}

/// Answer of the first rank.
#[derive(Debug)]
pub struct Gift {
    /// Descriptor of the job object.
    pub job: OwnedFd,
    /// Doorbells of the local ranks, if the job has any.
    pub bells: Vec<OwnedFd>,
}

/// Answer of the first rank when other ranks are missing: [`REFUSAL`] and two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    /// Number of ranks that did not connect in time; 0 if a rank has ended.
    missing: u32,
    /// First of the missing ranks, or the rank that has ended.
    rank: u32,
}

/// Reason why the ranks did not find each other.
#[derive(Debug)]
pub enum MeetingError {
    /// Another process listens under the name of this job.
    Taken,
    /// The other side is a process of the user with this number.
    Foreign(u32),
    /// Ranks did not connect in time.
    Missing {
        /// Number of missing ranks.
        count: u32,
        /// First of them in the world.
        first: u32,
    },
    /// The first rank did not listen in time.
    NoHost,
    /// A rank ended meanwhile; `None` stands for the first one.
    Ended(Option<u32>),
    /// The data is no greeting or answer: another version of the library.
    Strange,
    /// An error of the system.
    System(io::Error),
}

impl From<io::Error> for MeetingError {
    fn from(error: io::Error) -> MeetingError {
        if let Some(Foreign(user)) = error.get_ref().and_then(|cause| cause.downcast_ref()) {
            return MeetingError::Foreign(*user);
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                MeetingError::Ended(None)
            }
            io::ErrorKind::InvalidData => MeetingError::Strange,
            io::ErrorKind::TimedOut => MeetingError::NoHost,
            io::ErrorKind::AddrInUse => MeetingError::Taken,
            _ => MeetingError::System(error),
        }
    }
}

impl fmt::Display for MeetingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeetingError::Taken => f.write_str("another process of this host has taken the name of this job"),
            MeetingError::Foreign(user) => {
                write!(f, "a process of user {user} has taken the name of this job")
            }
            MeetingError::Missing { count, first } => write!(
                f,
                "{count} of the ranks of this host did not call MPI_Init in time (TUTTI_START_MS), \
                 first rank {first}"
            ),
            MeetingError::NoHost => {
                f.write_str("the first rank of this host did not call MPI_Init in time (TUTTI_START_MS)")
            }
            MeetingError::Ended(Some(rank)) => write!(f, "rank {rank} ended before it had joined"),
            MeetingError::Ended(None) => f.write_str("the first rank of this host ended, or could not go on"),
            MeetingError::Strange => f.write_str("the ranks of this host use different versions of Tutti"),
            MeetingError::System(error) => write!(f, "{error}"),
        }
    }
}

type Result<T> = std::result::Result<T, MeetingError>;

/// Returns the name under which the ranks of host `host` of a job meet.
pub fn name(job: &str, host: u32) -> Vec<u8> {
    let mut hasher = DefaultHasher::new();
    job.hash(&mut hasher);
    format!("job-{:016x}-{host}", hasher.finish()).into_bytes()
}

/// Waits for the `expected` ranks in any order, and returns them in the given order.
///
/// If ranks are missing or have ended, the ranks that have connected are told so: whichever rank reports the
/// error first, the report names the cause.
///
/// # Errors
/// Returns the ranks that are missing, or another error.
pub fn await_guests(name: &[u8], expected: &[u32], limit: Duration) -> Result<Vec<Guest>> {
    let mut host = Host {
        listener: Listener::bind(name, Carries::Bytes)?,
        apart: None,
        poller: Poller::new()?,
        silent: HashMap::new(),
        guests: HashMap::new(),
        next_token: 0,
    };
    host.poller.add(host.listener.as_fd(), TOKEN_LISTENER, Interest::Read)?;
    if let Err(error) = host.await_all(name, expected, limit) {
        host.refuse(&error);
        return Err(error);
    }
    Ok(expected.iter().filter_map(|rank| host.guests.remove(rank)).collect())
}

/// State of the first rank while it waits for the others.
struct Host {
    listener: Listener,
    /// Second socket, for ranks that do not see this rank's directories.
    apart: Option<Listener>,
    poller: Poller,
    /// Connections that have not sent a greeting yet.
    silent: HashMap<u64, Connection>,
    /// Ranks that have sent a greeting, by rank.
    guests: HashMap<u32, Guest>,
    /// Token for the next connection.
    next_token: u64,
}

impl Host {
    /// Accepts connections until all expected ranks have sent a greeting.
    fn await_all(&mut self, name: &[u8], expected: &[u32], limit: Duration) -> Result<()> {
        let start = Instant::now();
        let (mut events, mut is_apart) = (Vec::new(), false);
        while self.guests.len() < expected.len() {
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(self.missing(expected));
            }
            let next = if is_apart { left } else { left.min(APART.saturating_sub(start.elapsed())) };
            self.poller.wait(Some(next), &mut events)?;
            if !is_apart && start.elapsed() >= APART {
                is_apart = true;
                self.listen_apart(name)?;
            }
            for event in events.drain(..) {
                match event.token {
                    TOKEN_LISTENER | TOKEN_APART => self.let_in()?,
                    token => self.hear(token, expected)?,
                }
            }
        }
        Ok(())
    }

    /// Returns the error that names the expected ranks that have not sent a greeting.
    fn missing(&self, expected: &[u32]) -> MeetingError {
        let missing: Vec<_> = expected.iter().filter(|rank| !self.guests.contains_key(rank)).collect();
        MeetingError::Missing { count: missing.len() as u32, first: missing.first().map_or(0, |&&rank| rank) }
    }

    /// Sends the reason of a failure to all ranks that have connected. A rank that cannot be reached has
    /// ended, or notices the end of the connection.
    fn refuse(&self, reason: &MeetingError) {
        let Some(refusal) = Refusal::of_error(reason) else { return };
        for guest in self.guests.values() {
            let _ = guest.connection.send(&refusal.encode(), &[]);
        }
    }

    /// Starts to listen under an abstract name too. If the name is taken, or this rank does so already,
    /// nothing changes.
    fn listen_apart(&mut self, name: &[u8]) -> Result<()> {
        if let Ok(listener) = Listener::bind_abstract(name, Carries::Bytes) {
            self.poller.add(listener.as_fd(), TOKEN_APART, Interest::Read)?;
            self.apart = Some(listener);
        }
        Ok(())
    }

    /// Returns the next waiting connection of either socket, if there is one.
    fn next_connection(&self) -> Result<Option<Connection>> {
        for listener in std::iter::once(&self.listener).chain(&self.apart) {
            if let Some(connection) = listener.accept()? {
                return Ok(Some(connection));
            }
        }
        Ok(None)
    }

    /// Accepts all waiting connections.
    fn let_in(&mut self) -> Result<()> {
        while let Some(connection) = self.next_connection()? {
            self.poller.add(connection.as_fd(), self.next_token, Interest::Read)?;
            self.silent.insert(self.next_token, connection);
            self.next_token += 1;
        }
        Ok(())
    }

    /// Handles a readable connection: a greeting, or its end. Also detects a rank that greets and then
    /// ends.
    fn hear(&mut self, token: u64, expected: &[u32]) -> Result<()> {
        let Some(connection) = self.silent.remove(&token) else {
            let gone = self.guests.values().find(|guest| guest.connection.is_closed());
            return gone.map_or(Ok(()), |guest| Err(MeetingError::Ended(Some(guest.greeting.rank))));
        };
        let mut bytes = [0; GREETING_BYTES];
        match connection.receive(&mut bytes) {
            Ok((count, _)) => {
                let greeting = Greeting::decode(&bytes[..count]).ok_or(MeetingError::Strange)?;
                let is_new = !self.guests.contains_key(&greeting.rank);
                if !is_new || !expected.contains(&greeting.rank) {
                    return Err(MeetingError::Strange);
                }
                self.guests.insert(greeting.rank, Guest { greeting, connection });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.silent.insert(token, connection);
            }
            // The connection has ended. If it was one of our ranks, it is missing later.
            Err(_) => {}
        }
        Ok(())
    }
}

impl Guest {
    /// Returns a descriptor that becomes readable when the rank has ended.
    ///
    /// # Errors
    /// Returns an error if it has ended, or cannot be watched.
    pub fn process(&self) -> io::Result<OwnedFd> {
        self.connection.peer_process()
    }

    /// Sends the job object and the doorbells to the rank.
    ///
    /// # Errors
    /// Returns an error if it has ended.
    pub fn give(&self, job: &impl AsFd, bells: &[OwnedFd]) -> Result<()> {
        let all: Vec<_> = std::iter::once(job.as_fd()).chain(bells.iter().map(AsFd::as_fd)).collect();
        let count = (all.len() as u32).to_le_bytes();
        let sent = all.chunks(DESCRIPTORS).try_for_each(|some| self.connection.send(&count, some));
        sent.map_err(|error| match MeetingError::from(error) {
            MeetingError::Ended(_) => MeetingError::Ended(Some(self.greeting.rank)),
            other => other,
        })
    }
}

/// Connects to the first rank, sends a greeting and waits for the answer.
///
/// # Errors
/// Returns an error if the first rank is not there in time, or another error.
pub fn visit(name: &[u8], greeting: &Greeting, limit: Duration) -> Result<Gift> {
    let connection = connect(name, limit)?;
    connection.send(&greeting.encode(), &[])?;
    // The first rank gives up earlier. It knows which ranks are missing, and its end is noticed here.
    let limit = limit * 2;
    let mut all = Vec::new();
    loop {
        let mut answer = [0; REFUSAL_BYTES];
        let (bytes, some) = connection.receive_within(&mut answer, limit)?;
        if bytes == REFUSAL_BYTES {
            return Err(Refusal::decode(&answer).map_or(MeetingError::Strange, MeetingError::from));
        }
        let Some(count) = answer[..bytes].try_into().ok().filter(|_| !some.is_empty()) else {
            return Err(MeetingError::Strange);
        };
        all.extend(some);
        if all.len() >= u32::from_le_bytes(count) as usize {
            let bells = all.split_off(1);
            let job = all.pop().expect("some is not empty");
            return Ok(Gift { job, bells });
        }
    }
}

/// Connects to the first rank, and retries until it listens or the time limit ends.
fn connect(name: &[u8], limit: Duration) -> Result<Connection> {
    let start = Instant::now();
    let mut pause = PAUSES[0];
    loop {
        // If another user has taken the name, this rank still waits for the first rank.
        let passing =
            [io::ErrorKind::ConnectionRefused, io::ErrorKind::WouldBlock, io::ErrorKind::PermissionDenied];
        let error = match Connection::connect(name) {
            Err(error) if passing.contains(&error.kind()) => error,
            other => return Ok(other?),
        };
        if start.elapsed() >= limit {
            return Err(match MeetingError::from(error) {
                foreign @ MeetingError::Foreign(_) => foreign,
                _ => MeetingError::NoHost,
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSES[1]);
    }
}

impl Refusal {
    /// Returns the refusal that tells a reason; `None` if the reason concerns no rank.
    fn of_error(reason: &MeetingError) -> Option<Refusal> {
        match reason {
            MeetingError::Missing { count, first } => Some(Refusal { missing: *count, rank: *first }),
            MeetingError::Ended(Some(rank)) => Some(Refusal { missing: 0, rank: *rank }),
            _ => None,
        }
    }

    /// Encodes the refusal as an answer without descriptors.
    fn encode(self) -> Vec<u8> {
        [&REFUSAL[..], &self.missing.to_le_bytes(), &self.rank.to_le_bytes()].concat()
    }

    /// Decodes a refusal; `None` if the bytes are none.
    fn decode(bytes: &[u8]) -> Option<Refusal> {
        let (missing, rest) = bytes.strip_prefix(&REFUSAL)?.split_first_chunk()?;
        let rank = rest.try_into().ok()?;
        Some(Refusal { missing: u32::from_le_bytes(*missing), rank: u32::from_le_bytes(rank) })
    }
}

impl From<Refusal> for MeetingError {
    fn from(refusal: Refusal) -> MeetingError {
        match refusal {
            Refusal { missing: 0, rank } => MeetingError::Ended(Some(rank)),
            Refusal { missing, rank } => MeetingError::Missing { count: missing, first: rank },
        }
    }
}

impl Greeting {
    /// Encodes the greeting: version, rank, program, and one bit for each processor.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([self.rank, self.program].iter().flat_map(|number| number.to_le_bytes()));
        let mut bits = Vec::new();
        for processor in self.processors.iter() {
            bits.resize(bits.len().max(processor / 8 + 1), 0u8);
            bits[processor / 8] |= 1 << (processor % 8);
        }
        bytes.extend(bits);
        bytes
    }

    /// Decodes a greeting; `None` if it is of another version or too long.
    fn decode(bytes: &[u8]) -> Option<Greeting> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (rank, rest) = rest.split_first_chunk()?;
        let (program, bits) = rest.split_first_chunk()?;
        const BITS_BYTES: usize = 65536 / 8;
        if bits.len() > BITS_BYTES {
            return None;
        }
        let processors = (0..bits.len() * 8).filter(|&bit| bits[bit / 8] >> (bit % 8) & 1 != 0).collect();
        Some(Greeting { rank: u32::from_le_bytes(*rank), program: u32::from_le_bytes(*program), processors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tutti_sys::event;

    const LIMIT: Duration = Duration::from_secs(20);

    fn greeting(rank: u32) -> Greeting {
        Greeting { rank, program: 1, processors: [0, 5, 64].into_iter().collect() }
    }

    fn test_name(what: &str) -> Vec<u8> {
        name(&format!("test-{what}-{}", std::process::id()), 0)
    }

    #[test]
    fn guests_get_the_job_and_all_bells() {
        let name = test_name("guests");
        std::thread::scope(|scope| {
            let visits: Vec<_> = [7, 3]
                .map(|rank| {
                    let name = &name;
                    scope.spawn(move || visit(name, &greeting(rank), LIMIT).unwrap().bells.len())
                })
                .into();
            let guests = await_guests(&name, &[3, 7], LIMIT).unwrap();
            let found: Vec<_> = guests.iter().map(|guest| guest.greeting.clone()).collect();
            assert_eq!(found, [greeting(3), greeting(7)]);
            assert!(guests.iter().all(|guest| guest.process().is_ok()));
            let bells = event::bells(DESCRIPTORS as u32 + 5).unwrap();
            guests.iter().for_each(|guest| guest.give(&bells[0], &bells).unwrap());
            let got: Vec<_> = visits.into_iter().map(|visit| visit.join().unwrap()).collect();
            assert_eq!(got, [bells.len(); 2]);
        });
    }

    #[test]
    fn ranks_that_see_other_directories_are_let_in_later() {
        let name = test_name("apart");
        // Stands for the first rank's socket, which this rank does not see.
        let apart = std::thread::scope(|scope| {
            let host = scope.spawn(|| await_guests(&name, &[1], LIMIT).map(|guests| guests.len()));
            std::thread::sleep(APART * 2);
            let taken =
                Listener::bind_abstract(&name, Carries::Bytes).map(drop).map_err(|error| error.kind());
            connect(&name, LIMIT).unwrap().send(&greeting(1).encode(), &[]).unwrap();
            (taken, host.join().unwrap().unwrap())
        });
        assert_eq!(apart, (Err(io::ErrorKind::AddrInUse), 1));
    }

    #[test]
    fn who_does_not_come_is_named() {
        let name = test_name("missing");
        let short = Duration::from_millis(30);
        let error = await_guests(&name, &[1, 2], short).unwrap_err();
        assert!(error.to_string().contains("first rank 1"), "{error}");
        assert!(matches!(visit(&name, &greeting(1), short), Err(MeetingError::NoHost)));
    }

    #[test]
    fn all_ranks_are_told_who_did_not_come() {
        let name = test_name("told");
        std::thread::scope(|scope| {
            let guest = scope.spawn(|| visit(&name, &greeting(1), LIMIT));
            await_guests(&name, &[1, 2], Duration::from_millis(500)).unwrap_err();
            let error = guest.join().unwrap().unwrap_err();
            assert!(matches!(error, MeetingError::Missing { count: 1, first: 2 }), "{error}");
        });
        let ended = MeetingError::Ended(Some(7));
        let told = MeetingError::from(Refusal::of_error(&ended).unwrap());
        assert!(matches!(told, MeetingError::Ended(Some(7))), "{told}");
        assert_eq!(Refusal::of_error(&MeetingError::NoHost), None);
    }

    #[test]
    fn who_ends_meanwhile_is_noticed() {
        let name = test_name("ended");
        std::thread::scope(|scope| {
            let host = scope.spawn(|| await_guests(&name, &[1, 2], LIMIT));
            let connection = connect(&name, LIMIT).unwrap();
            connection.send(&greeting(1).encode(), &[]).unwrap();
            drop(connection);
            assert!(matches!(host.join().unwrap(), Err(MeetingError::Ended(Some(1)))));
        });
        std::thread::scope(|scope| {
            let guest = scope.spawn(|| visit(&name, &greeting(1), LIMIT));
            drop(await_guests(&name, &[1], LIMIT).unwrap());
            assert!(matches!(guest.join().unwrap(), Err(MeetingError::Ended(None))));
        });
    }

    #[test]
    fn strangers_are_refused() {
        let name = test_name("strangers");
        let check = |bytes: &[u8]| {
            std::thread::scope(|scope| {
                let host = scope.spawn(|| await_guests(&name, &[1], LIMIT));
                let connection = connect(&name, LIMIT).unwrap();
                connection.send(bytes, &[]).unwrap();
                assert!(matches!(host.join().unwrap(), Err(MeetingError::Strange)), "{bytes:?}");
            });
        };
        check(b"hello");
        check(&greeting(9).encode());
        let _first = Listener::bind(&name, Carries::Bytes).unwrap();
        assert!(matches!(await_guests(&name, &[1], LIMIT), Err(MeetingError::Taken)));
    }

    proptest! {
        #[test]
        fn any_greeting_is_read_or_refused(
            begins_well in any::<bool>(),
            bytes in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let bytes = if begins_well { [&MAGIC[..], &bytes].concat() } else { bytes };
            if let Some(greeting) = Greeting::decode(&bytes) {
                prop_assert_eq!(Greeting::decode(&greeting.encode()), Some(greeting));
            }
        }
    }
}
