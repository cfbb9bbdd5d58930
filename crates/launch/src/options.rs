//! The command line of `mpirun`: one table of options, from which parsing, `--help` and hints come.
//!
//! mpiexec options are long names after a single dash (MPI-5 section 11.5), so every name is taken
//! with one dash or two, and its value as the next argument or after `=`.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tutti_base::config::InitialErrorHandler;
use tutti_sys::{files, spawning};

use crate::request::{Assignment, Inherit, Program, Request, RestartFiles, Tagging, Verbosity};
use crate::slurm;

pub mod foreign;
mod help;
mod outputs;
pub(crate) mod policies;

use help::spell;
pub use help::{OptionHelp, described, help};

/// What a command line means.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Run this.
    Run(Box<Request>),
    /// Print the help text.
    Help,
    /// Print the version.
    Version,
}

/// A command line half read.
#[derive(Default)]
struct Reading {
    request: Request,
    program: Program,
    stop: Option<Parsed>,
    /// What has not been read.
    rest: VecDeque<OsString>,
}

type Take = fn(&mut Reading, &[String]) -> Result<(), String>;

/// One option.
struct Row {
    names: &'static [&'static str],
    values: &'static [&'static str],
    doc: &'static str,
    take: Take,
}

const fn row(
    names: &'static [&'static str],
    values: &'static [&'static str],
    doc: &'static str,
    take: Take,
) -> Row {
    Row { names, values, doc, take }
}

