//! Data of the job object about other hosts: the place of each rank, and the addresses of the ranks of this
//! host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tutti_base::{Machines, Placement, RankPlace};

use super::{ADDRESS_BYTES, Header, INTERFACE_BYTES, Job, RankBlock};

/// Time between two checks if the grouping of hosts into machines is known.
const LOOK: Duration = Duration::from_micros(50);

/// Returns the length of the tables of places in bytes. They have the world ranks of the local ranks. In a
/// job of several hosts, they also have the place of each rank and the machine of each host.
pub(super) fn table_bytes(local_ranks: u32, world_size: u32, hosts: u32) -> u64 {
    let words = if hosts > 1 { 2 * u64::from(world_size) + u64::from(hosts) } else { 0 };
    (u64::from(local_ranks) + words) * size_of::<u32>() as u64
}

/// Returns the tables in the format of the object.
pub(super) fn table(placement: &Placement, host: u32) -> Vec<u32> {
    let mut words = placement.ranks_on(host);
    if placement.hosts() > 1 {
        words.extend(placement.places().flat_map(|place| [place.host, place.local]));
    }
    words
}

/// Returns `name` in the format of the header. A name that is too long for an address is treated as empty.
pub(super) fn interface_bytes(name: &str) -> [u8; INTERFACE_BYTES] {
    let mut bytes = [0; INTERFACE_BYTES];
    if let Some(room) = bytes.get_mut(..name.len()) {
        room.copy_from_slice(name.as_bytes());
    }
    bytes
}

impl Header {
    /// Returns the address of this host that its ranks use and listen on; empty when there is no choice to
    /// make.
    pub fn interface(&self) -> &str {
        let end = self.interface.iter().position(|&byte| byte == 0).unwrap_or(INTERFACE_BYTES);
        std::str::from_utf8(&self.interface[..end]).unwrap_or("")
    }

    /// Returns true if the job has ranks on other hosts.
    pub fn has_other_hosts(&self) -> bool {
        self.hosts > 1
    }
}

impl Job {
    /// Returns the world rank of local rank `local`.
    ///
    /// # Panics
    /// If there is no such rank: a bug of the caller.
    #[inline]
    pub fn world_rank(&self, local: u32) -> u32 {
        assert!(local < self.header.local_ranks, "local rank {local} of {}", self.header.local_ranks);
        self.table_word(local as usize)
    }

    /// Returns the host and local rank of rank `world`.
    ///
    /// # Panics
    /// If there is no such rank: a bug of the caller.
    #[inline]
    pub fn place(&self, world: u32) -> RankPlace {
        assert!(world < self.header.world_size, "rank {world} of {}", self.header.world_size);
        if self.header.hosts == 1 {
            return RankPlace { host: 0, local: world };
        }
        let at = self.header.local_ranks as usize + 2 * world as usize;
        RankPlace { host: self.table_word(at), local: self.table_word(at + 1) }
    }

    /// Returns the local rank of rank `world`, if it runs on this host.
    ///
    /// # Panics
    /// If there is no such rank: a bug of the caller.
    #[inline]
    pub fn local_rank(&self, world: u32) -> Option<u32> {
        let place = self.place(world);
        (place.host == self.header.host).then_some(place.local)
    }

    /// Returns the block of rank `world`, if it runs on this host.
    ///
    /// # Panics
    /// If there is no such rank: a bug of the caller.
    pub fn block_of(&self, world: u32) -> Option<&RankBlock> {
        self.local_rank(world).map(|local| self.block(local))
    }

    /// Sets the bells of the local ranks: eventfds, by local rank. May be called once.
    ///
    /// # Panics
    /// If their number is not that of the local ranks: a bug of the caller.
    pub fn set_bells(&self, bells: Vec<OwnedFd>) {
        assert_eq!(bells.len(), self.header.local_ranks as usize, "a bell a rank");
        self.bells.set(bells).expect("bells are given once");
    }

