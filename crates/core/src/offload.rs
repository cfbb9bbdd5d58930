//! Use of the kernel's packet program (S9) by this process, and calls of its operations.
//!
//! A [`OffloadedCall`] is one operation of one group. It is sent to the kernel when the order of operations
//! allows it ([`tutti_coll::lower::Rotation`]). A spinning process finds the result in mapped memory; a
//! sleeping one is woken by a packet. If a result is overdue, this process sends inquiries. Packet programs
//! reply even if their ranks sleep or are stopped. If one is silent for long, it is considered gone and the
//! operation fails.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tutti_base::{Error, ErrorClass, Result};
use tutti_coll::lower::{Next, Operation, Packet, Program, Purpose, Rotation};
use tutti_offload::layout::PORT;
use tutti_offload::seat::{self, Seat};
use tutti_sys::kept;

/// Time after which a rank first inquires about missing packets. It becomes shorter where packets get lost:
/// see [`Pace`]. Useless inquiries cost packets, and processor time of the awaited ranks if hosts share
/// processors.
const FIRST_DOUBT: Duration = Duration::from_millis(2);
/// Shortest time before the first inquiry.
const LEAST_DOUBT: Duration = Duration::from_micros(200);
/// Longest time between two inquiries. The interval doubles each time if the other ranks reply that they wait
/// too.
const LAST_DOUBT: Duration = Duration::from_millis(100);
/// Number of inquiries without reply after which the interval doubles. Before, inquiries or replies may be
/// lost.
const UNANSWERED: u32 = 4;

/// State of the kernel offload of this process: one seat for all its groups.
#[derive(Debug, Default)]
pub struct Kernel {
    seat: Option<std::result::Result<Arc<Seat>, String>>,
    /// Calls that are not complete: group, sequence number, and time of the next inquiry.
    calls: Vec<(Arc<OffloadGroup>, u32, Instant)>,
}

/// Group of ranks, as seen by this rank.
#[derive(Debug)]
pub struct OffloadGroup {
    seat: Arc<Seat>,
    group: seat::Group,
    programs: Vec<Program>,
    rank: u32,
    /// Index of the program of a barrier.
    barrier: u8,
    /// Time of silence after which a packet program is considered gone.
    silence: Duration,
    turns: Mutex<Turns>,
}

/// Time before a rank's first inquiry in a group. It is learned from earlier inquiries: whether packets were
/// lost, or the others only waited too. Many ranks wait for one lost packet, and most of their inquiries are
/// useless. So one success counts as much as several useless inquiries.
#[derive(Debug)]
struct Pace(Duration);

impl Default for Pace {
    fn default() -> Pace {
        Pace(FIRST_DOUBT)
    }
}

impl Pace {
    /// Notes the end of an operation about which there was an inquiry.
    fn asked(&mut self, in_vain: bool) {
        let next = if in_vain { self.0 + self.0 / 8 } else { self.0 / 2 };
        self.0 = next.clamp(LEAST_DOUBT, FIRST_DOUBT);
    }
}

/// Order and timing of a group's operations.
#[derive(Debug, Default)]
struct Turns {
    rotation: Rotation,
    pace: Pace,
    /// Own operations that are not complete.
    open: Vec<u32>,
    /// Barriers that the library has inserted.
    own: Vec<OffloadedCall>,
}

/// Operation that this rank has called.
#[derive(Debug)]
pub struct OffloadedCall {
    packet: Packet,
    /// Sequence number: the call is sent when all operations up to this one are complete here.
    after: u32,
    /// Sequence number of a synchronising operation that must be complete at all members before.
    synchronised: u32,
    doubt: Option<Doubt>,
    /// Time since which some inquiries have no reply.
    silent: Option<Instant>,
}

/// Schedule of inquiries about a call that was sent.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    next: Instant,
    interval: Duration,
    /// Number of inquiries so far.
    asked: u32,
    /// Number of restarts of this process when `next` was set. After a restart the clock may be that of
    /// another host.
    restarts: u32,
}

