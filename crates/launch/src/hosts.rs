//! Host lists. So far they may only name this machine.

use tutti_sys::process;

/// Checks that every listed host is this machine; returns the slots listed, if any host was.
///
/// `listed` are entries of the command line (`name` or `name:slots`), `files` the contents of host
/// files with their names.
///
/// # Errors
/// The first entry that is malformed or names another machine.
pub fn local_slots(listed: &[String], files: &[(String, String)]) -> Result<Option<u32>, String> {
    let mut total = None;
    for entry in listed {
        let (name, slots) = split_entry(entry)?;
        require_local(name)?;
        total = Some(total.unwrap_or(0) + slots);
    }
    for (file, text) in files {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let place = |reason: String| format!("{file}:{number}: {reason}");
            let (name, slots) = split_line(line).map_err(place)?;
            require_local(name).map_err(place)?;
            total = Some(total.unwrap_or(0) + slots);
        }
    }
    Ok(total)
}

fn split_entry(entry: &str) -> Result<(&str, u32), String> {
    let (name, slots) = match entry.rsplit_once(':') {
        // An IPv6 address has colons of its own.
        Some((name, slots)) if !name.contains(':') => (name, slots),
        _ => (entry, "1"),
    };
    let slots = slots.parse().map_err(|_| format!("host {entry}: {slots:?} is not a number of slots"))?;
    if name.is_empty() { Err("a host has no name".to_string()) } else { Ok((name, slots)) }
}

fn split_line(line: &str) -> Result<(&str, u32), String> {
    let mut words = line.split_whitespace();
    let (name, mut slots) = split_entry(words.next().unwrap_or(""))?;
    for word in words {
        match word.split_once('=') {
            Some(("slots", number)) => {
                slots = number.parse().map_err(|_| format!("{word}: not a number of slots"))?;
            }
            Some(("max_slots" | "max-slots", _)) => {}
            _ => return Err(format!("{word}: not understood; a line is NAME [slots=N]")),
        }
    }
    Ok((name, slots))
}

fn require_local(name: &str) -> Result<(), String> {
    let own = process::host_name();
    let short = own.split('.').next().unwrap_or("");
    let is_loopback = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if name == "localhost" || name == own || name == short || is_loopback {
        Ok(())
    } else {
        Err(format!("host {name} is not this machine ({own}); jobs on several hosts are not supported yet"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listed: &str, file: &str, expected: Result<Option<u32>, &str>) {
        let listed: Vec<String> = listed.split(',').filter(|x| !x.is_empty()).map(str::to_string).collect();
        let got = local_slots(&listed, &[("hosts".to_string(), file.to_string())]);
        match (got, expected) {
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (got, expected) => assert_eq!(got.ok(), expected.ok(), "{listed:?} {file:?}"),
        }
    }

    #[test]
    fn hosts_are_this_machine_or_refused() {
        check("", "", Ok(None));
        check("localhost", "", Ok(Some(1)));
        check("localhost:4,127.0.0.1", "", Ok(Some(5)));
        check("::1", "", Ok(Some(1)));
        check(&process::host_name(), "", Ok(Some(1)));
        check("elsewhere.example", "", Err("host elsewhere.example is not this machine"));
        check("localhost:many", "", Err("not a number of slots"));
        check("", "# all\nlocalhost slots=3 # here\n\n127.0.0.1:2\n", Ok(Some(5)));
        check("", "localhost\nelsewhere\n", Err("hosts:2: host elsewhere is not"));
        check("", "localhost slot=3\n", Err("hosts:1: slot=3: not understood"));
    }
}
