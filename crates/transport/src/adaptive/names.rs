//! Names of connections: small numbers below the limit of connections, each with the time of its last use.

use std::time::Duration;

use super::action::ConnectionId;

#[derive(Clone, Copy, Debug)]
struct Slot {
    pair: u32,
    used: Duration,
    /// True if the connection carries datagrams.
    is_contact: bool,
}

#[derive(Debug)]
pub(super) struct Names {
    limit: usize,
    /// Number of connections that carry datagrams, followed by its limit.
    contacts: usize,
    most_contacts: usize,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Names that were returned, while the driver may not know it yet.
    resting: Vec<u32>,
    most: usize,
}

impl Names {
    pub(super) fn new(limit: usize, most_contacts: usize) -> Names {
        Names {
            limit,
            contacts: 0,
            most_contacts,
            slots: Vec::new(),
            free: Vec::new(),
            resting: Vec::new(),
            most: 0,
        }
    }

    /// Connections that there are, without those that carry datagrams.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len() - self.resting.len() - self.contacts
    }

    /// Returns the number of connections that carry datagrams.
    pub(super) fn contacts(&self) -> usize {
        self.contacts
    }

    pub(super) fn any(&self) -> bool {
        self.count() + self.contacts > 0
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns true if the limit of connections is reached.
    pub(super) fn is_full(&self) -> bool {
        self.count() + self.resting.len() >= self.limit
    }

    /// Returns a free name for a connection of this pair.
    pub(super) fn take(&mut self, pair: usize, now: Duration) -> Option<ConnectionId> {
        if self.is_full() {
            return None;
        }
        let name = self.give_out(pair, now, false);
        self.most = self.most.max(self.count());
        Some(name)
    }

    /// Returns a free name for a connection that carries the datagrams of this pair.
    pub(super) fn take_contact(&mut self, pair: usize, now: Duration) -> Option<ConnectionId> {
        if self.contacts >= self.most_contacts {
            return None;
        }
        self.contacts += 1;
        Some(self.give_out(pair, now, true))
    }

    /// Returns true if a connection carries datagrams.
    pub(super) fn is_contact(&self, connection: ConnectionId) -> bool {
        self.slot(connection).is_some_and(|slot| slot.is_contact)
    }

    fn give_out(&mut self, pair: usize, now: Duration, is_contact: bool) -> ConnectionId {
        let name = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[name as usize] = Some(Slot { pair: pair as u32, used: now, is_contact });
        ConnectionId(name)
    }

    fn slot(&self, connection: ConnectionId) -> Option<&Slot> {
        self.slots.get(connection.0 as usize)?.as_ref()
    }

    /// Returns the name of a connection that is gone.
    pub(super) fn give(&mut self, connection: ConnectionId) {
        if let Some(&Slot { is_contact, .. }) = self.slot(connection) {
            self.contacts -= usize::from(is_contact);
            self.slots[connection.0 as usize] = None;
            self.resting.push(connection.0);
        }
    }

    /// Makes returned names usable again. Called when the driver has carried out all requests.
    pub(super) fn recycle(&mut self) {
        self.free.append(&mut self.resting);
    }

    pub(super) fn pair_of(&self, connection: ConnectionId) -> Option<usize> {
        self.slot(connection).map(|slot| slot.pair as usize)
    }

    #[inline]
    pub(super) fn used(&mut self, connection: ConnectionId, now: Duration) {
        if let Some(Some(slot)) = self.slots.get_mut(connection.0 as usize) {
            slot.used = now;
        }
    }

    /// Pairs whose connection was not used since `before`, the one that was not used for longest first: those
    /// that carry datagrams, or the others.
    pub(super) fn idle(&self, before: Duration, contacts: bool) -> Vec<usize> {
        let is_meant = |slot: &&Slot| slot.used <= before && slot.is_contact == contacts;
        let mut idle: Vec<&Slot> = self.slots.iter().flatten().filter(is_meant).collect();
        idle.sort_by_key(|slot| slot.used);
        idle.into_iter().map(|slot| slot.pair as usize).collect()
    }
}