/// All options, in the order of the help text.
static OPTIONS: &[Row] = &[
    row(&["n", "np", "c"], &["N"], "start N ranks of the program that follows (default 1)", |r, v| {
        r.program.count = Some(count(&v[0])?);
        Ok(())
    }),
    row(
        &["host", "hosts", "H"],
        &["NAME[:N],..."],
        "run on these hosts, N ranks each (default 1)",
        |r, v| {
            r.request.hosts.extend(v[0].split(',').map(str::to_string));
            Ok(())
        },
    ),
    row(
        &["hostfile", "machinefile", "f"],
        &["FILE"],
        "run on the hosts that FILE lists, one a line: NAME, NAME:N or NAME slots=N",
        |r, v| {
            r.request.host_files.push(v[0].clone());
            Ok(())
        },
    ),
    row(&["ppn", "N", "npernode"], &["N"], "N ranks a host", |r, v| {
        r.request.per_node = Some(count(&v[0])?);
        Ok(())
    }),
    row(&["hosts-group"], &["NAMES"], "run on these hosts, with ranges: n[01-04,7]", |r, v| {
        r.request.hosts.extend(slurm::expand(&v[0])?);
        Ok(())
    }),
    row(&["default-hostfile"], &["FILE"], "the host file for the case that no hosts are named", |r, v| {
        r.request.default_host_files.push(v[0].clone());
        Ok(())
    }),
    row(&["nolocal", "skip-launch-node"], &[], "no ranks on this host", |r, _| {
        r.request.is_not_here = true;
        Ok(())
    }),
    row(&["order-nodes"], &["ORDER"], "hosts by their slots: ascending, descending", |r, v| {
        r.request.hosts_ascending = Some(match v[0].to_ascii_lowercase().as_str() {
            "ascending" | "asc" => true,
            "descending" | "desc" => false,
            _ => return Err("ascending or descending is needed".to_string()),
        });
        Ok(())
    }),
    row(
        &["nooversubscribe"],
        &[],
        "refuse more ranks than slots (without hosts: than processors)",
        |r, _| {
            r.request.is_within_slots = true;
            Ok(())
        },
    ),
    row(&["usize"], &["N"], "value of MPI_UNIVERSE_SIZE: a number, SYSTEM, INFINITE", |r, v| {
        r.request.universe = match v[0].as_str() {
            "SYSTEM" => None,
            "INFINITE" => Some(i32::MAX as u32),
            number => Some(count(number)?),
        };
        Ok(())
    }),
    row(
        &["agent"],
        &["CMD"],
        "start on other hosts by CMD HOST COMMAND... (default: ssh, or srun inside Slurm)",
        |r, v| {
            r.request.agent = Some(v[0].clone());
            Ok(())
        },
    ),
    row(&["radix"], &["N"], "each host starts N others (0: this one starts all)", |r, v| {
        r.request.radix = Some(v[0].parse().map_err(|_| "a number is needed")?);
        Ok(())
    }),
    row(
        &["interface", "iface"],
        &["NAME"],
        "reach other hosts by this interface, address or network",
        |r, v| {
            r.request.interface = Some(v[0].clone());
            Ok(())
        },
    ),
    row(&["prefix"], &["DIR"], "where Tutti is installed on the other hosts (default: as here)", |r, v| {
        r.request.prefix = Some(v[0].clone());
        Ok(())
    }),
    row(
        &["launcher", "bootstrap"],
        &["NAME"],
        "reach other hosts by ssh, rsh, slurm; fork: reach none",
        |r, v| {
            r.request.agent = match v[0].as_str() {
                "ssh" => None,
                "rsh" => Some("rsh".to_string()),
                "slurm" => Some(slurm::SLURM_AGENT.to_string()),
                "fork" => Some("false".to_string()),
                _ => {
                    return Err("ssh, rsh, slurm or fork is needed; others have to be given by --agent CMD"
                        .to_string());
                }
            };
            Ok(())
        },
    ),
    row(&["wdir", "wd"], &["DIR"], "working directory of the ranks", |r, v| {
        r.program.directory = Some(v[0].clone().into());
        Ok(())
    }),
    row(&["path"], &["DIRS"], "where to look for the program, before PATH", |r, v| {
        r.program.search = Some(v[0].clone().into());
        Ok(())
    }),
    row(&["env"], &["NAME", "VALUE"], "set a variable for this program", |r, v| {
        r.program.environment.push(variable(&v[0], &v[1])?);
        Ok(())
    }),
    row(&["genv"], &["NAME", "VALUE"], "set a variable for all programs", |r, v| {
        r.request.environment.push(variable(&v[0], &v[1])?);
        Ok(())
    }),
    row(&["x"], &["NAME[=VALUE]"], "set or pass on a variable for this program", export),
    row(&["envlist"], &["NAMES"], "this program inherits only these variables", |r, v| {
        r.program.inherit = Some(Inherit::Only(names(&v[0])));
        Ok(())
    }),
    row(&["genvlist"], &["NAMES"], "programs inherit only these variables", |r, v| {
        r.request.inherit = Inherit::Only(names(&v[0]));
        Ok(())
    }),
    row(&["envexcl"], &["NAMES"], "this program inherits all variables but these", |r, v| {
        r.program.inherit = Some(Inherit::Except(names(&v[0])));
        Ok(())
    }),
    row(&["genvexcl"], &["NAMES"], "programs inherit all variables but these", |r, v| {
        r.request.inherit = Inherit::Except(names(&v[0]));
        Ok(())
    }),
    row(&["envnone"], &[], "this program inherits no variables", |r, _| {
        r.program.inherit = Some(Inherit::None);
        Ok(())
    }),
    row(&["genvnone"], &[], "programs inherit no variables", |r, _| {
        r.request.inherit = Inherit::None;
        Ok(())
    }),
    row(&["envall"], &[], "this program inherits all variables", |r, _| {
        r.program.inherit = Some(Inherit::All);
        Ok(())
    }),
    row(&["genvall"], &[], "programs inherit all variables (the default)", |r, _| {
        r.request.inherit = Inherit::All;
        Ok(())
    }),
    row(
        &["unset-env"],
        &["NAME"],
        "this program does not get a variable, or all that begin as NAME*",
        |r, v| {
            r.program.unset.push(v[0].clone());
            Ok(())
        },
    ),
    row(
        &["configfile", "app"],
        &["FILE"],
        "read options and programs from FILE, one program a line",
        |r, v| {
            let path = Path::new(&v[0]);
            let text =
                files::read_text_or_pipe(path, CONFIGURATION_BYTES).map_err(|error| error.to_string())?;
            for word in policies::lines(&text, path)?.into_iter().rev() {
                r.rest.push_front(word.into());
            }
            Ok(())
        },
    ),
    row(
        &["map-by"],
        &["POLICY"],
        "a unit: slot, core, l2cache, l3cache, numa, package, node; or ppr:N:UNIT; and :PE=N",
        |r, v| policies::map(r, &v[0]),
    ),
    row(
        &["rank-by"],
        &["UNIT"],
        "number ranks host by host (slot) or in turn over the hosts (node)",
        |r, v| policies::rank(r, &v[0]),
    ),
    row(
        &["bind-to", "bindto", "binding"],
        &["UNIT"],
        "confine ranks to none, hwthread, core, l2cache, l3cache, numa, package (default: see below)",
        |r, v| policies::bind(r, &v[0]),
    ),
    row(
        &["cpu-set", "cpu-list"],
        &["CORES"],
        "use only these cores of each host, counted in their order",
        |r, v| {
            r.request.placing.cores = policies::list(&v[0])?;
            Ok(())
        },
    ),
    row(
        &["rankfile", "rf"],
        &["FILE"],
        "where each rank runs: a line rank N=HOST slot=CORES or slot=PACKAGE:CORES",
        |r, v| {
            r.request.assignment = Assignment::RankFile(v[0].clone());
            Ok(())
        },
    ),
    row(&["rankmap"], &["NUMBERS"], "for each rank the place of its host in the list of hosts", |r, v| {
        let numbers = v[0].trim_start_matches("(vector,").trim_end_matches(')');
        r.request.assignment = Assignment::Hosts(
            numbers.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| "numbers are needed")?,
        );
        Ok(())
    }),
    row(&["debug"], &[], "ranks wait in MPI_Init for a debugger, or run under TUTTI_DEBUGGER", |r, _| {
        r.request.is_debugged = true;
        Ok(())
    }),
    row(&["report-bindings"], &[], "print where each rank is bound", |r, _| {
        r.request.report_bindings = true;
        Ok(())
    }),
    row(&["tag-output"], &[], "begin each line of output with [rank]<stdout>: or [rank]<stderr>:", |r, _| {
        r.request.tagging = Tagging::Stream;
        Ok(())
    }),
    row(&["prepend-rank", "l"], &[], "begin each line of output with [rank]", |r, _| {
        r.request.tagging = Tagging::Rank;
        Ok(())
    }),
    row(
        &["timestamp", "timestamp-output"],
        &[],
        "begin each line with the seconds since the start",
        |r, _| {
            r.request.timestamp = true;
            Ok(())
        },
    ),
    row(&["prepend-pattern"], &["TEXT"], "begin each line so: %r rank, %h host, %p its number", |r, v| {
        r.request.tagging = Tagging::Pattern(outputs::pattern(&v[0])?);
        Ok(())
    }),
    row(
        &["output"],
        &["LIST"],
        "tag, timestamp, merge; file=NAME, dir=DIR: into files too, with :nocopy only there",
        |r, v| outputs::output(r, &v[0]),
    ),
    row(
        &["outfile-pattern", "outfile"],
        &["NAME"],
        "standard output into files: %r rank, %h host",
        |r, v| {
            r.request.output.out = Some(outputs::pattern(&v[0])?);
            r.request.output.is_shown = false;
            Ok(())
        },
    ),
    row(&["errfile-pattern", "errfile"], &["NAME"], "standard error into files: %r rank, %h host", |r, v| {
        r.request.output.err = Some(outputs::pattern(&v[0])?);
        r.request.output.is_shown = false;
        Ok(())
    }),
    row(&["merge-stderr-to-stdout"], &[], "standard error goes where standard output goes", |r, _| {
        r.request.output.is_merged = true;
        Ok(())
    }),
    row(&["stdin", "s"], &["RANK"], "which rank reads the standard input, or none (default 0)", |r, v| {
        outputs::input(r, &v[0])
    }),
    row(&["display"], &["LIST"], "show map, bind, allocation before the start", |r, v| {
        outputs::display(r, &v[0])
    }),
    row(&["do-not-launch"], &[], "start nothing: with --display, show what would be", |r, _| {
        r.request.is_dry = true;
        Ok(())
    }),
    row(&["print-all-exitcodes"], &[], "print how every rank has ended", |r, _| {
        r.request.exit_codes = true;
        Ok(())
    }),
    row(
        &["report-pid"],
        &["FILE"],
        "write the number of this process there (-: standard output, +: error)",
        |r, v| {
            r.request.pid_to = Some(v[0].clone());
            Ok(())
        },
    ),
    row(&["runtime-options"], &["LIST"], "as Open MPI has it: donotlaunch, show-progress, ...", |r, v| {
        outputs::runtime(r, &v[0])
    }),
    row(
        &["mca", "gmca", "omca", "gomca"],
        &["NAME", "VALUE"],
        "a parameter of Open MPI: what has a meaning here is done",
        |r, v| {
            let mut rest = std::mem::take(&mut r.rest);
            let result = foreign::parameter(r, &v[0], &v[1], &mut rest);
            r.rest = rest;
            result
        },
    ),
    row(&["tune", "am", "amca"], &["FILE"], "such parameters in a file, NAME = VALUE a line", |r, v| {
        let mut rest = std::mem::take(&mut r.rest);
        let result = foreign::parameter_files(r, &v[0], &mut rest);
        r.rest = rest;
        result
    }),
    row(&["strict"], &[], "refuse options that would be ignored", |r, _| {
        r.request.is_strict = true;
        Ok(())
    }),
    row(&["timeout"], &["SECONDS"], "end the job after this time, with status 124", |r, v| {
        let seconds = v[0].parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        r.request.timeout = Some(seconds.ok_or("a time in seconds is needed")?);
        Ok(())
    }),
    row(&["quiet", "q"], &[], "no warnings", |r, _| {
        r.request.verbosity = Verbosity::Quiet;
        Ok(())
    }),
    row(&["verbose", "v"], &[], "say what is started where", |r, _| {
        r.request.verbosity = Verbosity::Verbose;
        Ok(())
    }),
    row(
        &["io-servers"],
        &["N"],
        "start N servers for files, on the hosts in turn; names that begin with tutti: are theirs",
        |r, v| {
            r.request.io_servers.count = count(&v[0])?;
            Ok(())
        },
    ),
    row(
        &["io-root"],
        &["DIR"],
        "their directory (default: tutti-io-UID where temporary files are); files stay there",
        |r, v| {
            r.request.io_servers.root = std::path::absolute(&v[0]).map_err(|error| error.to_string())?;
            Ok(())
        },
    ),
    row(
        &["io-mode"],
        &["MODE"],
        "scratch: each has a part of every file (default); forward: DIR is shared and has plain files",
        |r, v| {
            let known = ["scratch", "forward"].contains(&v[0].as_str());
            known.then_some(()).ok_or("scratch or forward is needed")?;
            r.request.io_servers.mode = v[0].clone();
            Ok(())
        },
    ),
    row(
        &["trace"],
        &["FILE"],
        "write there what every rank did and when (tutti trace FILE draws it)",
        |r, v| {
            if v[0].starts_with('-') {
                return Err("Tutti's --trace needs a file (Intel MPI's -trace is another)".to_string());
            }
            let path = std::path::absolute(&v[0]).map_err(|error| error.to_string())?;
            let path = path.to_str().ok_or("a name in UTF-8 is needed")?;
            r.request.environment.push(variable("TUTTI_TRACE", path)?);
            Ok(())
        },
    ),
    row(
        &["initial-errhandler"],
        &["NAME"],
        "error handler from the start: mpi_errors_are_fatal, mpi_errors_abort, mpi_errors_return",
        |r, v| {
            let known = InitialErrorHandler::NAMES.iter().any(|(name, _)| *name == v[0]);
            let wrong = || InitialErrorHandler::NAMES.map(|(name, _)| name).join(", ") + " is needed";
            known.then_some(()).ok_or_else(wrong)?;
            r.request.environment.push(variable(spawning::ENV_ERROR_HANDLER, &v[0])?);
            Ok(())
        },
    ),
    row(
        &["checkpoint-every"],
        &["TIME"],
        "write a checkpoint of the whole job each TIME (90s, 10m, 2h) to --checkpoint-dir",
        |r, v| {
            r.request.checkpoints.every = Some(time(&v[0])?);
            Ok(())
        },
    ),
    row(
        &["checkpoint-dir"],
        &["DIR"],
        "where checkpoints are kept, the newest two; all hosts have to see it",
        |r, v| {
            r.request.checkpoints.directory = Some(absolute(&v[0])?);
            Ok(())
        },
    ),
    row(
        &["checkpoint-on"],
        &["SIGNAL"],
        "write a checkpoint when mpirun gets SIGNAL: USR1, USR2, TERM, ...",
        |r, v| {
            r.request.checkpoints.on_signal = Some(signal(&v[0])?);
            Ok(())
        },
    ),
    row(
        &["restart"],
        &["DIR[:N]"],
        "go on from the newest checkpoint in DIR, or from number N; no program is named",
        |r, v| {
            let split = v[0].rsplit_once(':').and_then(|(dir, set)| Some((dir, set.parse().ok()?)));
            let (directory, set) = split.map_or((&v[0][..], None), |(dir, set)| (dir, Some(set)));
            r.request.checkpoints.restart = Some((absolute(directory)?, set));
            Ok(())
        },
    ),
    row(
        &["restart-on-failure"],
        &["N"],
        "when a host is lost or a rank is killed, go on from the last checkpoint, up to N times",
        |r, v| {
            r.request.checkpoints.restarts = v[0].parse().map_err(|_| "a number is needed")?;
            Ok(())
        },
    ),
    row(
        &["restart-files"],
        &["HOW"],
        "files written since the checkpoint: truncate (default), keep, refuse",
        |r, v| {
            r.request.checkpoints.files = match &v[0][..] {
                "truncate" => RestartFiles::Truncate,
                "keep" => RestartFiles::Keep,
                "refuse" => RestartFiles::Refuse,
                _ => return Err("truncate, keep or refuse is needed".to_string()),
            };
            Ok(())
        },
    ),
    row(&["timings"], &[], "print when each phase of the start was over", |r, _| {
        r.request.timings = true;
        Ok(())
    }),
    row(&["oversubscribe"], &[], "accepted: more ranks than cores is a normal way to run", |r, _| {
        r.request.is_within_slots = false;
        Ok(())
    }),
    row(&["allow-run-as-root"], &[], "accepted: root may run jobs", |_, _| Ok(())),
    row(&["version", "V"], &[], "print the version", |r, _| {
        r.stop = Some(Parsed::Version);
        Ok(())
    }),
    row(&["help", "h"], &[], "print this", |r, _| {
        r.stop = Some(Parsed::Help);
        Ok(())
    }),
];

