//! The loop over the connections, in which nothing waits.
//!
//! Every user of the host may connect, so each gets only a share of netd. A user has a limited number of
//! connections and programs ([`policy`]) and one request in each round. A connection must get a program
//! within [`SILENCE`]. Unexpected descriptors and all connections are closed in a thread that may hang
//! alone ([`tutti_sys::closing`]). A connection counts as its user's until that is done.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;

use tutti_offload::desk::{self, Answer, MESSAGE_BYTES, Request};
use tutti_sys::closing::drop_apart;
use tutti_sys::local_socket::{Carries, Connection, Listener};
use tutti_sys::process::DescriptorLimit;
use tutti_sys::{event, socket};

use crate::loaded::{Loaded, Owner};
use crate::policy::{self, Holder, Network};

/// Time limit for a connection to get a program.
const SILENCE: Duration = Duration::from_secs(10);
/// Time limit for the hosts of a group to report their hardware addresses. Hosts that exist answer sooner.
const NEIGHBOUR: Duration = Duration::from_millis(500);
/// Pause between checks of the table of neighbours.
const LOOK: Duration = Duration::from_millis(2);
/// Maximum number of connections that are accepted in one round.
const AT_ONCE: usize = 32;
/// Limit on open descriptors: enough for one message with descriptors from each of
/// [`policy::MOST_CONNECTIONS`].
const DESCRIPTORS: u64 = 1 << 16;

/// Options of netd's command line.
#[derive(Args, Clone, Debug, Default)]
pub struct NetdOptions {
    /// Let jobs send to hosts of these networks only (10.1.0.0/16); by default to all hosts of their link.
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,
    /// Attach programs as filters, as Linux before 6.6 takes them. Then a job whose netd is killed keeps its
    /// program until the next one starts.
    #[arg(long)]
    pub filters: bool,
}

/// Users of all connections, including those that are being closed.
type Users = Arc<Mutex<Vec<u32>>>;

/// Entry of one connection in the list of users.
struct Place {
    user: u32,
    users: Users,
}

impl Place {
    /// Adds a connection; returns `None` if its user has too many.
    fn take(user: u32, users: &Users) -> Option<Place> {
        let mut all = users.lock().unwrap_or_else(PoisonError::into_inner);
        policy::may_connect(user, &all).then(|| {
            all.push(user);
            Place { user, users: Arc::clone(users) }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = all.iter().position(|user| *user == self.user) {
            all.swap_remove(place);
        }
    }
}

/// Rank that is connected.
struct Client {
    connection: Connection,
    place: Place,
    since: Instant,
    held: Option<(Holder, Loaded)>,
    joining: Option<Joining>,
}

/// Group whose hosts have not all reported their hardware addresses yet.
struct Joining {
    group: (u32, u32),
    peers: Vec<(u32, std::net::Ipv4Addr)>,
    until: Instant,
}

/// Serves the ranks of this network namespace until the process is ended.
///
/// # Errors
/// If another netd serves them, or programs cannot be loaded.
pub fn serve(options: &NetdOptions) -> Result<(), String> {
    let bound = Listener::bind_service(Path::new(desk::DIRECTORY), desk::NAME, Carries::Descriptors);
    let listener = bound.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => "another netd serves this network namespace".to_string(),
        _ => format!("cannot listen: {error}"),
    })?;
    let own = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    let own = own.map_err(|error| format!("no socket for datagrams: {error}"))?;
    DescriptorLimit::raise(DESCRIPTORS);
    try_to_load()?;
    crate::loaded::sweep();
    println!("netd: ready");
    let (mut clients, users) = (Vec::new(), Users::default());
    for round in 0.. {
        wait(&listener, &clients);
        let accepted = std::iter::from_fn(|| match listener.accept() {
            Ok(next) => next,
            Err(_) => {
                // If no descriptor is free, no connection is accepted until one is closed.
                std::thread::sleep(LOOK);
                None
            }
        });
        for connection in accepted.take(AT_ONCE) {
            let place = connection.peer().ok().and_then(|peer| Place::take(peer.uid, &users));
            match place {
                Some(place) => clients.push(Client::new(connection, place)),
                None => drop_apart(connection),
            }
        }
        // Connections of one user are served one after the other.
        let mut served: Vec<u32> = Vec::new();
        let count = clients.len();
        let mut gone = Vec::new();
        for place in (0..count).map(|step| (step + round) % count) {
            if served.contains(&clients[place].place.user) {
                continue;
            }
            match attend(&mut clients, place, options, own.as_fd()) {
                Attended::Nothing => {}
                Attended::Served => served.push(clients[place].place.user),
                Attended::Gone => {
                    served.push(clients[place].place.user);
                    gone.push(place);
                }
            }
        }
        gone.sort_unstable();
        for place in gone.into_iter().rev() {
            clients.swap_remove(place).close();
        }
    }
    Ok(())
}

