//! Time of the start of a job, and memory of a rank: T = T_init + T_connect (yu-2006, section 2.7).
//!
//! A [`Scheme`] says how processes are started ([`Spread`]) and how they learn the addresses of the others
//! ([`SimulatedExchange`]). Its work is counted along the longest path, term by term ([`Scheme::terms`]).
//! Each term has a cost that is fitted to measured runs by least squares ([`fit`]). All schemes share these
//! constants, so a few runs on a few hosts predict the time of each scheme at a million ranks.
//!
//! Runs are text, one on each line (`#` begins a comment):
//!
//! ```text
//! shared 2                     # all hosts are one machine with so many processors (a testbed)
//! time tree:8+request 4 8 0.1  # scheme, hosts, ranks, seconds
//! memory static 16 64 3.1e6    # connections, hosts, ranks, bytes a rank
//! ```

mod fit;
#[cfg(test)]
mod tests;

pub use fit::{Fitted, fit};

use std::fmt;
use std::str::FromStr;

use crate::text_error::TextError;

/// Bytes of a process's address.
const ADDRESS_BYTES: f64 = 28.0;
/// Bytes that a process sends to each of its peers in the schemes of the paper (a queue pair's number).
const NUMBER_BYTES: f64 = 4.0;

/// Method of starting the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The launcher starts a remote shell for each process, one after another (the paper's original).
    Each,
    /// The launcher starts a daemon on each host.
    Star,
    /// Daemons start daemons, each this many.
    Tree(u32),
    /// Daemons are running already, and learn of the job along their ring (the paper's MPD).
    Daemons,
}

/// Method by which processes learn the addresses of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedExchange {
    /// Each at the first message to a peer; the start waits for no exchange.
    Request,
    /// All addresses pass through a ring of the daemons.
    Ring,
    /// Every process connects to every other one.
    Static,
    /// The launcher collects N - 1 numbers of each process and sends all of them to every process (the
    /// paper's original).
    Combined,
    /// The launcher sends each process only the numbers that it needs (the paper's DR).
    Reassembled,
    /// The launcher helps to build a ring of connections between the processes, and all numbers pass through
    /// the ring (the paper's BC).
    Bootstrap,
}

/// Method of starting a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Start of the processes.
    pub spread: Spread,
    /// Exchange of addresses after that.
    pub exchange: SimulatedExchange,
}

/// Size of a job to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Number of hosts, at least 1.
    pub hosts: u32,
    /// Number of processes on all hosts together.
    pub ranks: u32,
    /// Number of processors, if all hosts are one machine; otherwise 0.
    pub shared: u32,
}

/// Names of the terms of a start, in the order of [`Scheme::terms`].
pub const TERMS: [&str; 7] = ["fixed", "agent", "child", "rank", "hop", "byte", "connection"];

/// Descriptions of the terms, for users.
pub const MEANINGS: [&str; 7] = [
    "the launcher itself, and what each process does alone",
    "from starting an agent until its daemon answers",
    "a parent's work for a child, one after another",
    "starting a process on its host, one after another",
    "a message from one process to the next",
    "a byte of such messages",
    "making a connection",
];

/// Costs in seconds that are assumed without runs: a current cluster with ssh-like agents.
pub const ASSUMED: [f64; 7] = [5e-3, 5e-2, 2e-3, 1e-3, 5e-5, 1e-9, 2e-4];

/// Names of the terms of a rank's memory, in the order of [`Connections::terms`].
pub const MEMORY_TERMS: [&str; 4] = ["process", "rank of the job", "peer", "connection"];

/// Sizes of these terms in bytes that are assumed without runs.
pub const MEMORY_ASSUMED: [f64; 4] = [1e6, 0.125, 1e3, 128e3];

