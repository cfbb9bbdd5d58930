//! Access between the memory of ranks: the declaration of each rank when it joins, and the proof between
//! two of them.
//!
//! Ranks may differ: each may run in a container with namespaces of its own, or under a filter of system
//! calls. Filters need not apply to the launcher. So no process can answer for all. A rank declares once,
//! in its block, the address of a word that no other process has there, its namespaces, and its reach. Its
//! reach is its ability to access the memory of ranks like it. It follows from the kernel's rules and one
//! real read of such a rank, if there is one already.
//!
//! From the declarations of all members, every member of a group derives the same permitted access
//! ([`Job::reach_among`]). Process numbers and addresses exist in every namespace, so they may denote
//! another process. Before a rank uses those of a peer, it proves once that they are the peer's
//! ([`Job::prove`]).

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::Job;
use crate::cma::{self, CopyError, Pid};
use crate::futex;
use crate::kept;
use crate::maps::Maps;
use crate::namespaces::Namespaces;

/// Access of ranks of a node to each other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Reach {
    /// No access at all.
    None = 0,
    /// Access by a system call that copies.
    Call = 1,
    /// Copies, and also loads and stores where an owner has made its pages shared.
    Mapped = 2,
}

/// Declaration of a rank. Its fields are written once, before `word`.
#[derive(Debug)]
#[repr(C)]
pub struct ReachDeclaration {
    /// Process number in the rank's own namespace; 0 before MPI_Init. It stays the same when the rank is
    /// restarted: see [`kept`].
    pid: AtomicI32,
    padding: AtomicU32,
    user_namespace: AtomicU64,
    pid_namespace: AtomicU64,
    /// Address of the proof in the rank's memory; `proof` is its value.
    proof_address: AtomicU64,
    proof: AtomicU64,
    /// Address of the words of [`kept`] in the rank's memory.
    kept_address: AtomicU64,
    /// Class of ranks that can reach each other; see [`Namespaces::class`]. 0 before the fields above are
    /// written.
    class: AtomicU64,
    /// Reach of the rank in the low bits ([`Reach`] plus 1), its class above them; 0 before it has
    /// declared.
    word: AtomicU64,
}

/// Summary of the declarations of a node's ranks. A cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Roll {
    /// Local rank that was the last to enter its class, plus 1.
    latest: AtomicU32,
    /// Number of ranks that have declared.
    declared: AtomicU32,
    /// Not 0 once two ranks have different words.
    differ: AtomicU32,
    /// Word of the rank that declared first.
    common: AtomicU64,
}

/// Statement of a rank about access to its memory.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// Address of a word in the rank's memory that stays valid.
    pub proof_address: u64,
    /// Value of that word, which no other process would have there.
    pub proof: u64,
    /// Reach of the rank, as far as it knows by itself.
    pub reach: Reach,
}

impl Reach {
    /// Returns the reach of a process: `copies` if it can copy from and to others like it, `maps` if it
    /// intends to map their memory.
    pub fn of_process(copies: bool, maps: bool) -> Reach {
        match copies {
            false => Reach::None,
            true if maps && Maps::open().is_ok() => Reach::Mapped,
            true => Reach::Call,
        }
    }
}

const REACH_BITS: u64 = 3;

fn word(class: u64, reach: Reach) -> u64 {
    let class = if reach == Reach::None { 0 } else { class };
    class & !REACH_BITS | (reach as u64 + 1)
}

fn reach_in(word: u64) -> Reach {
    match word & REACH_BITS {
        3 => Reach::Mapped,
        2 => Reach::Call,
        _ => Reach::None,
    }
}

impl Job {
    /// Publishes the declaration of local rank `local`, which is this process. The rank may send nothing
    /// before this call.
    pub fn declare(&self, local: u32, declaration: &Declaration) {
        let standing = &self.block(local).standing;
        let own = Namespaces::own();
        let class = own.class();
        standing.user_namespace.store(own.user, Ordering::Relaxed);
        standing.pid_namespace.store(own.pid, Ordering::Relaxed);
        standing.proof_address.store(declaration.proof_address, Ordering::Relaxed);
        standing.proof.store(declaration.proof, Ordering::Relaxed);
        standing.kept_address.store(kept::address(), Ordering::Relaxed);
        standing.pid.store(std::process::id() as i32, Ordering::Release);
        standing.class.store(class, Ordering::Release);
        // A rank that comes later sees this class: of two ranks of a class, the later one finds the
        // earlier.
        let previous = self.node().roll.latest.swap(local + 1, Ordering::AcqRel);
        let can_reach = declaration.reach != Reach::None
            && self.peer_of_class(local, class, previous).is_none_or(|other| self.prove(other).is_ok());
        let reach = if can_reach { declaration.reach } else { Reach::None };
        self.enter(local, word(class, reach));
    }

