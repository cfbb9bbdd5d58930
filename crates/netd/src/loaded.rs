//! One instance of the kernel's program: loaded, attached, with its private tables filled.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, Map};
use aya::programs::tc::{NlOptions, SchedClassifierLink, TcAttachOptions};
use aya::programs::{MultiProgLink, SchedClassifier, TcAttachType, tc};
use aya::{Ebpf, EbpfLoader};

use tutti_offload::layout::{GROUPS, PEERS};
use tutti_sys::{bpf, process};

/// Tables of the job, in the order in which they are passed to it.
const LENT: [&str; 5] = ["rules", "events", "records", "areas", "counters"];

/// Name of the program for received packets, by which it is known at an interface.
pub const INGRESS: &str = "tutti_ingress";
/// Name of the program for sent packets; see [`INGRESS`].
pub const EGRESS: &str = "tutti_egress";
const WAYS: [(&str, TcAttachType); 2] = [(INGRESS, TcAttachType::Ingress), (EGRESS, TcAttachType::Egress)];

/// Hardware address (Ethernet) of an interface.
pub type Mac = [u8; 6];

/// Rank, address and hardware address of a host on the link.
type Neighbour = (u32, Ipv4Addr, Mac);

/// Program at an interface.
#[derive(Debug)]
pub struct Loaded {
    ebpf: Ebpf,
    links: Vec<SchedClassifierLink>,
    interface: String,
    address: Ipv4Addr,
    /// Numbers of the registered groups, by slot.
    groups: Vec<u32>,
}

/// Rank that owns a program.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// Number of the job.
    pub job: u32,
    /// Key of the tags of its packets.
    pub key: [u8; 16],
    /// Address of this host in the job.
    pub address: Ipv4Addr,
    /// Port at which the rank is woken.
    pub port: u16,
}

/// Loads the program without attaching it, and stores its owner in its tables.
///
/// # Errors
/// The kernel's error.
pub fn load(owner: &Owner, mac: Mac) -> Result<Ebpf, String> {
    let told = |error: &dyn std::fmt::Display| format!("the kernel does not load the program: {error}");
    let mut ebpf = EbpfLoader::new().load(crate::OBJECT).map_err(|error| told(&error))?;
    for name in [INGRESS, EGRESS] {
        program(&mut ebpf, name)?.load().map_err(|error| told(&error))?;
    }
    let mut entry = [0; 32];
    entry[..4].copy_from_slice(&owner.job.to_le_bytes());
    entry[4..8].copy_from_slice(&owner.address.octets());
    entry[8..14].copy_from_slice(&mac);
    entry[14..16].copy_from_slice(&owner.port.to_be_bytes());
    entry[16..].copy_from_slice(&owner.key);
    set(&mut ebpf, "jobs", 0, entry)?;
    Ok(ebpf)
}

/// Returns one of the two programs of an object.
///
/// # Errors
/// If the object has no program with this name.
pub fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, String> {
    let program = ebpf.program_mut(name).ok_or_else(|| format!("the object has no program {name}"))?;
    program.try_into().map_err(|error| format!("{name}: {error}"))
}

/// Writes an entry of a table.
///
/// # Errors
/// The kernel's error.
pub fn set<const BYTES: usize>(
    ebpf: &mut Ebpf,
    table: &str,
    place: usize,
    entry: [u8; BYTES],
) -> Result<(), String> {
    let map = ebpf.map_mut(table).ok_or_else(|| format!("the object has no table {table}"))?;
    let told = |error: aya::maps::MapError| format!("table {table}: {error}");
    let mut array: Array<_, [u8; BYTES]> = Array::try_from(map).map_err(told)?;
    array.set(place as u32, entry, 0).map_err(told)
}

/// Registers a group and its peers with a program.
///
/// # Errors
/// The kernel's error.
pub fn fill_group(
    ebpf: &mut Ebpf,
    slot: usize,
    (group, rank): (u32, u32),
    peers: &[(u32, Ipv4Addr, Mac)],
) -> Result<(), String> {
    for (place, (rank, address, mac)) in peers.iter().enumerate() {
        let mut entry = [0; 16];
        entry[..4].copy_from_slice(&rank.to_le_bytes());
        entry[4..8].copy_from_slice(&address.octets());
        entry[8..14].copy_from_slice(mac);
        entry[14] = 1;
        set(ebpf, "peers", slot * PEERS + place, entry)?;
    }
    let words = [group, 1, rank, 0];
    let mut entry = [0; 16];
    entry.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
    set(ebpf, "groups", slot, entry)
}

impl Loaded {
    /// Loads the program and attaches it to the interface that has the owner's address. With `as_filter`,
    /// as needed before Linux 6.6, it stays there until this value is dropped.
    pub fn new(owner: &Owner, as_filter: bool) -> Result<Loaded, String> {
        let interfaces = process::interfaces();
        let found = interfaces.into_iter().find(|(_, address)| *address == owner.address);
        let (interface, _) = found.ok_or_else(|| format!("{} is no address of this host", owner.address))?;
        let mac = std::fs::read_to_string(format!("/sys/class/net/{interface}/address"));
        let mac = mac.ok().and_then(|text| mac_of(text.trim()));
        let mac = mac.ok_or_else(|| format!("{interface} is no Ethernet"))?;
        let mut ebpf = load(owner, mac)?;
        // The queueing discipline usually exists already. If it is missing, attaching reports that.
        let _ = tc::qdisc_add_clsact(&interface);
        let mut links = Vec::new();
        for (name, way) in WAYS {
            let told = |error: aya::programs::ProgramError| format!("{interface}: {error}");
            let program = program(&mut ebpf, name)?;
            let link = match as_filter {
                true => {
                    let options = TcAttachOptions::Netlink(NlOptions::default());
                    program.attach_with_options(&interface, way, options).map_err(told)?
                }
                false => program.attach(&interface, way).map_err(told)?,
            };
            links.push(program.take_link(link).map_err(told)?);
        }
        Ok(Loaded { ebpf, links, interface, address: owner.address, groups: Vec::new() })
    }

