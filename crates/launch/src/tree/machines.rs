//! Processors of the hosts of a subtree, gathered until all hosts have reported. The root computes from them
//! which hosts are one machine.

use std::collections::BTreeMap;

use tutti_base::Machines;
use tutti_base::machines::Processors;

use super::message::HostProcessors;

/// Reports that have arrived so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Report of this host; empty until it is known.
    pub own: Vec<HostProcessors>,
    of_children: BTreeMap<u32, Vec<HostProcessors>>,
    is_passed_on: bool,
}

impl Gathered {
    /// Records the report of a child's subtree. Only the first one counts.
    pub fn hear(&mut self, child: u32, said: Vec<HostProcessors>) {
        if !self.is_passed_on {
            self.of_children.entry(child).or_insert(said);
        }
    }

    /// Returns all reports, once, when they are complete. Needed are those of `children` children, and of
    /// this host if `says` is true.
    pub fn complete(&mut self, says: bool, children: usize) -> Option<Vec<HostProcessors>> {
        let is_complete = self.of_children.len() == children && (!says || !self.own.is_empty());
        if self.is_passed_on || !is_complete {
            return None;
        }
        self.is_passed_on = true;
        let of_children = std::mem::take(&mut self.of_children).into_values().flatten();
        Some(std::mem::take(&mut self.own).into_iter().chain(of_children).collect())
    }
}

/// Returns which of the hosts are one machine. If a host reported twice or not at all, each host is a machine
/// of its own, as all ranks wait for a reply.
pub(super) fn from_reports(said: &[HostProcessors], hosts: usize) -> Machines {
    let least = said.iter().map(|host| host.count).min().unwrap_or(1);
    in_order(said, hosts)
        .map_or_else(|| Machines::apart(hosts as u32, least), |all| Machines::from_reports(&all))
}

/// Returns the reports in the order of hosts; None unless each host has reported once.
fn in_order(said: &[HostProcessors], hosts: usize) -> Option<Vec<Processors>> {
    let mut all: Vec<Option<Processors>> = vec![None; hosts];
    for &HostProcessors { host, identity, count } in said {
        let place = all.get_mut(host as usize).filter(|place| place.is_none())?;
        *place = Some(Processors { identity, count });
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &[(u32, u64)], hosts: usize, expected: &[u32]) {
        let said: Vec<HostProcessors> =
            said.iter().map(|&(host, identity)| HostProcessors { host, identity, count: 2 }).collect();
        assert_eq!(from_reports(&said, hosts), Machines { of_host: expected.to_vec(), processors: 2 });
    }

    #[test]
    fn every_host_says_what_it_is_once() {
        check(&[(1, 5), (0, 6), (2, 6)], 3, &[0, 1, 0]);
        check(&[(1, 5), (0, 5)], 3, &[0, 1, 2]);
        check(&[(1, 5), (0, 5), (1, 5)], 2, &[0, 1]);
        check(&[(0, 5), (2, 5)], 2, &[0, 1]);
    }

    #[test]
    fn nothing_is_passed_on_before_all_have_spoken() {
        let host = |host| HostProcessors { host, identity: 1, count: 2 };
        let mut gathered = Gathered::default();
        assert_eq!(gathered.complete(true, 1), None);
        gathered.own = vec![host(0)];
        assert_eq!(gathered.complete(true, 1), None);
        gathered.hear(3, vec![host(1)]);
        gathered.hear(3, vec![host(7)]);
        assert_eq!(gathered.complete(true, 1), Some(vec![host(0), host(1)]));
        assert_eq!(gathered.complete(true, 1), None);
    }
}
