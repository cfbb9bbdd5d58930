//! Costs of a machine: the named parameters of the LogGP-like model that the simulator and the closed forms
//! share.
//!
//! All parameters are in SI units (seconds, bytes, bytes a second). They are probed once for each machine
//! (`tutti probe`) and kept as text with one parameter a line. A parameter that is missing in the text keeps
//! its default. Parameters that depend on the distance of two ranks have one value for each of [`DISTANCES`]
//! levels. The text also holds factors from measurements of whole operations ([`Correction`]).
//!
//! ```text
//! # probed on ...
//! line.1 6.5e-08
//! reduce_byte 4e-11
//! correction allreduce tree 3 1.27
//! ```
//!
//! All ranks of a job must use the same model, or they choose different algorithms. The launcher therefore
//! passes it to them.

use std::fmt::{self, Write as _};

use tutti_base::config::Config;
use tutti_base::cost_model;

use crate::shape::Collective;
use crate::text_error::TextError;

/// Levels of distance: 0 the same core, 1 to 6 as `tutti_topo::Distance`, 7 another machine.
pub const DISTANCES: usize = 8;

/// Values for each level of distance.
pub type ByDistance = [f64; DISTANCES];

/// The parameters. Defaults are those of a current server, of which only the ratios matter.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Beginning and ending an operation: argument checks, finding the plan. Seconds.
    pub call: f64,
    /// The engine's work for a step. Seconds.
    pub step: f64,
    /// A processor's work to send or to receive one message, without its bytes. Seconds.
    pub message_overhead: f64,
    /// Time from the end of a send until its receiver can see the message. Seconds.
    pub message_latency: ByDistance,
    /// Time to move a byte of a message into or out of the transport, on each side. The cache lines change
    /// their owner each time. Seconds.
    pub message_byte: f64,
    /// Size of messages above which there is a handshake within a host. Bytes.
    pub eager_bytes: f64,
    /// Size of messages above which there is a handshake between hosts. Bytes.
    pub network_eager_bytes: f64,
    /// Least size of exposed memory that is mapped, where it can be. Bytes.
    pub map_bytes: f64,
    /// Size of the pieces of a long message. Bytes.
    pub fragment_bytes: f64,
    /// Time from the change of a flag until a rank that waits for it sees it: the price of one cache line.
    /// Seconds.
    pub line: ByDistance,
    /// Time between two readers of one changed line. Seconds.
    pub line_gap: f64,
    /// Time to set a flag. Seconds.
    pub post: f64,
    /// Time to copy a byte into a bank, or out of a peer's. The cache lines change their owner each time.
    /// Seconds.
    pub bank_byte: f64,
    /// Additional time to combine a byte into a bank. Copies into banks bypass the caches, but combining does
    /// not, and the lines come back from the peers one by one. Seconds.
    pub bank_write_back: f64,
    /// Time to copy a byte that is in a cache, by the distance of its owner. Seconds.
    pub copy_byte: ByDistance,
    /// Time to copy a byte that is in no cache, by the distance of its owner. Seconds.
    pub memory_byte: ByDistance,
    /// Bandwidth of one memory controller, shared by all its copies. Bytes a second.
    pub memory_bandwidth: f64,
    /// Bandwidth of one rank's memory, shared by all ranks that read it. Bytes a second.
    pub source_bandwidth: f64,
    /// Number of ranks that can read the memory of one rank by system calls in the time that a single reader
    /// takes. More readers slow each other down.
    pub source_readers: f64,
    /// Bandwidth from one memory controller to ranks at others, shared by all copies. Bytes a second.
    pub link_bandwidth: f64,
    /// Bandwidth from one board to ranks on others, shared by all copies. Bytes a second.
    pub board_bandwidth: f64,
    /// Size of a last-level cache. Bytes.
    pub cache_bytes: f64,
    /// Time to combine a byte with another, both in cache. Seconds.
    pub reduce_byte: f64,
    /// Time to expose a span of memory, and for a peer to find it if it is mapped. Seconds.
    pub expose: f64,
    /// Additional time to write a byte that another rank has read in place, or to read one that it has
    /// written. The line must be fetched again. Seconds.
    pub rewrite_byte: f64,
    /// Time of a single copy by system call, whatever its size. Seconds.
    pub single_copy_call: f64,
    /// Additional time of a single copy for each page. Seconds.
    pub single_copy_page: f64,
    /// Time for which a waiting rank spins on a core that others want. Seconds.
    pub spin: f64,
    /// Time of a switch from one process to another on the same core. Seconds.
    pub switch: f64,
    /// Time of a switch from a process that waits and gives up the core at once. Seconds.
    pub look: f64,
    /// Processor time to put a process to sleep and wake it. Between hosts, a rank that shares its processor
    /// sleeps at once, on the network and on the doorbell of its host. Seconds.
    pub sleep: f64,
    /// Bandwidth of the network of a machine, shared by all its ranks, each way. Bytes a second.
    pub network_bandwidth: f64,
    /// Additional cost at a rank for a message to or from another host, compared with one within the host.
    /// Seconds.
    pub network_overhead: f64,
    /// Longest time that the request for a long message waits behind messages on their way out of its host.
    /// The kernel lets a connection queue about a millisecond's bytes before an interface. Measured around
    /// rings of hosts, the mean wait is half of that. Seconds.
    pub network_queue: f64,
    /// Ratios of measured to predicted times.
    pub corrections: Vec<Correction>,
}