    /// Returns another rank of this class, if one has declared already. `previous` is 1 + the rank that is
    /// checked first.
    fn peer_of_class(&self, local: u32, class: u64, previous: u32) -> Option<u32> {
        let is_like = |other: &u32| {
            *other != local && self.block(*other).standing.class.load(Ordering::Acquire) == class
        };
        let others = || (0..self.header().local_ranks).find(is_like);
        previous
            .checked_sub(1)
            .filter(|_| previous <= self.header().local_ranks)
            .and_then(|previous| if is_like(&previous) { Some(previous) } else { others() })
    }

    fn enter(&self, local: u32, word: u64) {
        let roll = &self.node().roll;
        let common = match roll.common.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => word,
            Err(common) => common,
        };
        if common != word {
            roll.differ.store(1, Ordering::Relaxed);
        }
        let before = self.block(local).standing.word.swap(word, Ordering::AcqRel);
        // A second program in the place of a rank is not counted again.
        if before == 0 && roll.declared.fetch_add(1, Ordering::AcqRel) + 1 == self.header().local_ranks {
            futex::wake_all(&roll.declared);
        }
    }

    /// Returns the access of these local ranks to each other's memory. The result is the same for each
    /// caller; `None` while one of them has not declared.
    pub fn reach_among(&self, locals: &[u32]) -> Option<Reach> {
        let roll = &self.node().roll;
        if roll.declared.load(Ordering::Acquire) == self.header().local_ranks
            && roll.differ.load(Ordering::Relaxed) == 0
        {
            return Some(reach_in(roll.common.load(Ordering::Relaxed)));
        }
        let mut words = locals.iter().map(|local| self.block(*local).standing.word.load(Ordering::Acquire));
        let first = words.next()?;
        let mut least = (first != 0).then(|| reach_in(first))?;
        for word in words {
            let reach = (word != 0).then(|| reach_in(word))?;
            let is_alike = word & !REACH_BITS == first & !REACH_BITS;
            least = if is_alike { least.min(reach) } else { Reach::None };
        }
        Some(least)
    }

    /// Sleeps until all ranks of the node have declared or the timeout expires.
    pub fn wait_for_declarations(&self, timeout: Duration) {
        let declared = &self.node().roll.declared;
        let now = declared.load(Ordering::Acquire);
        if now < self.header().local_ranks {
            futex::wait(declared, now, timeout);
        }
    }

    /// Returns the process number of a local rank, after proving that this process can read its memory by
    /// that number. The proof is to read the value that only that rank has.
    ///
    /// # Errors
    /// The reason for which its memory cannot be read.
    pub fn prove(&self, local: u32) -> Result<Pid, CopyError> {
        let standing = &self.block(local).standing;
        let pid = Pid(standing.pid.load(Ordering::Acquire));
        if pid.0 == 0 {
            return Err(CopyError::Gone);
        }
        let (own, other) = (Namespaces::own(), standing.namespaces());
        if !own.share_pids(&other) {
            return Err(CopyError::OtherPids);
        }
        let (address, proof) =
            (standing.proof_address.load(Ordering::Relaxed), standing.proof.load(Ordering::Relaxed));
        match cma::probe(pid, address, proof) {
            Ok(()) => Ok(pid),
            Err(CopyError::Refused) if !own.share_users(&other) => Err(CopyError::OtherUsers),
            Err(error) => Err(error),
        }
    }

    /// Returns address and value of the proof of a local rank, for callers that reach its memory by other
    /// means than its process number.
    pub fn proof(&self, local: u32) -> (u64, u64) {
        let standing = &self.block(local).standing;
        (standing.proof_address.load(Ordering::Relaxed), standing.proof.load(Ordering::Relaxed))
    }

    /// Returns the process number of a local rank, if it denotes the same process here; `None` also before
    /// MPI_Init.
    pub fn pid_of(&self, local: u32) -> Option<i32> {
        let standing = &self.block(local).standing;
        let pid = standing.pid.load(Ordering::Acquire);
        let is_known = pid > 0 && Namespaces::own().share_pids(&standing.namespaces());
        is_known.then(|| kept::current(pid))
    }

    /// Returns the number by which records identify the process of a local rank (0 before MPI_Init), and
    /// the address of its words of [`kept`]. For the daemon.
    pub fn kept(&self, local: u32) -> (i32, u64) {
        let standing = &self.block(local).standing;
        (standing.pid.load(Ordering::Acquire), standing.kept_address.load(Ordering::Relaxed))
    }

    /// Records that the ranks are in this process's namespaces now. For the daemon, after all ranks of one
    /// namespace of processes and users have moved.
    pub fn has_moved(&self) {
        let own = Namespaces::own();
        for local in 0..self.header().local_ranks {
            let standing = &self.block(local).standing;
            if standing.pid.load(Ordering::Acquire) != 0 {
                standing.user_namespace.store(own.user, Ordering::Relaxed);
                standing.pid_namespace.store(own.pid, Ordering::Relaxed);
            }
        }
    }
}

