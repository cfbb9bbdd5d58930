//! Addresses of processes: internet addresses as bytes (4 or 16 for the host, 2 for the port), and the record
//! that a process publishes about itself.
//!
//! | bytes | content |
//! |---|---|
//! | 1, then as many | the address of its datagrams |
//! | 1, then as many | its listening address in the carrier's form; none: too long to be published |
//! | the rest | the name of its host, for people; may be cut short, or missing |

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Addresses at which a process is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// Address of its datagram socket.
    pub datagrams: SocketAddr,
    /// Listening address for connections in the carrier's form; may be empty.
    pub listen: Vec<u8>,
    /// Name of its host; may be empty.
    pub host: String,
}

impl Whereabouts {
    /// Returns the bytes to publish, at most `most`.
    pub fn encode(&self, most: usize) -> Vec<u8> {
        let datagrams = encode(self.datagrams);
        let fits = datagrams.len() + self.listen.len() + 2 <= most;
        let listen = if fits { &self.listen[..] } else { &[] };
        let mut bytes = vec![datagrams.len() as u8];
        bytes.extend(datagrams);
        bytes.push(listen.len() as u8);
        bytes.extend(listen);
        let room = most.saturating_sub(bytes.len());
        let fitting = |end: &usize| self.host.is_char_boundary(*end);
        let end = (0..=room.min(self.host.len())).rev().find(fitting).unwrap_or(0);
        bytes.extend(&self.host.as_bytes()[..end]);
        bytes
    }

    /// Decodes published bytes; `None` if they are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Whereabouts> {
        let part = |bytes: &[u8]| -> Option<(Vec<u8>, Vec<u8>)> {
            let (&length, rest) = bytes.split_first()?;
            let (part, rest) = rest.split_at_checked(usize::from(length))?;
            Some((part.to_vec(), rest.to_vec()))
        };
        let (datagrams, rest) = part(bytes)?;
        let (listen, host) = part(&rest)?;
        let host = String::from_utf8(host).ok()?;
        Some(Whereabouts { datagrams: decode(&datagrams)?, listen, host })
    }
}

impl fmt::Display for Whereabouts {
    /// Formats the addresses for people: `host n1, UDP 10.0.0.2:40001, TCP 10.0.0.2:40002`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.host.is_empty() {
            write!(f, "host {}, ", self.host)?;
        }
        write!(f, "UDP {}", self.datagrams)?;
        decode(&self.listen).map_or(Ok(()), |listen| write!(f, ", TCP {listen}"))
    }
}

/// Returns the bytes of an address.
pub fn encode(address: SocketAddr) -> Vec<u8> {
    let mut bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    bytes.extend(address.port().to_be_bytes());
    bytes
}

/// Decodes an address; `None` for malformed bytes.
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

    #[test]
    fn whereabouts_are_told_as_far_as_there_is_room() {
        let datagrams: SocketAddr = "[fd00::1]:40001".parse().expect("an address");
        let listen = encode("[fd00::1]:40002".parse().expect("an address"));
        let all = Whereabouts { datagrams, listen, host: "nöde".to_string() };
        assert_eq!(Whereabouts::decode(&all.encode(64)), Some(all.clone()));
        assert_eq!(all.to_string(), "host nöde, UDP [fd00::1]:40001, TCP [fd00::1]:40002");
        // Not half a letter.
        let short = Whereabouts { host: "n".to_string(), ..all.clone() };
        assert_eq!(Whereabouts::decode(&all.encode(40)), Some(short));
        let few = Whereabouts { host: String::new(), listen: Vec::new(), ..all.clone() };
        assert_eq!(Whereabouts::decode(&all.encode(20)), Some(few.clone()));
        assert_eq!(few.to_string(), "UDP [fd00::1]:40001");
        let bytes = all.encode(64);
        (0..38).for_each(|end| assert_eq!(Whereabouts::decode(&bytes[..end]), None, "{end}"));
    }
}
