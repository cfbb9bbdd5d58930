//! The job that this process belongs to, if any: `mpirun ... tutti info` shows the selection of that job.

use tutti_base::Machines;
use tutti_coll::Model;
use tutti_sys::job::{ENV_FD, ENV_RANK, Job};
use tutti_sys::this_process;

/// A rank that never calls MPI.
pub struct OwnJob {
    /// Shared object of the job.
    pub job: Job,
    /// Rank of this process in the job.
    pub rank: u32,
}

impl OwnJob {
    /// Returns the job in which mpirun started this process, or `None` without one.
    ///
    /// # Errors
    /// Fails if the job that the environment names is of another version.
    pub fn find() -> Result<Option<OwnJob>, String> {
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let (Some(fd), Some(rank)) = (number(ENV_FD), number(ENV_RANK)) else { return Ok(None) };
        let job = this_process::adopt_descriptor(fd as i32).and_then(Job::attach);
        let job =
            job.map_err(|error| format!("{ENV_FD}={fd} is no job of this version of Tutti: {error}"))?;
        Ok(Some(OwnJob { job, rank }))
    }

    /// Returns true if the job has ranks on other hosts.
    pub fn has_other_hosts(&self) -> bool {
        self.job.header().has_other_hosts()
    }

    /// Returns the host of each rank.
    pub fn hosts(&self) -> Vec<u32> {
        (0..self.job.header().world_size).map(|rank| self.job.place(rank).host).collect()
    }

    /// Returns the machine of each host; for one host, its processors.
    pub fn machines(&self) -> Machines {
        let header = self.job.header();
        if self.has_other_hosts() {
            self.job.wait_for_machines()
        } else {
            Machines::apart(1, header.processors)
        }
    }

    /// Returns the costs of the machines that the launcher has loaded.
    ///
    /// # Errors
    /// Fails if the text is not a model.
    pub fn model(&self) -> Result<Model, String> {
        Model::parse(std::str::from_utf8(self.job.model()).unwrap_or_default())
            .map_err(|error| error.to_string())
    }
}

/// Formats the output of `tutti info --machines`, for [`read`].
pub fn show(machines: &Machines) -> String {
    let of_host: Vec<String> = machines.of_host.iter().map(ToString::to_string).collect();
    format!("machines of hosts: {}; processors: {}\n", of_host.join(","), machines.processors)
}

/// Parses the output of `tutti info --machines` for a job of `hosts` hosts.
pub fn read(line: &str, hosts: usize) -> Option<Machines> {
    let (of_host, processors) = line.strip_prefix("machines of hosts: ")?.split_once("; processors: ")?;
    let of_host = of_host.split(',').map(|machine| machine.parse().ok()).collect::<Option<Vec<u32>>>()?;
    Machines::from_message(of_host, processors.trim().parse().ok()?, hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, hosts: usize, expected: Option<&[u32]>) {
        let machines = expected.map(|of_host| Machines { of_host: of_host.to_vec(), processors: 4 });
        assert_eq!(read(line, hosts), machines);
        assert!(machines.is_none_or(|machines| show(&machines).trim_end() == line));
    }

    #[test]
    fn machines_are_said_and_read() {
        check("machines of hosts: 0,1,0; processors: 4", 3, Some(&[0, 1, 0]));
        check("machines of hosts: 0,1,0; processors: 4", 2, None);
        check("machines of hosts: 0,x; processors: 4", 2, None);
        check("machines of hosts: 0,1; processors: 0", 2, None);
        check("Tutti", 1, None);
    }
}
