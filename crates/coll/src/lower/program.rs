//! Packet programs: what a network interface has to know of one rank's part of a collective operation.

use std::fmt;

/// Events of a program: its own call and messages that come.
pub const EVENTS: usize = 32;
/// Rules of a program.
pub const RULES: usize = 32;
/// Areas of a program: pieces of memory of the size of the operation's data.
pub const AREAS: usize = 16;
/// The event that this rank has called the operation; its data come with it.
pub const ENTERED: u32 = 1;

/// What a message brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Who sends it; of the own call: this rank.
    pub peer: u32,
    /// By which of its rules: what is asked for again when the message is lost. Of the own call: 0.
    pub rule: u8,
    /// Where its data go; `None`: it carries none.
    pub into: Option<u8>,
}

/// What is done once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// `into = left op right`, all three areas; `into` is none of the others.
    Combine {
        /// The left operand.
        left: u8,
        /// The right operand.
        right: u8,
        /// The result.
        into: u8,
    },
    /// Sends a message.
    Emit {
        /// To whom.
        peer: u32,
        /// Which event it is there.
        event: u8,
        /// The area with its data; `None`: it carries none.
        from: Option<u8>,
    },
    /// The operation is over for this rank: its call may return. The last rule, one a program.
    Complete,
}

/// "These have come: do that."
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The events, bit by bit; those of a rule include those of the rules whose results it uses.
    pub needs: u32,
    /// What is done.
    pub action: Action,
}

/// One rank's part of an operation. An area is written by one event or rule only, and so with the same bytes
/// however often that happens: what came twice, or was sent again, changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// The rank.
    pub rank: u32,
    /// Event i is bit i of [`Rule::needs`]; event 0 is the own call.
    pub events: Vec<Event>,
    /// In the order in which they are looked at.
    pub rules: Vec<Rule>,
    /// The areas with the result, block by block.
    pub result: Vec<u8>,
    /// Areas that are used.
    pub areas: u8,
}

impl Program {
    /// What has to come until the operation is over for this rank.
    pub fn completes_with(&self) -> u32 {
        self.rules.last().expect("a program has a last rule").needs
    }

    /// The messages that have to come until then, where `arrived` has come.
    pub fn missing(&self, arrived: u32) -> u32 {
        self.completes_with() & !arrived & !ENTERED
    }

    /// What the rank asks for again that has waited in vain, where `arrived` has come: the sender, and its
    /// rule.
    pub fn overdue(&self, arrived: u32) -> impl Iterator<Item = (u32, u8)> + '_ {
        let missing = self.missing(arrived);
        let events = self.events.iter().enumerate();
        events.filter(move |(event, _)| missing >> event & 1 == 1).map(|(_, event)| (event.peer, event.rule))
    }

    /// All ranks that it sends to, receives from, or asks: ascending.
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
