//! Command line of `mpirun`: one table of options for the parser, `--help` and hints.
//!
//! Options of mpiexec are long names after a single dash (MPI-5 section 11.5). Therefore every name is
//! accepted with one dash or two. Its value is the next argument, or follows after `=`.

use std::ffi::OsString;

use tutti_checkpoint::input::RestartInput;

use crate::error::LaunchError;
use crate::request::{Program, Request};

pub mod foreign;
mod help;
mod outputs;
pub(crate) mod policies;
mod row;
mod rows;
mod values;

use help::spell;
pub use help::{OptionHelp, described, help};
pub use row::Parsed;
use row::{Reading, Row};
use rows::options;
pub use values::MAXIMUM_RANKS;

/// Parses a command line without the name of `mpirun` itself.
///
/// # Errors
/// Fails with a text for the user that names the error.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Parsed, LaunchError> {
    let mut reading = Reading { rest: arguments.collect(), ..Reading::default() };
    while let Some(argument) = reading.rest.pop_front() {
        if argument == ":" {
            reading.finish_program()?;
            continue;
        }
        let text = argument.to_str().filter(|text| text.len() > 1 && text.starts_with('-'));
        match text {
            Some(text) if text != "--" => {
                let before = decided_at_start(&reading);
                reading.option(text)?;
                if decided_at_start(&reading) != before {
                    reading.decided.get_or_insert_with(|| text.to_string());
                }
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
        return Err(LaunchError::Invalid(
            "--restart goes on with the program of the checkpoint: no other can be named".to_string(),
        ));
    } else if let Some(option) = &reading.decided {
        return Err(LaunchError::Invalid(format!(
            "option {option}: --restart goes on with the ranks, programs, places, variables and output files of \
             the checkpoint, which cannot be changed"
        )));
    }
    check_checkpoints(&reading.request)?;
    check_servers(&reading.request)?;
    let request = reading.request;
    match request.ignored.first().filter(|_| request.is_strict) {
        Some((option, reason)) => {
            Err(LaunchError::Invalid(format!("{option} has no meaning here (--strict): {reason}")))
        }
        None => Ok(Parsed::Run(Box::new(request))),
    }
}

/// Returns the part of a command line that is fixed when a job starts. A restart takes the other options from
/// its own command line, and refuses options that change this part. A new field belongs to this part, unless
/// a restart supports it and it is named here.
fn decided_at_start(reading: &Reading) -> (Request, Program) {
    let honoured = Request::default();
    let decided = Request {
        hosts: honoured.hosts,
        host_files: honoured.host_files,
        default_host_files: honoured.default_host_files,
        is_not_here: honoured.is_not_here,
        hosts_ascending: honoured.hosts_ascending,
        tagging: honoured.tagging,
        display: honoured.display,
        is_dry: honoured.is_dry,
        exit_codes: honoured.exit_codes,
        pid_to: honoured.pid_to,
        ignored: honoured.ignored,
        is_strict: honoured.is_strict,
        timestamp: honoured.timestamp,
        verbosity: honoured.verbosity,
        timeout: honoured.timeout,
        agent: honoured.agent,
        launcher: honoured.launcher,
        radix: honoured.radix,
        interface: honoured.interface,
        prefix: honoured.prefix,
        checkpoints: honoured.checkpoints,
        timings: honoured.timings,
        hang_report: honoured.hang_report,
        ..reading.request.clone()
    };
    (decided, reading.program.clone())
}

/// Checks that the options for checkpoints fit together.
fn check_checkpoints(request: &Request) -> Result<(), LaunchError> {
    let said = &request.checkpoints;
    let is_asked = said.every.is_some() || said.on_signal.is_some() || said.restarts > 0;
    if is_asked && said.directory.is_none() && said.restart.is_none() {
        return Err(LaunchError::Invalid("checkpoints need a place: --checkpoint-dir DIR".to_string()));
    }
    if request.is_input_copied && (said.directory.is_some() || said.restart.is_some()) {
        return Err(LaunchError::Invalid(
            "--stdin all: a checkpoint keeps the input of one rank".to_string(),
        ));
    }
    if said.input == RestartInput::Rest && (said.restart.is_none() || said.restarts > 0) {
        // The remaining input can be read once. A second restart from the same checkpoint would find less.
        return Err(LaunchError::Invalid(
            "--restart-input rest is for --restart without --restart-on-failure".to_string(),
        ));
    }
    Ok(())
}

/// Refuses options of io-servers without `--io-servers`.
fn check_servers(request: &Request) -> Result<(), LaunchError> {
    let usual = Request::default().io_servers;
    let said = &request.io_servers;
    if said.count == 0 && (said.root != usual.root || said.mode != usual.mode) {
        return Err(LaunchError::Invalid(
            "--io-root and --io-mode are for the servers of --io-servers N".to_string(),
        ));
    }
    Ok(())
}

impl Reading {
    fn finish_program(&mut self) -> Result<(), LaunchError> {
        let program = std::mem::take(&mut self.program);
        if program.command.is_empty() {
            return Err(LaunchError::Invalid("no program to run (mpirun --help shows how)".to_string()));
        }
        self.request.programs.push(program);
        Ok(())
    }

    /// Parses one option, which may belong to another launcher.
    fn option(&mut self, text: &str) -> Result<(), LaunchError> {
        let name = text.strip_prefix("--").unwrap_or(&text[1..]);
        let (before, value) = match name.split_once('=') {
            Some((before, value)) if find(name).is_none() => (before, Some(value.to_string())),
            _ => (name, None),
        };
        let mut values: Vec<String> = value.into_iter().collect();
        if let Some(row) = find(before) {
            self.values(text, row.values, &mut values)?;
            return (row.take)(self, &values)
                .map_err(|error| error.in_place(format!("option {text} {}", values.join(" "))));
        }
        let row = foreign::find(before).ok_or_else(|| unknown(text, before))?;
        // An ignored option may have a value that the table does not know: -trace=LIBRARY.
        let has_own = row.values.is_empty() && matches!(row.verdict, foreign::Verdict::Ignored(_));
        if !has_own {
            self.values(text, row.values, &mut values)?;
        }
        let mut rest = std::mem::take(&mut self.rest);
        let result = foreign::take(self, row, text, &values, &mut rest);
        self.rest = rest;
        result
    }

    /// Takes further arguments as values of an option, until it has all of them.
    fn values(&mut self, text: &str, wanted: &[&str], values: &mut Vec<String>) -> Result<(), LaunchError> {
        if values.len() > wanted.len() {
            return Err(LaunchError::Invalid(format!("option {text} takes no value")));
        }
        while values.len() < wanted.len() {
            let missing = wanted[values.len()];
            let value = self
                .rest
                .pop_front()
                .ok_or_else(|| LaunchError::Invalid(format!("option {text} needs {missing}")))?;
            values.push(
                value.into_string().map_err(|value| {
                    LaunchError::Invalid(format!("option {text}: {value:?} is not UTF-8"))
                })?,
            );
        }
        Ok(())
    }

    /// Records, once, that an option is ignored.
    fn ignore(&mut self, option: &str, reason: &str) {
        let ignored = (option.to_string(), reason.to_string());
        if !self.request.ignored.contains(&ignored) {
            self.request.ignored.push(ignored);
        }
    }
}

fn find(name: &str) -> Option<&'static Row> {
    options().find(|row| row.names.contains(&name))
}

