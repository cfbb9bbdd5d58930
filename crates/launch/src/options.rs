//! The command line of `mpirun`: one table of options, from which parsing, `--help` and hints come.
//!
//! mpiexec options are long names after a single dash (MPI-5 section 11.5), so every name is taken
//! with one dash or two, and its value as the next argument or after `=`.

use std::ffi::OsString;
use std::time::Duration;

use tutti_base::config::InitialErrorHandler;
use tutti_sys::spawning;

use crate::request::{Across, BindTo, MapBy, Program, Request, Tagging, Verbosity};

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
    row(
        &["map-by"],
        &["UNIT"],
        "neighbouring ranks go to neighbouring UNITs: slot, core, node, numa, package",
        |r, v| {
            let unit = unit(&v[0])?.to_ascii_lowercase();
            if unit == "node" {
                r.request.across = Across::Node;
            } else {
                r.request.map_by = Some(map_by(&unit)?);
            }
            Ok(())
        },
    ),
    row(
        &["bind-to"],
        &["UNIT"],
        "confine each rank to a UNIT: none, hwthread, core, numa, package (default: see below)",
        |r, v| {
            r.request.bind_to = Some(bind_to(&v[0])?);
            Ok(())
        },
    ),
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
        &["trace"],
        &["FILE"],
        "write there what every rank did and when (tutti trace FILE draws it)",
        |r, v| {
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
    row(&["timings"], &[], "print when each phase of the start was over", |r, _| {
        r.request.timings = true;
        Ok(())
    }),
    row(&["oversubscribe"], &[], "accepted: more ranks than cores is a normal way to run", |_, _| Ok(())),
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

/// Options of other launchers that have no meaning here, and what to do instead.
const FOREIGN: &[(&str, &str)] = &[
    ("mca", "settings of Tutti are environment variables TUTTI_*: -x NAME=VALUE; tutti info lists them"),
    ("pmixmca", "settings of Tutti are environment variables TUTTI_*: -x NAME=VALUE; tutti info lists them"),
    ("prtemca", "settings of Tutti are environment variables TUTTI_*: -x NAME=VALUE; tutti info lists them"),
    ("rankfile", "ranks are placed by --map-by and --bind-to"),
    ("rf", "ranks are placed by --map-by and --bind-to"),
    ("launcher", "other hosts are reached by --agent CMD"),
    ("bootstrap", "other hosts are reached by --agent CMD"),
    ("soft", "say one number of ranks with -n"),
    ("arch", "all hosts run the same programs"),
    ("configfile", "separate several programs by :"),
    ("genvall", "ranks get the whole environment already"),
    ("envall", "ranks get the whole environment already"),
];

const USAGE: &str = "\
usage: mpirun [options] program [arguments] [: [options] program [arguments]] ...
       mpiexec is the same program

Starts the ranks of an MPI job, on this machine or on several hosts. Options take one dash or two, a value as the next
argument or after '='. After ':' follows another program of the same job; -n, -wdir, -env and -x
hold for one program, the others for the job.

";

const NOTES: &str = "
Binding, unless --bind-to says otherwise: ranks are bound to cores when there are exactly as many
ranks as cores, OMP_NUM_THREADS does not ask for threads and no quota limits processor time;
otherwise not at all. Never outside the processors that mpirun itself may use.

Exit status: 0 if all ranks end with 0; otherwise that of the first that does not; 128 + N if a rank
is killed by signal N; the code of MPI_Abort; 127 or 126 if the program is not found or cannot be
executed; 124 after --timeout; 2 for a wrong command line.

Hosts: those of --host and --hostfile, else those of the Slurm or PBS allocation around mpirun, else
this machine. A host that is silent for some seconds ends the job. More ranks than slots is allowed.

Signals: SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on, and ranks that still run 2 s later are
killed; a second SIGINT within a second kills at once. SIGTSTP and SIGCONT stop and continue the
job, SIGUSR2 is passed on, SIGUSR1 prints where every rank waits. The ranks of a host have a Unix
session of their own, without a terminal: what is typed reaches rank 0 through mpirun, and
/dev/tty does not open.
";

/// The help text.
pub fn help() -> String {
    let mut text = USAGE.to_string();
    for option in OPTIONS {
        let names: Vec<String> = option.names.iter().map(|name| spell(name)).collect();
        let left = format!("  {} {}", names.join(", "), option.values.join(" ")).trim_end().to_string();
        let gap = if left.len() < 34 { String::new() } else { format!("\n{:34}", "") };
        text.push_str(&format!("{left:34}{gap}{}\n", option.doc));
    }
    text + NOTES
}

fn spell(name: &str) -> String {
    if name.len() == 1 || ["np", "wd", "env", "genv", "ppn", "wdir"].contains(&name) {
        format!("-{name}")
    } else {
        format!("--{name}")
    }
}

/// Reads a command line, without the name of `mpirun` itself.
///
/// # Errors
/// What is wrong with it, for the user.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Parsed, String> {
    let mut arguments = arguments.peekable();
    let mut reading = Reading::default();
    while let Some(argument) = arguments.next() {
        if argument == ":" {
            reading.finish_program()?;
            continue;
        }
        let text = argument.to_str().filter(|text| text.len() > 1 && text.starts_with('-'));
        match text {
            Some(text) if text != "--" => {
                reading.option(text, &mut arguments)?;
                if let Some(stop) = reading.stop.take() {
                    return Ok(stop);
                }
            }
            _ => {
                if argument != "--" {
                    reading.program.command.push(argument);
                }
                while arguments.peek().is_some_and(|next| next != ":") {
                    reading.program.command.extend(arguments.next());
                }
            }
        }
    }
    reading.finish_program()?;
    Ok(Parsed::Run(Box::new(reading.request)))
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

    fn option(&mut self, text: &str, rest: &mut impl Iterator<Item = OsString>) -> Result<(), String> {
        let name = text.strip_prefix("--").unwrap_or(&text[1..]);
        let (row, attached) = match (find(name), name.split_once('=')) {
            (Some(row), _) => (row, None),
            (None, Some((name, value))) => (find(name).ok_or_else(|| unknown(text, name))?, Some(value)),
            (None, None) => return Err(unknown(text, name)),
        };
        let mut values: Vec<String> = attached.iter().map(|value| value.to_string()).collect();
        if values.len() > row.values.len() {
            return Err(format!("option {text} takes no value"));
        }
        while values.len() < row.values.len() {
            let wanted = row.values[values.len()];
            let value = rest.next().ok_or_else(|| format!("option {text} needs {wanted}"))?;
            values
                .push(value.into_string().map_err(|value| format!("option {text}: {value:?} is not UTF-8"))?);
        }
        (row.take)(self, &values).map_err(|reason| format!("option {text} {}: {reason}", values.join(" ")))
    }
}

