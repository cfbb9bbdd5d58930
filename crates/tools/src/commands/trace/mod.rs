//! `tutti trace`: the actions of all ranks over time, as a picture (SVG) and for Perfetto (JSON). The events
//! come from a program that ran with TUTTI_TRACE (`mpirun --trace FILE`), or from the simulation of a
//! collective.

mod events;
mod path;
mod picture;
mod read;

use std::path::{Path, PathBuf};

use clap::Args;
use tutti_base::trace::{self, Action, Event, Level};
use tutti_coll::simulate::{self, Load};
use tutti_coll::{Schedule, traffic};
use tutti_sys::files;

use self::events::{Trace, busy, span};
use crate::commands::sim::Setup;

/// Options of `tutti trace`.
#[derive(Args)]
pub struct TraceOptions {
    /// Trace of a program; without it, a collective is simulated as by `tutti sim`
    file: Option<PathBuf>,
    #[command(flatten)]
    setup: Setup,
    /// File for the picture [default: FILE.svg or trace.svg]
    #[arg(long)]
    svg: Option<PathBuf>,
    /// File for the events of a simulation, for Perfetto [default: trace.json]
    #[arg(long)]
    json: Option<PathBuf>,
}

/// More work is not simulated for a picture.
const MOST_STEPS: u64 = 2_000_000;