/// Returns the error for an unknown option, with a similar known name if there is one.
fn unknown(text: &str, name: &str) -> LaunchError {
    let own = options().flat_map(|row| row.names.iter().copied());
    let near = own.chain(foreign::names()).filter(|known| known.len() > 2);
    let text = match near.map(|known| (distance(known, name), known)).min() {
        Some((difference, known)) if difference <= 1 + name.len() / 4 => {
            format!("unknown option {text}; did you mean {}?", spell(known))
        }
        _ => format!("unknown option {text} (mpirun --help lists all)"),
    };
    LaunchError::Invalid(text)
}

/// Returns the number of letters to change, insert or delete that turn one word into the other.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Across, Assignment, BindTo, MapBy, Placing, Tagging};
    use std::path::Path;
    use std::time::Duration;

    fn shown(error: LaunchError) -> String {
        error.to_string()
    }

    fn read(line: &str) -> Result<Parsed, LaunchError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn check(line: &str, expected: impl FnOnce(&mut Request)) {
        let mut wanted = Request::default();
        wanted.programs.push(Program { command: vec!["a".into()], ..Program::default() });
        expected(&mut wanted);
        assert_eq!(read(line).map_err(shown), Ok(Parsed::Run(Box::new(wanted))), "{line}");
    }

    fn check_refused(line: &str, part: &str) {
        let error = read(line).expect_err(line);
        assert!(error.to_string().contains(part), "{line}: {error}");
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
        check_refused("-s a", "a rank, all or none is needed");
        check_refused("-s all --checkpoint-dir d a", "--stdin all");
        check_refused("--timeout soon a", "a time in seconds");
        check_refused("--checkpoint-every 0s --checkpoint-dir d a", "a time above 0");
        check_refused("--checkpoint-every 1m a", "--checkpoint-dir DIR");
        check_refused("--checkpoint-on KILL --checkpoint-dir d a", "one of HUP, INT");
        check_refused("--restart d a", "no other can be named");
        check_refused("--restart-files some --restart d", "truncate, keep or refuse");
        check_refused("--restart-input all --restart d", "continue or rest is needed");
        check_refused("--restart-input rest a", "is for --restart without");
        check_refused("--restart-input rest --restart d --restart-on-failure 1", "is for --restart without");
        check_refused("--rank-by slot:moon a", "modifier moon");
        check_refused("--display map:moon a", "modifier moon");
        check_refused("--runtime-options donotlaunch=perhaps a", "true or false is needed");
        check_refused("--rankmap (vector,0 a", "numbers are needed");
        check_refused("--unset-env A=B a", "not the name of a variable");
        check_refused("--envlist A=B a", "not the name of a variable");
        check_refused("--radix 70000 a", "from 0 to 65536");
        check_refused("--agent= a", "it is empty");
        check_refused("--interface= a", "it is empty");
        check_refused("--interface 10.0.0.0/99 a", "a network such as");
        check_refused("--io-root d a", "--io-servers N");
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
    fn a_restart_refuses_what_it_cannot_honour() {
        let check = |line: &str, expected: Option<&str>| match (read(line), expected) {
            (Ok(_), None) => {}
            (Err(why), Some(option)) => {
                let wanted = format!("option {option}: --restart goes on with the ranks");
                assert!(why.to_string().starts_with(&wanted), "{line}: {why}");
            }
            (got, expected) => panic!("{line}: {got:?}, not {expected:?}"),
        };
        let honoured = [
            "--host a,b -q",
            "--hostfile f",
            "--timeout 9 --verbose",
            "--tag-output",
            "--timestamp",
            "--checkpoint-every 9s",
            "--restart-files keep",
            "--agent ssh --radix 0",
            "--oversubscribe",
            "--print-all-exitcodes --timings",
            "--display map",
            "--checkpoint-dir e",
            "--nolocal",
        ];
        honoured.iter().for_each(|words| check(&format!("{words} --restart d"), None));
        let fixed = [
            "-n 5",
            "-np 2",
            "--ppn 2",
            "--map-by core",
            "--bind-to core",
            "--rank-by slot",
            "-wdir /",
            "--env A 1",
            "-genv A 1",
            "-x A=1",
            "--stdin 1",
            "--output file=o",
            "--io-servers 2",
            "--usize 9",
            "--nooversubscribe",
            "--report-bindings",
            "--debug",
            "--trace t",
            "--rankfile f",
            "--merge-stderr-to-stdout",
            "--genvnone",
            "--path /bin",
        ];
        for words in fixed {
            let option = words.split(' ').next();
            check(&format!("{words} --restart d"), option);
            check(&format!("--restart d {words}"), option);
        }
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

    /// Tests every row of the tables: equal options are known, translations are parsed, ignored options are
    /// reported, and refusals have a reason.
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
                assert!(error.to_string().contains(reason), "{words}: {error}")
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
        for name in options().flat_map(|row| row.names) {
            assert!(text.contains(&spell(name)), "{name}");
        }
        assert!(text.lines().all(|line| line.len() <= 130), "{text}");
        assert_eq!(read("--help").map_err(shown), Ok(Parsed::Help));
        assert_eq!(read("-n 2 --version whatever").map_err(shown), Ok(Parsed::Version));
    }
}