/// Measured correction of the prediction for an algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction {
    /// Collective operation that was measured.
    pub collective: Collective,
    /// Name of the algorithm.
    pub algorithm: String,
    /// Bytes of a segment; `None` if that was left to the model.
    pub segment: Option<u64>,
    /// Number of ranks in the measurement.
    pub ranks: u32,
    /// Number of hosts of these ranks.
    pub hosts: u32,
    /// Class of the message's size, see [`size_class`].
    pub class: u32,
    /// Measured time divided by predicted time.
    pub factor: f64,
}

/// Returns the class of a size: its binary logarithm plus 1, and 0 for no bytes.
pub fn size_class(bytes: u64) -> u32 {
    if bytes == 0 { 0 } else { bytes.ilog2() + 1 }
}

impl Default for Model {
    fn default() -> Model {
        let nanoseconds = |values: ByDistance| values.map(|value| value * 1e-9);
        Model {
            call: 50e-9,
            step: 10e-9,
            message_overhead: 180e-9,
            message_latency: nanoseconds([60.0, 120.0, 140.0, 160.0, 170.0, 220.0, 350.0, 12000.0]),
            message_byte: 0.05e-9,
            eager_bytes: 16384.0,
            network_eager_bytes: 65536.0,
            map_bytes: 16384.0,
            fragment_bytes: 32768.0,
            line: nanoseconds([30.0, 45.0, 65.0, 110.0, 120.0, 170.0, 300.0, 2000.0]),
            line_gap: 15e-9,
            post: 8e-9,
            bank_byte: 0.045e-9,
            bank_write_back: 0.1e-9,
            copy_byte: nanoseconds([0.03, 0.03, 0.033, 0.045, 0.05, 0.065, 0.1, 1.0]),
            memory_byte: nanoseconds([0.09, 0.09, 0.09, 0.1, 0.11, 0.14, 0.2, 1.0]),
            memory_bandwidth: 40e9,
            source_bandwidth: 100e9,
            source_readers: 8.0,
            link_bandwidth: 20e9,
            board_bandwidth: 80e9,
            cache_bytes: 33554432.0,
            reduce_byte: 0.05e-9,
            expose: 400e-9,
            rewrite_byte: 0.08e-9,
            single_copy_call: 2.2e-6,
            single_copy_page: 0.1e-6,
            spin: 0.3e-6,
            switch: 1.6e-6,
            look: 0.6e-6,
            sleep: 5e-6,
            // Values of TCP over 10 Gbit/s; a probe across hosts measures better ones.
            network_bandwidth: 1.1e9,
            network_overhead: 2.5e-6,
            network_queue: 0.5e-3,
            corrections: Vec::new(),
        }
    }
}

