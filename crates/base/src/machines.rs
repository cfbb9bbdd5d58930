//! Grouping of the hosts of a job by machine. Ranks of one host share memory. Containers and network
//! namespaces of a machine count as several hosts that share its processors. Between them the algorithm with
//! the least work is the fastest.

/// Report of a host about the processors of its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors {
    /// Identity of the machine: equal on two hosts exactly if they share all processors.
    pub identity: u64,
    /// Number of processors that the ranks of the host may keep busy.
    pub count: u32,
}

/// Upper limit for numbers of processors, above that of any machine. Greater values are reduced to it, so
/// that sums over hosts do not overflow.
const MOST_PROCESSORS: u32 = 1 << 16;

/// Machine of each host. It is equal on all ranks of a job, which select algorithms by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// Machine of each host. Machines are numbered in the order of the first host on each.
    pub of_host: Vec<u32>,
    /// Number of processors of the smallest machine.
    pub processors: u32,
}

impl Machines {
    /// Builds the table from the reports of all hosts, in their order.
    pub fn from_reports(said: &[Processors]) -> Machines {
        let mut known = std::collections::HashMap::new();
        let number = |host: &Processors| {
            let next = known.len() as u32;
            *known.entry(host.identity).or_insert(next)
        };
        let of_host = said.iter().map(number).collect();
        Machines { of_host, processors: possible(said.iter().map(|host| host.count).min().unwrap_or(1)) }
    }

    /// Builds the table from values that another process has sent, for a job of `hosts` hosts. Returns `None`
    /// if they are out of range.
    pub fn from_message(of_host: Vec<u32>, processors: u32, hosts: usize) -> Option<Machines> {
        let fits = of_host.len() == hosts && of_host.iter().all(|machine| (*machine as usize) < hosts);
        (fits && processors == possible(processors)).then_some(Machines { of_host, processors })
    }

    /// Returns the table for unknown hosts: each is a machine of its own with `processors` processors.
    pub fn apart(hosts: u32, processors: u32) -> Machines {
        Machines { of_host: (0..hosts).collect(), processors: possible(processors) }
    }

    /// Returns the table of a job whose hosts are all one machine with `processors` processors.
    pub fn shared(hosts: u32, processors: u32) -> Machines {
        Machines { of_host: vec![0; hosts as usize], processors: possible(processors) }
    }
}

fn possible(processors: u32) -> u32 {
    processors.clamp(1, MOST_PROCESSORS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &[(u64, u32)], machines: &[u32], processors: u32) {
        let said: Vec<Processors> =
            said.iter().map(|&(identity, count)| Processors { identity, count }).collect();
        assert_eq!(Machines::from_reports(&said), Machines { of_host: machines.to_vec(), processors });
    }

    #[test]
    fn hosts_with_the_same_processors_are_one_machine() {
        check(&[(7, 2), (7, 2), (7, 2)], &[0, 0, 0], 2);
        check(&[(9, 8), (7, 4), (9, 8), (1, 16)], &[0, 1, 0, 2], 4);
        check(&[(1, 0)], &[0], 1);
        check(&[(1, u32::MAX)], &[0], MOST_PROCESSORS);
        assert_eq!(Machines::apart(3, 4), Machines { of_host: vec![0, 1, 2], processors: 4 });
        assert_eq!(Machines::shared(3, 4), Machines { of_host: vec![0; 3], processors: 4 });
    }

    fn check_said(of_host: &[u32], processors: u32, hosts: usize, is_possible: bool) {
        let said = Machines::from_message(of_host.to_vec(), processors, hosts);
        let expected = Machines { of_host: of_host.to_vec(), processors };
        assert_eq!(said, is_possible.then_some(expected));
    }

    #[test]
    fn what_cannot_be_is_not_taken() {
        check_said(&[0, 1, 0], 2, 3, true);
        check_said(&[0, 1], 2, 3, false);
        check_said(&[0, 1, 3], 2, 3, false);
        check_said(&[0, 1, 0], 0, 3, false);
        check_said(&[0, 1, 0], u32::MAX, 3, false);
    }
}
