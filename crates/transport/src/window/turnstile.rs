//! Lock of MPI_Win_lock in shared memory: shared or exclusive, granted in the order of requests (a ticket
//! lock).
//!
//! A requester takes a ticket. A ticket for shared access is admitted when all before it have been admitted
//! and none of them is exclusive; one for exclusive access when all before it have left. Two counters record
//! that: `admitted` counts the tickets that a shared one need not wait for, `left` those that have left.
//! Requests never wait, so a process can request on behalf of another one on another host.
//!
//! A waiter looks at its counter and sleeps between looks. Beside its ticket stands the process to wake, for
//! the one that moves a counter to it. There are fewer places for names than there may be tickets, so a name
//! may be that of a later ticket: a name is a hint, and a sleep has a limit.

use tutti_base::sync::{AtomicU32, Ordering};

/// Number of places for the names of waiters.
const NAMES: usize = if cfg!(loom) { 1 } else { 64 };

/// Ticket lock with shared and exclusive access.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Turnstile {
    next: AtomicU32,
    admitted: AtomicU32,
    left: AtomicU32,
    names: [AtomicU32; NAMES],
}

/// Position in the queue of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    number: u32,
    kind: Kind,
}

/// Access that a ticket requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Shared access, with others that share (MPI_LOCK_SHARED).
    Shared,
    /// Exclusive access (MPI_LOCK_EXCLUSIVE).
    Exclusive,
}

impl Default for Turnstile {
    fn default() -> Turnstile {
        Turnstile {
            next: AtomicU32::new(0),
            admitted: AtomicU32::new(0),
            left: AtomicU32::new(0),
            names: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl Turnstile {
    /// Takes a place; `name` is who is to be woken for it.
    #[inline]
    pub fn ask(&self, kind: Kind, name: u32) -> Ticket {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.names[number as usize % NAMES].store(name, Ordering::SeqCst);
        Ticket { number, kind }
    }

    /// Returns true if the ticket is let in now. Once it is, `leave` has to follow; it is not asked again.
    #[inline]
    pub fn enter(&self, ticket: Ticket) -> bool {
        match ticket.kind {
            Kind::Exclusive => self.left.load(Ordering::SeqCst) == ticket.number,
            Kind::Shared => {
                let mine = self.admitted.load(Ordering::SeqCst) == ticket.number;
                if mine {
                    // Nobody else moves the counter away from this ticket.
                    self.admitted.store(ticket.number.wrapping_add(1), Ordering::SeqCst);
                }
                mine
            }
        }
    }

    /// Gives the place of a ticket that was let in to others.
    #[inline]
    pub fn leave(&self, ticket: Ticket) {
        if ticket.kind == Kind::Exclusive {
            self.admitted.store(ticket.number.wrapping_add(1), Ordering::SeqCst);
        }
        self.left.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the name of the ticket that has the lock alone or is the next that enters. Returns `None` if
    /// there is no such ticket, or some share the lock.
    pub fn sole_holder(&self) -> Option<u32> {
        let (admitted, left) = (self.admitted.load(Ordering::SeqCst), self.left.load(Ordering::SeqCst));
        let is_asked = (self.next.load(Ordering::SeqCst).wrapping_sub(left) as i32) > 0;
        (admitted == left && is_asked).then(|| self.names[left as usize % NAMES].load(Ordering::SeqCst))
    }

    /// Returns the processes to wake after a ticket was admitted or has left, as far as any waits.
    #[inline]
    pub fn next_in_turn(&self) -> impl Iterator<Item = u32> + '_ {
        let asked = self.next.load(Ordering::SeqCst);
        let (admitted, left) = (self.admitted.load(Ordering::SeqCst), self.left.load(Ordering::SeqCst));
        let second = (left != admitted).then_some(left);
        std::iter::once(admitted)
            .chain(second)
            .filter(move |ticket| (asked.wrapping_sub(*ticket) as i32) > 0)
            .map(|ticket| self.names[ticket as usize % NAMES].load(Ordering::SeqCst))
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test; clippy does not see that through the second condition")]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_the_lock_alone_is_known() {
        let door = Turnstile::default();
        assert_eq!(door.sole_holder(), None);
        let [one, shared, other] = [(Kind::Exclusive, 5), (Kind::Shared, 6), (Kind::Shared, 7)]
            .map(|(kind, name)| door.ask(kind, name));
        assert!(door.enter(one) && !door.enter(shared));
        assert_eq!(door.sole_holder(), Some(5));
        door.leave(one);
        assert!(door.enter(shared) && door.enter(other));
        assert_eq!(door.sole_holder(), None, "two share it");
        door.leave(other);
        door.leave(shared);
        assert_eq!(door.sole_holder(), None);
    }

    /// Runs steps: `aN` and `AN` ask for N shared or exclusive, `eN` enters (`+`) or not (`-`), `lN` leaves,
    /// followed by whom to wake.
    fn check(steps: &str, expected: &str) {
        let (door, mut tickets, mut out) = (Turnstile::default(), [None; 10], Vec::new());
        for step in steps.split_whitespace() {
            let name: u32 = step[1..].parse().unwrap();
            let ticket = &mut tickets[name as usize];
            match &step[..1] {
                "a" => *ticket = Some(door.ask(Kind::Shared, name)),
                "A" => *ticket = Some(door.ask(Kind::Exclusive, name)),
                "e" => out.push(if door.enter(ticket.unwrap()) { "+".into() } else { "-".into() }),
                _ => {
                    door.leave(ticket.unwrap());
                    out.push(door.next_in_turn().map(|name| name.to_string()).collect::<String>());
                }
            }
        }
        assert_eq!(out.join(" "), expected, "{steps}");
    }

    #[test]
    fn places_are_taken_in_order() {
        // Who is inside already may be woken too.
        check("a1 e1 a2 e2 l1 l2", "+ + 2 ");
        check("A1 e1 A2 e2 l1 e2 l2", "+ - 2 + ");
        // An exclusive one waits for those that share, and who comes after it waits for it.
        check("a1 e1 A2 a3 a4 e2 e3 l1 e2 l2 e3 e4 l3 l4", "+ - - 2 + 3 + + 4 ");
        check("A1 a2 e1 e2 l1 e2 A3 e3 l2 e3", "+ - 2 + - 3 +");
        // Shared ones leave in any order.
        check("a1 a2 A3 e1 e2 l2 e3 l1 e3", "+ + 32 - 3 +");
    }

    #[test]
    fn a_name_that_was_overwritten_harms_nobody() {
        let door = Turnstile::default();
        let first = door.ask(Kind::Exclusive, 7);
        let rest: Vec<Ticket> = (0..100).map(|name| door.ask(Kind::Exclusive, name)).collect();
        assert!(door.enter(first));
        door.leave(first);
        for ticket in rest {
            assert!(door.enter(ticket));
            door.leave(ticket);
        }
        assert_eq!(door.next_in_turn().count(), 0);
    }
}