/// One scalar parameter: its name, and where it is.
type Scalar = (&'static str, fn(&mut Model) -> &mut f64);
/// One parameter with a value a distance.
type Vector = (&'static str, fn(&mut Model) -> &mut ByDistance);

static SCALARS: [Scalar; 30] = [
    ("call", |m| &mut m.call),
    ("step", |m| &mut m.step),
    ("message_overhead", |m| &mut m.message_overhead),
    ("message_byte", |m| &mut m.message_byte),
    ("eager_bytes", |m| &mut m.eager_bytes),
    ("network_eager_bytes", |m| &mut m.network_eager_bytes),
    ("map_bytes", |m| &mut m.map_bytes),
    ("fragment_bytes", |m| &mut m.fragment_bytes),
    ("line_gap", |m| &mut m.line_gap),
    ("post", |m| &mut m.post),
    ("bank_byte", |m| &mut m.bank_byte),
    ("bank_write_back", |m| &mut m.bank_write_back),
    ("memory_bandwidth", |m| &mut m.memory_bandwidth),
    ("source_bandwidth", |m| &mut m.source_bandwidth),
    ("source_readers", |m| &mut m.source_readers),
    ("link_bandwidth", |m| &mut m.link_bandwidth),
    ("board_bandwidth", |m| &mut m.board_bandwidth),
    ("cache_bytes", |m| &mut m.cache_bytes),
    ("reduce_byte", |m| &mut m.reduce_byte),
    ("expose", |m| &mut m.expose),
    ("rewrite_byte", |m| &mut m.rewrite_byte),
    ("single_copy_call", |m| &mut m.single_copy_call),
    ("single_copy_page", |m| &mut m.single_copy_page),
    ("spin", |m| &mut m.spin),
    ("switch", |m| &mut m.switch),
    ("look", |m| &mut m.look),
    ("sleep", |m| &mut m.sleep),
    ("network_bandwidth", |m| &mut m.network_bandwidth),
    ("network_overhead", |m| &mut m.network_overhead),
    ("network_queue", |m| &mut m.network_queue),
];

static VECTORS: [Vector; 4] = [
    ("message_latency", |m| &mut m.message_latency),
    ("line", |m| &mut m.line),
    ("copy_byte", |m| &mut m.copy_byte),
    ("memory_byte", |m| &mut m.memory_byte),
];

impl Model {
    /// Returns the model with the eager limits of these settings.
    pub fn under(self, config: &Config) -> Model {
        let (eager_bytes, network_eager_bytes) =
            (config.messages.eager_bytes, config.messages.connected_eager_bytes);
        Model { eager_bytes: eager_bytes as f64, network_eager_bytes: network_eager_bytes as f64, ..self }
    }

    /// Returns the size in bytes above which messages take a handshake, within a host or between hosts.
    pub fn longest_eager(&self, between_hosts: bool) -> f64 {
        if between_hosts { self.network_eager_bytes } else { self.eager_bytes }
    }

    /// Reads the text of a model.
    ///
    /// # Errors
    /// Returns the first wrong line, with its number and the reason.
    pub fn parse(text: &str) -> Result<Model, TextError> {
        let mut model = Model::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = cost_model::content(line);
            if !line.is_empty() {
                model.read(line).map_err(|error| error.in_line(number))?;
            }
        }
        Ok(model)
    }

    fn read(&mut self, line: &str) -> Result<(), TextError> {
        let (name, value) = line.split_once(' ').ok_or_else(|| TextError::NoValue(line.to_string()))?;
        if name == "correction" {
            self.corrections.push(Correction::parse(value)?);
            return Ok(());
        }
        *self.parameter(name)? = positive(value)?;
        Ok(())
    }

    fn parameter(&mut self, name: &str) -> Result<&mut f64, TextError> {
        let unknown = || TextError::UnknownParameter(name.to_string());
        if let Some((vector, distance)) = name.split_once('.') {
            let (_, get) = VECTORS.iter().find(|(known, _)| *known == vector).ok_or_else(unknown)?;
            let distance: usize = distance.parse().map_err(|_| unknown())?;
            return get(self).get_mut(distance).ok_or_else(unknown);
        }
        let (_, get) = SCALARS.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
        Ok(get(self))
    }

    /// Returns true if an algorithm was measured with segments of `segment` bytes.
    pub fn has_measured(
        &self,
        collective: Collective,
        (algorithm, segment): (&str, u64),
        (ranks, hosts): (u32, u32),
    ) -> bool {
        self.corrections.iter().any(|one| {
            one.segment == Some(segment)
                && (one.collective, &*one.algorithm, one.ranks, one.hosts)
                    == (collective, algorithm, ranks, hosts)
        })
    }

    /// Returns the factor for predictions of an algorithm with segments of `segment` bytes: 1, or one
    /// measured nearby. Measurements with the most similar segments are used. Between two measured sizes the
    /// factor is interpolated. Measurements with other numbers of ranks or hosts are ignored.
    pub fn correction(
        &self,
        collective: Collective,
        (algorithm, segment): (&str, u64),
        (ranks, hosts): (u32, u32),
        bytes: u64,
    ) -> f64 {
        let position = (bytes.max(1) as f64).log2() + 1.0;
        let (mut below, mut above) = (None::<(f64, f64)>, None::<(f64, f64)>);
        let of_it = |one: &&Correction| {
            (one.collective, &*one.algorithm, one.ranks, one.hosts) == (collective, algorithm, ranks, hosts)
        };
        let unlike = |measured: u64| size_class(measured).abs_diff(size_class(segment));
        let similar = self.corrections.iter().filter(of_it).map(|one| one.segment);
        let similar = similar.min_by_key(|one| (one.map_or(u32::MAX, unlike), *one)).flatten();
        let known = self.corrections.iter().filter(of_it).filter(|one| one.segment == similar);
        for correction in known {
            let at = f64::from(correction.class);
            if at <= position && below.is_none_or(|(other, _)| at > other) {
                below = Some((at, correction.factor));
            }
            if at >= position && above.is_none_or(|(other, _)| at < other) {
                above = Some((at, correction.factor));
            }
        }
        match (below, above) {
            (Some((from, one)), Some((to, two))) if to > from => {
                one + (two - one) * (position - from) / (to - from)
            }
            (Some((_, factor)), _) | (None, Some((_, factor))) => factor,
            (None, None) => 1.0,
        }
    }
}

fn positive(text: &str) -> Result<f64, TextError> {
    let value: Option<f64> = text.trim().parse().ok();
    let value = value.filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| TextError::Negative(text.to_string()))
}

