//! Lists of hosts from the command line, from files, and from the resource manager.

use tutti_sys::process;

use crate::error::LaunchError;

/// Host on which ranks may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name of the host in the form that the agent takes.
    pub name: String,
    /// Number of ranks for which the host has room. More ranks are no error.
    pub slots: u32,
}

/// Returns this machine as a host.
pub fn own(slots: u32) -> Host {
    Host { name: process::host_name(), slots }
}

/// Returns the listed hosts, each once, in order; empty if there are none.
///
/// `listed` are entries of the command line (`name` or `name:slots`), `files` the contents of host
/// files with their names.
///
/// # Errors
/// Returns the first malformed entry.
pub fn listed(listed: &[String], files: &[(String, String)]) -> Result<Vec<Host>, LaunchError> {
    let mut hosts = Vec::new();
    for entry in listed {
        let (name, slots) = split_entry(entry)?;
        add(&mut hosts, name, slots);
    }
    for (file, text) in files {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let (name, slots) =
                split_line(line).map_err(|error| error.in_place(format!("{file}:{number}")))?;
            add(&mut hosts, name, slots);
        }
    }
    Ok(hosts)
}

/// Adds slots of a host. All names of this machine are one host.
pub fn add(hosts: &mut Vec<Host>, name: &str, slots: u32) {
    let own = process::host_name();
    let name = if is_local(name, &own) { &own } else { name };
    match hosts.iter_mut().find(|host| host.name == name) {
        Some(host) => host.slots = host.slots.saturating_add(slots),
        None => hosts.push(Host { name: name.to_string(), slots }),
    }
}

/// Returns true if `name` is this machine, whose own name is `own`. Names are not looked up, as each look-up
/// could take long.
pub fn is_local(name: &str, own: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or("").to_string();
    let is_short = !name.contains('.') || !own.contains('.');
    match name.parse::<std::net::IpAddr>() {
        // Only an address of this machine can be bound.
        Ok(address) => std::net::UdpSocket::bind((address, 0)).is_ok(),
        Err(_) => name == "localhost" || name == own || is_short && short(name) == short(own),
    }
}

fn split_entry(entry: &str) -> Result<(&str, u32), LaunchError> {
    let (name, slots) = match entry.rsplit_once(':') {
        // An IPv6 address has colons of its own.
        Some((name, slots)) if !name.contains(':') => (name, slots),
        _ => (entry, "1"),
    };
    let name = check_name(name)?;
    Ok((name, count(slots).map_err(|error| error.in_place(format!("host {entry}")))?))
}

fn count(text: &str) -> Result<u32, LaunchError> {
    let number = text.parse().ok().filter(|&slots| slots > 0);
    number.ok_or_else(|| LaunchError::Invalid(format!("{text:?} is not a number of slots")))
}

/// Checks the name of a host. The name is passed to the agent as an argument, and perhaps through a shell.
///
/// # Errors
/// Fails if the name has letters that are not allowed.
pub fn check_name(name: &str) -> Result<&str, LaunchError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-:@%".contains(letter);
    match name {
        "" => Err(LaunchError::Invalid("a host has no name".to_string())),
        _ if name.starts_with('-') || !name.chars().all(is_plain) => {
            Err(LaunchError::Invalid(format!("host {name:?}: not a name")))
        }
        _ => Ok(name),
    }
}

/// Splits a line of a host file into name and slots.
fn split_line(line: &str) -> Result<(&str, u32), LaunchError> {
    let mut words = line.split_whitespace();
    let (name, mut slots) = split_entry(words.next().unwrap_or(""))?;
    for word in words {
        match word.split_once('=') {
            Some(("slots", number)) => slots = count(number).map_err(|error| error.in_place(word))?,
            Some(("max_slots" | "max-slots", _)) => {}
            _ => {
                return Err(LaunchError::Invalid(format!(
                    "{word}: not understood; a line is NAME [slots=N]"
                )));
            }
        }
    }
    Ok((name, slots))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a list of hosts. `expected` has hosts and slots; `*` stands for this machine.
    fn check(list: &str, file: &str, expected: Result<&[(&str, u32)], &str>) {
        let list: Vec<String> = list.split(',').filter(|x| !x.is_empty()).map(str::to_string).collect();
        let got = listed(&list, &[("hosts".to_string(), file.to_string())]);
        let own = process::host_name();
        match (got, expected) {
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (Ok(got), Ok(expected)) => {
                let name = |name: &str| if name == "*" { own.clone() } else { name.to_string() };
                let wanted: Vec<Host> =
                    expected.iter().map(|&(host, slots)| Host { name: name(host), slots }).collect();
                assert_eq!(got, wanted, "{list:?} {file:?}");
            }
            (got, _) => panic!("{got:?} of {list:?} {file:?}"),
        }
    }

    #[test]
    fn hosts_are_listed_once_in_order() {
        check("", "", Ok(&[]));
        check("localhost", "", Ok(&[("*", 1)]));
        check("localhost:4,n1:2,127.0.0.1,n1", "", Ok(&[("*", 5), ("n1", 3)]));
        check("::1", "", Ok(&[("*", 1)]));
        check("elsewhere.example", "", Ok(&[("elsewhere.example", 1)]));
        check(
            "",
            "# all\nn0 slots=3 # here\n\nn1:2\nn2 max_slots=9\n",
            Ok(&[("n0", 3), ("n1", 2), ("n2", 1)]),
        );
        check("n0", "n1\n", Ok(&[("n0", 1), ("n1", 1)]));
    }

    #[test]
    fn malformed_entries_are_named() {
        check("localhost:many", "", Err("not a number of slots"));
        check("n0:0", "", Err("not a number of slots"));
        check("-oProxyCommand=x", "", Err("not a name"));
        check("n0;reboot", "", Err("not a name"));
        check("", "localhost slot=3\n", Err("hosts:1: slot=3: not understood"));
        check("", "n0\nn1 slots=x\n", Err("hosts:2: slots=x"));
    }

    #[test]
    fn this_machine_has_several_names() {
        let check =
            |name: &str, own: &str, expected: bool| assert_eq!(is_local(name, own), expected, "{name}");
        check("localhost", "n0", true);
        check("n0", "n0.cluster", true);
        check("n0.cluster", "n0", true);
        check("n0.here", "n0.there", false);
        check("n00", "n0", false);
        check("192.0.2.1", "n0", false);
    }
}
