//! Packet programs: one rank's part of a collective operation, in the form that a network interface executes.

use std::fmt;

/// Largest number of events of a program: its own call and incoming messages.
pub const EVENTS: usize = 32;
/// Largest number of rules of a program.
pub const RULES: usize = 32;
/// Largest number of areas of a program: pieces of memory of the size of the operation's data.
pub const AREAS: usize = 16;
/// Bit of the event that this rank has called the operation. The call carries its data.
pub const ENTERED: u32 = 1;

/// Event of a program: an incoming message or the own call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Rank that sends the message; for the own call, this rank.
    pub peer: u32,
    /// Number of the sender's rule that emits the message, to request it again if it is lost. 0 for the own
    /// call.
    pub rule: u8,
    /// Area that receives its data; `None` if it carries none.
    pub into: Option<u8>,
}

/// Action of a rule, executed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// `into = left op right`, all three areas; `into` is none of the others.
    Combine {
        /// Area of the left operand.
        left: u8,
        /// Area of the right operand.
        right: u8,
        /// Area of the result.
        into: u8,
    },
    /// Sends a message to a peer.
    Emit {
        /// Rank that receives the message.
        peer: u32,
        /// Number of the message's event at the receiver.
        event: u8,
        /// Area with its data; `None` if it carries none.
        from: Option<u8>,
    },
    /// Completes the operation for this rank: its call may return. Always the last rule, one for each
    /// program.
    Complete,
}

/// Action and the events that must arrive before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Bit mask of the events. It includes the events of all rules whose results the rule uses.
    pub needs: u32,
    /// Action to execute then.
    pub action: Action,
}

/// One rank's part of an operation. An area is written by one event or rule only. A message that arrives
/// twice, or is sent again, therefore writes the same bytes and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// Rank that executes the program.
    pub rank: u32,
    /// Event i is bit i of [`Rule::needs`]; event 0 is the own call.
    pub events: Vec<Event>,
    /// Rules in the order in which they are evaluated.
    pub rules: Vec<Rule>,
    /// Areas with the result, block by block.
    pub result: Vec<u8>,
    /// Number of areas in use.
    pub areas: u8,
}

impl Program {
    /// Returns the events that complete the operation for this rank.
    pub fn completes_with(&self) -> u32 {
        self.rules.last().expect("a program has a last rule").needs
    }

    /// Returns the messages that are missing for completion when those in `arrived` are there.
    pub fn missing(&self, arrived: u32) -> u32 {
        self.completes_with() & !arrived & !ENTERED
    }

    /// Returns the messages to request when the rank has waited in vain and those in `arrived` are there.
    /// Each is the sender and its rule.
    pub fn overdue(&self, arrived: u32) -> impl Iterator<Item = (u32, u8)> + '_ {
        let missing = self.missing(arrived);
        let events = self.events.iter().enumerate();
        events.filter(move |(event, _)| missing >> event & 1 == 1).map(|(_, event)| (event.peer, event.rule))
    }

    /// Returns all ranks that it sends to, receives from or requests messages from, ascending.
    pub fn peers(&self) -> Vec<u32> {
        let senders = self.events.iter().skip(1).map(|event| event.peer);
        let receivers = self.rules.iter().filter_map(|rule| match rule.action {
            Action::Emit { peer, .. } => Some(peer),
            Action::Combine { .. } | Action::Complete => None,
        });
        let mut peers: Vec<u32> = senders.chain(receivers).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}

fn area(area: Option<u8>) -> String {
    area.map_or("nothing".into(), |area| format!("a{area}"))
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Combine { left, right, into } => write!(f, "a{into} = a{left} op a{right}"),
            Action::Emit { peer, event, from } => {
                write!(f, "emit {} to {peer} as event {event}", area(*from))
            }
            Action::Complete => f.write_str("complete"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, event) in self.events.iter().enumerate() {
            match number {
                0 => writeln!(f, "event 0: called, {} comes", area(event.into))?,
                _ => writeln!(
                    f,
                    "event {number}: {} from {} by its rule {}",
                    area(event.into),
                    event.peer,
                    event.rule
                )?,
            }
        }
        for (number, rule) in self.rules.iter().enumerate() {
            let needs: Vec<String> = (0..EVENTS)
                .filter(|event| rule.needs >> event & 1 == 1)
                .map(|event| event.to_string())
                .collect();
            writeln!(f, "rule {number}: after {}: {}", needs.join(" "), rule.action)?;
        }
        if !self.result.is_empty() {
            let areas: Vec<String> = self.result.iter().map(|area| format!("a{area}")).collect();
            writeln!(f, "result {}", areas.join(" "))?;
        }
        Ok(())
    }
}
