//! Schedules as text, for golden files, for `tutti info`, and for debugging.
//!
//! A step is `number kind what after`; `i` is the iteration; an edge is the number of a step, with
//! `-d` for `d` iterations before and `*` for all iterations.

use std::fmt;

use crate::ir::{
    BufferId, Division, Edge, Index, Kind, Length, Order, Schedule, Span, Start, Step, Table, Unit,
};

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Index { base, step, modulus, offset } = *self;
        let sum = match step {
            0 => return self.in_iteration(0).fmt(f),
            1 if base == 0 => "i".to_string(),
            1 => format!("{base}+i"),
            -1 => format!("{base}-i"),
            _ => format!("{base}{step:+}i"),
        };
        match modulus {
            0 => f.write_str(&sum)?,
            _ => write!(f, "({sum} mod {modulus})")?,
        }
        if offset > 0 { write!(f, "+{offset}") } else { Ok(()) }
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Division::Regular { size, total } => write!(f, "{total}/{size}"),
            Division::Even { parts, total } => write!(f, "{total} in {parts}"),
            Division::Table(Table::Send) => f.write_str("send table"),
            Division::Table(Table::Recv) => f.write_str("recv table"),
            Division::Permuted(Table::Send) => f.write_str("permuted send table"),
            Division::Permuted(Table::Recv) => f.write_str("permuted recv table"),
        }
    }
}

impl fmt::Display for BufferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(slot) = self.exposure() {
            return write!(f, "EXPOSED{slot}");
        }
        match (*self, self.temporary()) {
            (_, Some(number)) => write!(f, "t{number}"),
            (BufferId::BANK, _) => f.write_str("BANK"),
            (BufferId::SEND, _) => f.write_str("SEND"),
            _ => f.write_str("RECV"),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_signal() {
            return f.write_str("signal");
        }
        write!(f, "{}[", self.buffer)?;
        match self.start {
            Start::Affine { offset, stride: 0, .. } => write!(f, "{offset}")?,
            Start::Affine { offset: 0, stride, index } => write!(f, "{stride}*{index}")?,
            Start::Affine { offset, stride, index } => write!(f, "{offset}+{stride}*{index}")?,
            Start::Block { division, index } => write!(f, "block {index} of {division}")?,
            Start::Permuted { division, index } => write!(f, "block order({index}) of {division}")?,
            Start::Part { division, index, part, parts } => {
                write!(f, "part {part} of {parts} of block {index} of {division}")?
            }
            Start::Within { division, index, first, stride, slot } => {
                write!(f, "{stride}*{slot} + block {index} after {first} of {division}")?
            }
            Start::Entry(index) => write!(f, "entry {index}")?,
        }
        match (self.start, self.length) {
            (_, Length::Fixed(length)) => write!(f, "; {length}]"),
            (Start::Block { .. }, Length::Blocks { count: 1, .. }) => f.write_str("]"),
            (Start::Block { .. }, Length::Blocks { count, .. }) => write!(f, "; {count} blocks]"),
            (Start::Permuted { .. }, Length::Permuted { .. }) | (Start::Part { .. }, Length::Part { .. }) => {
                f.write_str("]")
            }
            (Start::Block { .. }, Length::Beyond { most, .. }) => write!(f, " if longer than {most}]"),
            (_, Length::Beyond { division, index, most }) => {
                write!(f, "; as block {index} of {division} if longer than {most}]")
            }
            (_, Length::Part { division, index, part, parts }) => {
                write!(f, "; as part {part} of {parts} of block {index} of {division}]")
            }
            (_, Length::Permuted { division, index }) => {
                write!(f, "; as block order({index}) of {division}]")
            }
            (_, Length::Blocks { division, index, count: 1 }) => {
                write!(f, "; as block {index} of {division}]")
            }
            (_, Length::Blocks { division, index, count }) => {
                write!(f, "; as {count} blocks from {index} of {division}]")
            }
        }
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.distance {
            0 => write!(f, "{}", self.step.0),
            Edge::WHOLE => write!(f, "{}*", self.step.0),
            distance => write!(f, "{}-{distance}", self.step.0),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lane = |lane: u16| if lane == 0 { String::new() } else { format!(" lane {lane}") };
        match self {
            Kind::Send { peer, lane: number, from } => {
                write!(f, "send {from} to {peer}{}", lane(*number))
            }
            Kind::Multicast { group, lane: number, from } => {
                write!(f, "multicast {from} to group {group}{}", lane(*number))
            }
            Kind::Recv { peer, lane: number, into } => {
                write!(f, "recv {into} from {peer}{}", lane(*number))
            }
            Kind::Copy { from, into } => write!(f, "copy {from} to {into}"),
            Kind::Reduce { left, right } => write!(f, "reduce {left} op {right}"),
            Kind::Post { flag, value } => write!(f, "post flag {flag} = {value}"),
            Kind::Await { peer, flag, value } => write!(f, "await flag {flag} of {peer} >= {value}"),
            Kind::Expose { slot, what, access } => {
                write!(f, "expose {what} as {} to {access:?}", BufferId::exposed(*slot))
            }
            Kind::Pull { peer, from, into } => write!(f, "pull {from} of {peer} to {into}"),
            Kind::Pack { from, into } => write!(f, "pack {from} into {into}"),
            Kind::Unpack { peer, from, into } => write!(f, "unpack {from} of {peer} to {into}"),
            Kind::Combine { peer, from, with, into } if with == into => {
                write!(f, "combine {from} of {peer} op {into}")
            }
            Kind::Combine { peer, from, with, into } => {
                write!(f, "combine {from} of {peer} op {with} to {into}")
            }
            Kind::Push { peer, from, into } => write!(f, "push {from} to {into} of {peer}"),
            Kind::FileRead { into, window } => write!(f, "read window {window} of the file to {into}"),
            Kind::FileWrite { from, window } => write!(f, "write {from} to window {window} of the file"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        for (number, edge) in self.after.iter().enumerate() {
            write!(f, "{}{edge}", if number == 0 { " after " } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Byte => "bytes",
            Unit::Element => "elements",
        };
        if self.order == Order::Program {
            writeln!(f, "in program order, bank of {} {unit}", self.bank)?;
        }
        for (number, units) in self.temporaries.iter().enumerate() {
            writeln!(f, "t{number}: {units} {unit}")?;
        }
        for (number, members) in self.groups.iter().enumerate() {
            writeln!(f, "group {number}: {members:?}")?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            let this = step.in_loop.map(|this| self.loops[usize::from(this)]);
            if let Some(this) = this.filter(|this| this.first as usize == number) {
                write!(f, "loop {} times", this.count)?;
                match self.order {
                    Order::Edges => writeln!(f, ", window {}", this.window)?,
                    Order::Program => writeln!(f)?,
                }
            }
            writeln!(f, "{:indent$}{number} {step}", "", indent = if this.is_some() { 2 } else { 0 })?;
        }
        Ok(())
    }
}