impl Doubt {
    fn new(called: Instant, interval: Duration) -> Doubt {
        Doubt { next: called + interval, interval, asked: 0, restarts: kept::restarts() }
    }

    /// Returns true if an inquiry is due.
    fn is_due(&self, now: Instant) -> bool {
        now >= self.next || self.restarts != kept::restarts()
    }

    /// Notes an inquiry. `all_wait` is true if all ranks have replied to the last one that they wait too.
    fn again(&mut self, now: Instant, all_wait: bool) {
        if self.asked > 0 && (all_wait || self.asked >= UNANSWERED) {
            self.interval = (2 * self.interval).min(LAST_DOUBT);
        }
        (self.next, self.asked, self.restarts) = (now + self.interval, self.asked + 1, kept::restarts());
    }
}

impl Kernel {
    /// Returns the seat, which is taken at the first call.
    ///
    /// # Errors
    /// The reason for which there is no seat.
    pub fn seat(
        &mut self,
        take: impl FnOnce() -> std::result::Result<Seat, String>,
    ) -> std::result::Result<Arc<Seat>, String> {
        self.seat.get_or_insert_with(|| take().map(Arc::new)).clone()
    }

    /// Attaches to the program of a new host, if this process was restarted from a checkpoint there.
    /// Inquiries about all calls are then due at once, as packets on their way are lost.
    ///
    /// # Errors
    /// The reason for which there is no program.
    pub fn go_on(&mut self) -> Result<()> {
        let Some(Ok(seat)) = &self.seat else { return Ok(()) };
        let has_moved = seat.go_on().map_err(|why| {
            Error::new(
                ErrorClass::Other,
                format!(
                    "`tutti netd` did collectives of this job when its checkpoint was taken, and they cannot go \
                     on here: {why}; restart the job on as many hosts as it had, each with its `tutti netd`"
                ),
            )
        })?;
        if has_moved {
            let now = Instant::now();
            self.calls.iter_mut().for_each(|(_, _, doubt)| *doubt = now);
        }
        Ok(())
    }

    /// Determines the descriptors that a sleep watches, and its end. Returns false if a call is complete
    /// already.
    pub fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>, until: &mut Option<Instant>) -> bool {
        // A rank that waits for nothing may still have packets that others need. Errors concern its next
        // operation only.
        let _ = self.go_on();
        let Some(Ok(seat)) = self.seat.as_ref().filter(|_| !self.calls.is_empty()) else { return true };
        for (place, sequence, _) in &self.calls {
            place.seat.wants_waking(&place.group, *sequence);
        }
        seat.hear();
        descriptors.push(seat.bell().as_raw_fd());
        *until = self.calls.iter().map(|(_, _, doubt)| *doubt).chain(*until).min();
        !self.calls.iter().any(|(place, sequence, _)| place.seat.is_done(&place.group, *sequence))
    }
}

impl OffloadGroup {
    /// Returns a group that the kernel knows, with this rank's program of each operation. `barrier` is the
    /// index of one of them. A packet program that is silent for `silence` is considered gone.
    pub fn new(
        seat: Arc<Seat>,
        group: seat::Group,
        programs: Vec<Program>,
        barrier: u8,
        silence: Duration,
    ) -> OffloadGroup {
        let rank = programs[usize::from(barrier)].rank;
        OffloadGroup { seat, group, programs, rank, barrier, silence, turns: Mutex::default() }
    }

