//! Description of this machine by the operating system, for people.

use std::fs::read_to_string;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::atomic::AtomicU64;

use tutti_base::config::{Config, Mapped, Multicast, Offload, RemoteRead, SingleCopy};
use tutti_sys::fabric::devices::{FabricKind, KINDS};
use tutti_sys::fabric::{EndpointKind, Query};
use tutti_sys::job::Reach;
use tutti_sys::userfault::Watcher;
use tutti_sys::{multicast, process};

/// Lines that describe the machine: processor, cores allowed, memory, kernel.
pub fn describe() -> Vec<String> {
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    let gigabytes = field(&memory, "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
        .map_or("unknown".to_string(), |kilobytes| format!("{:.1} GiB", kilobytes as f64 / (1 << 20) as f64));
    vec![
        processor_line().trim_end().to_string(),
        format!(
            "processors allowed: {} ({} online)",
            allowed().unwrap_or_else(|| "unknown".to_string()),
            first_line("/sys/devices/system/cpu/online").unwrap_or_else(|| "unknown".to_string())
        ),
        format!("memory: {gigabytes}"),
        format!("kernel: {}", first_line("/proc/sys/kernel/osrelease").unwrap_or_default()),
    ]
}

/// Returns the name of the processor; a figure means nothing without it.
pub fn processor() -> String {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    field(&cpuinfo, "model name").unwrap_or("unknown").to_string()
}

/// Returns the line about the processor, for the head of a table.
pub fn processor_line() -> String {
    format!("processor: {}\n", processor())
}

/// Returns the processors that this process may use, in the kernel's notation.
fn allowed() -> Option<String> {
    let status = read_to_string("/proc/self/status").ok()?;
    field(&status, "Cpus_allowed_list").map(str::to_string)
}

/// Returns the access that ranks like this process have to each other's memory, as far as this process can
/// tell.
pub fn reach(config: &Config) -> Reach {
    let copies = config.messages.single_copy != SingleCopy::Never && tutti_sys::cma::permitted().is_ok();
    Reach::of_process(copies, config.memory.mapped != Mapped::Never)
}

/// Describes whether process_vm_readv should work between the ranks of a job, with the reason.
///
/// Ranks determine this by a real read of each other. This text predicts the result for equal ranks.
pub fn single_copy() -> String {
    let scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    explain_single_copy(scope.as_deref(), field(&status, "CapEff"), field(&status, "Seccomp"))
}

/// Returns the mechanisms by which collectives can access other ranks' memory, with reasons for missing ones.
pub fn back_ends() -> Vec<String> {
    let verdict = |result: std::io::Result<()>| match result {
        Ok(()) => "there".to_string(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "no: the module is not loaded".to_string()
        }
        Err(error) => format!("no: {error}"),
    };
    let attach = match tutti_sys::cma::permitted() {
        Ok(()) => "there".to_string(),
        Err(error) => format!("no: {error}"),
    };
    let mapped = match tutti_sys::maps::Maps::open() {
        Ok(_) => format!("there; {}; {}", lockable(tutti_sys::this_process::lockable_bytes()), told()),
        Err(_) => "MPI_Alloc_mem only: the kernel has no PROCMAP_QUERY (Linux 6.11)".to_string(),
    };
    vec![
        format!("mapped regions: {mapped}"),
        format!("XPMEM: {}", verdict(tutti_sys::xpmem::XpmemDevice::open().map(drop))),
        format!("process_vm_readv and process_vm_writev: {attach}"),
        format!("KNEM: {}", verdict(tutti_sys::knem::Device::open().map(drop))),
    ]
}

/// Returns the mechanism that detects changes of mapped memory.
fn told() -> String {
    let count: &'static AtomicU64 = Box::leak(Box::default());
    match Watcher::start(count) {
        Ok(_) => "the kernel tells of changes".to_string(),
        Err(error) => format!("each use queries the kernel for changes ({error})"),
    }
}

/// Describes whether the kernel performs small collectives between hosts, with the reason if not.
pub fn offload(config: &Config) -> String {
    match (config.collectives.offload, tutti_offload::seat::status()) {
        (Offload::Off, _) => "off, as TUTTI_OFFLOAD says".into(),
        (_, Ok(netd)) => {
            format!("for communicators of several hosts, also with several ranks on each; {netd}")
        }
        (_, Err(why)) => format!("no: {why}"),
    }
}

/// Describes whether hosts may receive each other's multicasts, with the reason if not.
pub fn multicast(config: &Config) -> String {
    if config.collectives.multicast == Multicast::Off {
        return "off, as TUTTI_MULTICAST says".into();
    }
    let of_ipv4 = |(name, address)| if let IpAddr::V4(own) = address { Some((name, own)) } else { None };
    let outside = process::interfaces().into_iter().filter_map(of_ipv4).find(|(_, own)| !own.is_loopback());
    let Some((name, address)) = outside else { return "no: there is no interface to other hosts".into() };
    // Of RFC 2365, as those of jobs are.
    match multicast::join(address, SocketAddrV4::new(Ipv4Addr::new(239, 192, 0, 1), 0)) {
        Ok(_) => format!(
            "the host can join groups by {name}; each communicator tests which members receive from which"
        ),
        Err(why) => format!("no: {name} joins no group: {why}"),
    }
}

/// Returns the networks that can carry messages between hosts, and the one that a job would use.
pub fn networks(config: &Config) -> Vec<String> {
    let setting = &config.network.fabric[..];
    let root = std::path::Path::new("/");
    let row = |kind: &FabricKind| match kind.device(root) {
        Some(device) => format!("{}: the device {device}", kind.provider),
        None => format!("{}: no device", kind.provider),
    };
    let mut lines: Vec<String> = KINDS.iter().map(row).collect();
    lines.push("sockets: there".to_string());
    let best = KINDS.iter().find(|kind| kind.device(root).is_some());
    let provider = match setting {
        "auto" => best.map(|kind| kind.provider),
        "sockets" => None,
        named => Some(named),
    };
    lines.push(match (setting, best) {
        ("auto", None) => "chosen: sockets, as there is no faster network".to_string(),
        ("auto", Some(kind)) => format!("chosen: {} of libfabric if it accepts the device", kind.provider),
        (named, _) => format!("chosen: {named}, which TUTTI_FABRIC names"),
    });
    let offered = |provider: &str| {
        let kinds = [EndpointKind::Connected, EndpointKind::Reliable];
        kinds.iter().any(|&kind| Query { provider, kind, source: "", remote_access: true }.run().is_ok())
    };
    let read =
        long_messages(config.messages.remote_read, provider, config.messages.remote_read_bytes, offered);
    lines.push(format!("long messages: {read}"));
    lines
}

/// Returns the path of long messages over a provider (none: sockets), with the reason. `offered` returns
/// whether the provider reads remote memory.
fn long_messages(
    setting: RemoteRead,
    provider: Option<&str>,
    bytes: u64,
    offered: impl Fn(&str) -> bool,
) -> String {
    match (provider, setting) {
        (_, _) if bytes == 0 => "streamed, says TUTTI_REMOTE_READ_BYTES".to_string(),
        (None, _) => format!("from {bytes} bytes on from buffer to buffer through the sockets"),
        (Some(_), RemoteRead::Never) => "streamed, says the key remote_read of TUTTI_DEBUG".to_string(),
        (Some(provider), _) if offered(provider) => {
            format!("from {bytes} bytes on read out of the sender's memory by {provider}")
        }
        (Some(provider), _) => format!("streamed: {provider} does not offer to read remote memory (FI_RMA)"),
    }
}

fn lockable(bytes: Option<u64>) -> String {
    match bytes {
        None => "any buffer".to_string(),
        Some(bytes) => {
            format!(
                "any buffer until {} KiB are locked (RLIMIT_MEMLOCK), those of malloc beyond",
                bytes >> 10
            )
        }
    }
}

fn explain_single_copy(scope: Option<&str>, effective: Option<&str>, seccomp: Option<&str>) -> String {
    const PTRACE: u32 = 19;
    let capable = effective
        .and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .is_some_and(|mask| mask >> PTRACE & 1 == 1);
    let filtered = match seccomp {
        Some("2") => "; a system call filter is in force, which may refuse it",
        _ => "",
    };
    let verdict = match (scope, capable) {
        (Some("3"), _) => "refused: ptrace_scope is 3".to_string(),
        (_, true) => "permitted: this process may trace others (CAP_SYS_PTRACE)".to_string(),
        (None, _) => "permitted between processes of one user: no ptrace scope in this kernel".to_string(),
        (Some("0"), _) => "permitted between processes of one user: ptrace_scope is 0".to_string(),
        (Some("1"), _) => "permitted where a rank allows its job by prctl: ptrace_scope is 1".to_string(),
        (Some(scope), _) => format!("refused without CAP_SYS_PTRACE: ptrace_scope is {scope}"),
    };
    verdict + filtered
}

fn first_line(path: &str) -> Option<String> {
    Some(read_to_string(path).ok()?.lines().next()?.trim().to_string())
}

/// Returns the value after `name` and a colon.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(key, value)| (key.trim() == name).then(|| value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_explained() {
        let check = |setting, provider, bytes, offered, expected: &str| {
            let told = long_messages(setting, provider, bytes, |_| offered);
            assert!(told.contains(expected), "{told}");
        };
        check(RemoteRead::Auto, None, 100, false, "through the sockets");
        check(RemoteRead::Auto, Some("tcp"), 0, true, "TUTTI_REMOTE_READ_BYTES");
        check(RemoteRead::Auto, Some("verbs"), 100, true, "by verbs");
        check(RemoteRead::Auto, Some("verbs"), 100, false, "does not offer");
        check(RemoteRead::Never, Some("verbs"), 100, true, "streamed, says");
    }

    #[test]
    fn single_copy_is_explained() {
        let check = |scope, effective, seccomp, part: &str| {
            let text = explain_single_copy(scope, effective, seccomp);
            assert!(text.contains(part), "{text}");
        };
        check(Some("0"), None, None, "permitted between processes of one user: ptrace_scope is 0");
        check(Some("1"), Some("0000000000000000"), None, "ptrace_scope is 1");
        check(Some("1"), Some("0000000000080000"), None, "CAP_SYS_PTRACE");
        check(Some("2"), Some("0"), None, "refused without");
        check(Some("3"), Some("ffffffffffffffff"), None, "refused: ptrace_scope is 3");
        check(None, None, Some("2"), "system call filter");
    }

    #[test]
    fn back_ends_are_explained() {
        let text = back_ends().join("\n");
        assert!(["mapped regions: ", "XPMEM: ", "KNEM: "].iter().all(|name| text.contains(name)), "{text}");
        assert_eq!(lockable(None), "any buffer");
        assert!(lockable(Some(8 << 20)).contains("8192 KiB"));
    }

    #[test]
    fn fields_are_found() {
        assert_eq!(field("a : 1\nmodel name\t: X: Y\n", "model name"), Some("X: Y"));
        assert_eq!(field("", "a"), None);
    }
}