fn find(name: &str) -> Option<&'static Row> {
    OPTIONS.iter().find(|row| row.names.contains(&name))
}

fn unknown(text: &str, name: &str) -> String {
    if let Some((_, instead)) = FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
        return format!("option {text} is not one of Tutti's: {instead}");
    }
    let names = OPTIONS.iter().flat_map(|row| row.names).filter(|known| known.len() > 2);
    let near = names.map(|known| (distance(known, name), known)).min();
    match near {
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

/// Splits `unit:modifier,...` and accepts the modifiers that change nothing here.
fn unit(text: &str) -> Result<&str, String> {
    let (unit, modifiers) = text.split_once(':').unwrap_or((text, ""));
    for modifier in modifiers.split(',').filter(|modifier| !modifier.is_empty()) {
        let known = ["oversubscribe", "overload-allowed", "span"];
        if !known.contains(&modifier.to_ascii_lowercase().as_str()) {
            return Err(format!("modifier {modifier} is not supported"));
        }
    }
    Ok(unit)
}

fn map_by(text: &str) -> Result<MapBy, String> {
    match text {
        "slot" | "core" | "hwthread" => Ok(MapBy::Core),
        "numa" => Ok(MapBy::Numa),
        "package" | "socket" => Ok(MapBy::Package),
        _ => Err("slot, core, node, numa or package is needed".to_string()),
    }
}

fn bind_to(text: &str) -> Result<BindTo, String> {
    match unit(text)?.to_ascii_lowercase().as_str() {
        "none" => Ok(BindTo::None),
        "hwthread" | "pu" => Ok(BindTo::Processor),
        "core" => Ok(BindTo::Core),
        "numa" => Ok(BindTo::Numa),
        "package" | "socket" => Ok(BindTo::Package),
        _ => Err("none, hwthread, core, numa or package is needed".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            r.map_by = Some(MapBy::Numa);
            r.bind_to = Some(BindTo::Core);
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
        check_refused("--bindto core a", "unknown option --bindto; did you mean --bind-to?");
        check_refused("--mca a b c", "TUTTI_*");
        check_refused("--xyzzy a", "unknown option --xyzzy (mpirun --help");
        check_refused("--quiet=yes a", "takes no value");
        check_refused("--map-by core:PE=2 a", "modifier PE=2");
        check_refused("--timeout soon a", "a time in seconds");
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