/// Reads or simulates a trace and draws it.
///
/// # Errors
/// Fails if a file cannot be read or written, if it is not a trace, or if the operation cannot be simulated.
pub fn run(options: &TraceOptions) -> Result<(), String> {
    let (trace, title) = match &options.file {
        Some(file) => (read::file(file)?, file.display().to_string()),
        None => simulated(&options.setup)?,
    };
    let critical = path::critical(&trace.events);
    let svg = options.svg.clone().unwrap_or_else(|| match &options.file {
        Some(file) => PathBuf::from(format!("{}.svg", file.display())),
        None => PathBuf::from("trace.svg"),
    });
    write(&svg, &picture::draw(&trace, &critical, &title))?;
    let mut written = svg.display().to_string();
    if options.file.is_none() {
        let json = options.json.clone().unwrap_or_else(|| PathBuf::from("trace.json"));
        write(&json, &json_of(&trace))?;
        written += &format!(" and {} (ui.perfetto.dev shows it)", json.display());
    }
    crate::output::show(&format!("{title}\n{}written: {written}\n", summary(&trace, &critical)));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    files::write(path, text.as_bytes()).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Simulates the fastest algorithm, or the one that the user selected.
fn simulated(setup: &Setup) -> Result<(Trace, String), String> {
    let question = setup.question()?;
    let (shape, layout) = (&question.shape, &question.environment.layout);
    let best = &question.found[0];
    let load = Load::new(shape);
    let hierarchy = Some(layout.hierarchy());
    let write = |rank| best.generator.generate_on(&load.shape_of(rank), &best.params, hierarchy);
    let schedules: Vec<Schedule> = (0..shape.ranks).map(write).collect();
    let steps: u64 = schedules.iter().map(Schedule::instances).sum();
    if steps > MOST_STEPS {
        return Err(format!("{steps} steps are too many for a picture: choose fewer ranks or bytes"));
    }
    let (prediction, mut events) = simulate::observe(&schedules, &load, &question.environment.stage());
    events.sort_by_key(|event| (event.start_ns, event.rank));
    let hosts: Vec<u32> = (0..shape.ranks).map(|rank| layout.place(rank).host).collect();
    let moved = traffic::count_bytes(&schedules, &load, layout);
    let least = traffic::least_link_bytes(shape, |rank| hosts[rank as usize]);
    let mut title = format!(
        "{} of {} bytes, {} ranks on {} hosts, by {} {}: {:.1} us",
        shape.collective,
        shape.bytes(),
        shape.ranks,
        layout.hosts(),
        best.generator.name,
        best.params,
        prediction.seconds * 1e6
    );
    if least > 0 {
        let ratio = moved.link_bytes as f64 / least as f64;
        title += &format!(
            "; {} bytes cross the links, {ratio:.3} times the least; {} within hosts",
            moved.link_bytes, moved.node_bytes
        );
    }
    Ok((Trace { events, hosts }, title))
}

fn json_of(trace: &Trace) -> String {
    let ranks: Vec<String> = (0..)
        .zip(&trace.hosts)
        .map(|(rank, host)| {
            let mut own: Vec<Event> =
                trace.events.iter().filter(|event| event.rank == rank).cloned().collect();
            let mut text = String::new();
            trace::write_rank(&mut own, *host, 0, &mut text);
            text
        })
        .collect();
    let hosts = trace.hosts.iter().copied().max().map_or(1, |most| most + 1);
    trace::whole(&ranks, &(0..hosts).map(|host| format!("host {host}")).collect::<Vec<_>>())
}

/// Summarises the bytes and the time of each level.
fn summary(trace: &Trace, critical: &[usize]) -> String {
    let steps = || trace.events.iter().filter(|event| trace::group(event) >= 2);
    let (first, last) = span(&trace.events);
    let mut out = format!("{} events in {:.1} us\n", trace.events.len(), (last - first) as f64 / 1e3);
    for level in Level::ALL {
        let sent = |event: &&Event| {
            event.level == level && !matches!(event.action, Action::Receive | Action::Expose | Action::Await)
        };
        let bytes: u64 = steps().filter(sent).map(|event| event.bytes).sum();
        let on_path: u64 = critical
            .iter()
            .map(|&place| &trace.events[place])
            .filter(|event| event.level == level)
            .map(|event| event.end_ns - event.start_ns)
            .sum();
        let share = on_path as f64 / (last - first).max(1) as f64 * 100.0;
        out += &format!(
            "  {:8}{bytes:>14} bytes moved, {share:>5.1} % of the time on the critical path\n",
            level.name()
        );
    }
    for (host, overlap) in overlaps(trace) {
        out += &format!(
            "  host {host}: network and node are busy at once in {overlap:.0} % of the shorter one's time\n"
        );
    }
    out
}

/// Returns the overlap of each host that communicates with others. It is the time in which network and node
/// are both busy, relative to the less busy one.
fn overlaps(trace: &Trace) -> Vec<(u32, f64)> {
    let hosts = trace.hosts.iter().copied().max().map_or(0, |most| most + 1);
    let length = |times: &[(u64, u64)]| times.iter().map(|(start, end)| end - start).sum::<u64>();
    let both = |host| {
        let (network, node) = (busy(trace, host, Level::Network), busy(trace, host, Level::Node));
        let shorter = length(&network).min(length(&node));
        (shorter > 0).then(|| (host, common(&network, &node) as f64 / shorter as f64 * 100.0))
    };
    (0..hosts).filter_map(both).collect()
}

/// Returns the time in which intervals of both lists overlap.
fn common(one: &[(u64, u64)], other: &[(u64, u64)]) -> u64 {
    let (mut i, mut j, mut sum) = (0, 0, 0);
    while i < one.len() && j < other.len() {
        let (start, end) = (one[i].0.max(other[j].0), one[i].1.min(other[j].1));
        sum += end.saturating_sub(start);
        if one[i].1 < other[j].1 { i += 1 } else { j += 1 }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn simulate(line: &str) -> (Trace, String) {
        let words = format!("--machine MACHINES/boards-2x2x2.txt {line}");
        simulated(&command_line::options::<TraceOptions>(&words).unwrap().setup).unwrap()
    }

    #[test]
    fn time_in_common() {
        assert_eq!(common(&[(0, 10), (20, 30)], &[(5, 25)]), 10);
        assert_eq!(common(&[], &[(5, 25)]), 0);
    }

    #[test]
    fn a_simulation_has_a_path_from_its_beginning_to_its_end() {
        let (trace, title) = simulate("--collective bcast --bytes 256K -n 8 --hosts 2");
        assert!(
            title.contains("bcast of 262144 bytes, 8 ranks on 2 hosts") && title.contains("cross the links"),
            "{title}"
        );
        let critical = path::critical(&trace.events);
        let (first, last) = (&trace.events[critical[0]], &trace.events[*critical.last().unwrap()]);
        assert_eq!(last.end_ns, span(&trace.events).1);
        assert!(first.start_ns * 4 < last.end_ns, "it leads back to the beginning: {first:?}");
        assert!(critical.iter().any(|&place| trace.events[place].level == Level::Network));
        let read = read::text(&json_of(&trace)).unwrap();
        assert_eq!((read.events.len(), &read.hosts), (trace.events.len(), &trace.hosts));
        assert!(summary(&trace, &critical).contains("network"));
    }

    /// Compares the picture of a small operation with the golden file.
    #[test]
    fn golden_picture() {
        let (trace, title) = simulate("--collective bcast --bytes 8 -n 4 --hosts 2 --algorithm knomial");
        let drawn = picture::draw(&trace, &path::critical(&trace.events), &title);
        tutti_golden::check("traces/bcast-4.svg", &drawn);
    }
}
