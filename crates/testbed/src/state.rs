//! State of a testbed: its folder, the holders of its hosts, and their processes.
//!
//! The folder is `/run/tutti-testbed/NAME`. A holder is identified by its process number and start time, so
//! that a reused number is not mistaken for it. A testbed whose holders are gone is stale, and the next
//! command removes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tutti_sys::process;

use crate::error::{Result, TestbedError};

/// Folder of the state of all testbeds; visible in all hosts.
const BASE: &str = "/run/tutti-testbed";
const SIGKILL: i32 = 9;
/// Maximum time for killed processes to end.
const GONE: Duration = Duration::from_secs(10);

/// Process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pid {
    pub number: u32,
    /// Start time in clock ticks after the start of the machine.
    pub started: u64,
}

/// Host of a testbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name of the host: n0, n1, ...
    pub name: String,
    /// Network address of the host.
    pub address: String,
    pub(crate) holder: Pid,
}

/// Testbed that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Testbed {
    pub(crate) directory: PathBuf,
    pub(crate) switch: Pid,
    /// Rate of the links in tc's syntax; unlimited if empty.
    pub rate: String,
    /// Hosts in the order of their numbers.
    pub hosts: Vec<Host>,
}

impl Pid {
    /// Returns the process `number` with its start time, if it exists.
    pub fn find(number: u32) -> Option<Pid> {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // The name in parentheses may contain anything. The state is the next field, and the start time the
        // 20th from there.
        let rest: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let dead = matches!(rest.first(), Some(&"Z" | &"X"));
        let started = rest.get(19)?.parse().ok()?;
        (!dead).then_some(Pid { number, started })
    }

    pub fn alive(self) -> bool {
        Pid::find(self.number) == Some(self)
    }

    pub fn kill(self) {
        if self.alive() {
            process::kill(self.number as i32, SIGKILL);
        }
    }
}

impl Host {
    /// Returns the numbers of the processes that run on this host.
    pub fn processes(&self) -> Vec<u32> {
        processes_beside(self.holder.number)
    }

    /// Returns the words that precede a command to run it on this host, in the directory and environment of
    /// this process.
    pub fn enter(&self) -> Vec<String> {
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let pid = self.holder.number.to_string();
        let words = ["nsenter", "-t", &pid, "--net", "--uts", "--ipc", "--mount", "--", "sh", "-c", ENTER];
        words.iter().map(ToString::to_string).chain([here.to_string_lossy().into_owned()]).collect()
    }

    /// Kills all processes of this host.
    ///
    /// # Errors
    /// If some do not end.
    pub(crate) fn kill_processes(&self) -> Result<()> {
        let error = |count| TestbedError::ProcessesLeft { host: self.name.clone(), count };
        kill_beside(self.holder.number).map_err(error)
    }
}

/// Shell script that enters the directory again by name, because mount namespaces have no common directory.
const ENTER: &str = r#"cd "$0" 2>/dev/null || cd /; exec "$@""#;

impl Testbed {
    /// Returns the testbed `name`, if it is running.
    ///
    /// # Errors
    /// If the name is invalid, or the testbed is being built.
    pub fn find(name: &str) -> Result<Option<Testbed>> {
        let directory = directory(name)?;
        let Ok(text) = fs::read_to_string(directory.join("state")) else {
            return match builder(&directory) {
                Some(pid) => Err(TestbedError::BeingBuilt { name: name.to_string(), builder: pid.number }),
                None => Ok(None),
            };
        };
        let found = parse(&directory, &text).ok_or_else(|| TestbedError::DamagedState(directory.clone()))?;
        let alive = found.switch.alive() && found.hosts.iter().all(|host| host.holder.alive());
        Ok(alive.then_some(found))
    }

    /// Returns the testbed `name`, which must be running.
    ///
    /// # Errors
    /// If it is not running.
    pub fn get(name: &str) -> Result<Testbed> {
        Testbed::find(name)?.ok_or_else(|| TestbedError::NotUp(name.to_string()))
    }

    /// Returns the host with this name or address.
    ///
    /// # Errors
    /// If there is none.
    pub fn host(&self, name: &str) -> Result<&Host> {
        let found = self.hosts.iter().find(|host| host.name == name || host.address == name);
        found.ok_or_else(|| TestbedError::NoHost { name: name.to_string(), hosts: self.hosts.len() })
    }

    /// Returns the path of the program that replaces ssh.
    pub fn agent(&self) -> PathBuf {
        self.directory.join("agent")
    }

    pub(crate) fn keep(&self) -> Result<()> {
        let pid = |pid: Pid| format!("{} {}", pid.number, pid.started);
        let mut text =
            format!("switch {} {}\n", pid(self.switch), if self.rate.is_empty() { "-" } else { &self.rate });
        for host in &self.hosts {
            text += &format!("{} {} {}\n", host.name, pid(host.holder), host.address);
        }
        write(&self.directory.join("state"), &text)
    }
}

/// Removes the testbed `name` with all its processes. Missing parts are no error.
///
/// # Errors
/// If a process does not end, or a file cannot be removed.
pub fn down(name: &str) -> Result<()> {
    let directory = directory(name)?;
    if let Some(pid) = builder(&directory) {
        // The holders end by themselves when their input ends.
        pid.kill();
        wait_for(|| !pid.alive());
    }
    let known = fs::read_to_string(directory.join("state")).ok().and_then(|text| parse(&directory, &text));
    for host in known.iter().flat_map(|testbed| &testbed.hosts).filter(|host| host.holder.alive()) {
        host.kill_processes()?;
    }
    let holders: Vec<Pid> = known
        .iter()
        .flat_map(|testbed| testbed.hosts.iter().map(|host| host.holder).chain([testbed.switch]))
        .collect();
    holders.iter().for_each(|holder| holder.kill());
    wait_for(|| !holders.iter().any(|holder| holder.alive()));
    remove(&directory)
}

