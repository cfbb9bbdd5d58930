//! MPI programs that follow one another in the same ranks: `mpirun sh -c './a; ./b'`, or an exec after
//! MPI_Finalize.
//!
//! The n-th MPI program of a rank belongs to generation n. Each generation has an object of its own, in a
//! [slot](super::Slot) of the same memory, with the layout of the first one. So nothing of an earlier
//! program disturbs a later one. The first rank of a host to reach a generation creates its object; the
//! others find it. Ranks may be in different generations: one may still run the first program while another
//! starts the second.
//!
//! An object is freed once every rank of the host has gone beyond its generation. The first object stays:
//! it has the data that all generations share, and the word with the generation of each rank.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::shared_words::parts;
use super::slots::SLOT_SHIFT;
use super::{Header, Job, RankState};
use crate::memory::Mapping;
use crate::regions;

impl Header {
    /// Returns a number that is different for all generations of all jobs.
    pub fn world_id(&self) -> u64 {
        // The multiplier is odd, so that different generations have different numbers.
        self.job_id ^ u64::from(self.generation).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Job {
    /// Returns the object for the MPI program that now starts in local rank `local`. `self` is the first
    /// object.
    ///
    /// # Errors
    /// AlreadyExists if another process of this rank has called MPI_Init and not MPI_Finalize. StorageFull
    /// if the rank is [`MOST_GENERATIONS`](super::MOST_GENERATIONS) programs ahead of another one of its
    /// host. Other errors are the system's.
    pub fn join(self, local: u32) -> io::Result<Job> {
        let now = self.generation_of(local);
        let later = self.later(now)?;
        let block = later.as_ref().unwrap_or(&self).block(local);
        match block.state() {
            RankState::Started => return Ok(self.followed_by(later)),
            RankState::Running | RankState::Aborted => return Err(io::ErrorKind::AlreadyExists.into()),
            // A process that executed another program had no time to enter this state.
            RankState::Finalized | RankState::Left => block.set_state(RankState::Finalized),
        }
        let next = now.checked_add(1).ok_or(io::ErrorKind::StorageFull)?;
        regions::alone(&self, || self.begin(local, next))??;
        let object = self.later(next)?;
        Ok(self.followed_by(object))
    }

    /// Returns the later object if there is one, which keeps this one as the first of its node.
    fn followed_by(self, later: Option<Job>) -> Job {
        match later {
            Some(later) => Job { first: Some(Box::new(self)), ..later },
            None => self,
        }
    }

    /// Returns the object that local rank `local` uses now, for other processes; `None` if it is the first
    /// one.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn object_of(&self, local: u32) -> io::Result<Option<Job>> {
        self.later(self.generation_of(local))
    }

    /// Returns the object that rank `world` uses now, if it runs on this host, otherwise the first one.
    /// `self` is the first object of the node.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn used_by(self, world: u32) -> io::Result<Job> {
        let local = (world < self.header.world_size).then(|| self.local_rank(world)).flatten();
        let later = local.map_or(Ok(None), |local| self.object_of(local))?;
        Ok(self.followed_by(later))
    }

    /// Returns the generation of the program that local rank `local` runs.
    pub fn generation_of(&self, local: u32) -> u32 {
        self.first().block(local).generation.load(Ordering::Acquire)
    }

