//! `tutti compare --hosts N`: comparison of the libraries on several hosts, which are namespaces of this
//! machine.
//!
//! Messages are measured between two hosts with one rank each, collectives on all hosts with all ranks. The
//! start of a job is measured by numbers of hosts and ranks. One TCP connection without MPI is measured in
//! the same turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tutti_testbed::{Host, Lines, Testbed};

use crate::measure::awake::Awake;
use crate::measure::cells::asks;
use crate::measure::crew::{Crew, Pace, Rounds};
use crate::measure::job_end;
use crate::measure::library::{HostSet, Library, distinct};
use crate::measure::network;
use crate::measure::options::{CompareOptions, IN_THREADS, Shape};
use crate::measure::programs::Programs;
use crate::measure::report;
use crate::measure::results::{Results, TCP};
use crate::measure::session::{Ask, Session};

/// Operations between two ranks.
pub const BETWEEN_TWO: [&str; 7] =
    ["latency", "bandwidth", "bibandwidth", "put", "get", "accumulate", "fetch_and_op"];

/// Measures, prints the tables and writes the report.
///
/// # Errors
/// Fails if there can be no testbed here, a library is missing, or the report cannot be written.
pub fn run(options: &CompareOptions) -> Result<(), String> {
    let home = crate::measure::library::home()?;
    let find = |name: &String| Library::find(name, &home, &options.peers);
    let libraries = options.libraries.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let programs = Programs::build(&options.out, &libraries)?;
    let hosts = options.hosts.unwrap_or(2).max(2);
    let most = options.starts.iter().map(|shape| shape.hosts).chain([hosts]).max().unwrap_or(hosts);
    let testbed = Raised::new(most, &options.rate, &[&home, &options.peers, &programs.directory])?;
    let mut bench = Bench { options, libraries, programs, testbed };
    bench.learn()?;
    let awake = Awake::begin();
    let mut results = Results::new(awake.is_some());
    bench.between_two(&mut results);
    bench.among_all(hosts, &mut results);
    for round in 0..options.rounds {
        options.starts.iter().for_each(|shape| bench.start(*shape, round, &mut results));
    }
    let mut shown = options.clone();
    shown.ranks = vec![2, hosts * options.ranks_per_host];
    shown.ranks.dedup();
    report::write(&shown, &bench.libraries, &results)
}

/// A testbed for as long as this lives.
pub struct Raised {
    name: String,
    testbed: Testbed,
}

impl Raised {
    /// Makes `hosts` hosts that see the folders `shared`.
    ///
    /// # Errors
    /// Fails if there can be none on this machine.
    pub fn new(hosts: u32, rate: &str, shared: &[&Path]) -> Result<Raised, String> {
        let name = format!("tutti-{}", std::process::id());
        let absolute = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let mut shared: Vec<PathBuf> = shared.iter().map(|path| absolute(path)).collect();
        shared.extend(std::env::current_dir());
        let lines = Lines { hosts, rate: rate.to_string(), shared, with: Some(std::process::id()) };
        Ok(Raised { testbed: tutti_testbed::up(&name, &lines).map_err(|error| error.to_string())?, name })
    }

    /// Returns the first `hosts` hosts with `per_host` ranks each.
    pub fn place(&self, hosts: u32, per_host: u32) -> HostSet {
        let all = &self.testbed.hosts;
        HostSet {
            enter: all[0].enter(),
            agent: self.testbed.agent().to_string_lossy().into_owned(),
            hosts: all.iter().take(hosts as usize).map(|host| host.name.clone()).collect(),
            per_host,
            by_node: false,
        }
    }

    /// Returns for each host the command prefix that runs a command there.
    pub fn enter_each(&self) -> Vec<Vec<String>> {
        self.testbed.hosts.iter().map(Host::enter).collect()
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Err(message) = tutti_testbed::down(&self.name) {
            eprintln!("testbed: {message}");
        }
    }
}

struct Bench<'a> {
    options: &'a CompareOptions,
    libraries: Vec<Library>,
    programs: Programs,
    testbed: Raised,
}

