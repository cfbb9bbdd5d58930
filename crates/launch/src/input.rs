//! Standard input for rank 0. The other ranks read the end of file.
//!
//! If it is not a terminal, rank 0 gets the descriptor itself, and so takes no more than it reads. Only the
//! foreground process group may read from a terminal, and the ranks are not in it. In this case the
//! supervisor reads the terminal and forwards the input through a pipe.

use std::fs::File;
use std::io::{self, IsTerminal, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tutti_sys::event::{self, Interest, Poller};
use tutti_sys::process;

/// Interval of checks whether mpirun is in the foreground again.
const FOREGROUND_CHECK: Duration = Duration::from_millis(300);
const PIECE: usize = 4096;

/// Forwarder of a terminal's input to rank 0.
#[derive(Debug)]
pub struct Input {
    pipe: Option<PipeWriter>,
    held: Vec<u8>,
    /// Descriptor that the poller watches now, if any.
    watched: Option<Watched>,
    ended: bool,
    look_again: Option<Duration>,
    token: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Terminal,
    Pipe,
}

impl Input {
    /// Returns the forwarder, and the descriptor that rank 0 reads.
    ///
    /// # Errors
    /// Fails if a descriptor cannot be created.
    pub fn new(token: u64) -> io::Result<(Input, OwnedFd)> {
        let mut input =
            Input { pipe: None, held: Vec::new(), watched: None, ended: false, look_again: None, token };
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok((input, event::duplicate_above_stdio(stdin.as_fd())?));
        }
        let (reader, writer) = event::pipe()?;
        event::set_nonblocking(writer.as_fd())?;
        input.pipe = Some(writer);
        Ok((input, reader.into()))
    }

    /// Creates a forwarder that forwards nothing.
    pub fn none() -> Input {
        Input { pipe: None, held: Vec::new(), watched: None, ended: false, look_again: None, token: 0 }
    }

    /// Handles an event of the poller under this forwarder's token.
    pub fn ready(&mut self, now: Duration) {
        if self.watched == Some(Watched::Terminal) && self.held.is_empty() {
            self.read(now);
        }
    }

    /// Reads from the terminal, unless mpirun is in the background.
    fn read(&mut self, now: Duration) {
        let stdin = io::stdin();
        if process::is_background(stdin.as_fd()) {
            self.look_again = Some(now + FOREGROUND_CHECK);
            return;
        }
        // The buffer of std's stdin would hide bytes from the poller.
        let Ok(mut terminal) = stdin.as_fd().try_clone_to_owned().map(File::from) else { return };
        let mut piece = [0; PIECE];
        match terminal.read(&mut piece) {
            Ok(0) => self.ended = true,
            Ok(count) => self.held.extend_from_slice(&piece[..count]),
            // EIO: mpirun went to the background between the check and the read.
            Err(_) => self.look_again = Some(now + FOREGROUND_CHECK),
        }
    }

    /// Writes as much as possible, and sets up the poller for the next event.
    pub fn advance(&mut self, poller: &Poller, now: Duration) {
        if self.look_again.is_some_and(|at| at <= now) {
            self.look_again = None;
        }
        if let (Some(pipe), false) = (&mut self.pipe, self.held.is_empty()) {
            match pipe.write(&self.held) {
                Ok(count) => drop(self.held.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Rank 0 has closed its input.
                Err(_) => {
                    self.held.clear();
                    self.ended = true;
                }
            }
        }
        let wanted = match &self.pipe {
            None => None,
            Some(_) if !self.held.is_empty() => Some(Watched::Pipe),
            Some(_) if self.ended || self.look_again.is_some() => None,
            Some(_) => Some(Watched::Terminal),
        };
        self.watch(poller, wanted);
        if self.ended && self.held.is_empty() {
            self.pipe = None;
        }
    }

    /// Changes the descriptor that the poller watches.
    fn watch(&mut self, poller: &Poller, wanted: Option<Watched>) {
        if wanted == self.watched {
            return;
        }
        let stdin = io::stdin();
        let remove = match (self.watched, &self.pipe) {
            (Some(Watched::Terminal), _) => poller.remove(stdin.as_fd()),
            (Some(Watched::Pipe), Some(pipe)) => poller.remove(pipe.as_fd()),
            _ => Ok(()),
        };
        let add = match (wanted, &self.pipe) {
            (Some(Watched::Terminal), _) => poller.add(stdin.as_fd(), self.token, Interest::Read),
            (Some(Watched::Pipe), Some(pipe)) => poller.add(pipe.as_fd(), self.token, Interest::Write),
            _ => Ok(()),
        };
        // A terminal that cannot be watched gives no input.
        self.ended |= remove.is_err() || add.is_err();
        self.watched = wanted.filter(|_| add.is_ok());
    }

    /// Returns the time at which [`Input::advance`] must be called next, if any.
    pub fn deadline(&self) -> Option<Duration> {
        self.look_again
    }
}