    /// Calls an operation. `synchronises` is true if it can end at no member before all have called it.
    pub fn call(
        self: &Arc<OffloadGroup>,
        kernel: &mut Kernel,
        operation: Operation,
        synchronises: bool,
        data: Vec<u8>,
    ) -> OffloadedCall {
        loop {
            let next = self.turns().rotation.next(synchronises);
            match next {
                Next::SynchroniseFirst => {
                    let barrier = Operation { program: self.barrier, operator: 0, bytes: 0 };
                    let mut call = self.call(kernel, barrier, true, Vec::new());
                    let _ = self.tend(kernel, &mut call);
                    self.turns().own.push(call);
                }
                Next::Take { sequence, after, synchronised } => {
                    let (from, to, purpose) = (self.rank, self.rank, Purpose::Enter);
                    let packet = Packet { sequence, operation, from, to, purpose, data };
                    self.turns().open.push(sequence);
                    return OffloadedCall { packet, after, synchronised, doubt: None, silent: None };
                }
            }
        }
    }

    /// Makes progress with a call. Returns true if it is complete.
    ///
    /// # Errors
    /// An error if members have called different operations, or a packet program is gone.
    pub fn advance(self: &Arc<OffloadGroup>, kernel: &mut Kernel, call: &mut OffloadedCall) -> Result<bool> {
        kernel.go_on()?;
        let mut own = std::mem::take(&mut self.turns().own);
        let tended = own.iter_mut().map(|call| self.tend(kernel, call)).collect::<Result<Vec<bool>>>();
        let mut over = tended?.into_iter();
        own.retain(|_| !over.next().unwrap_or(true));
        self.turns().own.append(&mut own);
        self.tend(kernel, call)
    }