impl Bench<'_> {
    fn pace(&self) -> Pace {
        Pace {
            ms: f64::from(self.options.ms),
            limit_ms: self.options.limit_ms,
            timeout: Duration::from_secs(self.options.timeout),
        }
    }

    /// Measures the network for Tutti, as `tutti probe --hosts` does on an installation.
    fn learn(&mut self) -> Result<(), String> {
        let Some(tutti) = self.libraries.iter_mut().find(|library| library.name == "tutti") else {
            return Ok(());
        };
        *tutti = network::told(tutti, &self.programs, &self.testbed.place(2, 1))?;
        Ok(())
    }

    /// Measures latency and bandwidth between two hosts.
    fn between_two(&self, results: &mut Results) {
        let asks: Vec<Ask> = self.asks(|op| BETWEEN_TWO.contains(&op));
        if asks.is_empty() {
            return;
        }
        let place = self.testbed.place(2, 1);
        let mut tcp = self.tcp(&place).map_err(|why| results.fail(format!("{TCP}: {why}"))).ok();
        self.stage(&place, &asks, results, |ask, results| {
            let Some(session) = &mut tcp else { return };
            match session.measure(ask, f64::from(self.options.ms), self.options.limit_ms, self.pace().timeout)
            {
                Ok(Some(sample)) => results.add(TCP, sample),
                Ok(None) => {}
                Err(why) => {
                    results.fail(format!("{TCP}: {why}"));
                    tcp = None;
                }
            }
        });
    }

    /// Starts the program that measures one TCP connection.
    fn tcp(&self, place: &HostSet) -> Result<Session, String> {
        let program = self.programs.compile_plain("wire")?;
        let mut command = Command::new(&place.enter[0]);
        command.args(&place.enter[1..]).arg(program).args([&place.agent, &place.hosts[1]]);
        Session::start(command, 2, &self.programs.directory.join(TCP))
    }

    fn among_all(&self, hosts: u32, results: &mut Results) {
        let asks = self.asks(|op| !BETWEEN_TWO.contains(&op) && op != IN_THREADS);
        if !asks.is_empty() {
            let place = self.testbed.place(hosts, self.options.ranks_per_host);
            self.stage(&place, &asks, results, |_, _| {});
        }
    }

    fn asks(&self, wanted: impl Fn(&str) -> bool) -> Vec<Ask> {
        asks(self.options).into_iter().filter(|ask| wanted(&ask.op)).collect()
    }

    /// Measures these cells on every library in turn, and then what `also` measures.
    fn stage(
        &self,
        place: &HostSet,
        asks: &[Ask],
        results: &mut Results,
        mut also: impl FnMut(&Ask, &mut Results),
    ) {
        let libraries: Vec<Library> =
            distinct(&self.libraries, true).map(|library| library.on_hosts(place)).collect();
        let program = |library| self.programs.path_of("tutti-bench", library);
        let members = libraries.iter().map(|library| (library, program(library))).collect();
        let what = format!("{} hosts x {} ranks", place.hosts.len(), place.per_host);
        eprintln!("{what}: {} cells on {} libraries", asks.len(), libraries.len());
        let rounds =
            self.options.budget.map_or(Rounds::Number(self.options.rounds), |time| Rounds::Time(time / 3));
        let mut crew = Crew::new(members, place.ranks(), &self.programs.directory, self.pace());
        rounds.run(|round| {
            let begin = Instant::now();
            for ask in asks {
                crew.measure(ask, round, results);
                also(ask, results);
            }
            eprintln!("{what}, round {}: {:.1} s", round + 1, begin.elapsed().as_secs_f64());
        });
    }

    /// Measures the start and end of a minimal program with every library.
    fn start(&self, shape: Shape, round: u32, results: &mut Results) {
        let place = self.testbed.place(shape.hosts, shape.ranks);
        let timeout = Duration::from_secs(self.options.timeout);
        let count = self.libraries.len();
        let in_turn = (0..count).map(|i| &self.libraries[(i + round as usize) % count]);
        for library in in_turn.filter(|library| library.name != "mpich-p2p") {
            let program = self.programs.path_of("start", library);
            match job_end::start(&library.on_hosts(&place), &program, place.ranks(), timeout) {
                Ok(ms) => results.add_event(&shape.event(), &library.name, ms),
                Err(why) => results.fail(format!("{} on {shape}: {why}", library.name)),
            }
        }
    }
}
