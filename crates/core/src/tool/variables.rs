//! Counters and states as performance variables (MPI-5 section 15.3.7).

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use tutti_base::traffic::TRAFFIC;
use tutti_coll::Collective;
use tutti_transport::FarCounters;
use tutti_transport::multicast::MulticastCounters;

use super::Names;
use crate::events::chosen::CHOSEN;
pub use crate::events::chosen::{AREAS, algorithms, chosen, collectives, number_of};
use crate::lanes::{self, LaneGuard};
use crate::process::process;

/// Class of a performance variable (MPI-5 section 15.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// State that is one of these names, or `-1` for none.
    State(Names),
    /// Current use of a resource.
    Level,
    /// Maximum since the start of the process.
    HighWatermark,
    /// Number of occurrences of an event.
    Counter,
    /// Sum of amounts, as of bytes.
    Aggregate,
}

impl Class {
    /// Returns true if the variable counts from the start of a handle. Others are always active and hold for
    /// the process.
    pub fn is_counted(self) -> bool {
        matches!(self, Class::Counter | Class::Aggregate)
    }
}

/// Performance variable with its source.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Name of the variable, for tools.
    pub name: String,
    /// Meaning of the variable, for users.
    pub doc: String,
    /// Class of the variable.
    pub class: Class,
    /// Index of the area in [`AREAS`].
    pub area: usize,
    source: Source,
}

/// Source of a variable's value.
#[derive(Clone, Copy, Debug)]
enum Source {
    Traffic(fn() -> u64),
    Far(fn(&FarCounters) -> u64),
    Casting(fn(&MulticastCounters) -> u64),
    Messages(fn(&crate::p2p::State) -> u64),
    Algorithm(usize),
}

/// Returns all performance variables.
pub fn all() -> &'static [Variable] {
    static ALL: OnceLock<Vec<Variable>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        traffic(&mut all);
        files(&mut all);
        network(&mut all);
        multicast(&mut all);
        matching(&mut all);
        for (number, collective) in Collective::EVERY.iter().enumerate() {
            all.push(Variable {
                name: format!("tutti_algorithm_{collective}"),
                doc: format!("the algorithm chosen last for {collective}"),
                class: Class::State(algorithms(number)),
                area: 3,
                source: Source::Algorithm(number),
            });
        }
        all
    })
}

fn traffic(all: &mut Vec<Variable>) {
    macro_rules! way {
        ($field:ident, $name:literal, $doc:literal) => {
            for (what, class, source) in [
                ("messages", Class::Counter, Source::Traffic(|| TRAFFIC.$field.transfers.get())),
                ("bytes", Class::Aggregate, Source::Traffic(|| TRAFFIC.$field.bytes.get())),
            ] {
                let doc = format!("{what} {}", $doc);
                all.push(Variable { name: format!("tutti_{}_{what}", $name), doc, class, area: 0, source });
            }
        };
    }
    way!(own, "self", "sent to the process itself");
    way!(ring, "ring", "sent to ranks of the host through rings in shared memory, protocol included");
    way!(single_copy, "single_copy", "copied from or to private memory of ranks of the host");
    way!(mapped, "mapped", "loaded or stored in memory shared with ranks of the host");
    way!(network, "network", "sent to other hosts, protocol included");
}

