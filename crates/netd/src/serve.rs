//! Who asks and who has gone: one loop over the connections.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use clap::Args;

use tutti_offload::desk::{self, Answer, MESSAGE_BYTES, Request};
use tutti_sys::event;
use tutti_sys::local_socket::{Carries, Connection, Listener};

use crate::loaded::{Loaded, Owner};
use crate::policy::{self, Holder, Network};

/// Connections at a time, with and without a program.
const MOST_CONNECTIONS: usize = 256;

/// What netd is told on its command line.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Let jobs send to hosts of these networks only (10.1.0.0/16); by default to all hosts of their link.
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,
    /// Attach programs as filters, as Linux before 6.6 takes them. Then a job whose netd is killed keeps its
    /// program until the next one starts.
    #[arg(long)]
    pub filters: bool,
}

/// A rank that is connected.
struct Client {
    connection: Connection,
    user: u32,
    held: Option<(Holder, Loaded)>,
}

/// Serves the ranks of this network namespace until it is ended.
///
/// # Errors
/// Another netd serves them, or programs cannot be loaded.
pub fn serve(options: &Options) -> Result<(), String> {
    let listener = Listener::bind(desk::NAME, Carries::Descriptors).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => "another netd serves this network namespace".to_string(),
        _ => format!("cannot listen: {error}"),
    })?;
    try_to_load()?;
    crate::loaded::sweep();
    println!("netd: ready");
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let mut watched = vec![listener.as_fd().as_raw_fd()];
        watched.extend(clients.iter().map(|client| client.connection.as_fd().as_raw_fd()));
        event::wait_readable(&watched, Duration::from_secs(3600));
        while let Ok(Some(connection)) = listener.accept() {
            let Ok(peer) = connection.peer() else { continue };
            if clients.len() < MOST_CONNECTIONS {
                clients.push(Client { connection, user: peer.uid, held: None });
            }
        }
        for place in (0..clients.len()).rev() {
            if !attend(&mut clients, place, options) {
                // With its program, unless the job still holds that.
                clients.swap_remove(place);
            }
        }
    }
}

/// Whether this process may load programs, found out by doing so.
fn try_to_load() -> Result<(), String> {
    let owner = Owner { job: 0, key: [0; 16], address: std::net::Ipv4Addr::UNSPECIFIED, port: 0 };
    let hint = "netd takes CAP_BPF and CAP_NET_ADMIN: run it as root, by its service file, or after \
                `setcap cap_bpf,cap_net_admin+ep tutti`";
    crate::loaded::load(&owner, [0; 6]).map(drop).map_err(|error| format!("{error}; {hint}"))
}

/// Answers what a rank has asked; false when it has gone, or says what nobody understands.
fn attend(clients: &mut [Client], place: usize, options: &Options) -> bool {
    let mut bytes = [0; MESSAGE_BYTES];
    let (count, descriptors) = match clients[place].connection.receive(&mut bytes) {
        Ok(message) => message,
        Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
    };
    let Some(request) = Request::read(&bytes[..count]) else { return false };
    let holders: Vec<Holder> =
        clients.iter().filter_map(|client| client.held.as_ref()).map(|held| held.0).collect();
    let client = &mut clients[place];
    let is_beginning = matches!(request, Request::Begin { .. });
    let done = match request {
        Request::Status => {
            let text = format!("{} jobs of this host have programs in the kernel", holders.len());
            Ok(Answer::Granted(0, text))
        }
        Request::Begin { .. } => begin(client, &request, descriptors, &holders, options.filters),
        Request::Join { group, rank, peers } => join(client, (group, rank), &peers, options),
    };
    let answer = done.unwrap_or_else(Answer::Refused);
    let is_begun = is_beginning && matches!(answer, Answer::Granted(..));
    let lent = client.held.as_ref().filter(|_| is_begun).and_then(|(_, loaded)| loaded.lent().ok());
    client.connection.send(&answer.write(), &lent.unwrap_or_default()).is_ok()
}

fn begin(
    client: &mut Client,
    request: &Request,
    descriptors: Vec<OwnedFd>,
    holders: &[Holder],
    as_filter: bool,
) -> Result<Answer, String> {
    let &Request::Begin { job, key, address } = request else { unreachable!("only these are begun") };
    let asks = Holder { job, user: client.user };
    policy::may_begin(asks, holders)?;
    // Its own socket, not a port that it names: nobody has packets sent to the ports of others.
    let socket = descriptors.into_iter().next().ok_or("the rank lends no socket")?;
    let woken =
        UdpSocket::from(socket).local_addr().map_err(|error| format!("the rank's socket: {error}"))?;
    if woken.ip() != address {
        return Err(format!("the rank's socket is at {}, not at {address}", woken.ip()));
    }
    let loaded = Loaded::new(&Owner { job, key, address, port: woken.port() }, as_filter)?;
    loaded.lent()?;
    client.held = Some((asks, loaded));
    Ok(Answer::Granted(0, String::new()))
}

fn join(
    client: &mut Client,
    group: (u32, u32),
    peers: &[(u32, std::net::Ipv4Addr)],
    options: &Options,
) -> Result<Answer, String> {
    policy::may_join(peers, &options.allow)?;
    let (_, loaded) = client.held.as_mut().ok_or("there is no program yet")?;
    Ok(Answer::Granted(loaded.join(group, peers)?, String::new()))
}