/// Waits until a client connects, a connection is readable or the earliest deadline of a client has passed.
fn wait(listener: &Listener, clients: &[Client]) {
    let mut watched = vec![listener.as_fd().as_raw_fd()];
    let idle = clients.iter().filter(|client| client.joining.is_none());
    watched.extend(idle.map(|client| client.connection.as_fd().as_raw_fd()));
    let left = clients.iter().filter_map(Client::deadline).min();
    let left = left.map(|until| until.saturating_duration_since(Instant::now()).max(LOOK));
    event::wait_readable(&watched, left.unwrap_or(Duration::from_secs(3600)));
}

impl Client {
    fn new(connection: Connection, place: Place) -> Client {
        Client { connection, place, since: Instant::now(), held: None, joining: None }
    }

    /// Returns the time at which the client must be checked, even without a request.
    fn deadline(&self) -> Option<Instant> {
        let silent = self.held.is_none().then_some(self.since + SILENCE);
        if self.joining.is_some() { Some(Instant::now()) } else { silent }
    }

    /// Ends the client's program, and closes its connection in a thread: the user can make that take any
    /// time.
    fn close(self) {
        drop(self.held);
        let (connection, place) = (self.connection, self.place);
        drop_apart(Closing { _connection: connection, _place: place });
    }

    fn answer(&self, answer: &Answer, lent: &[std::os::fd::BorrowedFd<'_>]) -> Attended {
        match self.connection.send(&answer.write(), lent) {
            Ok(()) => Attended::Served,
            Err(_) => Attended::Gone,
        }
    }
}

/// Connection that is being closed. The fields are dropped in this order, so that the entry is removed
/// after the connection.
struct Closing {
    _connection: Connection,
    _place: Place,
}

/// Outcome of a check of a connection.
enum Attended {
    /// No request has arrived.
    Nothing,
    /// A request was answered.
    Served,
    /// The connection has ended, or has sent an invalid request.
    Gone,
}

/// Checks that this process may load programs, by loading one.
fn try_to_load() -> Result<(), String> {
    let owner = Owner { job: 0, key: [0; 16], address: std::net::Ipv4Addr::UNSPECIFIED, port: 0 };
    let hint = "netd takes CAP_BPF and CAP_NET_ADMIN: run it as root or by its service file";
    crate::loaded::load(&owner, [0; 6]).map(drop).map_err(|error| format!("{error}; {hint}"))
}

/// Reads and answers a request of a rank.
fn attend(
    clients: &mut [Client],
    place: usize,
    options: &NetdOptions,
    own: std::os::fd::BorrowedFd<'_>,
) -> Attended {
    let holders: Vec<Holder> =
        clients.iter().filter_map(|client| client.held.as_ref()).map(|held| held.0).collect();
    let client = &mut clients[place];
    if client.joining.is_some() {
        return join(client);
    }
    let mut bytes = [0; MESSAGE_BYTES];
    let (count, descriptors) = match client.connection.receive(&mut bytes) {
        Ok(message) => message,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            let is_late = client.held.is_none() && client.since.elapsed() >= SILENCE;
            return if is_late { Attended::Gone } else { Attended::Nothing };
        }
        Err(_) => return Attended::Gone,
    };
    let Some(request) = Request::read(&bytes[..count]) else {
        drop_apart(descriptors);
        return Attended::Gone;
    };
    match request {
        Request::Begin { job, key, address } => {
            let woken = match wake_port(descriptors, own, address) {
                Ok(port) => port,
                Err(why) => return client.answer(&Answer::Refused(why), &[]),
            };
            let owner = Owner { job, key, address, port: woken };
            begin(client, &owner, &holders, options.filters)
        }
        // Descriptors are allowed only in a request to begin.
        _ if !descriptors.is_empty() => {
            drop_apart(descriptors);
            Attended::Gone
        }
        Request::Status => {
            let text = format!("{} jobs of this host have programs in the kernel", holders.len());
            client.answer(&Answer::Granted(0, text), &[])
        }
        Request::Join { group, rank, peers } => match policy::may_join(&peers, &options.allow) {
            Ok(()) => {
                let until = Instant::now() + NEIGHBOUR;
                client.joining = Some(Joining { group: (group, rank), peers, until });
                join(client)
            }
            Err(why) => client.answer(&Answer::Refused(why), &[]),
        },
    }
}

