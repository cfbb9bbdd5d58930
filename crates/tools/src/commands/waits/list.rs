//! Programs of `bench/waits.c`, in families. One job of each library measures all programs of a family.

use crate::measure::library::Library;
use crate::measure::programs::Programs;
use crate::measure::session::Ask;
use std::path::PathBuf;
use std::str::FromStr;

/// Programs that follow each other in one job.
pub struct Family {
    /// The names, as `waits.c` knows them.
    pub names: &'static [&'static str],
    /// The least number of ranks that it takes.
    pub least_ranks: u32,
    /// Whether the family needs threads (`waits-threads.c`).
    pub in_threads: bool,
    /// Default number of things to count: objects or seconds. 0 if there is nothing to count.
    pub count: u32,
    /// Whether the family is by default also measured together with eight busy shells of the same session.
    pub beside_shells: bool,
    /// Whether the implementation depends on knowledge about the network.
    pub by_network: bool,
}

const ANY: Family = Family {
    names: &[],
    least_ranks: 2,
    in_threads: false,
    count: 0,
    beside_shells: false,
    by_network: false,
};

/// All families. Programs about objects are ordered such that two successive ones use the same objects.
pub const FAMILIES: [Family; 11] = [
    Family {
        names: &["ring_iprobe", "ring_improbe", "ring_test", "ring_testany", "ring_recv"],
        least_ranks: 1,
        ..ANY
    },
    Family { names: &["nothing_iprobe", "nothing_test", "nothing_flush"], least_ranks: 1, ..ANY },
    Family { names: &["threads_iprobe", "threads_fetch"], least_ranks: 1, in_threads: true, ..ANY },
    Family { names: &["put_barrier", "put_compute"], ..ANY },
    Family { names: &["pscw_create", "pscw_allocate", "pscw_empty"], ..ANY },
    Family { names: &["idle_nothing"], ..ANY },
    Family {
        names: &[
            "idle_windows",
            "probe_windows",
            "idle_communicators",
            "probe_communicators",
            "idle_requests",
            "probe_requests",
            "idle_ports",
            "probe_ports",
        ],
        count: 1000,
        ..ANY
    },
    Family { names: &["many_windows", "many_communicators"], count: 100, ..ANY },
    Family { names: &["one_window", "one_communicator"], ..ANY },
    Family {
        names: &[
            "barrier",
            "allgather",
            "allreduce",
            "alltoall",
            "alltoall_empty",
            "bcast_roots",
            "compute_allreduce",
            "compute_ring",
        ],
        beside_shells: true,
        by_network: true,
        ..ANY
    },
    Family { names: &["long_wait"], count: 1, ..ANY },
];

impl Family {
    /// Returns the path of the program for `library`.
    pub fn program(&self, programs: &Programs, library: &Library) -> PathBuf {
        programs.path_of(self.source(), library)
    }

    /// Returns the name of the family's C file.
    pub fn source(&self) -> &'static str {
        if self.in_threads { "waits-threads" } else { "waits" }
    }

    /// Returns the requests for all programs that `only` names, or for all programs if it is empty.
    pub fn asks(&self, only: &[Wanted], mode: &str) -> Vec<Ask> {
        let ask = |name: &str, count: u32| Ask {
            op: name.to_string(),
            mode: mode.to_string(),
            bytes: u64::from(count),
        };
        let of_name = |name: &&'static str| -> Vec<Ask> {
            if only.is_empty() {
                return vec![ask(name, self.count)];
            }
            let wanted = only.iter().filter(|wanted| wanted.takes(name));
            wanted.map(|wanted| ask(name, wanted.count.unwrap_or(self.count))).collect()
        };
        self.names.iter().flat_map(of_name).collect()
    }
}

/// Programs that the user requests: a name or its beginning, and the number of objects (`idle_windows@100`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    name: String,
    count: Option<u32>,
}

impl Wanted {
    fn takes(&self, name: &str) -> bool {
        let exact = FAMILIES.iter().any(|family| family.names.contains(&self.name.as_str()));
        if exact { name == self.name } else { name.starts_with(&self.name) }
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let (name, count) = match text.split_once('@') {
            None => (text, None),
            Some((name, count)) => {
                (name, Some(count.parse().map_err(|_| format!("{count:?} in {text} is not a number"))?))
            }
        };
        let wanted = Wanted { name: name.to_string(), count };
        let mut names = FAMILIES.iter().flat_map(|family| family.names);
        if names.any(|known| wanted.takes(known)) {
            return Ok(wanted);
        }
        let all: Vec<&str> = FAMILIES.iter().flat_map(|family| family.names).copied().collect();
        Err(format!("no program is called {name}; there are {}", all.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(only: &str, expected: &str) {
        let wanted: Vec<Wanted> = only.split(',').map(|word| word.parse().unwrap()).collect();
        let shown: Vec<String> = FAMILIES
            .iter()
            .flat_map(|family| family.asks(&wanted, "alone"))
            .map(|ask| format!("{}@{}", ask.op, ask.bytes))
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn programs_are_asked_for_by_name_or_by_its_beginning() {
        check("alltoall", "alltoall@0");
        check("pscw,ring_recv", "ring_recv@0 pscw_create@0 pscw_allocate@0 pscw_empty@0");
        check(
            "idle_ports,idle_windows@10,idle_windows@20",
            "idle_windows@10 idle_windows@20 idle_ports@1000",
        );
        assert!("nobody".parse::<Wanted>().unwrap_err().contains("ring_iprobe, "));
        assert!("idle_ports@many".parse::<Wanted>().unwrap_err().contains("not a number"));
    }

    #[test]
    fn the_list_is_that_of_the_c_file() {
        let source = include_str!("../../../bench/waits.c");
        let known = source.lines().filter_map(|line| line.trim().strip_prefix("{\"")?.split('"').next());
        let mut known: Vec<&str> = known.collect();
        let mut listed: Vec<&str> = FAMILIES.iter().flat_map(|family| family.names).copied().collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(known, listed);
    }
}
