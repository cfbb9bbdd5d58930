//! Rules for granting programs and connections to users.

use std::net::Ipv4Addr;
use std::str::FromStr;

use tutti_offload::layout::PEERS;

/// Maximum number of programs at a time on a host: each inspects every packet.
pub const MOST_JOBS: usize = 16;
/// Maximum number of programs at a time of one user, so that no user takes all of them.
pub const MOST_JOBS_OF_USER: usize = 12;
/// Maximum number of connections at a time, with and without a program.
pub const MOST_CONNECTIONS: usize = 256;
/// Maximum number of connections at a time of one user, including those that hang while they are closed.
pub const MOST_CONNECTIONS_OF_USER: usize = 32;

/// Set of hosts to which jobs may send: `10.1.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: Ipv4Addr,
    bits: u32,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
        let wrong = || format!("{text:?} is no network, as 10.1.0.0/16 is one");
        let (address, bits) = (address.parse().map_err(|_| wrong())?, bits.parse().map_err(|_| wrong())?);
        if bits <= 32 { Ok(Network { address, bits }) } else { Err(wrong()) }
    }
}

impl Network {
    fn has(&self, host: Ipv4Addr) -> bool {
        let differs = self.address.to_bits() ^ host.to_bits();
        differs.checked_shr(32 - self.bits).unwrap_or(0) == 0
    }
}

/// Rank that has a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Number of the rank's job.
    pub job: u32,
    /// User who runs the rank.
    pub user: u32,
}

/// Checks if a rank may get a program in addition to the `holders` that have one.
///
/// # Errors
/// The reason for a refusal.
pub fn may_begin(asks: Holder, holders: &[Holder]) -> Result<(), String> {
    if holders.iter().any(|holder| holder.job == asks.job && holder.user != asks.user) {
        return Err(format!("job {:#x} is that of another user", asks.job));
    }
    if holders.iter().any(|holder| holder.job == asks.job) {
        return Err("another rank of the job on this host has its program: one rank a host".into());
    }
    if holders.len() >= MOST_JOBS {
        return Err(format!("{MOST_JOBS} jobs of this host have programs, and no more are loaded"));
    }
    if holders.iter().filter(|holder| holder.user == asks.user).count() >= MOST_JOBS_OF_USER {
        return Err(format!(
            "{MOST_JOBS_OF_USER} jobs of user {} have programs, and no more are loaded",
            asks.user
        ));
    }
    Ok(())
}

/// Returns true if a user may have another connection. `connected` has the users of all connections.
pub fn may_connect(user: u32, connected: &[u32]) -> bool {
    let own = connected.iter().filter(|other| **other == user).count();
    connected.len() < MOST_CONNECTIONS && own < MOST_CONNECTIONS_OF_USER
}

/// Checks if a group may have these peers. `allowed` has the networks to which jobs may send; if it is
/// empty, all hosts of the link are allowed.
///
/// # Errors
/// The reason for a refusal.
pub fn may_join(peers: &[(u32, Ipv4Addr)], allowed: &[Network]) -> Result<(), String> {
    if peers.len() > PEERS {
        return Err(format!("a rank has to do with {} others, {PEERS} fit", peers.len()));
    }
    for (_, host) in peers {
        if host.is_multicast() || host.is_broadcast() || host.is_loopback() || host.is_unspecified() {
            return Err(format!("{host} is no host"));
        }
        if !allowed.is_empty() && !allowed.iter().any(|network| network.has(*host)) {
            return Err(format!("{host} is in none of the networks that netd was told to allow"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(peers: &[&str], allowed: &[&str], expected: Result<(), &str>) {
        let peers: Vec<_> = peers.iter().map(|host| (0, host.parse().unwrap())).collect();
        let allowed: Vec<Network> = allowed.iter().map(|network| network.parse().unwrap()).collect();
        match (may_join(&peers, &allowed), expected) {
            (Ok(()), Ok(())) => {}
            (Err(told), Err(expected)) => assert!(told.contains(expected), "{told}"),
            (told, expected) => panic!("{told:?} is not {expected:?}"),
        }
    }

    #[test]
    fn hosts_that_were_not_granted_are_refused() {
        check(&["10.1.2.3"], &[], Ok(()));
        check(&["10.1.2.3"], &["10.2.0.0/16", "10.1.0.0/16"], Ok(()));
        check(&["10.1.2.3", "10.3.0.1"], &["10.1.0.0/16"], Err("10.3.0.1 is in none"));
        check(&["10.1.2.3"], &["10.1.2.4"], Err("in none"));
        check(&["127.0.0.1"], &["0.0.0.0/0"], Err("no host"));
        check(&["224.0.0.1"], &[], Err("no host"));
        check(&["10.1.2.3"; PEERS + 1], &[], Err("32 fit"));
        assert!("10.1.2/16".parse::<Network>().is_err() && "10.1.2.3/33".parse::<Network>().is_err());
    }

    #[test]
    fn jobs_keep_apart() {
        let held = [Holder { job: 1, user: 100 }];
        assert_eq!(may_begin(Holder { job: 2, user: 100 }, &held), Ok(()));
        assert!(may_begin(Holder { job: 1, user: 101 }, &held).unwrap_err().contains("another user"));
        assert!(may_begin(Holder { job: 1, user: 100 }, &held).unwrap_err().contains("one rank a host"));
        let full: Vec<_> = (0..MOST_JOBS as u32).map(|job| Holder { job, user: job }).collect();
        assert!(may_begin(Holder { job: 99, user: 99 }, &full).is_err());
        let greedy: Vec<_> = (0..MOST_JOBS_OF_USER as u32).map(|job| Holder { job, user: 1 }).collect();
        assert!(may_begin(Holder { job: 99, user: 1 }, &greedy).unwrap_err().contains("of user 1"));
        assert_eq!(may_begin(Holder { job: 99, user: 2 }, &greedy), Ok(()));
    }

    #[test]
    fn connections_of_one_user_do_not_keep_others_out() {
        let many = [1; MOST_CONNECTIONS_OF_USER];
        assert_eq!(
            (may_connect(1, &many[1..]), may_connect(1, &many), may_connect(2, &many)),
            (true, false, true)
        );
        let all: Vec<u32> = (0..MOST_CONNECTIONS as u32).collect();
        assert!(!may_connect(1000, &all));
    }
}