/// Longest file of options, in bytes.
const CONFIGURATION_BYTES: u64 = 16 << 20;

/// Reads a command line, without the name of `mpirun` itself.
///
/// # Errors
/// What is wrong with it, for the user.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Parsed, String> {
    let mut reading = Reading { rest: arguments.collect(), ..Reading::default() };
    while let Some(argument) = reading.rest.pop_front() {
        if argument == ":" {
            reading.finish_program()?;
            continue;
        }
        let text = argument.to_str().filter(|text| text.len() > 1 && text.starts_with('-'));
        match text {
            Some(text) if text != "--" => {
                reading.option(text)?;
                if let Some(stop) = reading.stop.take() {
                    return Ok(stop);
                }
            }
            _ => {
                if argument != "--" {
                    reading.program.command.push(argument);
                }
                while reading.rest.front().is_some_and(|next| next != ":") {
                    reading.program.command.extend(reading.rest.pop_front());
                }
            }
        }
    }
    if reading.request.checkpoints.restart.is_none() {
        reading.finish_program()?;
    } else if !reading.program.command.is_empty() || !reading.request.programs.is_empty() {
        return Err("--restart goes on with the program of the checkpoint: no other can be named".to_string());
    }
    check_checkpoints(&reading.request)?;
    let request = reading.request;
    match request.ignored.first().filter(|_| request.is_strict) {
        Some((option, reason)) => Err(format!("{option} has no meaning here (--strict): {reason}")),
        None => Ok(Parsed::Run(Box::new(request))),
    }
}

