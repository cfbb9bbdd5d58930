//! Users who ask for checkpoints (`tutti checkpoint`), and what they are told.
//!
//! Who has connected may take its time to say what it wants: it is heard when its words are there, and this
//! host serves its job meanwhile.

use std::os::fd::AsFd;

use tutti_checkpoint::call::{self, Answer, Call};
use tutti_sys::event::{self, Interest, Poller};
use tutti_sys::letter;
use tutti_sys::local_socket::{Carries, Connection, Listener};
use tutti_sys::process;

/// Who has said nothing yet may be so many.
const MOST_SILENT: usize = 64;

/// Where users ask.
#[derive(Debug, Default)]
pub(super) struct Calls {
    listener: Option<Listener>,
    token: u64,
    /// Have connected, and said nothing yet.
    silent: Vec<Connection>,
    /// Wait for an answer.
    callers: Vec<Connection>,
}

impl Calls {
    /// Takes calls from now on, of which the poller tells by `token`.
    pub(super) fn listen(&mut self, poller: &Poller, token: u64) {
        let pid = process::parent();
        let bound = Listener::bind(&call::name(pid), Carries::Bytes);
        let watched = bound.and_then(|listener| {
            poller.add(listener.as_fd(), token, Interest::Read)?;
            Ok(listener)
        });
        match watched {
            Ok(listener) => (self.listener, self.token) = (Some(listener), token),
            Err(error) => {
                eprintln!("mpirun: `tutti checkpoint {pid}` will not reach this job: {error}");
            }
        }
    }

    /// What was asked for meanwhile, by whom.
    pub(super) fn heard(&mut self, poller: &Poller) -> Vec<(Call, Connection)> {
        while let Some(Ok(Some(connection))) = self.listener.as_ref().map(Listener::accept) {
            let is_welcome = self.silent.len() < MOST_SILENT;
            if is_welcome && poller.add(connection.as_fd(), self.token, Interest::Read).is_ok() {
                self.silent.push(connection);
            }
        }
        let all = std::mem::take(&mut self.silent);
        let (said, silent): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|connection| event::is_readable(connection.as_fd()));
        self.silent = silent;
        let hear = |connection: Connection| {
            let _ = poller.remove(connection.as_fd());
            Some((call::hear(&connection)?, connection))
        };
        said.into_iter().filter_map(hear).collect()
    }

    /// Somebody waits for what becomes of the next checkpoint.
    pub(super) fn waits(&mut self, caller: Connection) {
        self.callers.push(caller);
    }

    /// Whether somebody waits.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.callers.is_empty()
    }

    /// Tells all who wait.
    pub(super) fn answer(&mut self, is_whole: bool, text: &str) {
        for caller in self.callers.drain(..) {
            tell(&caller, is_whole, text);
        }
    }
}

/// Tells one.
pub(super) fn tell(caller: &Connection, is_whole: bool, text: &str) {
    let answer = Answer { is_whole, text: text.to_string() };
    // Who has gone does not want to know.
    let _ = letter::send(caller, &answer.encode(), &[]);
}
