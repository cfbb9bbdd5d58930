//! Whole runs.

use super::world::{Weather, World};
use crate::adaptive::{ConnectionCounters, Mode};

pub(super) const SECOND: u64 = 1_000_000;

/// Says which seed it was, if a run fails.
pub(super) struct Named(pub u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with seed {}", self.0);
        }
    }
}

/// `records` records between random pairs, most of them short; then all leave.
pub(super) fn traffic(world: &mut World, records: u64) {
    let ranks = u64::from(world.weather.ranks);
    for _ in 0..records {
        let from = world.random.below(ranks);
        let to = (from + 1 + world.random.below(ranks - 1)) % ranks;
        let longest = world.weather.record_bytes as u64;
        let bound = [8, 64, 1500, longest + 1][world.random.below(4) as usize];
        let bytes = world.random.below(bound) as usize;
        world.nodes[from as usize].plan.push_back((to as u32, bytes));
    }
}

/// Runs it, and looks at what is left. The counters of all processes.
fn check(seed: u64, weather: Weather, records: u64) -> Vec<ConnectionCounters> {
    let _named = Named(seed);
    let mut world = World::new(seed, weather);
    if matches!(world.weather.mode, Mode::PartiallyStatic | Mode::Static) {
        preconnect(&mut world);
    }
    traffic(&mut world, records);
    world.run(4000 * SECOND);
    let counters: Vec<ConnectionCounters> = world.nodes.iter().map(|node| node.machine.counters()).collect();
    let end = world.now + 100 * SECOND;
    world.finish(SECOND / 10, end);
    for node in &world.nodes {
        let left = node.machine.counters();
        assert!(node.lost.is_empty(), "seed {seed}: lost {:?}", node.lost);
        assert_eq!(left.connections, 0, "seed {seed}: {left:?}");
        assert_eq!((left.malformed, left.foreign, left.forged, left.absurd), (0, 0, 0, 0));
        assert!(left.most_connections <= world.weather.max_connections as u64);
        let fixed = 128 * 1500 + 64 * 1024 + 4096 * u64::from(world.weather.ranks);
        assert!(node.unreachable.is_empty(), "seed {seed}: {:?} cannot be reached", node.unreachable);
        assert!(left.memory_bytes < fixed + left.peers * 24_000, "seed {seed}: {left:?}");
    }
    counters
}

