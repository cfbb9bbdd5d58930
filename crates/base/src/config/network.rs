//! Settings of networks and connections between hosts.

use std::net::IpAddr;

use crate::PortRange;

/// Checks the form of an interface: a name as the kernel takes it, an address, or a network such as
/// `10.1.0.0/16`. The empty text names none.
///
/// # Errors
/// Returns a description of valid values.
pub fn check_interface(text: &str) -> Result<(), String> {
    /// Longest name of an interface (IFNAMSIZ without the byte at the end).
    const NAME_BYTES: usize = 15;
    let is_network = |(network, bits): (&str, &str)| match (network.parse(), bits.parse::<u32>()) {
        (Ok(IpAddr::V4(_)), Ok(bits)) => bits <= 32,
        (Ok(IpAddr::V6(_)), Ok(bits)) => bits <= 128,
        _ => false,
    };
    let is_name =
        text.len() <= NAME_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    let is_one = is_name || text.parse::<IpAddr>().is_ok() || text.split_once('/').is_some_and(is_network);
    if is_one {
        Ok(())
    } else {
        Err("the name of an interface, an address, or a network such as 10.1.0.0/16".to_string())
    }
}

/// Time at which ranks on different hosts connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// Never: all messages are datagrams.
    Never,
    /// Pairs that have exchanged enough.
    OnDemand,
    /// Pairs that have exchanged enough, and from the start the neighbours at distances of powers of two.
    PartiallyStatic,
    /// All pairs, from the start.
    Static,
}

impl Connections {
    pub(super) const NAMES: [(&str, Connections); 4] = [
        ("never", Connections::Never),
        ("on-demand", Connections::OnDemand),
        ("partially-static", Connections::PartiallyStatic),
        ("static", Connections::Static),
    ];

    pub(super) fn name(self) -> &'static str {
        Connections::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Protection of what hosts of a job send to each other, beyond the greeting in which both ends prove that
/// they know the job's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Streams are encrypted. Networks of libfabric and packets of eBPF programs are not.
    Auto,
    /// None beyond the greeting.
    Greeting,
    /// Each message is authenticated. Networks for which Tutti cannot do so are not used.
    Authenticate,
    /// Each message is encrypted and authenticated. Networks for which Tutti cannot do so are not used.
    Encrypt,
}

impl Protection {
    pub(super) const NAMES: [(&str, Protection); 4] = [
        ("auto", Protection::Auto),
        ("greeting", Protection::Greeting),
        ("authenticate", Protection::Authenticate),
        ("encrypt", Protection::Encrypt),
    ];

    /// Returns the value in the notation of the setting.
    pub fn name(self) -> &'static str {
        Protection::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }

    /// Returns true if networks without authentication must not be used.
    pub fn is_demanded(self) -> bool {
        matches!(self, Protection::Authenticate | Protection::Encrypt)
    }

    /// Returns true if networks may be used on which others can read messages, but not change them.
    pub fn allows_readable(self) -> bool {
        self != Protection::Encrypt
    }
}

/// Settings of networks and connections between hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Interface for connections to other hosts: a name, an address or a network. Empty: the interface of the
    /// route to the peer.
    pub interface: String,
    /// Ports for listeners and datagram sockets of the job; `None`: any.
    pub port_range: Option<PortRange>,
    /// Network for messages between hosts: `auto`, `sockets`, or a provider of libfabric.
    pub fabric: String,
    /// Protection of messages between hosts.
    pub protection: Protection,
    /// Time at which ranks on different hosts connect.
    pub connections: Connections,
    /// Messages between two ranks after which they connect.
    pub connect_messages: u64,
    /// Bytes between two ranks after which they connect.
    pub connect_bytes: u64,
    /// Most connections of a rank at a time (0: by the limit on descriptors).
    pub max_connections: u64,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            interface: String::new(),
            port_range: None,
            fabric: "auto".to_string(),
            protection: Protection::Greeting,
            connections: Connections::OnDemand,
            connect_messages: 16,
            connect_bytes: 64 << 10,
            max_connections: 0,
        }
    }
}