fn check_checkpoints(request: &Request) -> Result<(), String> {
    let said = &request.checkpoints;
    let is_asked = said.every.is_some() || said.on_signal.is_some() || said.restarts > 0;
    if is_asked && said.directory.is_none() && said.restart.is_none() {
        return Err("checkpoints need a place: --checkpoint-dir DIR".to_string());
    }
    Ok(())
}

impl Reading {
    fn finish_program(&mut self) -> Result<(), String> {
        let program = std::mem::take(&mut self.program);
        if program.command.is_empty() {
            return Err("no program to run (mpirun --help shows how)".to_string());
        }
        self.request.programs.push(program);
        Ok(())
    }

    fn option(&mut self, text: &str) -> Result<(), String> {
        let name = text.strip_prefix("--").unwrap_or(&text[1..]);
        let (before, value) = match name.split_once('=') {
            Some((before, value)) if find(name).is_none() => (before, Some(value.to_string())),
            _ => (name, None),
        };
        let mut values: Vec<String> = value.into_iter().collect();
        if let Some(row) = find(before) {
            self.values(text, row.values, &mut values)?;
            return (row.take)(self, &values)
                .map_err(|reason| format!("option {text} {}: {reason}", values.join(" ")));
        }
        let row = foreign::find(before).ok_or_else(|| unknown(text, before))?;
        // What is ignored may have a value of its own where the table knows none: -trace=LIBRARY.
        let has_own = row.values.is_empty() && matches!(row.verdict, foreign::Verdict::Ignored(_));
        if !has_own {
            self.values(text, row.values, &mut values)?;
        }
        let mut rest = std::mem::take(&mut self.rest);
        let result = foreign::take(self, row, text, &values, &mut rest);
        self.rest = rest;
        result
    }

