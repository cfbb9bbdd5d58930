//! Networks that let datagrams through in part or not at all, and connections in one direction or none.

use super::runs::{Named, SECOND, traffic};
use super::world::{Weather, World};
use crate::adaptive::Mode;
use crate::link::Peer;

/// Some traffic in this weather arrives, and all leave. The world then, before they left.
fn check(seed: u64, weather: Weather, records: u64) -> World {
    let _named = Named(seed);
    let mut world = World::new(seed, weather);
    traffic(&mut world, records);
    world.run(4000 * SECOND);
    let contacted: u64 = world.nodes.iter().map(|node| node.machine.counters().contacted).sum();
    let end = world.now + 100 * SECOND;
    world.finish(SECOND / 10, end);
    for node in &world.nodes {
        assert!(node.lost.is_empty() && node.unreachable.is_empty(), "{:?}", node.unreachable);
        let left = node.machine.counters();
        assert_eq!((left.malformed, left.foreign, left.forged, left.absurd), (0, 0, 0, 0));
    }
    assert!(contacted > 0, "everything went by datagrams");
    world
}

#[test]
fn where_no_datagrams_pass_connections_carry_them() {
    for seed in 0..8 {
        let mode = [Mode::Never, Mode::OnDemand][seed as usize % 2];
        let ranks = 2 + (seed % 3) as u32;
        check(seed, Weather { ranks, mode, passes: |_, _| false, failing: 5, ..Weather::default() }, 600);
    }
}

#[test]
fn one_direction_is_enough_for_neither() {
    for seed in 0..6 {
        let mode = [Mode::Never, Mode::OnDemand][seed as usize % 2];
        check(seed, Weather { ranks: 3, mode, passes: |from, to| from < to, ..Weather::default() }, 600);
    }
}

#[test]
fn who_cannot_be_connected_to_connects() {
    for seed in 0..6 {
        let mode = [Mode::Never, Mode::OnDemand][seed as usize % 2];
        let weather = Weather {
            ranks: 3,
            mode,
            passes: |_, _| false,
            connects: |from, to| from > to,
            ..Weather::default()
        };
        let world = check(seed, weather, 600);
        assert!(world.nodes.iter().any(|node| node.calls > 0));
    }
}

#[test]
fn a_guarded_process_opens_the_way_itself() {
    let mut calls = 0;
    for seed in 0..6 {
        let _named = Named(seed);
        let mode = [Mode::Never, Mode::OnDemand][seed as usize % 2];
        let mut world = World::new(seed, Weather { mode, guarded: Some(1), ..Weather::default() });
        // It says nothing by itself.
        world.nodes[0].plan.extend((0..200).map(|_| (1, 1000)));
        world.run(100 * SECOND);
        calls += world.nodes[0].calls;
        assert!(world.nodes[0].unreachable.is_empty() && world.nodes[1].unreachable.is_empty());
    }
    assert!(calls > 0);
}

#[test]
fn long_datagrams_that_vanish_are_noticed() {
    let mut swallowed = 0;
    for seed in 0..6 {
        let mode = [Mode::Never, Mode::OnDemand][seed as usize % 2];
        let weather = Weather { ranks: 3, mode, longest: 600, loss: 1, ..Weather::default() };
        let world = check(seed, weather, 300);
        swallowed += world.nodes.iter().map(|node| node.swallowed).sum::<u32>();
        assert!(world.nodes.iter().all(|node| node.calls == 0));
    }
    assert!(swallowed > 0);
}

#[test]
fn where_nothing_passes_it_is_said_in_time() {
    for seed in 0..10 {
        let _named = Named(seed);
        let can_call = seed % 2 == 0;
        let weather =
            Weather { passes: |_, _| false, connects: |_, _| false, can_call, ..Weather::default() };
        let mut world = World::new(seed, weather);
        world.nodes[0].plan.push_back((1, 10));
        world.wait(15 * SECOND);
        let said = [&world.nodes[0].unreachable[..], &world.nodes[1].unreachable];
        // Who was called knows that neither can; where nobody can be called, who has waited for long enough.
        assert_eq!(said, if can_call { [&[][..], &[Peer(0)]] } else { [&[Peer(1)][..], &[]] });
    }
}

#[test]
fn a_busy_peer_is_no_trouble() {
    for seed in 0..6 {
        let _named = Named(seed);
        let can_call = seed % 2 == 0;
        let mut world = World::new(seed, Weather { ranks: 3, can_call, ..Weather::default() });
        if seed >= 3 {
            traffic(&mut world, 100);
            world.run(10 * SECOND);
        }
        world.away(1..2, world.now + 60 * SECOND);
        world.nodes[0].plan.extend([(1, 10), (1, 5000)]);
        world.nodes[2].plan.push_back((1, 10));
        world.run(200 * SECOND);
        world.wait(world.now + SECOND);
        for node in &world.nodes {
            let counters = node.machine.counters();
            assert_eq!((node.calls, node.blocked, counters.contacted, counters.contacts), (0, 0, 0, 0));
            assert!(node.unreachable.is_empty());
        }
    }
}

#[test]
fn a_busy_peer_behind_a_firewall_comes_when_it_can() {
    for seed in 0..6 {
        let _named = Named(seed);
        let weather = Weather { passes: |_, _| false, connects: |from, _| from == 1, ..Weather::default() };
        let mut world = World::new(seed, weather);
        world.away(1..2, 60 * SECOND);
        world.nodes[0].plan.push_back((1, 10));
        world.wait(59 * SECOND);
        assert_eq!((world.nodes[0].blocked, world.nodes[0].unreachable.len()), (1, 0));
        world.run(100 * SECOND);
    }
}
