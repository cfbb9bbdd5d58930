//! The names of connections: small numbers, as many as there may be connections; and which was used last.

use std::time::Duration;

use super::ConnectionId;

#[derive(Clone, Copy, Debug)]
struct Slot {
    pair: u32,
    used: Duration,
}

#[derive(Debug)]
pub(super) struct Names {
    limit: usize,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Given back, but the driver may not know.
    resting: Vec<u32>,
    most: usize,
}

impl Names {
    pub(super) fn new(limit: usize) -> Names {
        Names { limit, slots: Vec::new(), free: Vec::new(), resting: Vec::new(), most: 0 }
    }

    /// Connections that there are.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len() - self.resting.len()
    }

    pub(super) fn any(&self) -> bool {
        self.count() > 0
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Whether no further one may be made.
    pub(super) fn is_full(&self) -> bool {
        self.count() + self.resting.len() >= self.limit
    }

    /// A name for a connection of this pair.
    pub(super) fn take(&mut self, pair: usize, now: Duration) -> Option<ConnectionId> {
        if self.is_full() {
            return None;
        }
        let name = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[name as usize] = Some(Slot { pair: pair as u32, used: now });
        self.most = self.most.max(self.count());
        Some(ConnectionId(name))
    }

    /// The connection is gone, and its name with it.
    pub(super) fn give(&mut self, connection: ConnectionId) {
        if self.pair_of(connection).is_some() {
            self.slots[connection.0 as usize] = None;
            self.resting.push(connection.0);
        }
    }

    /// The driver has done all that it was told: names that were given back may be used again.
    pub(super) fn recycle(&mut self) {
        self.free.append(&mut self.resting);
    }

    pub(super) fn pair_of(&self, connection: ConnectionId) -> Option<usize> {
        let slot = self.slots.get(connection.0 as usize)?.as_ref()?;
        Some(slot.pair as usize)
    }

    #[inline]
    pub(super) fn used(&mut self, connection: ConnectionId, now: Duration) {
        if let Some(Some(slot)) = self.slots.get_mut(connection.0 as usize) {
            slot.used = now;
        }
    }

    /// Pairs whose connection was not used since `before`, the one that was not used for longest first.
    pub(super) fn idle(&self, before: Duration) -> Vec<usize> {
        let mut idle: Vec<&Slot> = self.slots.iter().flatten().filter(|slot| slot.used <= before).collect();
        idle.sort_by_key(|slot| slot.used);
        idle.into_iter().map(|slot| slot.pair as usize).collect()
    }
}