impl Correction {
    /// Reads the rest of a line that begins with the word `correction`.
    ///
    /// # Errors
    /// Returns the reason if a field is missing or wrong.
    pub fn parse(text: &str) -> Result<Correction, TextError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[collective, algorithm, place, class, factor] = fields.as_slice() else {
            return Err(TextError::CorrectionForm);
        };
        let known = Collective::ALL.into_iter().find(|known| known.name() == collective);
        let number = |text: &str| text.parse::<u64>().map_err(|_| TextError::NotANumber(text.to_string()));
        let small = |text: &str| {
            let fits = |number| u32::try_from(number).map_err(|_| TextError::TooLarge(text.to_string()));
            number(text).and_then(fits)
        };
        let (algorithm, segment) = match algorithm.split_once(SEGMENT) {
            Some((algorithm, segment)) => (algorithm, Some(number(segment)?)),
            None => (algorithm, None),
        };
        let (ranks, hosts) = place.split_once(HOSTS).unwrap_or((place, "1"));
        Ok(Correction {
            collective: known.ok_or_else(|| TextError::UnknownCollective(collective.to_string()))?,
            algorithm: algorithm.to_string(),
            segment,
            ranks: small(ranks)?,
            hosts: small(hosts)?,
            class: small(class)?,
            factor: positive(factor)?,
        })
    }
}

/// Separator between an algorithm and the bytes of its segments, in the syntax of `TUTTI_ALGORITHM`.
const SEGMENT: &str = ":segment=";

