//! Output streams: from the ranks and children to the outputs of mpirun or to the parent, with flow control
//! by credit.

use std::io;

use super::Node;
use crate::output::Stream;
use crate::policy;
use crate::tree::message::{Down, Up};

/// Output streams of a child that has joined.
#[derive(Debug)]
pub(super) struct ChildStreams {
    /// Numbers of the streams among the outputs.
    numbers: [usize; Stream::ALL.len()],
    /// True if the child was informed that the stream has no reader any more.
    knows_broken: [bool; Stream::ALL.len()],
}

impl Node {
    pub(super) fn add_streams(&mut self, child: u32) {
        let numbers = Stream::ALL.map(|stream| self.outputs.add_child(stream));
        self.streams.insert(child, ChildStreams { numbers, knows_broken: [false; Stream::ALL.len()] });
    }

    pub(super) fn take_output(&mut self, child: u32, stream: u8, bytes: &[u8]) {
        let streams = self.streams.get(&child);
        if let Some(&number) = streams.and_then(|streams| streams.numbers.get(usize::from(stream))) {
            self.outputs.feed(number, bytes, self.now());
        }
    }

    pub(super) fn end_output(&mut self, child: u32) {
        let Some(streams) = self.streams.remove(&child) else { return };
        for number in streams.numbers {
            self.outputs.close(number, self.now());
        }
    }

    /// Writes output to this process's own outputs or to the parent, and grants credit to children.
    pub(super) fn pass_outputs(&mut self) {
        let now = self.now();
        self.outputs.advance(&self.poller, now);
        if let Some(error) = self.outputs.take_failure() {
            let is_disk = error.kind() != io::ErrorKind::BrokenPipe;
            if is_disk {
                self.outputs.say(&format!("mpirun: output cannot be written: {error}\n"), now);
            }
            self.decide(policy::Event::OutputLost { is_failure: is_disk });
        }
        if self.root.is_none() {
            for stream in Stream::ALL {
                while let Some(bytes) = self.outputs.take(stream) {
                    self.connections.send_up(&Up::Output(stream.number(), bytes), now);
                }
            }
        }
        self.tell_children();
    }

    /// Informs children how much more they may send, or that a stream has no reader any more.
    fn tell_children(&mut self) {
        let now = self.now();
        for (&child, streams) in &mut self.streams {
            for stream in Stream::ALL {
                let at = usize::from(stream.number());
                if self.outputs.is_broken(stream) && !std::mem::replace(&mut streams.knows_broken[at], true) {
                    self.connections.send_down(child, &Down::BreakOutput(stream.number()), now);
                }
                if let Some(bytes) = self.outputs.grant(streams.numbers[at]) {
                    let grant = Down::Credit(stream.number(), bytes as u32);
                    self.connections.send_down(child, &grant, now);
                }
            }
        }
    }
}
