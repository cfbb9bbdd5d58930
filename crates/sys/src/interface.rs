//! Addresses by which hosts reach each other.
//!
//! If this host has several addresses, the route to another host shows which one that host can reach. A
//! host name is resolved only in this case, because a name server may be slow or silent. Some names give no
//! answer: those unknown here, known only to the launch agent, or resolved to the loopback. Then children
//! receive all addresses, and the one by which the first child connects is chosen.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::process;
use crate::signal::Mask;

/// Time after which the caller is informed about names that are not resolved yet.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum number of names that are resolved at the same time.
const AT_ONCE: usize = 16;

/// Error: no interface of this host has this name, address or network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownInterface(pub String);

impl fmt::Display for UnknownInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no interface, address or network of this host (ip address lists them)", self.0)
    }
}

impl std::error::Error for UnknownInterface {}

/// Returns the addresses of this host at which children can reach it, never an empty list. If `interface`
/// is not empty, only its address is returned. Otherwise they are the source addresses of the routes to
/// each of `hosts`. The unspecified address stands for all addresses. `tell` is called with the names that
/// are not resolved after a second.
///
/// # Errors
/// If there is no such interface.
pub fn addresses(
    interface: &str,
    hosts: &[&str],
    tell: &dyn Fn(&str),
) -> Result<Vec<IpAddr>, UnknownInterface> {
    if !interface.is_empty() {
        return match named(interface) {
            Some(address) => Ok(vec![address]),
            None => Err(UnknownInterface(interface.to_string())),
        };
    }
    let mut found: Vec<IpAddr> = Vec::new();
    for address in towards_all(hosts, tell) {
        // Any address of this host may be the right one.
        let Some(address) = address else { return Ok(vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]) };
        if !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

/// Returns the address of this host for connections from other hosts, when nothing else has determined one.
/// If `interface` is not empty, it is that interface's address. Otherwise the source of the route to host
/// `other` is preferred, then the system's default source. The last choice is the first address that is not
/// local.
///
/// # Errors
/// If there is no such interface.
pub fn of_this_host(interface: &str, other: Option<&str>) -> Result<IpAddr, UnknownInterface> {
    if !interface.is_empty() {
        return Ok(addresses(interface, &[], &|_| ())?[0]);
    }
    let leads = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified();
    let tell = |names: &str| eprintln!("Tutti: waiting for the name server to tell where {names} is");
    let way = other.and_then(|other| towards_all(&[other], &tell).pop().flatten());
    // An address for documentation (RFC 5737). The system routes it by its default route.
    let ways = way.into_iter().chain(std::iter::once_with(|| towards("192.0.2.1")).flatten());
    Ok(ways.into_iter().find(leads).unwrap_or_else(|| all()[0]))
}

/// Returns the source addresses of the routes to these hosts; `None` for a host whose route is not known.
fn towards_all(hosts: &[&str], tell: &dyn Fn(&str)) -> Vec<Option<IpAddr>> {
    let bare = |host: &&str| host.rsplit_once('@').map_or(*host, |(_, host)| host).to_string();
    if hosts.iter().all(|host| bare(host).parse::<IpAddr>().is_ok()) {
        return hosts.iter().map(|host| towards(host)).collect();
    }
    match only_address() {
        Some(only) => hosts.iter().map(|_| Some(only)).collect(),
        None => hosts.chunks(AT_ONCE).flat_map(|hosts| ask(hosts, tell)).map(leading).collect(),
    }
}

/// Discards a loopback address, by which other hosts cannot reach this one.
fn leading(address: Option<IpAddr>) -> Option<IpAddr> {
    address.filter(|address| !address.is_loopback())
}

/// Resolves several names at the same time, each in a thread of its own. The resolver of the C library has
/// no other way to wait for several.
fn ask(hosts: &[&str], tell: &dyn Fn(&str)) -> Vec<Option<IpAddr>> {
    let mut found: Vec<Option<Option<IpAddr>>> = vec![None; hosts.len()];
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        // The threads must not run signal handlers of the program.
        let mask = Mask::all().block();
        for (place, host) in hosts.iter().enumerate() {
            let sender = sender.clone();
            let look = move || {
                // The receiver lives until all threads have answered.
                let _ = sender.send((place, towards(host)));
            };
            if std::thread::Builder::new().spawn_scoped(scope, look).is_err() {
                found[place] = Some(None);
            }
        }
        mask.install();
        drop(sender);
        let mut is_told = false;
        while found.iter().any(Option::is_none) {
            let patience = if is_told { Duration::MAX } else { PATIENCE };
            match receiver.recv_timeout(patience) {
                Ok((place, address)) => found[place] = Some(address),
                Err(RecvTimeoutError::Timeout) => {
                    let open = hosts.iter().zip(&found).filter(|(_, found)| found.is_none());
                    tell(&open.map(|(host, _)| *host).collect::<Vec<_>>().join(", "));
                    is_told = true;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    found.into_iter().map(Option::flatten).collect()
}

/// Returns the only address of this host that other hosts can reach; `None` if there is none or there are
/// several.
fn only_address() -> Option<IpAddr> {
    let is_far = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && address.segments()[0] & 0xffc0 != 0xfe80,
    };
    let mut far = process::interfaces().into_iter().map(|(_, address)| address).filter(is_far);
    far.next().filter(|only| only.is_ipv4() && far.next().is_none())
}

/// Returns all addresses at which other hosts may reach this one; for children when the listening address
/// is unspecified.
pub fn all() -> Vec<IpAddr> {
    let interfaces = process::interfaces();
    let (local, far): (Vec<IpAddr>, Vec<IpAddr>) = interfaces
        .into_iter()
        .map(|(_, address)| address)
        .filter(IpAddr::is_ipv4)
        .partition(IpAddr::is_loopback);
    if far.is_empty() { local } else { far }
}

/// Returns the address of the interface that `text` denotes by name, address or network (`10.1.0.0/16`).
pub fn named(text: &str) -> Option<IpAddr> {
    let interfaces = process::interfaces();
    let found = |is_meant: &dyn Fn(&str, IpAddr) -> bool| {
        let mut meant = interfaces.iter().filter(|(name, address)| is_meant(name, *address));
        // IPv4 is preferred: every child can connect to it.
        meant.clone().find(|(_, address)| address.is_ipv4()).or(meant.next()).map(|(_, address)| *address)
    };
    if let Ok(address) = text.parse::<IpAddr>() {
        return found(&|_, own| own == address);
    }
    if let Some((network, bits)) = text.split_once('/') {
        let (network, bits) = (network.parse::<IpAddr>().ok()?, bits.parse::<u32>().ok()?);
        return found(&|_, own| is_within(own, network, bits));
    }
    found(&|name, _| name == text)
}

fn is_within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(two)) if bits <= 32 => {
            (one.to_bits() ^ two.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(two)) if bits <= 128 => {
            (one.to_bits() ^ two.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// Returns the source address of the route to `host`. No packet is sent.
fn towards(host: &str) -> Option<IpAddr> {
    // The name may have ssh's form USER@HOST.
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let target: SocketAddr = (host, 9).to_socket_addrs().ok()?.next()?;
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let check = |address: &str, network: &str, bits: u32, expected: bool| {
            let parse = |text: &str| text.parse::<IpAddr>().unwrap();
            assert_eq!(
                is_within(parse(address), parse(network), bits),
                expected,
                "{address} in {network}/{bits}"
            );
        };
        check("10.1.2.3", "10.1.0.0", 16, true);
        check("10.2.2.3", "10.1.0.0", 16, false);
        check("10.2.2.3", "0.0.0.0", 0, true);
        check("10.1.2.3", "10.1.2.3", 32, true);
        check("10.1.2.3", "10.1.2.3", 33, false);
        check("fe80::1", "fe80::", 10, true);
        check("fe80::1", "10.0.0.0", 0, false);
    }

    #[test]
    fn the_loopback_is_found_by_any_of_its_names() {
        for name in ["127.0.0.1", "127.0.0.0/8"] {
            assert_eq!(named(name), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), "{name}");
        }
        let device = process::interfaces().into_iter().find(|(_, address)| address.is_loopback());
        assert!(device.is_some_and(|(name, _)| named(&name).is_some_and(|address| address.is_loopback())));
        let of = |interface: &str, hosts: &[&str]| addresses(interface, hosts, &|names| panic!("{names}"));
        assert_eq!(of("", &["127.0.0.1"]), Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]));
        assert!(of("no-such-interface", &[]).is_err());
        assert!(!all().is_empty());
        assert!(of_this_host("127.0.0.1", None).is_ok_and(|address| address.is_loopback()));
        assert!(of_this_host("", Some("no host has this name")).is_ok());
    }

    /// Tests a name that resolves to the loopback: many /etc/hosts map the own name to it, which shows no
    /// route to other hosts.
    #[test]
    fn names_of_the_loopback_tell_nothing() {
        fn nobody(names: &str) {
            panic!("{names} is in a file");
        }
        assert_eq!(ask(&["localhost"], &nobody).into_iter().map(leading).collect::<Vec<_>>(), [None]);
        let got = addresses("", &["localhost"], &nobody).unwrap();
        assert!(got.iter().all(|address| !address.is_loopback()), "{got:?}");
    }
}