/// Returns the folder of the testbed `name`.
pub fn directory(name: &str) -> Result<PathBuf> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if name.is_empty() || name.len() > 64 || !name.chars().all(good) {
        return Err(TestbedError::InvalidName(name.to_string()));
    }
    Ok(Path::new(BASE).join(name))
}

/// Returns true if `number` is a holder of the testbed in this folder.
pub fn names(directory: &Path, number: u32) -> bool {
    let text = fs::read_to_string(directory.join("state")).unwrap_or_default();
    let word = number.to_string();
    text.lines().any(|line| line.split(' ').nth(1) == Some(&word))
}

/// Claims the folder for this process to build a testbed; empties a stale one first.
pub fn claim(directory: &Path) -> Result<()> {
    let own = Pid::find(std::process::id()).ok_or(TestbedError::HolderGone(None))?;
    fs::create_dir_all(BASE).map_err(TestbedError::file(BASE))?;
    remove(directory)?;
    fs::create_dir(directory).map_err(TestbedError::file(directory))?;
    write(&directory.join("builder"), &format!("{} {}\n", own.number, own.started))
}

/// Returns the process that is building in this folder now.
fn builder(directory: &Path) -> Option<Pid> {
    let text = fs::read_to_string(directory.join("builder")).ok()?;
    let mut words = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    let pid = Pid { number: u32::try_from(words.next()??).ok()?, started: words.next()?? };
    (pid.alive() && pid.number != std::process::id()).then_some(pid)
}

/// Removes the folder of a testbed that is not being built any more. Another `up` may have claimed it
/// meanwhile.
pub fn abandon(directory: &Path) -> Result<()> {
    if builder(directory).is_some() { Ok(()) } else { remove(directory) }
}

/// Removes a folder, if it exists.
pub fn remove(directory: &Path) -> Result<()> {
    // Ending holders may remove it at the same time, or may have just created a file in it.
    let mut last = Ok(());
    let gone = wait_for(|| {
        last = fs::remove_dir_all(directory);
        !directory.exists()
    });
    match last {
        Err(error) if !gone => Err(TestbedError::file(directory)(error)),
        _ => Ok(()),
    }
}

/// Writes a file atomically: it exists completely or not at all.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("new");
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    written.map_err(TestbedError::file(path))
}

/// Returns the processes in the network namespace of `holder`, except the holder.
fn processes_beside(holder: u32) -> Vec<u32> {
    let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let Some(wanted) = namespace(holder) else { return Vec::new() };
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|&pid| pid != holder && namespace(pid).as_ref() == Some(&wanted)).collect()
}

/// Kills processes beside `holder` until there are none. Returns the number of the remaining ones as an
/// error.
pub fn kill_beside(holder: u32) -> std::result::Result<(), usize> {
    let mut left = Vec::new();
    let done = wait_for(|| {
        left = processes_beside(holder).into_iter().filter_map(Pid::find).collect();
        left.iter().for_each(|pid| pid.kill());
        left.is_empty()
    });
    if done { Ok(()) } else { Err(left.len()) }
}

fn wait_for(mut done: impl FnMut() -> bool) -> bool {
    let limit = Instant::now() + GONE;
    while !done() {
        if Instant::now() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

fn parse(directory: &Path, text: &str) -> Option<Testbed> {
    let mut lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let pid = |words: &[&str]| {
        Some(Pid { number: words.get(1)?.parse().ok()?, started: words.get(2)?.parse().ok()? })
    };
    let first = lines.next()?;
    let host = |words: Vec<&str>| {
        Some(Host { name: words[0].to_string(), address: (*words.get(3)?).to_string(), holder: pid(&words)? })
    };
    Some(Testbed {
        directory: directory.to_path_buf(),
        switch: pid(&first)?,
        rate: first.get(3).filter(|rate| **rate != "-").map_or_else(String::new, ToString::to_string),
        hosts: lines.map(host).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the parsed rate and hosts.
    fn check(text: &str, expected: Option<&str>) {
        let shown = parse(Path::new("/run/x"), text).map(|testbed| {
            let host = |host: &Host| format!(" {} {} {}", host.name, host.address, host.holder.number);
            testbed.rate.clone() + &testbed.hosts.iter().map(host).collect::<String>()
        });
        assert_eq!(shown.as_deref(), expected);
    }

    #[test]
    fn the_state_is_read_back() {
        check(
            "switch 7 70 1gbit\nn0 8 80 10.0.0.1\nn1 9 90 10.0.0.2\n",
            Some("1gbit n0 10.0.0.1 8 n1 10.0.0.2 9"),
        );
        check("switch 7 70 -\n", Some(""));
        check("switch 7\n", None);
        check("switch 7 70 -\nn0 8 80\n", None);
        check("", None);
    }

    #[test]
    fn a_process_is_more_than_its_number() {
        let own = Pid::find(std::process::id()).expect("this process runs");
        assert!(own.alive());
        assert!(!Pid { started: own.started + 1, ..own }.alive());
    }

    #[test]
    fn names_are_simple() {
        assert!(directory("tests-12_a").is_ok());
        assert!(["", "..", "a/b", "a b"].iter().all(|name| directory(name).is_err()));
    }
}
