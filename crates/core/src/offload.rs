//! What this process has of the kernel's packet program (S9), and its calls of operations there.
//!
//! A [`Call`] is one operation of one group: it is sent to the kernel when its turn has come
//! ([`tutti_coll::lower::Rotation`]), looked for in mapped memory by who spins, and told by a packet to who
//! sleeps. What is overdue is asked for again. Interfaces whose ranks sleep or are stopped answer that they
//! wait too; one that says nothing for long is gone, and with it the operation.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tutti_base::{Error, ErrorClass, Result};
use tutti_coll::lower::{Next, Operation, Packet, Program, Purpose, Rotation};
use tutti_offload::layout::PORT;
use tutti_offload::seat::{self, Seat};

/// After so long a rank asks for what it misses, and after twice as long each further time.
const FIRST_DOUBT: Duration = Duration::from_millis(2);
/// Never later than that.
const LAST_DOUBT: Duration = Duration::from_millis(100);

/// What the process has: one seat for all its groups.
#[derive(Debug, Default)]
pub struct Kernel {
    seat: Option<std::result::Result<Arc<Seat>, String>>,
    /// Operations that have been called and are not over.
    calls: Vec<(Arc<OffloadGroup>, u32, Instant)>,
}

/// A group of ranks, as this one sees it.
#[derive(Debug)]
pub struct OffloadGroup {
    seat: Arc<Seat>,
    group: seat::Group,
    programs: Vec<Program>,
    rank: u32,
    /// The program of a barrier.
    barrier: u8,
    /// Who says nothing for so long is gone.
    silence: Duration,
    turns: Mutex<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    rotation: Rotation,
    /// Own operations that are not over.
    open: Vec<u32>,
    /// Barriers of the library's own.
    own: Vec<Call>,
}

/// An operation that this rank has called.
#[derive(Debug)]
pub struct Call {
    packet: Packet,
    /// It is sent when all up to this one are over here.
    after: u32,
    /// And this one, which all had to call.
    synchronised: u32,
    doubt: Option<(Instant, Duration)>,
    /// Since when not all answer that are asked.
    silent: Option<Instant>,
}

impl Kernel {
    /// The seat, which is asked for once.
    ///
    /// # Errors
    /// Why there is none.
    pub fn seat(
        &mut self,
        take: impl FnOnce() -> std::result::Result<Seat, String>,
    ) -> std::result::Result<Arc<Seat>, String> {
        self.seat.get_or_insert_with(|| take().map(Arc::new)).clone()
    }

    /// Before a sleep: writes down what wakes, and until when; false if something is over already.
    pub fn before_sleep(&self, descriptors: &mut Vec<RawFd>, until: &mut Option<Instant>) -> bool {
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
    /// A group that the kernel knows, with the own program of each operation; `barrier` is one of them.
    /// Who says nothing for `silence` is gone.
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

    /// Calls an operation; `synchronises`: it ends nowhere before all have called it.
    pub fn call(
        self: &Arc<OffloadGroup>,
        kernel: &mut Kernel,
        operation: Operation,
        synchronises: bool,
        data: Vec<u8>,
    ) -> Call {
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
                    return Call { packet, after, synchronised, doubt: None, silent: None };
                }
            }
        }
    }

    /// Moves a call on; whether it is over.
    ///
    /// # Errors
    /// Members have called different operations.
    pub fn advance(self: &Arc<OffloadGroup>, kernel: &mut Kernel, call: &mut Call) -> Result<bool> {
        let mut own = std::mem::take(&mut self.turns().own);
        let tended = own.iter_mut().map(|call| self.tend(kernel, call)).collect::<Result<Vec<bool>>>();
        let mut over = tended?.into_iter();
        own.retain(|_| !over.next().unwrap_or(true));
        self.turns().own.append(&mut own);
        self.tend(kernel, call)
    }

    /// A block of an operation that is over.
    pub fn result(&self, call: &Call, into: &mut [u8]) {
        let program = &self.programs[usize::from(call.packet.operation.program)];
        if let Some(area) = program.result.first() {
            self.seat.block(&self.group, call.packet.sequence, *area, into);
        }
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tend(self: &Arc<OffloadGroup>, kernel: &mut Kernel, call: &mut Call) -> Result<bool> {
        let (packet, sequence) = (&call.packet, call.packet.sequence);
        let Some((doubt, interval)) = call.doubt else {
            if !self.may_enter(call) {
                return Ok(false);
            }
            self.seat.send(&self.group, packet);
            let doubt = Instant::now() + FIRST_DOUBT;
            call.doubt = Some((doubt, FIRST_DOUBT));
            kernel.calls.push((Arc::clone(self), sequence, doubt));
            return Ok(self.finish(kernel, sequence));
        };
        if self.finish(kernel, sequence) {
            return Ok(true);
        }
        let now = Instant::now();
        if now < doubt {
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
        call.silent = match interval < LAST_DOUBT {
            true => None,
            false => self.silent_since(call, (arrived, seen.heard), now)?,
        };
        self.ask(packet, arrived);
        let interval = (2 * interval).min(LAST_DOUBT);
        call.doubt = Some((now + interval, interval));
        let known =
            kernel.calls.iter_mut().find(|(place, known, _)| *known == sequence && Arc::ptr_eq(place, self));
        if let Some((_, _, doubt)) = known {
            *doubt = now + interval;
        }
        Ok(false)
    }

    /// Since when not all answer whose messages are missing, or this host's own program does not take what
    /// this process sends.
    ///
    /// # Errors
    /// It is too long.
    fn silent_since(
        &self,
        call: &Call,
        (arrived, heard): (u32, u32),
        now: Instant,
    ) -> Result<Option<Instant>> {
        let program = &self.programs[usize::from(call.packet.operation.program)];
        let silent = program.missing(arrived) & !heard;
        let peer = match (arrived & tutti_coll::lower::ENTERED, silent) {
            (0, _) => self.rank,
            (_, 0) => return Ok(None),
            (_, silent) => program.events[silent.trailing_zeros() as usize].peer,
        };
        let since = call.silent.unwrap_or(now);
        if now < since + self.silence {
            return Ok(Some(since));
        }
        Err(Error::new(
            ErrorClass::Other,
            format!(
                "the packet program of the host of rank {peer} is silent for {:.1} seconds: it is gone, or \
                 packets of UDP port {PORT} do not get through any more (TUTTI_OFFLOAD=off does without it)",
                (now - since).as_secs_f64()
            ),
        ))
    }

    /// Sends again what the kernel does not know, and asks for what it has not got.
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

    fn may_enter(&self, call: &Call) -> bool {
        let synchronised = call.synchronised == 0 || self.seat.is_done(&self.group, call.synchronised);
        synchronised && self.turns().open.iter().all(|open| *open > call.after)
    }

    /// Whether an operation is over; then it is forgotten.
    fn finish(self: &Arc<OffloadGroup>, kernel: &mut Kernel, sequence: u32) -> bool {
        let is_done = self.seat.is_done(&self.group, sequence);
        if is_done {
            self.turns().open.retain(|open| *open != sequence);
            kernel.calls.retain(|(place, known, _)| *known != sequence || !Arc::ptr_eq(place, self));
        }
        is_done
    }
}