/// Separator between the numbers of ranks and hosts.
const HOSTS: &str = "@";

/// Returns the name of an algorithm in the syntax of `TUTTI_ALGORITHM`, with the bytes of its segments if
/// given.
pub fn variant(algorithm: &str, segment: Option<u64>) -> String {
    segment.map_or(algorithm.to_string(), |bytes| format!("{algorithm}{SEGMENT}{bytes}"))
}

impl fmt::Display for Correction {
    /// Writes a line of a model's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Correction { collective, algorithm, segment, ranks, hosts, class, factor } = self;
        let algorithm = variant(algorithm, *segment);
        let hosts = if *hosts == 1 { String::new() } else { format!("{HOSTS}{hosts}") };
        write!(f, "correction {collective} {algorithm} {ranks}{hosts} {class} {factor:e}")
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut model = self.clone();
        let mut text = String::new();
        for (name, get) in &SCALARS {
            writeln!(text, "{name} {:e}", get(&mut model))?;
        }
        for (name, get) in &VECTORS {
            for (distance, value) in get(&mut model).iter().enumerate() {
                writeln!(text, "{name}.{distance} {value:e}")?;
            }
        }
        for correction in &self.corrections {
            writeln!(text, "{correction}")?;
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Model, &str>) {
        match (Model::parse(text), expected) {
            (Ok(model), Ok(wanted)) => assert_eq!(model, wanted, "{text}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    }

    #[test]
    fn a_model_reads_as_it_was_written() {
        check("", Ok(Model::default()));
        check("# nothing\n\nswitch 2e-6 # slow\n", Ok(Model { switch: 2e-6, ..Model::default() }));
        check("switch", Err("line 1: \"switch\" has no value"));
        check("\nsvitch 1", Err("line 2: no parameter is named \"svitch\""));
        check("line.8 1", Err("no parameter is named \"line.8\""));
        check("line.2 -1", Err("\"-1\" is not a number of at least 0"));
        check("correction bcast knomial 2 x 1", Err("\"x\" is not a number"));
        check("correction broadcast knomial 2 1 1", Err("\"broadcast\" is no collective"));
        let mut model = Model { switch: 1.25e-6, ..Model::default() };
        model.line[3] = 7e-8;
        model.corrections.push(Correction {
            collective: Collective::Bcast,
            algorithm: "kary".into(),
            segment: None,
            ranks: 4,
            hosts: 1,
            class: 11,
            factor: 1.5,
        });
        let first = model.corrections[0].clone();
        model.corrections.push(Correction {
            algorithm: "levels".into(),
            segment: Some(65536),
            ranks: 16,
            hosts: 4,
            ..first
        });
        let text = model.to_string();
        assert!(text.ends_with("correction bcast levels:segment=65536 16@4 11 1.5e0\n"), "{text}");
        check(&text, Ok(model));
    }

    #[test]
    fn corrections_change_gradually() {
        let text = "correction bcast kary 4 11 2\ncorrection bcast kary 4 13 4\n";
        let model = Model::parse(text).unwrap();
        let factor = |ranks, bytes| model.correction(Collective::Bcast, ("kary", 0), (ranks, 1), bytes);
        assert_eq!([1, 1024, 2048, 4096, 1 << 20].map(|bytes| factor(4, bytes)), [2.0, 2.0, 3.0, 4.0, 4.0]);
        assert_eq!(factor(2, 1024), 1.0);
        assert_eq!(model.correction(Collective::Bcast, ("kary", 0), (4, 2), 1024), 1.0);
        let text = "correction bcast levels 8@2 11 9\ncorrection bcast levels:segment=4096 8@2 11 2\n\
                    correction bcast levels:segment=65536 8@2 11 3\n";
        let model = Model::parse(text).unwrap();
        let factor = |segment| model.correction(Collective::Bcast, ("levels", segment), (8, 2), 1024);
        assert_eq!([0, 4096, 8192, 65536, 1 << 20].map(factor), [2.0, 2.0, 2.0, 3.0, 3.0]);
        assert_eq!(size_class(0), 0);
        assert_eq!(size_class(1024), 11);
    }
}