    /// Maps the object of a later generation; returns `None` for the first one.
    pub fn later(&self, generation: u32) -> io::Result<Option<Job>> {
        if generation == 0 {
            return Ok(None);
        }
        let slot = self.first().node().generations.slot_of(generation).ok_or(io::ErrorKind::NotFound)?;
        let object = Job::attach_at(self.fd().try_clone_to_owned()?, u64::from(slot) << SLOT_SHIFT)?;
        let is_its = object.header.generation == generation;
        if is_its { Ok(Some(object)) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Moves local rank `local` to a generation, and creates its object if there is none yet. The caller
    /// ensures that no other process does so at the same time.
    fn begin(&self, local: u32, generation: u32) -> io::Result<()> {
        let generations = &self.node().generations;
        if generations.slot_of(generation).is_none() {
            let free = generations.0.iter().find(|word| word.load(Ordering::Relaxed) == 0);
            let free = free.ok_or(io::ErrorKind::StorageFull)?;
            let slot = self.take_slot()?;
            let made = self.make(generation, slot);
            if made.is_err() {
                self.give_slot_back(slot);
                return made;
            }
            free.store(u64::from(generation) << 32 | u64::from(slot), Ordering::Release);
        }
        self.block(local).generation.store(generation, Ordering::Release);
        let earliest = (0..self.header.local_ranks).map(|other| self.generation_of(other)).min().unwrap_or(0);
        for word in &generations.0 {
            let (number, slot) = parts(word.load(Ordering::Relaxed));
            if number != 0 && number < earliest {
                word.store(0, Ordering::Release);
                self.give_slot_back(slot);
            }
        }
        Ok(())
    }

    /// Creates the object of a generation in a slot whose memory is zero.
    fn make(&self, generation: u32, slot: u32) -> io::Result<()> {
        let header = Header { generation, ..self.header };
        let bytes = usize::try_from(header.regions_offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        if header.regions_offset + header.banks.area_bytes > 1 << SLOT_SHIFT {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mapping = Mapping::range(self.fd().as_fd(), u64::from(slot) << SLOT_SHIFT, bytes)?;
        let texts = header.machine_offset as usize..header.rings_offset as usize;
        // SAFETY: the new object has the layout of this one, and no other process knows it yet. Texts and
        // tables of this one do not change any more. The machines of hosts do, but they are read from the
        // first object only.
        unsafe {
            regions::initialise(mapping.base().add(header.table_offset as usize).as_ptr())?;
            let (from, to) = (self.mapping.base().add(texts.start), mapping.base().add(texts.start));
            to.copy_from_nonoverlapping(from, texts.len());
            mapping.base().cast::<Header>().write(header);
        }
        drop(mapping);
        let object = Job::attach_at(self.fd().try_clone_to_owned()?, u64::from(slot) << SLOT_SHIFT)?;
        for local in 0..header.local_ranks {
            let (from, to) = (self.block(local), object.block(local));
            to.set_places(from.places());
            to.app_number.store(from.app_number.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{MOST_GENERATIONS, Plan};

    fn join(job: &Job, local: u32) -> io::Result<Job> {
        Job::attach(job.fd().try_clone_to_owned().unwrap()).unwrap().join(local)
    }

    #[test]
    fn each_program_has_an_object_of_its_own() {
        let plan = Plan { machine: b"text".to_vec(), ..Plan::one_host(2) };
        let job = Job::create(&plan).unwrap();
        job.block(1).app_number.store(7, Ordering::Relaxed);
        let one = join(&job, 0).unwrap();
        assert_eq!((one.header().generation, one.header().world_id()), (0, one.header().job_id));
        one.block(0).set_state(RankState::Running);
        assert_eq!(join(&job, 0).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        one.block(0).set_state(RankState::Left);
        let two = join(&job, 0).unwrap();
        assert_eq!((two.header().generation, two.machine(), job.generation_of(0)), (1, &b"text"[..], 1));
        assert_ne!(two.header().world_id(), one.header().world_id());
        assert_eq!((one.block(0).state(), two.block(0).state()), (RankState::Finalized, RankState::Started));
        assert_eq!(two.block(1).app_number.load(Ordering::Relaxed), 7);
        // The other rank still runs the first program, and finds the same second one later.
        let other = join(&job, 1).unwrap();
        assert_eq!(other.header().generation, 0);
        other.block(1).set_state(RankState::Finalized);
        let other = join(&job, 1).unwrap();
        two.block(0).set_waiting("here");
        assert_eq!(other.block(0).waiting().as_deref(), Some("here"));
        assert_eq!(job.object_of(1).unwrap().map(|object| object.header().generation), Some(1));
    }

    #[test]
    fn objects_are_given_back_when_all_ranks_have_gone_on() {
        let job = Job::create(&Plan::one_host(2)).unwrap();
        let next = |local: u32| {
            let object = join(&job, local)?;
            object.block(local).set_state(RankState::Finalized);
            io::Result::Ok(object.header().generation)
        };
        for generation in 0..3 * MOST_GENERATIONS as u32 {
            assert_eq!((next(0).unwrap(), next(1).unwrap()), (generation, generation));
        }
        // One rank that is far ahead.
        let ahead = std::iter::from_fn(|| next(0).ok()).count();
        assert_eq!(ahead, MOST_GENERATIONS - 1);
        assert_eq!(next(0).unwrap_err().kind(), io::ErrorKind::StorageFull);
        next(1).unwrap();
        next(0).unwrap();
    }
}