    /// Copies the result of a completed operation to `into`.
    pub fn result(&self, call: &OffloadedCall, into: &mut [u8]) {
        let program = &self.programs[usize::from(call.packet.operation.program)];
        if let Some(area) = program.result.first() {
            self.seat.block(&self.group, call.packet.sequence, *area, into);
        }
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call if its turn has come, checks whether it is complete, and sends inquiries if they are due.
    /// Returns true if the call is complete.
    fn tend(self: &Arc<OffloadGroup>, kernel: &mut Kernel, call: &mut OffloadedCall) -> Result<bool> {
        let sequence = call.packet.sequence;
        let Some(mut doubt) = call.doubt else {
            if !self.may_enter(call) {
                return Ok(false);
            }
            self.seat.send(&self.group, &call.packet);
            let doubt = Doubt::new(Instant::now(), self.turns().pace.0);
            call.doubt = Some(doubt);
            kernel.calls.push((Arc::clone(self), sequence, doubt.next));
            return Ok(self.finish(kernel, sequence, doubt));
        };
        if self.finish(kernel, sequence, doubt) {
            return Ok(true);
        }
        let now = Instant::now();
        if !doubt.is_due(now) {
            return Ok(false);
        }
        let seen = self.seat.look(&self.group, sequence);
        if seen.disputed == sequence {
            return Err(Error::new(
                ErrorClass::Other,
                "the members of the communicator have called different collective operations, or with different sizes",
            ));
        }
        let arrived = if seen.sequence == sequence { seen.arrived } else { 0 };
        call.silent = match doubt.interval < LAST_DOUBT {
            true => None,
            false => self.silent_since(call, (arrived, seen.heard), now)?,
        };
        let program = &self.programs[usize::from(call.packet.operation.program)];
        let entered = arrived & tutti_coll::lower::ENTERED != 0;
        doubt.again(now, entered && program.missing(arrived) & !seen.heard == 0);
        self.ask(&call.packet, arrived);
        call.doubt = Some(doubt);
        let known =
            kernel.calls.iter_mut().find(|(place, known, _)| *known == sequence && Arc::ptr_eq(place, self));
        if let Some((_, _, next)) = known {
            *next = doubt.next;
        }
        Ok(false)
    }

    /// Returns the time since which packet programs with missing messages do not reply, or None if all reply.
    /// The own program counts as silent if it does not accept this process's packets.
    ///
    /// # Errors
    /// An error if the silence is too long.
    fn silent_since(
        &self,
        call: &OffloadedCall,
        (arrived, heard): (u32, u32),
        now: Instant,
    ) -> Result<Option<Instant>> {
        let program = &self.programs[usize::from(call.packet.operation.program)];
        let silent = program.missing(arrived) & !heard;
        let peer = match (arrived & tutti_coll::lower::ENTERED, silent) {
            (0, _) => self.rank,
            (_, 0) => return Ok(None),
            // After a restart, a computing rank has no program until it calls MPI.
            _ if self.seat.has_moved() => return Ok(None),
            (_, silent) => program.events[silent.trailing_zeros() as usize].peer,
        };
        let since = call.silent.unwrap_or(now);
        if now < since + self.silence {
            return Ok(Some(since));
        }
        Err(Error::new(
            ErrorClass::Other,
            format!(
                "the packet program of the host of rank {peer} is silent for {:.1?}: it is gone, or \
                 packets of UDP port {PORT} do not get through any more (TUTTI_OFFLOAD=off does without it)",
                now - since
            ),
        ))
    }

    /// Repeats packets that the kernel has not received, and requests those that are missing.
    fn ask(&self, call: &Packet, arrived: u32) {
        self.seat.forget_heard(&self.group, call.sequence);
        if arrived & tutti_coll::lower::ENTERED == 0 {
            self.seat.send(&self.group, call);
        }
        for (to, rule) in self.programs[usize::from(call.operation.program)].overdue(arrived) {
            let purpose = Purpose::Ask { rule };
            self.seat.send(&self.group, &Packet { to, purpose, data: Vec::new(), ..*call });
        }
    }

    /// Returns true if all operations before this call are complete.
    fn may_enter(&self, call: &OffloadedCall) -> bool {
        let synchronised = call.synchronised == 0 || self.seat.is_done(&self.group, call.synchronised);
        synchronised && self.turns().open.iter().all(|open| *open > call.after)
    }

    /// Returns true if an operation is complete. Its state is then removed.
    fn finish(self: &Arc<OffloadGroup>, kernel: &mut Kernel, sequence: u32, doubt: Doubt) -> bool {
        let is_done = self.seat.is_done(&self.group, sequence);
        if is_done {
            let mut turns = self.turns();
            turns.open.retain(|open| *open != sequence);
            if doubt.asked > 0 {
                turns.pace.asked(self.seat.look(&self.group, sequence).heard != 0);
            }
            kernel.calls.retain(|(place, known, _)| *known != sequence || !Arc::ptr_eq(place, self));
        }
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn it_is_asked_sooner_where_packets_get_lost() {
        let check = |in_vain: &[bool], expected_us: u128| {
            let mut pace = Pace::default();
            in_vain.iter().for_each(|in_vain| pace.asked(*in_vain));
            assert_eq!(pace.0.as_micros(), expected_us, "{in_vain:?}");
        };
        check(&[], 2000);
        check(&[true; 9], 2000);
        check(&[false], 1000);
        check(&[false, true], 1125);
        check(&[false; 9], 200);
        let some = [&[false; 9][..], &[true; 30]].concat();
        check(&some, 2000);
    }

    #[test]
    fn who_waits_is_asked_less_and_less() {
        let check = |answers: &[bool], expected_us: &[u128]| {
            let mut now = Instant::now();
            let mut doubt = Doubt::new(now, 200 * US);
            let mut pauses = Vec::new();
            for answer in answers {
                now = doubt.next;
                doubt.again(now, *answer);
                pauses.push((doubt.next - now).as_micros());
            }
            assert_eq!(pauses, expected_us, "{answers:?}");
        };
        check(&[false, true, true], &[200, 400, 800]);
        check(&[false, false, true, false], &[200, 200, 400, 400]);
        check(&[false; 7], &[200, 200, 200, 200, 400, 800, 1600]);
        let mut long = vec![100_000; 20];
        (0..9).for_each(|place| long[place] = 200 << place);
        check(&[true; 20], &long);
    }
}
