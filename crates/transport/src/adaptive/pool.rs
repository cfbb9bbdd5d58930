//! Buffers for datagrams, used again; a bounded number of idle ones is kept.

const IDLE: usize = 128;

#[derive(Debug)]
pub(super) struct Pool {
    buffer_bytes: usize,
    idle: Vec<Vec<u8>>,
}

impl Pool {
    pub(super) fn new(buffer_bytes: usize) -> Pool {
        Pool { buffer_bytes, idle: Vec::new() }
    }

    /// Returns an empty buffer that has room for a datagram.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.idle.pop().unwrap_or_else(|| Vec::with_capacity(self.buffer_bytes))
    }

    pub(super) fn give(&mut self, mut buffer: Vec<u8>) {
        if self.idle.len() < IDLE {
            buffer.clear();
            self.idle.push(buffer);
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.idle.len() * self.buffer_bytes
    }
}