fn files(all: &mut Vec<Variable>) {
    use Class as C;
    type Count = fn() -> u64;
    let rows: [(&str, &str, Class, Count); 11] = [
        ("reads", "accesses that read from files", C::Counter, || TRAFFIC.file_reads.transfers.get()),
        ("read_bytes", "bytes read from files", C::Aggregate, || TRAFFIC.file_reads.bytes.get()),
        ("writes", "accesses that wrote to files", C::Counter, || TRAFFIC.file_writes.transfers.get()),
        ("written_bytes", "bytes written to files", C::Aggregate, || TRAFFIC.file_writes.bytes.get()),
        ("exchanges", "collective accesses to files in which ranks exchanged data", C::Counter, || {
            TRAFFIC.file_exchanges.get()
        }),
        ("exchange_ns", "nanoseconds that those took, windows of files included", C::Aggregate, || {
            TRAFFIC.file_exchange_ns.get()
        }),
        ("ns", "nanoseconds that devices and io-servers took", C::Aggregate, || TRAFFIC.file_ns.get()),
        ("server_requests", "requests to io-servers", C::Counter, || TRAFFIC.server_requests.transfers.get()),
        ("server_bytes", "bytes of files sent to io-servers or got from them", C::Aggregate, || {
            TRAFFIC.server_requests.bytes.get()
        }),
        (
            "server_near_bytes",
            "bytes copied from or to files lent by io-servers of the host",
            C::Aggregate,
            || TRAFFIC.server_near_bytes.get(),
        ),
        (
            "server_waits",
            "times that something for an io-server waited for room there (credits)",
            C::Counter,
            || TRAFFIC.server_waits.get(),
        ),
    ];
    for (name, doc, class, count) in rows {
        let (name, doc) = (format!("tutti_file_{name}"), doc.to_string());
        all.push(Variable { name, doc, class, area: 0, source: Source::Traffic(count) });
    }
}

fn network(all: &mut Vec<Variable>) {
    use Class as C;
    type Field = fn(&FarCounters) -> u64;
    let rows: [(&str, &str, Class, Field); 9] = [
        ("datagram_messages", "messages sent to other hosts by datagrams", C::Counter, |c| {
            c.adaptive.sent_records
        }),
        ("datagram_bytes", "bytes sent to other hosts by datagrams", C::Aggregate, |c| c.adaptive.sent_bytes),
        ("connection_messages", "messages sent to other hosts by connections", C::Counter, |c| {
            c.sent_records.saturating_sub(c.adaptive.sent_records)
        }),
        ("connection_bytes", "bytes sent to other hosts by connections", C::Aggregate, |c| {
            c.sent_bytes.saturating_sub(c.adaptive.sent_bytes)
        }),
        ("datagrams_repeated", "datagrams sent again", C::Counter, |c| c.adaptive.repeated_datagrams),
        ("connections_made", "connections that came into use", C::Counter, |c| c.adaptive.established),
        ("connections", "connections now", C::Level, |c| c.adaptive.connections),
        ("connections_most", "most connections at a time", C::HighWatermark, |c| c.adaptive.most_connections),
        ("network_memory_bytes", "memory for the network now, in bytes", C::Level, |c| c.memory_bytes),
    ];
    all.extend(rows.map(|(name, doc, class, field)| Variable {
        name: format!("tutti_{name}"),
        doc: doc.to_string(),
        class,
        area: 1,
        source: Source::Far(field),
    }));
}

fn multicast(all: &mut Vec<Variable>) {
    use Class as C;
    type Field = fn(&MulticastCounters) -> u64;
    let rows: [(&str, &str, Class, Field); 9] = [
        ("messages", "messages sent once for several other hosts", C::Counter, |c| c.messages),
        ("bytes", "bytes of messages sent once for several other hosts", C::Aggregate, |c| c.bytes),
        ("datagrams", "datagrams multicast for the first time", C::Counter, |c| c.sent),
        ("repeated", "datagrams multicast again", C::Counter, |c| c.repeated),
        ("repaired", "lost datagrams sent to one receiver by its connection", C::Counter, |c| c.repaired),
        ("received", "datagrams of others that were new", C::Counter, |c| c.received),
        ("again", "datagrams of others that were there before", C::Counter, |c| c.again),
        ("dropped", "datagrams dropped: malformed, foreign, forged, absurd", C::Counter, |c| c.dropped()),
        ("demoted", "receivers given up because they did not hear", C::Counter, |c| c.demoted),
    ];
    all.extend(rows.map(|(name, doc, class, field)| Variable {
        name: format!("tutti_multicast_{name}"),
        doc: doc.to_string(),
        class,
        area: 1,
        source: Source::Casting(field),
    }));
}

