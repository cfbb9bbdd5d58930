//! Tests of both ends of an edge with their clocks, while one or both are suspended, or the cable is out.
//! They check whether one gives the other up.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::clock::Clock;
use super::frame::Malformed;
use super::handshake::{Admitting, Joining};
use super::link::{Link, Pace};

const SECOND: Duration = Duration::from_secs(1);
/// Default values of the settings.
const PACE: Pace = Pace { interval: SECOND, limit: Duration::from_secs(30) };
const STEP: Duration = Duration::from_millis(20);

struct End {
    link: Link<u32, u32>,
    clock: Clock,
    /// System time at which the end wakes up.
    wakes_at: Duration,
    /// Bytes that have arrived and were not read.
    socket: VecDeque<u8>,
    has_given_up: bool,
}

impl End {
    /// Runs one round of a daemon's loop: wakes up, reads, performs what is due, and sleeps.
    fn round(&mut self, system: Duration) -> Result<(), Malformed> {
        self.clock.wakes(system);
        let now = self.clock.now(system);
        let bytes: Vec<u8> = self.socket.drain(..).collect();
        if !bytes.is_empty() {
            self.link.receive(&bytes, now, &mut Vec::new())?;
        }
        self.has_given_up |= !self.link.tick(now);
        let sleep = self.link.deadline().saturating_sub(now);
        self.clock.sleeps(system, Some(sleep));
        self.wakes_at = system + sleep;
        Ok(())
    }
}

fn ends() -> [End; 2] {
    let (joining, hello) = Joining::new([9; 32], 1, [1; 32]);
    let (admitting, challenge) = Admitting::new([9; 32], &hello, &[2; 32]).unwrap();
    let (proof, child) = joining.prove(&challenge).unwrap();
    let parent = admitting.admit(&proof).unwrap();
    [child, parent].map(|agreed| End {
        link: Link::new(agreed, PACE, Duration::ZERO),
        clock: Clock::default(),
        wakes_at: Duration::ZERO,
        socket: VecDeque::new(),
        has_given_up: false,
    })
}

/// Runs both ends for 200 s, and checks which of them gives the other up. `away` has the seconds in which
/// each end is suspended, `cut` those in which the cable is out.
fn check(away: [Range<u32>; 2], cut: Range<u32>, expected: [bool; 2]) {
    let within =
        |range: &Range<u32>, time: Duration| SECOND * range.start <= time && time < SECOND * range.end;
    let mut ends = ends();
    let mut now = Duration::ZERO;
    while now < SECOND * 200 {
        for place in 0..2 {
            let (end, is_away) = (&mut ends[place], within(&away[place], now));
            if !is_away && (end.wakes_at <= now || !end.socket.is_empty()) {
                end.round(now).unwrap();
            }
            // TCP sends lost bytes again after the cut, at the latest after the same time again.
            let is_out =
                !cut.is_empty() && SECOND * cut.start <= now && now < SECOND * (2 * cut.end - cut.start);
            if !is_out {
                let said: Vec<u8> = ends[place].link.outgoing.drain(..).collect();
                ends[1 - place].socket.extend(said);
            }
        }
        now += STEP;
    }
    let given_up = [ends[0].has_given_up, ends[1].has_given_up];
    assert_eq!(given_up, expected, "away {away:?}, cut {cut:?}");
}

#[test]
fn who_was_away_gives_nobody_up() {
    for long in [2, 12, 29, 100] {
        check([10..10 + long, 10..10 + long], 0..0, [false, false]);
        // Only one end is suspended. The other gives it up after too long a silence; the suspended one gives
        // nothing up.
        check([10..10 + long, 0..0], 0..0, [false, long > 30]);
        check([0..0, 10..10 + long], 0..0, [long > 30, false]);
    }
    check([10..60, 20..70], 0..0, [false, false]);
}

#[test]
fn a_cable_may_be_out_for_less_than_the_limit() {
    for long in [1, 8, 14] {
        check([0..0, 0..0], 10..10 + long, [false, false]);
        check([12..24, 12..24], 10..10 + long, [false, false]);
    }
    check([0..0, 0..0], 10..50, [true, true]);
}
