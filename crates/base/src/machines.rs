//! Which hosts of a job are one machine. A host is what ranks share memory on; containers or network namespaces of one machine are
//! several hosts that share its processors, and between them whatever works least is fastest.

/// What a host says of the processors that its ranks run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors {
    /// The same on two hosts exactly if they share all of them.
    pub identity: u64,
    /// How many its ranks may keep busy.
    pub count: u32,
}

/// Which hosts share processors: the same on all ranks of a job, who choose algorithms by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// The machine of each host; numbers are given in the order in which hosts name them.
    pub of_host: Vec<u32>,
    /// Processors of a machine: of the one that has least.
    pub processors: u32,
}

impl Machines {
    /// From what all hosts say, in their order.
    pub fn of(said: &[Processors]) -> Machines {
        let mut known = std::collections::HashMap::new();
        let number = |host: &Processors| {
            let next = known.len() as u32;
            *known.entry(host.identity).or_insert(next)
        };
        let processors = said.iter().map(|host| host.count).min().unwrap_or(1).max(1);
        Machines { of_host: said.iter().map(number).collect(), processors }
    }

    /// Where nothing is known but the number of processors: a machine of its own for each host.
    pub fn apart(hosts: u32, processors: u32) -> Machines {
        Machines { of_host: (0..hosts).collect(), processors: processors.max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &[(u64, u32)], machines: &[u32], processors: u32) {
        let said: Vec<Processors> =
            said.iter().map(|&(identity, count)| Processors { identity, count }).collect();
        assert_eq!(Machines::of(&said), Machines { of_host: machines.to_vec(), processors });
    }

    #[test]
    fn hosts_with_the_same_processors_are_one_machine() {
        check(&[(7, 2), (7, 2), (7, 2)], &[0, 0, 0], 2);
        check(&[(9, 8), (7, 4), (9, 8), (1, 16)], &[0, 1, 0, 2], 4);
        check(&[(1, 0)], &[0], 1);
        assert_eq!(Machines::apart(3, 4), Machines { of_host: vec![0, 1, 2], processors: 4 });
    }
}