/// Returns the port at which a rank is woken. It is that of the rank's own socket, not a number in the
/// request, so that no user can direct packets to ports of others. The socket must be a datagram socket in
/// this network namespace.
fn wake_port(
    descriptors: Vec<OwnedFd>,
    own: std::os::fd::BorrowedFd<'_>,
    address: std::net::Ipv4Addr,
) -> Result<u16, String> {
    let lent = match <[OwnedFd; 1]>::try_from(descriptors) {
        Ok([lent]) if socket::is_udp_beside(lent.as_fd(), own) => lent,
        Ok(other) => {
            drop_apart(other);
            return Err("the rank lends no socket for datagrams of this host".into());
        }
        Err(others) => {
            drop_apart(others);
            return Err("the rank lends no socket, or several".into());
        }
    };
    // The socket is checked to be a datagram socket, which closes without waiting.
    let woken = UdpSocket::from(lent).local_addr().map_err(|error| format!("the rank's socket: {error}"))?;
    if woken.ip() != address {
        return Err(format!("the rank's socket is at {}, not at {address}", woken.ip()));
    }
    Ok(woken.port())
}

fn begin(client: &mut Client, owner: &Owner, holders: &[Holder], as_filter: bool) -> Attended {
    let asks = Holder { job: owner.job, user: client.place.user };
    let loaded = match client.held {
        Some(_) => Err("this connection has a program already".to_string()),
        None => policy::may_begin(asks, holders).and_then(|()| Loaded::new(owner, as_filter)),
    };
    let attended = match &loaded {
        Ok(loaded) => match loaded.lent() {
            Ok(lent) => client.answer(&Answer::Granted(0, String::new()), &lent),
            Err(why) => return client.answer(&Answer::Refused(why), &[]),
        },
        Err(why) => return client.answer(&Answer::Refused(why.clone()), &[]),
    };
    client.held = loaded.ok().map(|loaded| (asks, loaded));
    attended
}

/// Continues the registration of a group. The rank gets the answer when it is decided.
fn join(client: &mut Client) -> Attended {
    let Some(joining) = client.joining.take() else { return Attended::Nothing };
    let is_late = Instant::now() >= joining.until;
    let joined = match client.held.as_mut() {
        Some((_, loaded)) => loaded.join(joining.group, &joining.peers, is_late),
        None => Err("there is no program yet".to_string()),
    };
    match joined {
        Ok(None) => {
            client.joining = Some(joining);
            Attended::Nothing
        }
        Ok(Some(slot)) => client.answer(&Answer::Granted(slot, String::new()), &[]),
        Err(why) => client.answer(&Answer::Refused(why), &[]),
    }
}
