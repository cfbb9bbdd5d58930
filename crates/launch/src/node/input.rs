//! Standard input that mpirun passes on to ranks. The root reads it as far as there is room at the other end.
//! It goes down the tree into a pipe that the rank reads. The rank is 0, unless `--stdin` names another.
//!
//! With `--stdin all` the input goes to every daemon, and into a pipe for each rank. A daemon then reports
//! how much its slowest rank has taken. The room at the root is that of all daemons together.
//!
//! Input is passed on if the rank runs on another host. It is also passed on for a pipe or a device if
//! checkpoints can be written. Only then can it be counted, and a restart must know whether anything was
//! read.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;

use tutti_checkpoint::input::InputRecord;
use tutti_sys::event::{self, Interest};

use super::{Node, TOKEN_INPUT, TOKEN_INPUT_TARGET};
use crate::tree::daemon::Event;

/// Maximum bytes in flight to each daemon.
const WINDOW: usize = 64 << 10;
/// Bytes that are read at once.
const PIECE: usize = 4096;

/// Input at the root: reads it and limits the bytes in flight.
#[derive(Debug)]
pub(super) struct Source {
    under_way: usize,
    /// Number of daemons that take the input and report how much they have taken.
    daemons: usize,
    is_watched: bool,
    /// True for an input that cannot be watched; it is always ready.
    is_file: bool,
    has_ended: bool,
    /// True if bytes were read that cannot be read again.
    has_taken: bool,
}

/// Destination of the input at the daemon of the rank that reads it.
#[derive(Debug)]
pub(super) struct Target {
    pipe: Option<PipeWriter>,
    /// End of the pipe that the rank reads, to see how much it has not read yet. None for one of several
    /// copies, as this daemon must notice when a rank closes its input.
    reader: Option<PipeReader>,
    /// Number of bytes that were written to the pipe.
    delivered: u64,
    /// Number of bytes that were written or dropped.
    taken: u64,
    held: VecDeque<u8>,
    has_ended: bool,
    is_watched: bool,
}

impl Source {
    fn has_room(&self) -> bool {
        self.under_way + PIECE * self.daemons <= WINDOW * self.daemons
    }
}

impl Target {
    /// Creates a pipe. Returns the end that the rank reads, and the destination. `is_copy` is true if every
    /// rank has one.
    pub(super) fn new(is_copy: bool) -> io::Result<(PipeReader, Target)> {
        let (reader, writer) = event::pipe()?;
        event::set_nonblocking(writer.as_fd())?;
        let target = Target {
            pipe: Some(writer),
            reader: if is_copy { None } else { Some(reader.try_clone()?) },
            delivered: 0,
            taken: 0,
            held: VecDeque::new(),
            has_ended: false,
            is_watched: false,
        };
        Ok((reader, target))
    }

    /// Returns how many bytes the rank has read, and whether nothing is left for it.
    pub(super) fn read_by_rank(&self) -> io::Result<(u64, bool)> {
        let waiting = match &self.reader {
            Some(reader) => event::waiting_bytes(reader.as_fd())? as u64,
            None => 0,
        };
        let is_over = self.has_ended && self.held.is_empty() && waiting == 0;
        Ok((self.delivered.saturating_sub(waiting), is_over))
    }

    /// Writes as many bytes as the pipe accepts.
    fn write(&mut self) {
        while !self.held.is_empty() {
            let Some(pipe) = &mut self.pipe else {
                self.taken += self.held.len() as u64;
                self.held.clear();
                break;
            };
            match pipe.write(self.held.as_slices().0) {
                Ok(count) => {
                    self.held.drain(..count);
                    self.delivered += count as u64;
                    self.taken += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The rank has closed its input.
                Err(_) => self.pipe = None,
            }
        }
        if self.has_ended && self.held.is_empty() {
            self.pipe = None;
        }
    }
}

impl Node {
    /// Returns the record of the standard input at the root, before any byte is read.
    pub(super) fn observe_input(&self) -> InputRecord {
        InputRecord::observe(self.given.input.as_fd(), io::stdin().is_terminal())
    }

