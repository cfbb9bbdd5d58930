//! Addresses of the internet as bytes: 4 or 16 of the host, 2 of the port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The bytes that others learn.
pub fn encode(address: SocketAddr) -> Vec<u8> {
    let mut bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    bytes.extend(address.port().to_be_bytes());
    bytes
}

/// The address behind the bytes; `None` for what is none.
pub fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_last_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    let ip = match ip.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(ip).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?)),
        _ => return None,
    };
    (port != 0 && !ip.is_unspecified()).then_some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: bool) {
        let address: SocketAddr = text.parse().expect("an address");
        assert_eq!(decode(&encode(address)), expected.then_some(address));
    }

    #[test]
    fn addresses_survive_and_others_are_refused() {
        check("10.1.2.3:4567", true);
        check("[fd00::1]:65535", true);
        check("10.1.2.3:0", false);
        check("0.0.0.0:7", false);
        for bytes in [&[][..], &[1; 5], &[1; 7], &[1; 64]] {
            assert_eq!(decode(bytes), None);
        }
    }
}
