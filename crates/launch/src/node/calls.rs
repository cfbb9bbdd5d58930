//! Requests of users for checkpoints (`tutti checkpoint`), and the replies.
//!
//! A client that has connected may delay its request. The request is read when it has arrived, so that this
//! host serves its job meanwhile.

use std::os::fd::AsFd;

use tutti_checkpoint::call::{self, Answer, Call};
use tutti_sys::event::{self, Interest, Poller};
use tutti_sys::letter;
use tutti_sys::local_socket::{Carries, Connection, Listener};
use tutti_sys::process;

/// Maximum number of clients that have connected and not sent a request.
const MOST_SILENT: usize = 64;

/// Listening socket for requests, and the clients.
#[derive(Debug, Default)]
pub(super) struct Calls {
    listener: Option<Listener>,
    token: u64,
    /// Clients that have connected, and not sent a request yet.
    silent: Vec<Connection>,
    /// Clients that wait for a reply.
    callers: Vec<Connection>,
}

impl Calls {
    /// Begins to accept requests. The poller reports them by `token`.
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

    /// Returns the requests that have arrived, each with the client's connection.
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

    /// Adds a client that waits for the outcome of the next checkpoint.
    pub(super) fn waits(&mut self, caller: Connection) {
        self.callers.push(caller);
    }

    /// Returns true if a client waits.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.callers.is_empty()
    }

    /// Sends the outcome to all waiting clients.
    pub(super) fn answer(&mut self, is_whole: bool, text: &str) {
        for caller in self.callers.drain(..) {
            tell(&caller, is_whole, text);
        }
    }
}

/// Sends an outcome to one client.
pub(super) fn tell(caller: &Connection, is_whole: bool, text: &str) {
    let answer = Answer { is_whole, text: text.to_string() };
    // A client that has disconnected gets no reply.
    let _ = letter::send(caller, &answer.encode(), &[]);
}
