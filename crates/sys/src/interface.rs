//! By which addresses hosts reach each other.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use crate::process;

/// The addresses of this host on which children can reach it, never empty: those of `interface` if it is said, else
/// those from which the way to each of `hosts` begins, else all.
///
/// # Errors
/// If there is no such interface.
pub fn addresses(interface: &str, hosts: &[&str]) -> Result<Vec<IpAddr>, String> {
    if !interface.is_empty() {
        return match named(interface) {
            Some(address) => Ok(vec![address]),
            None => Err(format!("{interface:?} is no interface, address or network of this host")),
        };
    }
    let mut found: Vec<IpAddr> = Vec::new();
    for host in hosts {
        // One that is unknown here, a name that only the agent knows, is reached by any of ours.
        let Some(address) = towards(host) else { return Ok(vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]) };
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
        return Ok(addresses(interface, &[])?[0]);
    }
    let leads = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified();
    // An address for documentation (RFC 5737): the way to it is the way to anywhere.
    let ways = [other.and_then(towards), towards("192.0.2.1")];
    Ok(ways.into_iter().flatten().find(leads).unwrap_or_else(|| all()[0]))
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
        assert_eq!(addresses("", &["127.0.0.1"]), Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]));
        assert!(addresses("no-such-interface", &[]).is_err());
        assert!(!all().is_empty());
        assert!(of_this_host("127.0.0.1", None).is_ok_and(|address| address.is_loopback()));
        assert!(of_this_host("", Some("no host has this name")).is_ok());
    }
}
