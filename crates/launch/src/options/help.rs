//! Text of `mpirun --help` and of its manual page: the table of options, one line each, notes, and the
//! exit statuses.

use super::rows::options;
use crate::generated::statuses::STATUSES;

const USAGE: &str = "\
usage: mpirun [options] program [arguments] [: [options] program [arguments]] ...
       mpiexec is the same program

Starts the ranks of an MPI job, on this machine or on several hosts. Options take one dash or two, a value as the next
argument or after '='. After ':' follows another program of the same job; -n, -wdir, -env and -x
hold for one program, the others for the job.

";

const NOTES: &str = "
Options of the launchers of MPICH, Open MPI and Intel MPI are translated, or named once and ignored
where they mean nothing here, which --strict refuses; the guide has a table of all.

Binding, unless --bind-to says otherwise: ranks are bound to cores when there are exactly as many
ranks as cores, OMP_NUM_THREADS does not ask for threads and no quota limits processor time;
otherwise not at all. Never outside the processors that mpirun itself may use.

Hosts: those of --host and --hostfile, else those of the Slurm or PBS allocation around mpirun, else
this machine. A host that is silent for some seconds ends the job. More ranks than slots is allowed.

Signals: SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on, and ranks that still run 2 s later are
killed; a second SIGINT within a second kills at once. SIGTSTP and SIGCONT stop and continue the
job, SIGUSR2 is passed on, SIGUSR1 prints where every rank waits. The ranks of a host have a Unix
session of their own, without /dev/tty: what is typed reaches rank 0 through mpirun.
";

/// Returns the text of `mpirun --help`.
pub fn help() -> String {
    let mut text = USAGE.to_string();
    for option in options() {
        let names: Vec<String> = option.names.iter().map(|name| spell(name)).collect();
        let left = format!("  {} {}", names.join(", "), option.values.join(" ")).trim_end().to_string();
        let gap = if left.len() < 34 { String::new() } else { format!("\n{:34}", "") };
        text.push_str(&format!("{left:34}{gap}{}\n", option.doc));
    }
    text + &notes()
}

/// Returns the notes that follow the options, and the exit statuses.
fn notes() -> String {
    let mut text = format!("{NOTES}\nExit status:\n");
    for (status, meaning) in STATUSES {
        text.push_str(&format!("  {status:10}{meaning}\n"));
    }
    text
}

/// Help for one option, for other formats than that of `--help`.
#[derive(Clone, Copy, Debug)]
pub struct OptionHelp {
    /// Names without dashes. The user writes any of them with one dash or two.
    pub names: &'static [&'static str],
    /// Names of the values that follow the option.
    pub values: &'static [&'static str],
    /// Description of the option's effect.
    pub doc: &'static str,
}

/// Returns all options in the order of the help text, and the notes that follow them.
pub fn described() -> (impl Iterator<Item = OptionHelp>, String) {
    (options().map(|row| OptionHelp { names: row.names, values: row.values, doc: row.doc }), notes())
}

pub(super) fn spell(name: &str) -> String {
    if name.len() == 1 || ["np", "wd", "env", "genv", "ppn", "wdir"].contains(&name) {
        format!("-{name}")
    } else {
        format!("--{name}")
    }
}
