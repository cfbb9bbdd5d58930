//! File of a trace. Rank 0 collects all records at MPI_Finalize and writes it. Clocks of other hosts are
//! compared by round trips.

use std::path::Path;

use tutti_base::trace::{self as format, Exchange};
use tutti_base::{Rank, Result};
use tutti_sys::{clock, files, floating_point};

use crate::collective::WaitContext;
use crate::exchange::{exchange, swap};
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::trace;

/// Number of round trips to a host whose clock is compared.
const TRIPS: usize = 8;
/// Tag of the messages that collect the records.
const TAG: i32 = 1;

/// Collects all records at rank 0, which writes the file. All ranks of the world call it before they leave.
///
/// # Errors
/// The error of a message.
pub fn collect(held: &mut LaneGuard, process: &Process) -> Result<()> {
    if !trace::is_on() {
        return Ok(());
    }
    let (mut events, lost) = trace::end();
    if lost > 0 {
        eprintln!(
            "Tutti: rank {}: {lost} events did not fit into the trace (TUTTI_DEBUG=trace_events=N)",
            process.rank
        );
    }
    let hosts = hosts(process);
    let (offset, origin) = clocks(held, process, &hosts)?;
    let mut text = String::new();
    let host = hosts[process.rank.0 as usize];
    let origin_ns = i128::from(origin) + i128::from(offset);
    floating_point::isolated(|| format::write_rank(&mut events, host, origin_ns, &mut text));
    let world = &process.library.world;
    if process.rank.0 != 0 {
        return exchange(held, process, world, Rank(0), TAG, text.into_bytes()).map(drop);
    }
    let mut ranks = vec![text];
    for rank in 1..world.size() {
        let theirs = exchange(held, process, world, Rank(rank), TAG, Vec::new())?;
        ranks.push(String::from_utf8_lossy(&theirs).into_owned());
    }
    let names: Vec<String> =
        (0..=hosts.iter().copied().max().unwrap_or(0)).map(|host| format!("host {host}")).collect();
    let path = &process.config.diagnosis.trace;
    if let Err(error) = files::write(Path::new(path), format::whole(&ranks, &names).as_bytes()) {
        eprintln!("Tutti: the trace cannot be written to {path}: {error}");
    }
    Ok(())
}

/// Returns the number of the host of each rank.
fn hosts(process: &Process) -> Vec<u32> {
    (0..process.world_size()).map(|rank| process.job.place(rank).host).collect()
}

/// Returns by how many nanoseconds this host's clock is ahead of rank 0's, and the start of the trace by rank
/// 0's.
fn clocks(held: &mut LaneGuard, process: &Process, hosts: &[u32]) -> Result<(i64, u64)> {
    let world = &process.library.world;
    let others = hosts.iter().copied().max().unwrap_or(0) + 1;
    let mut offsets = vec![0i64; others as usize];
    for host in (0..others).filter(|host| *host != hosts[0]) {
        let Some(first) = hosts.iter().position(|other| *other == host) else { continue };
        let partner = match process.rank.0 {
            0 => Rank(first as u32),
            me if me as usize == first => Rank(0),
            _ => continue,
        };
        // Each message carries its time of sending, and the arrival time of the one before.
        let (mut exchanges, mut got_ns): (Vec<Exchange>, u64) = (Vec::new(), 0);
        for _ in 0..=TRIPS {
            let sent_ns = clock::now_ns();
            let mine = [sent_ns, got_ns].map(u64::to_le_bytes).concat();
            let theirs = swap(held, process, world, partner, TAG, mine, 16)?;
            let (answered_ns, reached_ns) = (word(&theirs, 0), word(&theirs, 1));
            if let Some(last) = exchanges.last_mut() {
                *last = Exchange { reached_ns, ..*last };
            }
            got_ns = clock::now_ns();
            exchanges.push(Exchange { sent_ns, reached_ns: 0, answered_ns, got_ns });
        }
        // The arrival time of the last message is unknown.
        exchanges.pop();
        offsets[host as usize] = format::clock_offset_ns(&exchanges);
    }
    let mut data: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
    data.extend(process.started_ns.to_le_bytes());
    WaitContext::new(held, process, world).broadcast_bytes(Rank(0), &mut data)?;
    Ok((word(&data, hosts[process.rank.0 as usize] as usize) as i64, word(&data, others as usize)))
}

/// Returns word number `place` of a message, or 0 if it is too short.
fn word(bytes: &[u8], place: usize) -> u64 {
    let word = bytes.get(place * 8..place * 8 + 8).and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}