    /// Returns the bell of local rank `local`, in a job that has bells.
    pub fn bell(&self, local: u32) -> Option<BorrowedFd<'_>> {
        self.bells.get()?.get(local as usize).map(AsFd::as_fd)
    }

    /// Publishes the grouping of hosts into machines, which must be the same on all hosts, in a job of
    /// several hosts. A list of the wrong length is ignored. A second call is ignored too, because ranks
    /// may already have chosen algorithms by the first.
    pub fn set_machines(&self, machines: &Machines) {
        let first = self.first();
        let is_known = first.node().machine_processors.load(Ordering::Relaxed) > 0;
        if is_known || machines.of_host.len() != self.header.hosts as usize || !self.header.has_other_hosts()
        {
            return;
        }
        for (word, machine) in first.machine_words().iter().zip(&machines.of_host) {
            word.store(*machine, Ordering::Relaxed);
        }
        first.node().machine_processors.store(machines.processors.max(1), Ordering::Release);
    }

    /// Returns the grouping of hosts into machines, once it is known. It is never known in a job of one
    /// host.
    pub fn machines(&self) -> Option<Machines> {
        let first = self.first();
        let processors = first.node().machine_processors.load(Ordering::Acquire);
        let of_host = || first.machine_words().iter().map(|word| word.load(Ordering::Relaxed)).collect();
        (processors > 0).then(|| Machines { of_host: of_host(), processors })
    }

    /// Waits for the grouping of hosts into machines, and returns it. It is known soon after all daemons
    /// have joined. If one never joins, the launcher ends the job, and this process with it.
    ///
    /// # Panics
    /// In a job of one host: a bug of the caller.
    pub fn wait_for_machines(&self) -> Machines {
        assert!(self.header.has_other_hosts(), "of one host nobody says which machine it is");
        loop {
            match self.machines() {
                Some(machines) => return machines,
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// Returns the machine of each host, in a job of several hosts.
    fn machine_words(&self) -> &[AtomicU32] {
        let (local_ranks, world_size) = (self.header.local_ranks as usize, self.header.world_size as usize);
        let hosts = if self.header.has_other_hosts() { self.header.hosts as usize } else { 0 };
        let first = local_ranks + 2 * world_size;
        // SAFETY: the words follow the places inside the tables, which create and attach have checked to
        // lie inside the mapping, four bytes aligned. They are accessed as atomics only.
        unsafe {
            let words = self.mapping.base().add(self.header.places_offset as usize).cast::<AtomicU32>();
            std::slice::from_raw_parts(words.add(first).as_ptr(), hosts)
        }
    }

    #[inline]
    fn table_word(&self, index: usize) -> u32 {
        // SAFETY: the callers' indices lie in the tables, which create and attach have checked to lie
        // inside the mapping, four bytes aligned. They were written before any rank was started and never
        // after.
        unsafe { self.mapping.base().add(self.header.places_offset as usize).cast::<u32>().add(index).read() }
    }
}

impl RankBlock {
    /// Publishes the address by which other hosts reach this rank. May be called once.
    ///
    /// # Panics
    /// If the address is empty or longer than [`ADDRESS_BYTES`]: a bug of the caller.
    pub fn set_address(&self, address: &[u8]) {
        assert!(
            !address.is_empty() && address.len() <= ADDRESS_BYTES,
            "an address of {} bytes",
            address.len()
        );
        for (room, byte) in self.address.iter().zip(address) {
            room.store(*byte, Ordering::Relaxed);
        }
        self.address_bytes.store(address.len() as u32, Ordering::Release);
    }

    /// Returns the address, once the rank has published one.
    pub fn address(&self) -> Option<Vec<u8>> {
        let bytes = self.address_bytes.load(Ordering::Acquire) as usize;
        let address = self.address.get(..bytes).filter(|address| !address.is_empty())?;
        Some(address.iter().map(|byte| byte.load(Ordering::Relaxed)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::plan_on;
    use super::*;

    /// Checks the world ranks of the local ranks of `host`; `hosts` has the host of each rank.
    fn check(hosts: &[u32], host: u32, expected: &[u32]) {
        let placement = Placement::from_hosts(hosts.iter().copied()).unwrap();
        let made = Job::create(&plan_on(placement.clone(), host)).unwrap();
        let job = Job::attach(made.fd().try_clone_to_owned().unwrap()).unwrap();
        let header = job.header();
        assert_eq!((header.hosts, header.host), (placement.hosts(), host));
        let ranks: Vec<u32> = (0..header.local_ranks).map(|local| job.world_rank(local)).collect();
        assert_eq!(ranks, expected);
        for (rank, place) in (0..).zip(placement.places()) {
            assert_eq!(job.place(rank), place);
            assert_eq!(job.local_rank(rank), (place.host == host).then_some(place.local));
        }
    }

    #[test]
    fn every_rank_has_its_place() {
        check(&[0, 0, 0], 0, &[0, 1, 2]);
        check(&[0, 0, 1, 1], 1, &[2, 3]);
        check(&[0, 1, 2, 0, 1, 2], 2, &[2, 5]);
    }

    #[test]
    fn machines_are_known_to_all_once_they_are_said() {
        let check = |hosts: &[u32], said: &[u32], expected: bool| {
            let placement = Placement::from_hosts(hosts.iter().copied()).unwrap();
            let made = Job::create(&plan_on(placement, 0)).unwrap();
            let job = Job::attach(made.fd().try_clone_to_owned().unwrap()).unwrap();
            let machines = Machines { of_host: said.to_vec(), processors: 2 };
            assert_eq!(job.machines(), None);
            made.set_machines(&machines);
            assert_eq!(job.machines(), expected.then_some(machines.clone()));
            assert!(!expected || job.wait_for_machines().processors == 2);
            made.set_machines(&Machines { of_host: vec![0; said.len()], processors: 3 });
            assert_eq!(job.machines(), expected.then_some(machines));
            assert_eq!(job.world_rank(0), 0);
        };
        check(&[0, 0, 1, 2], &[0, 1, 0], true);
        check(&[0, 1], &[0, 0, 0], false);
        check(&[0, 0], &[0], false);
    }

    #[test]
    fn an_address_is_there_once_it_is_published() {
        let job = Job::create(&plan_on(Placement::one_host(2), 0)).unwrap();
        assert_eq!(job.block(1).address(), None);
        job.block(1).set_address(b"somewhere");
        assert_eq!(
            (job.block(1).address().as_deref(), job.block(0).address()),
            (Some(&b"somewhere"[..]), None)
        );
        assert_eq!(job.header().interface(), "10.0.0.1");
    }
}
