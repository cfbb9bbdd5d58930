//! By which addresses hosts reach each other.
//!
//! The way to a host shows which of several own addresses is meant. Its name is asked for only if there are
//! several: a name server may be slow or silent. A name that is unknown here, known to the agent alone, or
//! that leads to the loopback shows nothing. Then children are told all addresses, and the one by which the
//! first of them comes is it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::process;
use crate::signal::Mask;

/// Time after which the caller is told about names without an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Names that are asked for at the same time.
const AT_ONCE: usize = 16;

/// Returns the addresses of this host on which children can reach it, never empty. That of `interface` is
/// the only one if it is named. Otherwise they are those from which the way to each of `hosts` begins. The
/// unspecified address stands for all. `tell` is called with the names that have no answer after a second.
///
/// # Errors
/// If there is no such interface.
pub fn addresses(interface: &str, hosts: &[&str], tell: &dyn Fn(&str)) -> Result<Vec<IpAddr>, String> {
    if !interface.is_empty() {
        return match named(interface) {
            Some(address) => Ok(vec![address]),
            None => Err(format!("{interface:?} is no interface, address or network of this host")),
        };
    }
    let mut found: Vec<IpAddr> = Vec::new();
    for address in towards_all(hosts, tell) {
        // Any of ours may be the one.
        let Some(address) = address else { return Ok(vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]) };
        if !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

/// The address that a process tells other hosts when nobody has told it one: that of `interface` if it is said, else that from
/// which the way to the host `other` begins, if it has one, else the one the system prefers, else the first that leads anywhere.
///
/// # Errors
/// If there is no such interface.
pub fn of_this_host(interface: &str, other: Option<&str>) -> Result<IpAddr, String> {
    if !interface.is_empty() {
        return Ok(addresses(interface, &[], &|_| ())?[0]);
    }
    let leads = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified();
    let tell = |names: &str| eprintln!("Tutti: waiting for the name server to tell where {names} is");
    let way = other.and_then(|other| towards_all(&[other], &tell).pop().flatten());
    // An address for documentation (RFC 5737): the way to it is the way to anywhere.
    let ways = way.into_iter().chain(std::iter::once_with(|| towards("192.0.2.1")).flatten());
    Ok(ways.into_iter().find(leads).unwrap_or_else(|| all()[0]))
}

/// Returns the own addresses from which the ways to these hosts begin; `None` for one of which nothing is
/// known.
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

/// Passes over an address that leads to this host alone.
fn leading(address: Option<IpAddr>) -> Option<IpAddr> {
    address.filter(|address| !address.is_loopback())
}

/// Asks for some names at the same time, each by a thread: the resolver of the C library has no other way to
/// wait for several.
fn ask(hosts: &[&str], tell: &dyn Fn(&str)) -> Vec<Option<IpAddr>> {
    let mut found: Vec<Option<Option<IpAddr>>> = vec![None; hosts.len()];
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        // The threads take no signals of the program.
        let mask = Mask::all().block();
        for (place, host) in hosts.iter().enumerate() {
            let sender = sender.clone();
            let look = move || {
                // The receiver lives until all have answered.
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

/// Returns the one address of this host that leads to others, if there is no other one.
fn only_address() -> Option<IpAddr> {
    let is_far = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && address.segments()[0] & 0xffc0 != 0xfe80,
    };
    let mut far = process::interfaces().into_iter().map(|(_, address)| address).filter(is_far);
    far.next().filter(|only| only.is_ipv4() && far.next().is_none())
}

/// What to tell children where `listening` is unspecified: all addresses that lead here.
pub fn all() -> Vec<IpAddr> {
    let interfaces = process::interfaces();
    let (local, far): (Vec<IpAddr>, Vec<IpAddr>) = interfaces
        .into_iter()
        .map(|(_, address)| address)
        .filter(IpAddr::is_ipv4)
        .partition(IpAddr::is_loopback);
    if far.is_empty() { local } else { far }
}

/// The address of this host's interface of a name, an address, or a network (`10.1.0.0/16`).
pub fn named(text: &str) -> Option<IpAddr> {
    let interfaces = process::interfaces();
    let found = |is_meant: &dyn Fn(&str, IpAddr) -> bool| {
        let mut meant = interfaces.iter().filter(|(name, address)| is_meant(name, *address));
        // The older protocol first: what is told to children is understood everywhere.
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

/// The own address from which the way to `host` begins. Nothing is sent.
fn towards(host: &str) -> Option<IpAddr> {
    // As ssh takes it: USER@HOST.
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

    /// A name of this host leads to the loopback in many /etc/hosts, which tells nothing of other hosts.
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