    /// Takes further values of an option until it has all.
    fn values(&mut self, text: &str, wanted: &[&str], values: &mut Vec<String>) -> Result<(), String> {
        if values.len() > wanted.len() {
            return Err(format!("option {text} takes no value"));
        }
        while values.len() < wanted.len() {
            let missing = wanted[values.len()];
            let value = self.rest.pop_front().ok_or_else(|| format!("option {text} needs {missing}"))?;
            values
                .push(value.into_string().map_err(|value| format!("option {text}: {value:?} is not UTF-8"))?);
        }
        Ok(())
    }

    /// An option means nothing here: said once.
    fn ignore(&mut self, option: &str, reason: &str) {
        let ignored = (option.to_string(), reason.to_string());
        if !self.request.ignored.contains(&ignored) {
            self.request.ignored.push(ignored);
        }
    }
}

fn find(name: &str) -> Option<&'static Row> {
    OPTIONS.iter().find(|row| row.names.contains(&name))
}

fn unknown(text: &str, name: &str) -> String {
    let own = OPTIONS.iter().flat_map(|row| row.names.iter().copied());
    let near = own.chain(foreign::names()).filter(|known| known.len() > 2);
    match near.map(|known| (distance(known, name), known)).min() {
        Some((difference, known)) if difference <= 1 + name.len() / 4 => {
            format!("unknown option {text}; did you mean {}?", spell(known))
        }
        _ => format!("unknown option {text} (mpirun --help lists all)"),
    }
}