impl ReachDeclaration {
    fn namespaces(&self) -> Namespaces {
        let (user, pid) = (&self.user_namespace, &self.pid_namespace);
        Namespaces { user: user.load(Ordering::Relaxed), pid: pid.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use super::*;

    static PROOF: AtomicU64 = AtomicU64::new(77);

    fn declaration(reach: Reach, proof: u64) -> Declaration {
        Declaration { proof_address: PROOF.as_ptr() as u64, proof, reach }
    }

    fn job(ranks: u32) -> Job {
        Job::create(&Plan::one_host(ranks)).unwrap()
    }

    /// Checks the access within a group of three with these reaches; `None` stands for a rank that has not
    /// declared.
    fn check(reaches: [Option<Reach>; 3], expected: Option<Reach>) {
        let job = job(4);
        for (local, reach) in (0..).zip(reaches) {
            if let Some(reach) = reach {
                job.declare(local, &declaration(reach, 77));
            }
        }
        assert_eq!(job.reach_among(&[0, 1, 2]), expected, "{reaches:?}");
        assert_eq!(job.reach_among(&[2, 0, 1]), expected, "{reaches:?}");
        // The result is the same when all are known.
        job.declare(3, &declaration(Reach::None, 77));
        assert_eq!(job.reach_among(&[0, 1, 2]), expected, "{reaches:?}");
    }

    #[test]
    fn a_group_may_do_what_each_of_its_members_can() {
        use Reach::{Call, Mapped, None};
        check([Some(Mapped); 3], Some(Mapped));
        check([Some(Mapped), Some(Call), Some(Mapped)], Some(Call));
        check([Some(None); 3], Some(None));
        check([Some(None), Some(Call), Some(Call)], Some(None));
        check([Some(Call), Some(None), Some(Call)], Some(None));
        check([Some(Call), Option::None, Some(Call)], Option::None);
        check([Option::None, Some(Mapped), Some(Mapped)], Option::None);
    }

    #[test]
    fn who_cannot_read_one_like_it_reaches_nobody() {
        let job = job(2);
        job.declare(0, &declaration(Reach::Mapped, 78));
        job.declare(1, &declaration(Reach::Mapped, 77));
        assert_eq!(job.prove(0), Err(CopyError::Stranger));
        assert_eq!(job.prove(1), Ok(Pid(std::process::id() as i32)));
        assert_eq!(job.reach_among(&[0, 1]), Some(Reach::None));
    }

    #[test]
    fn ranks_of_other_namespaces_reach_nobody_outside() {
        let job = job(3);
        (0..3).for_each(|local| job.declare(local, &declaration(Reach::Mapped, 77)));
        assert_eq!(job.reach_among(&[0, 1, 2]), Some(Reach::Mapped));
        let job = self::job(3);
        (0..2).for_each(|local| job.declare(local, &declaration(Reach::Mapped, 77)));
        let (own, elsewhere) = (Namespaces::own(), &job.block(2).standing);
        let other = Namespaces { pid: own.pid + 1, ..own };
        elsewhere.user_namespace.store(other.user, Ordering::Relaxed);
        elsewhere.pid_namespace.store(other.pid, Ordering::Relaxed);
        elsewhere.pid.store(std::process::id() as i32, Ordering::Relaxed);
        job.enter(2, word(other.class(), Reach::Mapped));
        assert_eq!(job.reach_among(&[0, 1]), Some(Reach::Mapped));
        assert_eq!(job.reach_among(&[0, 2]), Some(Reach::None));
        let is_known = own.pid != 0;
        assert_eq!(job.prove(2) == Err(CopyError::OtherPids), is_known);
        assert_eq!((job.pid_of(2).is_none(), job.pid_of(1).is_some()), (is_known, true));
    }

    #[test]
    fn nobody_waits_for_those_that_have_declared() {
        let job = job(1);
        assert_eq!((job.prove(0), job.pid_of(0)), (Err(CopyError::Gone), None));
        job.wait_for_declarations(Duration::from_millis(1));
        job.declare(0, &declaration(Reach::Call, 77));
        job.wait_for_declarations(Duration::from_secs(3600));
        // Another program in the same place.
        job.declare(0, &declaration(Reach::Call, 77));
        assert_eq!(job.reach_among(&[0]), Some(Reach::Call));
    }
}
