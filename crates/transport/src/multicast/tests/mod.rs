//! Streams in a simulated network, and what they look like on the wire.

mod wire;
mod world;

use world::{Weather, check};

/// Runs some seeds of the same faults.
fn seeds(weather: &Weather, from: u64) {
    for seed in from..from + 40 {
        check(weather, seed);
    }
}

#[test]
fn without_loss_nothing_is_repaired() {
    let counters = check(&Weather::fair(5), 1);
    assert_eq!((counters.repeated, counters.repaired, counters.demoted, counters.declined), (0, 0, 0, 0));
    assert!(counters.sent > 0);
}

#[test]
fn what_gets_lost_is_repaired() {
    seeds(&Weather { loss: 10, doubled: 10, jitter: 400, ..Weather::fair(4) }, 0);
    seeds(&Weather { loss: 40, doubled: 20, jitter: 3000, window: 8, ..Weather::fair(6) }, 100);
    let counters = check(&Weather { loss: 30, ..Weather::fair(6) }, 7);
    assert!(counters.repeated > 0 && counters.repaired > 0, "by both ways: {counters}");
}

#[test]
fn small_windows_and_many_receivers() {
    seeds(&Weather { window: 2, loss: 5, ..Weather::fair(3) }, 200);
    seeds(&Weather { window: 1, loss: 1, senders: 4, ..Weather::fair(9) }, 300);
}

#[test]
fn acknowledgements_come_up_a_tree() {
    let many = Weather { senders: 1, messages: 200, window: 32, ..Weather::fair(17) };
    seeds(&Weather { loss: 5, ..many.clone() }, 1000);
    seeds(&Weather { deaf: &[1, 9], loss: 2, ..many.clone() }, 1100);
    seeds(&Weather { cannot: &[3], ..many.clone() }, 1200);
    seeds(&Weather { leaves: 20, leaves_us: 60_000, ..many }, 1300);
}

#[test]
fn who_does_not_hear_is_found_out() {
    for deaf in [&[1][..], &[1, 2], &[0, 1, 2, 3, 4]] {
        let weather = Weather { deaf, loss: 5, messages: 200, ..Weather::fair(5) };
        seeds(&weather, 400);
        let counters = check(&weather, 11);
        assert!(counters.demoted > 0, "{deaf:?}: {counters}");
    }
}

#[test]
fn multicast_that_dies_and_comes_back() {
    let weather = Weather {
        deaf: &[0, 1, 2, 3],
        deaf_us: (50_000, 700_000),
        messages: 400,
        pause: 6000,
        ..Weather::fair(4)
    };
    seeds(&Weather { loss: 10, jitter: 300, ..weather.clone() }, 500);
    let counters = check(&weather, 12);
    assert!(counters.demoted > 0 && counters.bytes > 0, "{counters}");
}

#[test]
fn receivers_that_are_slow_or_leave_messages() {
    seeds(&Weather { leaves: 30, loss: 10, ..Weather::fair(4) }, 600);
    seeds(&Weather { busy: 20_000, loss: 10, ..Weather::fair(4) }, 700);
    let weather = Weather { leaves: 100, leaves_us: 60_000, messages: 80, ..Weather::fair(3) };
    seeds(&weather, 800);
    assert!(check(&weather, 5).declined > 0);
}

#[test]
fn who_cannot_listen_says_so() {
    seeds(&Weather { cannot: &[2], loss: 5, ..Weather::fair(4) }, 900);
}