    /// Returns the descriptors that the job receives: its tables, and the attachments that keep the program
    /// at the interface. Filters (before Linux 6.6) have no attachments.
    ///
    /// # Errors
    /// If the object lacks a table.
    pub fn lent(&self) -> Result<Vec<BorrowedFd<'_>>, String> {
        let table = |name: &str| match self.ebpf.map(name) {
            Some(Map::Array(map)) => Ok(map.fd().as_fd()),
            _ => Err(format!("the object has no table {name}")),
        };
        let mut lent = LENT.iter().map(|name| table(name)).collect::<Result<Vec<_>, _>>()?;
        let links: Vec<_> = self.links.iter().map_while(|link| link.fd().ok()).collect();
        if links.len() == self.links.len() {
            lent.extend(links);
        }
        Ok(lent)
    }

    /// Registers a group and returns its slot. Returns `None` while the hardware address of a host is
    /// unknown; then the call must be repeated.
    ///
    /// # Errors
    /// If there are too many groups or, with `is_late`, a host is not on this link.
    pub fn join(
        &mut self,
        group: (u32, u32),
        peers: &[(u32, Ipv4Addr)],
        is_late: bool,
    ) -> Result<Option<u32>, String> {
        let slot = self.groups.len();
        if slot >= GROUPS {
            return Err(format!(
                "a job has {GROUPS} communicators and persistent operations in the kernel, and no more"
            ));
        }
        if self.groups.contains(&group.0) {
            return Err(format!("the job has a group {} already", group.0));
        }
        let known = match neighbours(&self.interface, self.address, peers)? {
            Ok(known) => known,
            Err(_) if !is_late => return Ok(None),
            Err(missing) => {
                return Err(format!("{missing} does not answer on the link of {}", self.interface));
            }
        };
        fill_group(&mut self.ebpf, slot, group, &known)?;
        self.groups.push(group.0);
        Ok(Some(slot as u32))
    }
}

impl Drop for Loaded {
    /// Detaches the program from the interface, though the job may hold its attachments: its connection has
    /// ended. If netd is killed, this does not run, and the job continues.
    fn drop(&mut self) {
        for link in self.links.iter().filter_map(|link| link.fd().ok()) {
            // Detaching fails only if the interface is gone, and the program with it.
            let _ = bpf::detach(link.as_fd());
        }
    }
}

/// Removes the filters that a killed netd has left.
pub fn sweep() {
    for (interface, _) in process::interfaces() {
        for (name, way) in WAYS {
            // Usually there is none.
            let _ = tc::qdisc_detach_program(&interface, way, name);
        }
    }
}

/// Returns the hardware addresses of hosts on this link, or the first host whose address the kernel does
/// not know yet. Unknown addresses are requested from the link.
fn neighbours(
    interface: &str,
    own: Ipv4Addr,
    hosts: &[(u32, Ipv4Addr)],
) -> Result<Result<Vec<Neighbour>, Ipv4Addr>, String> {
    let table = std::fs::read_to_string("/proc/net/arp").unwrap_or_default();
    let mac = |host: Ipv4Addr| neighbour(&table, interface, host);
    let found = hosts.iter().map(|(rank, host)| mac(*host).map(|mac| (*rank, *host, mac)).ok_or(*host));
    let found = found.collect::<Result<Vec<_>, _>>();
    if found.is_err() {
        let socket = UdpSocket::bind((own, 0)).map_err(|error| format!("{own}: {error}"))?;
        // Datagrams that do not fit are sent the next time.
        socket.set_nonblocking(true).map_err(|error| format!("{own}: {error}"))?;
        for (_, host) in hosts.iter().filter(|(_, host)| mac(*host).is_none()) {
            // The port at which datagrams are discarded (RFC 863).
            let _ = socket.send_to(&[0], (*host, 9));
        }
    }
    Ok(found)
}

/// Returns the hardware address of a host in the table of neighbours (proc_net(5)): address, type, flags,
/// hardware address, mask, device.
fn neighbour(table: &str, interface: &str, host: Ipv4Addr) -> Option<Mac> {
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, _, flags, mac, _, device] = words[..] else { return None };
        let is_complete = flags != "0x0";
        let is_it = address.parse() == Ok(host) && device == interface && is_complete;
        if is_it { mac_of(mac) } else { None }
    })
}

fn mac_of(text: &str) -> Option<Mac> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_found_in_the_table_of_the_kernel() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     10.1.0.3         0x1         0x2         02:00:00:00:00:03     *        eth0\n\
                     10.1.0.4         0x1         0x0         00:00:00:00:00:00     *        eth0\n";
        let check = |host: &str, interface, expected| {
            assert_eq!(neighbour(table, interface, host.parse().unwrap()), expected, "{host}");
        };
        check("10.1.0.3", "eth0", Some([2, 0, 0, 0, 0, 3]));
        check("10.1.0.3", "eth1", None);
        check("10.1.0.4", "eth0", None);
        check("10.1.0.5", "eth0", None);
        assert_eq!((mac_of("02:00"), mac_of("x")), (None, None));
    }
}
