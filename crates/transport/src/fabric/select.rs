//! Choice of the network for messages between hosts, with its reasons.
//!
//! Loading libfabric takes long (see `tutti_sys::fabric`). It is loaded only if the system shows a device
//! that it serves, or if a setting names a provider. All ranks of a job have to choose alike: either the
//! hosts are of one kind, or the setting names what they have in common.

use std::net::IpAddr;
use std::path::Path;

use tutti_base::config::RemoteRead;
use tutti_sys::fabric::devices::{FabricKind, KINDS};
use tutti_sys::fabric::{EndpointKind, Error, Info, Query};

/// Network that carries the messages.
#[derive(Debug)]
pub enum Network {
    /// Sockets of the system.
    Sockets,
    /// Connected endpoints of this offer, and datagrams by sockets.
    Connected(Info),
    /// Reliable endpoint of this offer, without connections.
    Reliable(Info),
}

/// Way in which endpoints of a provider are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Connected,
    Reliable,
}

impl Use {
    fn from_kind(kind: &FabricKind) -> Use {
        if kind.reliable { Use::Reliable } else { Use::Connected }
    }
}

/// Chosen network, with one line for each network considered, for people.
#[derive(Debug)]
pub struct Choice {
    /// Network that is used.
    pub network: Network,
    /// Reasons for the choice and against the other networks.
    pub reasons: Vec<String>,
}

/// Chooses by the setting TUTTI_FABRIC: `auto`, `sockets`, or a provider. `read` is the key remote_read of
/// TUTTI_DEBUG.
///
/// # Errors
/// A provider that was named is not there.
pub fn choose(setting: &str, read: RemoteRead, interface: IpAddr) -> Result<Choice, Error> {
    match setting {
        "auto" => Ok(automatic(read, interface, Path::new("/"))),
        "sockets" => Ok(sockets(vec!["sockets: TUTTI_FABRIC names them".to_string()])),
        provider => named(provider, read, interface),
    }
}

fn sockets(reasons: Vec<String>) -> Choice {
    Choice { network: Network::Sockets, reasons }
}

/// Chooses the best network whose devices are present below `root`.
fn automatic(read: RemoteRead, interface: IpAddr, root: &Path) -> Choice {
    let mut reasons = Vec::new();
    for kind in &KINDS {
        let provider = kind.provider;
        let Some(device) = kind.device(root) else {
            reasons.push(format!("{provider}: no device /{}/{}*", kind.folder, kind.prefix));
            continue;
        };
        match offer(provider, Use::from_kind(kind), read, interface) {
            Ok(info) => {
                reasons.push(format!("{provider}: chosen, there is the device {device}{}", reads(&info)));
                return Choice { network: network(info, Use::from_kind(kind)), reasons };
            }
            Err(error) => reasons.push(format!("{provider}: there is the device {device}, but {error}")),
        }
    }
    reasons.push("sockets: chosen, as no faster network is there".to_string());
    sockets(reasons)
}

fn named(provider: &str, read: RemoteRead, interface: IpAddr) -> Result<Choice, Error> {
    let kind = KINDS.iter().find(|kind| kind.provider == provider);
    // Layered providers make reliable endpoints out of others.
    let wanted = match kind {
        Some(kind) => vec![Use::from_kind(kind)],
        None if provider.contains(';') => vec![Use::Reliable],
        None => vec![Use::Connected, Use::Reliable],
    };
    let mut last = Error::NoProvider(provider.to_string());
    for used in wanted {
        match offer(provider, used, read, interface) {
            Ok(info) => {
                let reasons = vec![format!("{provider}: TUTTI_FABRIC names it ({info:?}{})", reads(&info))];
                return Ok(Choice { network: network(info, used), reasons });
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn network(info: Info, used: Use) -> Network {
    match used {
        Use::Connected => Network::Connected(info),
        Use::Reliable => Network::Reliable(info),
    }
}

/// Returns a remark on long messages, for people.
fn reads(info: &Info) -> &'static str {
    if info.accesses_remote_memory() { "; it reads long messages" } else { "" }
}

/// Returns the first offer of a provider; over the interface if its addresses are those of the internet.
/// Prefers one that reads remote memory, if `read` permits it.
fn offer(provider: &str, used: Use, read: RemoteRead, interface: IpAddr) -> Result<Info, Error> {
    let with = |remote_access| offer_with(provider, used, remote_access, interface);
    match read {
        RemoteRead::Auto => with(true).or_else(|_| with(false)),
        RemoteRead::Never => with(false),
    }
}

fn offer_with(provider: &str, used: Use, remote_access: bool, interface: IpAddr) -> Result<Info, Error> {
    let kind = match used {
        Use::Connected => EndpointKind::Connected,
        Use::Reliable => EndpointKind::Reliable,
    };
    let source = interface.to_string();
    let query = Query { provider, kind, source: &source, remote_access };
    let offers = query.run().or_else(|_| Query { source: "", ..query }.run())?;
    let usable = |info: &Info| used == Use::Reliable || info.has_shared_receive();
    let lacking = || Error::NoProvider(format!("{provider} with a queue of receives for all connections"));
    offers.into_iter().find(usable).ok_or_else(lacking)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_machine_without_devices_uses_sockets() {
        let root = std::env::temp_dir().join(format!("no-devices-{}", std::process::id()));
        let choice = automatic(RemoteRead::Auto, HERE, &root);
        assert!(matches!(choice.network, Network::Sockets));
        assert_eq!(choice.reasons.len(), KINDS.len() + 1);
        let last = choice.reasons.last().expect("there are some");
        assert_eq!(last, "sockets: chosen, as no faster network is there");
    }

    #[test]
    fn a_device_without_its_provider_is_said() {
        let root = std::env::temp_dir().join(format!("a-device-{}", std::process::id()));
        std::fs::create_dir_all(root.join("sys/class/cxi/cxi0")).expect("a folder to write to");
        let choice = automatic(RemoteRead::Auto, HERE, &root);
        std::fs::remove_dir_all(&root).expect("our folder");
        assert!(choice.reasons[0].starts_with("cxi: there is the device cxi0, but"), "{:?}", choice.reasons);
    }

    #[test]
    fn a_named_provider_is_taken_or_refused() {
        let choose = |setting| choose(setting, RemoteRead::Auto, HERE);
        assert!(matches!(choose("sockets").expect("always there").network, Network::Sockets));
        assert!(choose("nobody").is_err());
        if tutti_sys::fabric::version().is_ok() {
            assert!(matches!(choose("tcp").expect("tcp is there").network, Network::Connected(_)));
            let layered = choose("tcp;ofi_rxm").expect("it is there");
            assert!(matches!(layered.network, Network::Reliable(_)));
        }
    }

    #[test]
    fn long_messages_are_read_where_that_is_wanted() {
        for (read, expected) in [(RemoteRead::Auto, true), (RemoteRead::Never, false)] {
            let Ok(choice) = choose("tcp", read, HERE) else { return };
            let Network::Connected(info) = choice.network else { panic!("connections of tcp") };
            assert_eq!(info.accesses_remote_memory(), expected);
            assert_eq!(choice.reasons[0].contains("reads long messages"), expected, "{:?}", choice.reasons);
        }
    }
}