    /// Starts to read the standard input if mpirun passes it on to a rank. Called at the root when all
    /// ranks are started.
    pub(super) fn open_input(&mut self) {
        let job = self.daemon.job();
        let reader = job.and_then(|job| job.daemon_of.get(job.input_host()? as usize).copied());
        let copied = job.filter(|job| job.manner.is_input_copied);
        let daemons = copied.map_or(1, |job| job.daemon_of.iter().collect::<BTreeSet<_>>().len());
        let is_passed_on = reader.is_some_and(|daemon| daemon != 0 || self.checkpoints.counts_input());
        if is_passed_on || copied.is_some() {
            self.input_source = Some(Source {
                under_way: 0,
                daemons,
                is_watched: false,
                is_file: false,
                has_ended: false,
                has_taken: false,
            });
        }
    }

    /// Root: returns true if bytes of the input were taken that a restart cannot read again. Input that was
    /// typed does not count.
    pub(super) fn has_taken_input(&self) -> bool {
        self.checkpoints.counts_input() && self.input_source.as_ref().is_some_and(|source| source.has_taken)
    }

    /// Root: records that a rank's daemon has taken bytes, and so has room again.
    pub(super) fn input_taken(&mut self, bytes: usize) {
        if let Some(source) = &mut self.input_source {
            source.under_way = source.under_way.saturating_sub(bytes);
        }
    }

    /// Root: reads the input, which is ready.
    pub(super) fn read_input(&mut self) {
        let Some(source) = &mut self.input_source else { return };
        if source.has_ended || !source.has_room() {
            return;
        }
        let Ok(mut input) = self.given.input.try_clone().map(File::from) else { return };
        let mut bytes = vec![0; PIECE];
        match input.read(&mut bytes) {
            Ok(count) => {
                bytes.truncate(count);
                source.under_way += count * source.daemons;
                source.has_ended = count == 0;
                source.has_taken |= count > 0;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return;
            }
            Err(_) => {
                bytes.clear();
                source.has_ended = true;
            }
        }
        self.events.push_back(Event::Input(bytes));
    }

    /// Reads and writes as much as is possible now, and sets up the poller for the rest.
    pub(super) fn pass_input(&mut self) {
        if let Some(source) = &mut self.input_source {
            let wanted = !source.has_ended && source.has_room();
            if source.is_file {
                if wanted {
                    self.read_input();
                }
            } else if wanted != source.is_watched {
                let input = self.given.input.as_fd();
                let result = match wanted {
                    true => self.poller.add(input, TOKEN_INPUT, Interest::Read),
                    false => self.poller.remove(input),
                };
                source.is_watched = wanted && result.is_ok();
                source.is_file = wanted && result.is_err();
                if source.is_file {
                    self.read_input();
                }
            }
        }
        self.write_input();
    }

    /// Daemon of the rank: takes bytes of the input.
    pub(super) fn take_input(&mut self, bytes: Vec<u8>) {
        for target in &mut self.input_targets {
            target.has_ended |= bytes.is_empty();
            target.held.extend(&bytes);
        }
    }

    /// Writes input to the pipes of ranks, and reports how much the slowest one has taken.
    fn write_input(&mut self) {
        for target in &mut self.input_targets {
            target.write();
            let wanted = !target.held.is_empty();
            if let Some(pipe) = target.pipe.as_ref().filter(|_| wanted != target.is_watched) {
                let result = match wanted {
                    true => self.poller.add(pipe.as_fd(), TOKEN_INPUT_TARGET, Interest::Write),
                    false => self.poller.remove(pipe.as_fd()),
                };
                target.is_watched = wanted && result.is_ok();
            }
        }
        let Some(taken) = self.input_targets.iter().map(|target| target.taken).min() else { return };
        if taken > self.input_reported {
            self.events.push_back(Event::InputTaken((taken - self.input_reported) as u32));
            self.input_reported = taken;
        }
    }
}
