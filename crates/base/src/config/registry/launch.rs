//! Rows: How jobs are started and supervised.

use crate::config::launch::{ForeignMpi, Starter};
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::{milliseconds, one_of};

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_AGENT",
        kind: ValueKind::Text("command"),
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "command that starts programs on other hosts: called as COMMAND HOST PROGRAM...; {host} in it stands for the host",
        set: |c, v| {
            c.launch.agent = v.to_string();
            Ok(())
        },
        show: |c| c.launch.agent.clone(),
    },
    Setting {
        name: "TUTTI_DEBUGGER",
        kind: ValueKind::Text("command"),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "command under which mpirun --debug runs each rank's program: xterm -e gdb --args; empty: ranks wait for a debugger in MPI_Init",
        set: |c, v| {
            c.launch.debugger = v.to_string();
            Ok(())
        },
        show: |c| c.launch.debugger.clone(),
    },
    Setting {
        name: "TUTTI_SILENCE_MS",
        kind: ValueKind::Milliseconds,
        scope: Scope::Process,
        audience: Audience::User,
        doc: "time without a message from a host, on intact connections, after which the job is ended",
        set: |c, v| milliseconds(v).map(|x| c.launch.silence_ms = x),
        show: |c| c.launch.silence_ms.to_string(),
    },
    Setting {
        name: "TUTTI_FOREIGN_MPI",
        kind: ValueKind::Words(&["refuse", "start"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "reaction of mpirun to several ranks of a program that is linked to another MPI library, of which each would be a job of its own",
        set: |c, v| foreign_mpi(v).map(|x| c.launch.foreign_mpi = x),
        show: |c| format!("{:?}", c.launch.foreign_mpi).to_lowercase(),
    },
    Setting {
        name: "TUTTI_START_MS",
        kind: ValueKind::Milliseconds,
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "time limit for the start of a host's daemon, or of all its ranks under another launcher",
        set: |c, v| milliseconds(v).map(|x| c.launch.start_ms = x),
        show: |c| c.launch.start_ms.to_string(),
    },
    Setting {
        name: "TUTTI_STARTER",
        kind: ValueKind::Words(&["auto", "pmix", "pmi", "alone"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "process manager that started this process, if not mpirun; auto: as the environment shows; pmi: PMI-1 or PMI-2; alone: none, a job of its own",
        set: |c, v| starter(v).map(|x| c.launch.starter = x),
        show: |c| {
            let name = match c.launch.starter {
                Starter::Auto => "auto",
                Starter::Pmix => "pmix",
                Starter::Pmi => "pmi",
                Starter::Alone => "alone",
            };
            name.to_string()
        },
    },
];

fn starter(text: &str) -> std::result::Result<Starter, String> {
    use Starter::{Alone, Auto, Pmi, Pmix};
    one_of(&[("auto", Auto), ("pmix", Pmix), ("pmi", Pmi), ("alone", Alone)], text)
}

fn foreign_mpi(text: &str) -> std::result::Result<ForeignMpi, String> {
    one_of(&[("refuse", ForeignMpi::Refuse), ("start", ForeignMpi::Start)], text)
}