fn matching(all: &mut Vec<Variable>) {
    use Class as C;
    let rows = [
        (
            "unexpected_messages",
            "messages that came before their receive was posted",
            C::Counter,
            Source::Traffic(|| TRAFFIC.unexpected.transfers.get()),
        ),
        (
            "unexpected_bytes",
            "bytes of messages that came before their receive was posted",
            C::Aggregate,
            Source::Traffic(|| TRAFFIC.unexpected.bytes.get()),
        ),
        (
            "unexpected_queue_length",
            "messages kept now for receives to come",
            C::Level,
            Source::Messages(|state| state.kept() as u64),
        ),
        (
            "unexpected_queue_most",
            "the most messages kept at a time",
            C::HighWatermark,
            Source::Traffic(|| TRAFFIC.most_kept.get()),
        ),
        (
            "withheld_messages",
            "messages that waited here because their receiver had no room for them",
            C::Counter,
            Source::Traffic(|| TRAFFIC.withheld.transfers.get()),
        ),
        (
            "moves_apart",
            "moves to another processor than that of the rank that is waited for",
            C::Counter,
            Source::Traffic(|| TRAFFIC.moves.get()),
        ),
        (
            "requests",
            "requests that are not freed",
            C::Level,
            Source::Messages(|state| state.requests.len() as u64),
        ),
    ];
    all.extend(rows.map(|(name, doc, class, source)| Variable {
        name: format!("tutti_{name}"),
        doc: doc.to_string(),
        class,
        area: 2,
        source,
    }));
    all.push(Variable {
        name: "tutti_plans".to_string(),
        doc: "collective operations that were planned, rather than done again".to_string(),
        class: C::Counter,
        area: 3,
        source: Source::Traffic(|| TRAFFIC.choices.get()),
    });
}

impl Variable {
    /// Returns the value since the start of the process. The value of a state is the index of its name, as a
    /// signed number.
    pub fn value(&self, held: &LaneGuard) -> u64 {
        match self.source {
            Source::Traffic(read) => read(),
            Source::Algorithm(number) => i64::from(CHOSEN[number].load(Ordering::Relaxed)) as u64,
            Source::Far(read) => process()
                .and_then(|process| {
                    let mut messages = process.messages.borrow_mut(held);
                    messages.link.far().map(|far| read(&far.counters()))
                })
                .unwrap_or(0),
            Source::Casting(read) => process()
                .and_then(|process| {
                    let mut messages = process.messages.borrow_mut(held);
                    messages.link.casting().map(|casting| read(&casting.counters()))
                })
                .unwrap_or(0),
            Source::Messages(read) => process().map_or(0, |process| {
                let of = |held: &LaneGuard| read(&process.messages.borrow(held).state);
                process.messages.lanes().map(|lane| process.in_lane(held, lane, of)).sum()
            }),
        }
    }
}

/// Returns the value of the variable with this name, for the library itself.
pub fn value_of(name: &str) -> Option<u64> {
    all().iter().find(|variable| variable.name == name).map(|variable| variable.value(&lanes::enter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_areas_are_there() {
        let names: HashSet<&str> = all().iter().map(|variable| variable.name.as_str()).collect();
        assert_eq!(names.len(), all().len());
        assert!(all().iter().all(|variable| variable.area < AREAS.len() && !variable.doc.is_empty()));
        assert_eq!(value_of("tutti_connections"), Some(0), "there is no process");
        assert_eq!(value_of("tutti_nothing"), None);
    }

    #[test]
    fn the_last_choice_is_a_state() {
        let name = algorithms(number_of(Collective::Bcast))[1];
        assert_eq!(chosen(Collective::Bcast, name), 1);
        assert_eq!(value_of("tutti_algorithm_bcast"), Some(1));
        assert_eq!(chosen(Collective::Bcast, "none of them"), -1);
    }
}