impl Scheme {
    /// Returns the number of times that each term lies on the longest path.
    pub fn terms(&self, job: &Job) -> [f64; 7] {
        let (hosts, ranks) = (f64::from(job.hosts), f64::from(job.ranks));
        let others = (hosts - 1.0).max(0.0);
        let (depth, children) = self.spread.path(job);
        let mut terms = [1.0, depth, children, (ranks / hosts).ceil(), depth, 0.0, 0.0];
        match self.spread {
            // The remote shell is the start of the process.
            Spread::Each => terms[3] = 0.0,
            Spread::Daemons => terms[4] = ranks,
            Spread::Star | Spread::Tree(_) => {}
        }
        let (hops, bytes, connections) = match self.exchange {
            SimulatedExchange::Request => (0.0, 0.0, 0.0),
            SimulatedExchange::Ring => (others, ranks * ADDRESS_BYTES, f64::from(job.hosts > 1)),
            SimulatedExchange::Static => (ranks - 1.0, (ranks - 1.0) * ADDRESS_BYTES, ranks - 1.0),
            SimulatedExchange::Combined => (2.0 * ranks, NUMBER_BYTES * ranks * ranks * (1.0 + ranks), 0.0),
            SimulatedExchange::Reassembled => (2.0 * ranks, NUMBER_BYTES * 2.0 * ranks * ranks, 0.0),
            SimulatedExchange::Bootstrap => (ranks, NUMBER_BYTES * ranks * ranks, ranks),
        };
        terms[4] += hops;
        terms[5] += bytes;
        terms[6] += connections;
        if job.shared > 0 {
            // One machine does the work of all hosts.
            let shared = f64::from(job.shared);
            terms[1] = terms[1].max(others / shared);
            terms[2] = terms[2].max(others / shared);
            terms[3] = terms[3].max(ranks / shared);
            if self.exchange == SimulatedExchange::Static {
                terms[6] = terms[6].max(ranks * (ranks - 1.0) / 2.0 / shared);
            }
        }
        terms
    }

    /// Returns the time of a start, in seconds.
    pub fn seconds(&self, job: &Job, costs: &[f64]) -> f64 {
        self.terms(job).iter().zip(costs).map(|(times, cost)| times * cost).sum()
    }

    /// Returns the time of the initiation alone, in seconds; the exchange takes the remaining time.
    pub fn init_seconds(&self, job: &Job, costs: &[f64]) -> f64 {
        Scheme { exchange: SimulatedExchange::Request, ..*self }.seconds(job, costs)
    }
}

impl Spread {
    /// Returns the number of agents started one after another on the longest path, and the number of children
    /// started along it.
    pub fn path(self, job: &Job) -> (f64, f64) {
        let others = job.hosts.saturating_sub(1);
        match self {
            Spread::Each => (0.0, f64::from(job.ranks)),
            Spread::Daemons => (1.0, 0.0),
            Spread::Star => (f64::from(others.min(1)), f64::from(others)),
            Spread::Tree(radix) => {
                let radix = u64::from(radix.max(1));
                let (mut depth, mut children, mut level, mut left) = (0.0, 0.0, radix, u64::from(others));
                while left > 0 {
                    depth += 1.0;
                    children += left.min(radix) as f64;
                    left = left.saturating_sub(level);
                    level = level.saturating_mul(radix);
                }
                (depth, children)
            }
        }
    }
}

/// Time at which connections are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// On demand: with this number of peers, or with twice the logarithm of the ranks if it is 0.
    Adaptive(u32),
    /// With every other rank from the start.
    Static,
}

impl Connections {
    /// Returns the number of times that each term of [`MEMORY_TERMS`] counts for a rank.
    pub fn terms(self, job: &Job) -> [f64; 4] {
        let others = f64::from(job.ranks.saturating_sub(1));
        let peers = match self {
            Connections::Static => others,
            Connections::Adaptive(0) => others.min(2.0 * f64::from(job.ranks).log2().ceil()),
            Connections::Adaptive(peers) => others.min(f64::from(peers)),
        };
        [1.0, others, peers, peers]
    }

    /// Returns the memory of a rank in bytes.
    pub fn bytes(self, job: &Job, costs: &[f64]) -> f64 {
        self.terms(job).iter().zip(costs).map(|(times, cost)| times * cost).sum()
    }
}

/// Measured time of a start, or measured memory of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run<S> {
    /// Scheme of the start or of the connections.
    pub scheme: S,
    /// Job that was started.
    pub job: Job,
    /// Seconds, or bytes a rank.
    pub measured: f64,
}

/// Measured runs, read from a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Measured times of starts.
    pub times: Vec<Run<Scheme>>,
    /// Measured memory of a rank.
    pub memory: Vec<Run<Connections>>,
}

