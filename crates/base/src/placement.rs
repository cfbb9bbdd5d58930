//! Placement of the ranks of a job on its hosts.
//!
//! Launchers place ranks in long runs (all slots of a host, then the next host) or round robin. A job may
//! have a million ranks. So a placement is a list of runs, in memory and in messages to other hosts. The
//! local ranks of a host are numbered in the order of their ranks in the world.

/// Some neighbouring ranks on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the host.
    pub host: u32,
    /// Number of ranks in the run; at least 1.
    pub ranks: u32,
}

/// Host and local rank of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankPlace {
    /// Number of the host.
    pub host: u32,
    /// Local rank: the number among the ranks of that host.
    pub local: u32,
}

/// The hosts of all ranks of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    runs: Vec<Run>,
    hosts: u32,
    ranks: u32,
}

impl Placement {
    /// Returns the placement of all `ranks` on one host.
    ///
    /// # Panics
    /// Panics without a rank, as every job has one.
    pub fn one_host(ranks: u32) -> Placement {
        Placement::from_runs([Run { host: 0, ranks }]).expect("one host, some ranks")
    }

    /// Builds a placement from the hosts of all ranks in the order of the world. Returns `None` if
    /// [`Placement::from_runs`] does.
    pub fn from_hosts(hosts: impl IntoIterator<Item = u32>) -> Option<Placement> {
        Placement::from_runs(hosts.into_iter().map(|host| Run { host, ranks: 1 }))
    }

    /// Builds a placement from runs in the order of ranks, and joins neighbours on the same host. Returns
    /// `None` without ranks, or with more ranks than `u32` counts. Each host number below the greatest must
    /// have a rank, as hosts without ranks are not part of a job.
    pub fn from_runs(runs: impl IntoIterator<Item = Run>) -> Option<Placement> {
        let mut joined: Vec<Run> = Vec::new();
        let (mut ranks, mut last) = (0u32, 0u32);
        for run in runs {
            ranks = ranks.checked_add(run.ranks)?;
            last = last.max(run.host);
            match joined.last_mut() {
                _ if run.ranks == 0 => return None,
                Some(before) if before.host == run.host => before.ranks += run.ranks,
                _ => joined.push(run),
            }
        }
        let hosts = last.checked_add(1)?;
        let mut seen = vec![false; (hosts as usize).min(joined.len() + 1)];
        joined.iter().try_for_each(|run| seen.get_mut(run.host as usize).map(|seen| *seen = true))?;
        (ranks > 0 && seen.iter().all(|seen| *seen)).then_some(Placement { runs: joined, hosts, ranks })
    }

    /// Returns the runs, in the order of ranks, no two neighbours on the same host.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Returns the number of hosts in the job.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Returns the number of ranks in the job.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns host and local rank of all ranks, in the order of the world.
    pub fn places(&self) -> impl Iterator<Item = RankPlace> + '_ {
        let mut next_local = vec![0u32; self.hosts as usize];
        let hosts = self.runs.iter().flat_map(|run| std::iter::repeat_n(run.host, run.ranks as usize));
        hosts.map(move |host| {
            let local = next_local[host as usize];
            next_local[host as usize] += 1;
            RankPlace { host, local }
        })
    }

    /// Ranks in the world of those on `host`, by local rank.
    pub fn ranks_on(&self, host: u32) -> Vec<u32> {
        let mut first = 0;
        let mut ranks = Vec::new();
        for run in &self.runs {
            if run.host == host {
                ranks.extend(first..first + run.ranks);
            }
            first += run.ranks;
        }
        ranks
    }

    /// Returns host and local rank of `rank`, or `None` if there is no such rank. Takes time in the number of
    /// runs.
    pub fn place(&self, rank: u32) -> Option<RankPlace> {
        let mut first = 0;
        let at = self.runs.iter().position(|run| {
            first += run.ranks;
            rank < first
        })?;
        let run = self.runs[at];
        let before: u32 =
            self.runs[..at].iter().filter(|other| other.host == run.host).map(|other| other.ranks).sum();
        Some(RankPlace { host: run.host, local: before + rank - (first - run.ranks) })
    }

    /// Returns the host of `rank`, or `None` if there is no such rank.
    pub fn host_of(&self, rank: u32) -> Option<u32> {
        self.place(rank).map(|place| place.host)
    }

    /// Returns the local rank of `rank`, or `None` if there is no such rank.
    pub fn local_of(&self, rank: u32) -> Option<u32> {
        self.place(rank).map(|place| place.local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the placement of ranks on `hosts`: host and local rank of each.
    fn check(hosts: &[u32], expected: Option<&[(u32, u32)]>) {
        let placement = Placement::from_hosts(hosts.iter().copied());
        let pair = |place: RankPlace| (place.host, place.local);
        let got = placement.as_ref().map(|placement| placement.places().map(pair).collect::<Vec<_>>());
        assert_eq!(got.as_deref(), expected, "{hosts:?}");
        let Some(placement) = placement else { return };
        for (rank, place) in (0..).zip(placement.places()) {
            assert_eq!(placement.place(rank), Some(place), "rank {rank} of {hosts:?}");
            assert_eq!(placement.ranks_on(place.host)[place.local as usize], rank);
        }
        assert_eq!((placement.place(placement.ranks()), placement.ranks()), (None, hosts.len() as u32));
    }

    #[test]
    fn local_ranks_follow_the_ranks_in_the_world() {
        check(&[0, 0, 0], Some(&[(0, 0), (0, 1), (0, 2)]));
        check(&[0, 0, 1, 1], Some(&[(0, 0), (0, 1), (1, 0), (1, 1)]));
        check(&[0, 1, 0, 1, 1], Some(&[(0, 0), (1, 0), (0, 1), (1, 1), (1, 2)]));
        check(&[1, 0], Some(&[(1, 0), (0, 0)]));
    }

    #[test]
    fn a_host_without_ranks_is_no_part_of_a_job() {
        check(&[], None);
        check(&[1, 1], None);
        check(&[0, u32::MAX], None);
    }

    #[test]
    fn neighbours_are_one_run() {
        assert_eq!(Placement::from_hosts([0, 0, 1]).unwrap().runs().len(), 2);
        assert_eq!(Placement::one_host(5).runs(), [Run { host: 0, ranks: 5 }]);
    }
}