fn preconnect(world: &mut World) {
    let ranks = world.weather.ranks;
    for rank in 0..ranks {
        let peers: Vec<_> = match world.weather.mode {
            Mode::Static => (0..ranks).filter(|&peer| peer != rank).map(crate::link::Peer).collect(),
            _ => crate::adaptive::neighbours(rank, ranks).collect(),
        };
        world.nodes[rank as usize].machine.preconnect(Default::default(), peers.into_iter());
    }
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let factor = std::env::var("ADAPTIVE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    0..count * factor
}

#[test]
fn a_calm_network_needs_no_repetition() {
    let weather = Weather { mode: Mode::Never, ..Weather::default() };
    for counters in check(1, weather, 1000) {
        assert_eq!((counters.repeated_datagrams, counters.duplicates, counters.established), (0, 0, 0));
    }
}

#[test]
fn datagrams_alone_survive_any_weather() {
    for seed in seeds(20) {
        let weather = Weather {
            ranks: 2 + (seed % 4) as u32,
            mode: Mode::Never,
            loss: 10,
            doubled: 5,
            jitter: 500,
            left: (seed % 3) as u32 * 20,
            computing: (seed % 2) as u32 * 5,
            compute: 20_000,
            backlog: 50,
            ..Weather::default()
        };
        check(seed, weather, 400);
    }
}

#[test]
fn encrypted_datagrams_are_understood() {
    for seed in seeds(6) {
        let mode = [Mode::Never, Mode::OnDemand][seed as usize % 2];
        check(seed, Weather { ranks: 3, mode, hides: true, loss: 5, doubled: 5, ..Weather::default() }, 500);
    }
}

#[test]
fn connections_come_and_go_in_any_weather() {
    let mut established = 0;
    let mut given_up = 0;
    for seed in seeds(30) {
        let weather = Weather {
            ranks: 3 + (seed % 6) as u32,
            max_connections: 1 + (seed % 4) as usize,
            loss: (seed % 3) as u32 * 5,
            doubled: 5,
            jitter: (seed % 4) * 100,
            failing: (seed % 5) as u32 * 10,
            left: (seed % 2) as u32 * 20,
            computing: (seed % 3) as u32 * 2,
            compute: 100_000,
            backlog: 60,
            record_bytes: 9000,
            ..Weather::default()
        };
        let counters = check(seed, weather, 3000);
        established += counters.iter().map(|one| one.established).sum::<u64>();
        given_up += counters.iter().map(|one| one.given_up).sum::<u64>();
    }
    assert!(established > 100 && given_up > 0, "{established} established, {given_up} given up");
}

#[test]
fn static_modes_connect_before_anything_is_sent() {
    for (mode, each) in [(Mode::Static, 15), (Mode::PartiallyStatic, 7)] {
        let mut world = World::new(3, Weather { ranks: 16, mode, loss: 5, ..Weather::default() });
        preconnect(&mut world);
        world.run(SECOND);
        traffic(&mut world, 1);
        let mut until = world.now;
        while world.nodes.iter().any(|node| node.machine.counters().established < each) {
            until += SECOND / 10;
            assert!(until < 100 * SECOND);
            world.wait(until);
        }
        let end = world.now + 100 * SECOND;
        world.finish(1000, end);
    }
}

#[test]
fn a_cut_of_one_second_survives() {
    for seed in seeds(5) {
        let cut = (1000, SECOND + 1000);
        for mode in [Mode::Never, Mode::OnDemand] {
            check(seed, Weather { ranks: 4, mode, cut, loss: 1, ..Weather::default() }, 2000);
        }
    }
}

#[test]
fn a_cut_of_eight_seconds_survives() {
    for seed in seeds(3) {
        let cut = (1000, 8 * SECOND + 1000);
        for mode in [Mode::Never, Mode::OnDemand] {
            check(seed, Weather { ranks: 4, mode, cut, loss: 1, ..Weather::default() }, 2000);
        }
    }
}

#[test]
fn pauses_of_one_or_of_all_survive() {
    for seed in seeds(6) {
        let _named = Named(seed);
        let mode = [Mode::Never, Mode::OnDemand][seed as usize % 2];
        let mut world = World::new(seed, Weather { ranks: 4, mode, loss: 2, ..Weather::default() });
        traffic(&mut world, 2000);
        world.wait(1000 * (seed + 1));
        let until = world.now + 12 * SECOND;
        world.away(if seed < 3 { 1..2 } else { 0..4 }, until);
        world.run(4000 * SECOND);
        // And while all leave.
        let until = world.now + 12 * SECOND;
        world.away(2..3, until);
        let end = world.now + 100 * SECOND;
        world.finish(SECOND / 10, end);
        for node in &world.nodes {
            assert!(node.lost.is_empty() && node.unreachable.is_empty());
        }
    }
}

#[test]
fn a_slow_line_with_a_short_buffer_is_not_flooded() {
    let (rate, buffer) = (200_000_000, 32 << 10);
    let weather = Weather { mode: Mode::Never, rate, buffer, ..Weather::default() };
    let mut world = World::new(5, weather);
    let bytes = 8 << 20;
    world.nodes[0].plan.extend((0..bytes / 32768).map(|_| (1, 32768)));
    world.run(100 * SECOND);
    let counters = world.nodes[0].machine.counters();
    let repeated = counters.repeated_datagrams as f64 / counters.sent_datagrams as f64;
    let line = bytes as f64 * 8.0 / rate as f64 * 1e6 / world.now as f64;
    eprintln!(
        "{counters:?} {:?} now {} drops {}",
        world.nodes[1].machine.counters(),
        world.now,
        world.dropped
    );
    assert!(repeated < 0.05, "{repeated} of the datagrams were repetitions");
    assert!(line > 0.7, "{line} of the line was used");
}

#[test]
fn a_dead_peer_holds_up_nobody() {
    for seed in seeds(10) {
        let mut world = World::new(seed, Weather { ranks: 4, loss: 5, ..Weather::default() });
        traffic(&mut world, 500);
        let sent = world.nodes.iter().map(|node| node.plan.len()).sum::<usize>();
        world.wait(SECOND / 1000 * (seed + 1));
        assert!(world.nodes.iter().map(|node| node.plan.len()).sum::<usize>() < sent);
        world.kill(3);
        world.wait(world.now + SECOND / 10);
        (0..3).for_each(|rank| world.tell_gone(rank, 3));
        let end = world.now + 100 * SECOND;
        world.nodes.iter_mut().for_each(|node| node.plan.clear());
        world.finish(1000, end);
    }
}

#[test]
fn the_last_acknowledgement_hangs_nobody() {
    for seed in seeds(50) {
        let weather = Weather { ranks: 4, loss: 30, jitter: 100, ..Weather::default() };
        check(seed, weather, 30);
    }
}
