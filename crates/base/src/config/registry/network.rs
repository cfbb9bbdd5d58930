//! Rows: networks and connections between hosts.

use crate::PortRange;
use crate::config::network::{Connections, Protection, check_interface};
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::one_of;

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_INTERFACE",
        kind: ValueKind::Text("name | address | network"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "network interface for connections to other hosts, for example eth0 or 10.1.0.0/16; empty: the interface of the route to the peer",
        set: |c, v| check_interface(v).map(|()| c.network.interface = v.to_string()),
        show: |c| c.network.interface.clone(),
    },
    Setting {
        name: "TUTTI_PORT_RANGE",
        kind: ValueKind::Text("LOW-HIGH"),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "ports for ranks (two each, UDP and TCP), daemons of the launcher, and MPI_Open_port; empty: any free port",
        set: |c, v| port_range(v).map(|x| c.network.port_range = x),
        show: |c| c.network.port_range.map_or(String::new(), |ports| ports.to_string()),
    },
    Setting {
        name: "TUTTI_FABRIC",
        kind: ValueKind::Text(
            "auto | sockets | tcp | verbs | efa | cxi | psm2 | psm3 | opx | other provider of libfabric",
        ),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "network for messages between hosts; auto: a fast network if the host has one, otherwise sockets of the system",
        set: |c, v| fabric(v).map(|x| c.network.fabric = x),
        show: |c| c.network.fabric.clone(),
    },
    Setting {
        name: "TUTTI_PROTECT",
        kind: ValueKind::Words(&["auto", "greeting", "authenticate", "encrypt"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "protection of messages between hosts, beyond the proof of the job's secret (greeting); auto: encryption on Tutti's own sockets",
        set: |c, v| protection(v).map(|x| c.network.protection = x),
        show: |c| c.network.protection.name().to_string(),
    },
    Setting {
        name: "TUTTI_CONNECTIONS",
        kind: ValueKind::Words(&["never", "on-demand", "partially-static", "static"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "time at which ranks on different hosts connect; until then they exchange datagrams",
        set: |c, v| connections(v).map(|x| c.network.connections = x),
        show: |c| c.network.connections.name().to_string(),
    },
];

fn fabric(text: &str) -> std::result::Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b";_-".contains(&byte);
    let named = !text.is_empty() && text.bytes().all(plain);
    if named { Ok(text.to_string()) } else { Err("auto, sockets or a provider of libfabric".to_string()) }
}

fn port_range(text: &str) -> std::result::Result<Option<PortRange>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| "a range of ports such as 40000-40100".to_string())
}

fn protection(text: &str) -> std::result::Result<Protection, String> {
    one_of(&Protection::NAMES, text)
}

fn connections(text: &str) -> std::result::Result<Connections, String> {
    one_of(&Connections::NAMES, text)
}