impl Runs {
    /// Reads the text that the module's documentation describes.
    ///
    /// # Errors
    /// Returns the number of the first invalid line, and the reason.
    pub fn parse(text: &str) -> Result<Runs, TextError> {
        let mut runs = Runs::default();
        let mut shared = 0;
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            let wrong = |error: TextError| error.in_line(number + 1);
            match words[..] {
                [] => {}
                ["shared", processors] => shared = parse(processors).map_err(wrong)?,
                ["time", scheme, hosts, ranks, seconds] => {
                    let scheme = scheme.parse().map_err(wrong)?;
                    let (job, measured) = run(hosts, ranks, shared, seconds).map_err(wrong)?;
                    runs.times.push(Run { scheme, job, measured });
                }
                ["memory", scheme, hosts, ranks, bytes] => {
                    let scheme = scheme.parse().map_err(wrong)?;
                    let (job, measured) = run(hosts, ranks, shared, bytes).map_err(wrong)?;
                    runs.memory.push(Run { scheme, job, measured });
                }
                _ => return Err(wrong(TextError::RunForm)),
            }
        }
        Ok(runs)
    }

    /// Returns the fitted costs of [`TERMS`].
    pub fn fit_times(&self) -> Fitted<7> {
        let rows: Vec<([f64; 7], f64)> =
            self.times.iter().map(|run| (run.scheme.terms(&run.job), run.measured)).collect();
        fit(&rows, &ASSUMED)
    }

    /// Returns the fitted sizes of [`MEMORY_TERMS`].
    pub fn fit_memory(&self) -> Fitted<4> {
        let rows: Vec<([f64; 4], f64)> =
            self.memory.iter().map(|run| (run.scheme.terms(&run.job), run.measured)).collect();
        fit(&rows, &MEMORY_ASSUMED)
    }
}

fn run(hosts: &str, ranks: &str, shared: u32, measured: &str) -> Result<(Job, f64), TextError> {
    let job = Job { hosts: parse(hosts)?, ranks: parse(ranks)?, shared };
    let measured: f64 = parse(measured)?;
    if job.hosts == 0 || job.ranks < job.hosts || !(measured.is_finite() && measured > 0.0) {
        return Err(TextError::RunValues);
    }
    Ok((job, measured))
}

fn parse<T: FromStr>(text: &str) -> Result<T, TextError> {
    text.parse().map_err(|_| TextError::NotANumber(text.to_string()))
}

const SPREADS: [(&str, Spread); 3] =
    [("each", Spread::Each), ("star", Spread::Star), ("daemons", Spread::Daemons)];

const EXCHANGES: [(&str, SimulatedExchange); 6] = [
    ("request", SimulatedExchange::Request),
    ("ring", SimulatedExchange::Ring),
    ("static", SimulatedExchange::Static),
    ("combined", SimulatedExchange::Combined),
    ("reassembled", SimulatedExchange::Reassembled),
    ("bootstrap", SimulatedExchange::Bootstrap),
];

/// `tree:8+ring`, `star` (by request): how processes are started, and how they find each other.
impl FromStr for Scheme {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Scheme, TextError> {
        let (first, second) = text.split_once('+').unwrap_or((text, "request"));
        let spread = match first.strip_prefix("tree:") {
            Some(radix) => Spread::Tree(parse::<std::num::NonZeroU32>(radix)?.get()),
            None => named(&SPREADS, first)?,
        };
        Ok(Scheme { spread, exchange: named(&EXCHANGES, second)? })
    }
}

impl FromStr for Connections {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Connections, TextError> {
        match (text, text.strip_prefix("adaptive:")) {
            ("static", _) => Ok(Connections::Static),
            ("adaptive", _) => Ok(Connections::Adaptive(0)),
            (_, Some(peers)) => parse(peers).map(Connections::Adaptive),
            _ => Err(unknown(text, "static, adaptive, adaptive:PEERS")),
        }
    }
}

fn named<T: Copy>(names: &[(&str, T)], text: &str) -> Result<T, TextError> {
    let found = names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        unknown(text, &all.join(", "))
    })
}

fn unknown(word: &str, expected: &str) -> TextError {
    TextError::UnknownWord { word: word.to_string(), expected: expected.to_string() }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spread {
            Spread::Tree(radix) => write!(f, "tree:{radix}")?,
            spread => write!(f, "{}", name_of(&SPREADS, spread))?,
        }
        write!(f, "+{}", name_of(&EXCHANGES, self.exchange))
    }
}

impl fmt::Display for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Connections::Static => f.write_str("static"),
            Connections::Adaptive(0) => f.write_str("adaptive"),
            Connections::Adaptive(peers) => write!(f, "adaptive:{peers}"),
        }
    }
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, other)| *other == value).map_or("", |(name, _)| name)
}