/// Number of letters to change, insert or delete to make one word of the other.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in two.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[two.len()]
}

/// Most ranks that a job may have: far above what one machine runs, below what overflows.
pub const MAXIMUM_RANKS: u32 = 65536;

fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=MAXIMUM_RANKS).contains(number));
    number.ok_or_else(|| format!("a number from 1 to {MAXIMUM_RANKS} is needed"))
}

/// A time: seconds, or with a unit s, m, h behind it.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time above 0 is needed, as 90s, 10m, 2h".to_string();
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

fn absolute(path: &str) -> Result<OsString, String> {
    std::path::absolute(path).map(OsString::from).map_err(|error| error.to_string())
}

/// Signals that mpirun may be sent for a checkpoint.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("TERM", libc::SIGTERM),
];

fn signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = SIGNALS.iter().find(|(known, number)| *known == name || number.to_string() == name);
    known.map(|(_, number)| *number).ok_or_else(|| {
        format!("one of {} is needed", SIGNALS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
    })
}

fn variable(name: &str, value: &str) -> Result<(String, String), String> {
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err("not the name of a variable".to_string());
    }
    Ok((name.to_string(), value.to_string()))
}

fn export(reading: &mut Reading, values: &[String]) -> Result<(), String> {
    match values[0].split_once('=') {
        Some((name, value)) => reading.program.environment.push(variable(name, value)?),
        None => reading.program.exported.push(variable(&values[0], "")?.0),
    }
    Ok(())
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Across, BindTo, MapBy, Placing};

    fn read(line: &str) -> Result<Parsed, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn check(line: &str, expected: impl FnOnce(&mut Request)) {
        let mut wanted = Request::default();
        wanted.programs.push(Program { command: vec!["a".into()], ..Program::default() });
        expected(&mut wanted);
        assert_eq!(read(line), Ok(Parsed::Run(Box::new(wanted))), "{line}");
    }

    fn check_refused(line: &str, part: &str) {
        let error = read(line).expect_err(line);
        assert!(error.contains(part), "{line}: {error}");
    }

    #[test]
    fn one_dash_or_two_value_next_or_attached() {
        for line in ["-n 4 a", "--np 4 a", "-np=4 a", "--n=4 a", "-c 4 a"] {
            check(line, |r| r.programs[0].count = Some(4));
        }
        check("-wdir /tmp -l a", |r| {
            r.programs[0].directory = Some("/tmp".into());
            r.tagging = Tagging::Rank;
        });
        check("--map-by numa:oversubscribe --bind-to=core a", |r| {
            r.placing.map_by = Some(MapBy::Numa);
            r.placing.bind_to = Some(BindTo::Core);
        });
        check("--timeout 1.5 a", |r| r.timeout = Some(Duration::from_millis(1500)));
        check("-- a", |_| ());
    }

    #[test]
    fn variables_belong_to_a_program_or_to_all() {
        check("-genv A 1 -env B 2 -x C=3=4 -x D a", |r| {
            r.environment = vec![("A".into(), "1".into())];
            r.programs[0].environment = vec![("B".into(), "2".into()), ("C".into(), "3=4".into())];
            r.programs[0].exported = vec!["D".into()];
        });
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        check("a -n --help x", |r| {
            r.programs[0].command = ["a", "-n", "--help", "x"].map(OsString::from).to_vec();
        });
        check("-n 1 a : -n 2 -wd / b c", |r| {
            r.programs[0].count = Some(1);
            r.programs.push(Program {
                count: Some(2),
                command: vec!["b".into(), "c".into()],
                directory: Some("/".into()),
                ..Program::default()
            });
        });
    }

    #[test]
    fn wrong_lines_are_refused_by_name() {
        check_refused("", "no program");
        check_refused("-n 2", "no program");
        check_refused("-n 2 a :", "no program");
        check_refused("-n", "option -n needs N");
        check_refused("-n 0 a", "option -n 0: a number from 1");
        check_refused("-n -3 a", "option -n -3: a number from 1");
        check_refused("-env A", "option -env needs VALUE");
        check_refused("--bind-to moon a", "option --bind-to moon: none, hwthread, core");
        check_refused("--bidnto core a", "unknown option --bidnto; did you mean --bind-to?");
        check_refused(
            "--strict --mca a b c",
            "--mca a b has no meaning here (--strict): no parameter of Open MPI",
        );
        check_refused("--xyzzy a", "unknown option --xyzzy (mpirun --help");
        check_refused("--quiet=yes a", "takes no value");
        check_refused("--map-by core:PE=x a", "a number from 1");
        check_refused("--map-by core:moon a", "modifier moon");
        check_refused("--map-by rankfile a", "needs :file=NAME");
        check_refused("--arch x86 a", "all hosts run the same programs");
        check_refused("-s a", "a rank or none is needed");
        check_refused("--timeout soon a", "a time in seconds");
        check_refused("--checkpoint-every 0s --checkpoint-dir d a", "a time above 0");
        check_refused("--checkpoint-every 1m a", "--checkpoint-dir DIR");
        check_refused("--checkpoint-on KILL --checkpoint-dir d a", "one of HUP, INT");
        check_refused("--restart d a", "no other can be named");
        check_refused("--restart-files some --restart d", "truncate, keep or refuse");
    }

    #[test]
    fn policies_have_units_and_modifiers() {
        check("--map-by ppr:2:package:PE=3 a", |r| {
            (r.per_unit, r.is_within_slots) = (Some((2, MapBy::Package)), true);
            r.placing = Placing {
                map_by: Some(MapBy::Package),
                ranks_per_unit: 2,
                cores_per_rank: 3,
                ..Placing::default()
            };
        });
        check("--map-by ppr:4:node a", |r| (r.per_node, r.is_within_slots) = (Some(4), true));
        check("--map-by node:PE=2,nolocal --rank-by slot a", |r| {
            (r.across, r.rank_by, r.is_not_here) = (Across::Node, Some(Across::Slot), true);
            r.placing.cores_per_rank = 2;
        });
        check("--map-by rankfile:file=A/b:oversubscribe a", |r| {
            r.assignment = Assignment::RankFile("A/b".into());
        });
        check("--map-by seq:file=x a", |r| r.assignment = Assignment::Sequence(Some("x".into())));
        check("--map-by pe-list=0-2,5 a", |r| r.placing.cores = vec![0, 1, 2, 5]);
        check("-rankmap (vector,1,0) a", |r| r.assignment = Assignment::Hosts(vec![1, 0]));
    }

    #[test]
    fn outputs_go_where_it_is_said() {
        check("--output tag,file=x/y:nocopy a", |r| {
            r.tagging = Tagging::Stream;
            r.output.out = Some("x/y.%r.out".into());
            r.output.err = Some("x/y.%r.err".into());
            r.output.is_shown = false;
        });
        check("--output-directory d a", |r| {
            r.output.out = Some("d/rank.%r/stdout".into());
            r.output.err = Some("d/rank.%r/stderr".into());
        });
        check("-outfile-pattern o%r --stdin none a", |r| {
            (r.output.out, r.output.is_shown, r.input) = (Some("o%r".into()), false, Some(None));
        });
        check_refused("-outfile-pattern o%x a", "after % one of");
    }

    /// Every row of the tables: what is the same is known, translations are understood, what is ignored is
    /// named, and refusals say why.
    #[test]
    fn options_of_other_launchers() {
        let files = [("hosts", "localhost slots=8\n"), ("parameters", "mpi_yield_when_idle = 1\n")];
        let folder = std::env::temp_dir().join(format!("tutti-options-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
        std::fs::write(folder.join("configuration"), "-n 2 a").unwrap();
        let try_one = |words: &str, row: &foreign::Foreign| match (row.verdict, read(words)) {
            (_, Ok(Parsed::Help | Parsed::Version)) => {}
            (foreign::Verdict::Ignored(reason), Ok(Parsed::Run(request))) => {
                assert_eq!(request.ignored.len(), 1, "{words}");
                assert_eq!(request.ignored[0].1, reason, "{words}");
                assert!(read(&format!("--strict {words}")).is_err());
            }
            (foreign::Verdict::Refused(reason), Err(error)) => {
                assert!(error.contains(reason), "{words}: {error}")
            }
            (foreign::Verdict::Same | foreign::Verdict::Translated(_), Ok(Parsed::Run(_))) => {}
            (_, got) => panic!("{words}: {got:?}"),
        };
        for row in crate::generated::foreign::OPTIONS {
            for name in row.names {
                let is_own = matches!(row.verdict, foreign::Verdict::Same);
                assert_eq!(is_own, find(name).is_some(), "{name} is in one table only");
                let tries = row.tries.trim_start_matches('!');
                let tries = match tries {
                    "hosts" | "parameters" | "configuration" => folder.join(tries).display().to_string(),
                    "" if !row.values.is_empty() => "/".to_string(),
                    _ => tries.to_string(),
                };
                let end = if tries.ends_with("configuration") { "" } else { " a" };
                match tries.strip_prefix('=') {
                    Some(value) => {
                        ["", value].map(|v| try_one(&format!("-{name}={v}{end}"), row)).into_iter().collect()
                    }
                    None => try_one(&format!("-{name} {tries}{end}"), row),
                }
            }
        }
        for row in crate::generated::foreign::PARAMETERS {
            for name in row.names {
                let name = name.split('=').next().unwrap_or("").replace('*', "x");
                let value = if row.tries == "hosts" {
                    folder.join("hosts").display().to_string()
                } else {
                    row.tries.into()
                };
                try_one(&format!("--mca {name} {value} a"), row);
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_hold_command_lines() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(policies::lines(text, Path::new("f")).unwrap(), expected, "{text:?}");
        };
        check("# all\n-n 1 a 'b c'\n\n-n 2 \\\n d\n", &["-n", "1", "a", "b c", ":", "-n", "2", "d"]);
        check("-n 1 a :\n-n 2 b :\n", &["-n", "1", "a", ":", "-n", "2", "b"]);
        check("a \"x \\\" y\"", &["a", "x \" y"]);
    }

    #[test]
    fn help_names_every_option() {
        let text = help();
        for name in OPTIONS.iter().flat_map(|row| row.names) {
            assert!(text.contains(&spell(name)), "{name}");
        }
        assert!(text.lines().all(|line| line.len() <= 130), "{text}");
        assert_eq!(read("--help"), Ok(Parsed::Help));
        assert_eq!(read("-n 2 --version whatever"), Ok(Parsed::Version));
    }
}
