//! Comparison of the simulator with results computed by hand, and with itself.

use super::layout::tests::machine;
use super::*;
use crate::build::{Builder, range};
use crate::ir::{Access, BufferId, Unit};
use crate::registry::registry;
use crate::shape::{Collective, Shape};

fn generator(collective: Collective, name: &str) -> &'static Generator {
    let found = registry().iter().find(|other| other.collective == collective && other.name == name);
    found.expect("the test names an algorithm")
}

/// Predicts on `cores` cores, exactly.
fn seconds(collective: Collective, name: &str, params: Params, bytes: u64, ranks: u32, cores: u32) -> f64 {
    let (model, layout) = (Model::default(), Layout::flat(ranks, cores));
    let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
    let load = Load::new(&Shape::new(collective, ranks, 0, bytes));
    let prediction = predict(generator(collective, name), &load, &params, &stage, Bound::NONE);
    assert!(prediction.exact && prediction.mean_seconds <= prediction.seconds);
    prediction.seconds
}

fn check(name: &str, found: f64, expected: f64) {
    // Rounding loses up to a picosecond for each piece of work.
    assert!((found - expected).abs() < 1e-10, "{name}: {found:e} instead of {expected:e}");
}

const WHOLE: Params = Params { window: 4, ..Params::DEFAULT };

#[test]
fn messages_cost_what_they_cost_by_hand() {
    let m = Model::default();
    let message = |bytes: f64| m.step + m.message_overhead + bytes * m.message_byte;
    let latency = m.message_latency[1];
    use Collective as C;
    for (ranks, rounds) in [(2, 1.0), (4, 2.0), (8, 3.0), (64, 6.0)] {
        let round = 2.0 * message(0.0) + latency;
        check(
            "barrier",
            seconds(C::Barrier, "dissemination", WHOLE, 0, ranks, ranks),
            m.call + rounds * round,
        );
        // The last leaf waits for the longest path: the first child of a first child, and so on.
        let hop = 2.0 * message(100.0) + latency;
        check("bcast", seconds(C::Bcast, "knomial", WHOLE, 100, ranks, ranks), m.call + rounds * hop);
    }
    let flat = Params { radix: Params::FLAT, ..WHOLE };
    for ranks in [2, 3, 7, 20] {
        let expected = m.call + f64::from(ranks) * message(8.0) + latency;
        check("flat", seconds(C::Bcast, "kary", flat, 8, ranks, ranks), expected);
    }
    for collective in Collective::ALL {
        let all = registry().iter().filter(|other| {
            other.collective == collective && !other.requires(crate::generator::Need::TwoGroups)
        });
        for generator in all.filter(|generator| generator.node() == crate::generator::Node::Any) {
            let alone = seconds(collective, generator.name, WHOLE, 0, 1, 1);
            assert!(alone < 1e-6, "{generator:?}: {alone:e}");
        }
    }
}

#[test]
fn a_long_message_overlaps_and_asks_first() {
    let m = Model::default();
    let bytes = f64::from(1 << 20);
    let piece = m.step + m.message_overhead;
    let request = 2.0 * (piece + m.message_latency[1]);
    // Sending and receiving overlap once a fragment has arrived.
    let first = m.message_latency[1] + m.fragment_bytes * m.message_byte;
    let data = m.step + first + piece + bytes * m.message_byte;
    let found = seconds(Collective::Bcast, "knomial", WHOLE, 1 << 20, 2, 2);
    check("rendezvous", found, m.call + request + data);
}

#[test]
fn ranks_that_share_a_core_take_turns() {
    let m = Model::default();
    let piece = m.step + m.message_overhead;
    // The root sends and gives up the core; the other rank finds its message, and the root does not run
    // again.
    let found = seconds(Collective::Bcast, "knomial", WHOLE, 8, 2, 1);
    check("bcast", found, m.call + 2.0 * (piece + 8.0 * m.message_byte) + m.switch);
    for ranks in [4, 8, 16] {
        let (few, enough) = (
            seconds(Collective::Allreduce, "recursive_doubling", WHOLE, 8, ranks, 2),
            seconds(Collective::Allreduce, "recursive_doubling", WHOLE, 8, ranks, ranks),
        );
        assert!(few > enough + m.switch * f64::from(ranks / 2 - 1), "{ranks}: {few:e} {enough:e}");
    }
}

#[test]
fn more_bytes_never_take_less_time() {
    for generator in registry().iter().filter(|other| other.node() == crate::generator::Node::Any) {
        for (ranks, cores) in [(4, 4), (5, 2)] {
            let suits = generator.suits(&Shape::new(generator.collective, ranks, 0, 1));
            let neighbours = generator.collective.is_of_neighbours();
            if !suits || neighbours || generator.collective == Collective::Barrier {
                continue;
            }
            let params = Params { segment: 8192, ..WHOLE };
            let mut last = 0.0;
            for bytes in [1 << 10, 16 << 10, 64 << 10, 512 << 10, 2 << 20] {
                let now = seconds(generator.collective, generator.name, params, bytes, ranks, cores);
                assert!(now >= last, "{generator:?} {ranks} ranks {bytes}: {now:e} after {last:e}");
                last = now;
            }
        }
    }
}

#[test]
fn cut_loops_come_close() {
    let model = Model::default();
    for (collective, name, bytes) in [
        (Collective::Allgather, "ring", 1024),
        (Collective::Alltoall, "pairwise", 64 << 10),
        (Collective::Alltoall, "spread", 1024),
        (Collective::Bcast, "kary", 8 << 20),
        (Collective::Allreduce, "ring", 4 << 20),
    ] {
        let layout = Layout::flat(64, 64);
        let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
        let load = Load::new(&Shape::new(collective, 64, 0, bytes));
        let params = Params { segment: 8192, ..WHOLE };
        let all = predict(generator(collective, name), &load, &params, &stage, Bound::NONE);
        let cut = predict(generator(collective, name), &load, &params, &stage, Bound::tasks(64 * 48));
        assert!(all.exact && !cut.exact && cut.tasks < all.tasks, "{collective} {name}");
        let ratio = cut.seconds / all.seconds;
        assert!((0.7..1.4).contains(&ratio), "{collective} {name}: {ratio}");
        assert_eq!(cut, predict(generator(collective, name), &load, &params, &stage, Bound::tasks(64 * 48)));
    }
}

#[test]
fn flags_move_as_cache_lines_and_readers_queue() {
    let m = Model::default();
    // One posts, all others wait.
    let schedule = |rank: u32| {
        let mut b = Builder::new(Unit::Byte);
        b.in_program_order();
        if rank == 0 {
            b.post(1, 1)
        } else {
            b.wait(0, 1, 1)
        };
        b.finish()
    };
    for ranks in [2, 3, 9] {
        let layout = Layout::flat(ranks, ranks);
        let stage = Stage { model: &m, layout: &layout, reach: Reach::Mapped };
        let schedules: Vec<Schedule> = (0..ranks).map(schedule).collect();
        let found = simulate(&schedules, &Load::new(&Shape::new(Collective::Barrier, ranks, 0, 0)), &stage);
        let queue = f64::from(ranks - 2) * m.line_gap;
        check("flag", found.seconds, m.call + m.step + m.post + queue + m.line[1] + m.step);
    }
}

#[test]
fn exposed_memory_costs_what_its_reach_costs() {
    let m = Model::default();
    let bytes = 1 << 20;
    let schedule = |rank: u32| {
        let mut b = Builder::new(Unit::Byte);
        b.in_program_order();
        let whole = |buffer| range(buffer, 0, bytes);
        if rank == 0 {
            b.expose(0, whole(BufferId::RECV), Access::Read);
            b.post(1, 1);
        } else {
            b.wait(0, 1, 1);
            b.pull(0, whole(BufferId::exposed(0)), whole(BufferId::RECV));
        }
        b.finish()
    };
    let layout = Layout::flat(2, 2);
    let before = m.call + m.step + m.expose + m.step + m.post + m.line[1] + m.step;
    let copy = m.step + bytes as f64 * m.copy_byte[1];
    let pages = 256.0 * m.single_copy_page;
    // Cost of rewriting the part of the root's memory that its cache holds.
    let again = f64::from(128 << 10) * m.rewrite_byte;
    let expected = [(Reach::Mapped, m.line[1] + m.expose), (Reach::Call, m.single_copy_call + pages)];
    for (reach, fixed) in expected {
        let stage = Stage { model: &m, layout: &layout, reach };
        let load = Load::new(&Shape::new(Collective::Bcast, 2, 0, bytes));
        let found = simulate(&[schedule(0), schedule(1)], &load, &stage);
        check("pull", found.seconds, before + fixed + again + copy);
    }
}

#[test]
fn far_ranks_take_longer() {
    let model = Model::default();
    let epyc = machine("epyc-2x16-nps2");
    let time = |binding| {
        let layout = Layout::bound(&epyc, &binding, 32, 1);
        let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
        let load = Load::new(&Shape::new(Collective::Allgather, 32, 0, 4096));
        predict(generator(Collective::Allgather, "ring"), &load, &WHOLE, &stage, Bound::NONE).seconds
    };
    assert!(time(Binding::Scatter) > 1.2 * time(Binding::Compact));
}

#[test]
fn too_many_readers_are_in_each_others_way() {
    let layout = Layout::flat(33, 33);
    let load = Load::new(&Shape::new(Collective::Bcast, 33, 0, 1 << 20));
    let time = |source_readers: f64, readers: u32| {
        let model = Model { source_readers, source_bandwidth: 1e13, ..Model::default() };
        let stage = Stage { model: &model, layout: &layout, reach: Reach::Call };
        let params = Params { readers, ..WHOLE };
        predict(generator(Collective::Bcast, "exposed"), &load, &params, &stage, Bound::NONE).seconds
    };
    assert!(time(8.0, 8) < time(8.0, 0), "a bound of as many as serve best helps");
    assert!(time(64.0, 8) > time(64.0, 0), "where all may read at a time, it does not");
}

#[test]
fn links_between_memory_controllers_are_shared() {
    let epyc = machine("epyc-2x16-nps2");
    let time = |link_bandwidth: f64, binding: &Binding| {
        let model = Model { link_bandwidth, ..Model::default() };
        let layout = Layout::bound(&epyc, binding, 32, 1);
        let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
        let load = Load::new(&Shape::new(Collective::Allgather, 32, 0, 64 << 10));
        predict(generator(Collective::Allgather, "ring"), &load, &WHOLE, &stage, Bound::NONE).seconds
    };
    // All of a controller's eight ranks send to others, 31 times 64 KiB each.
    let least = 31.0 * 8.0 * 65536.0 / 5e9;
    assert!(time(5e9, &Binding::Scatter) >= least);
    assert!(time(5e9, &Binding::Compact) < least && time(1e12, &Binding::Scatter) < least);
}

#[test]
fn a_host_passes_on_what_it_has() {
    let (model, layout) = (Model::default(), Layout::across(&[0, 1, 2, 3], 4));
    let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
    let bytes = 32 << 10;
    let load = Load::new(&Shape::new(Collective::Bcast, 4, 0, bytes));
    let chain = Params { radix: 1, ..WHOLE };
    let prediction = predict(generator(Collective::Bcast, "levels_bank"), &load, &chain, &stage, Bound::NONE);
    let link = bytes as f64 / model.network_bandwidth;
    let Prediction { seconds, steady_seconds, .. } = prediction;
    assert!(seconds > 3.0 * link && seconds < 5.0 * link, "{seconds:e}, a link: {link:e}");
    assert!(steady_seconds > link && steady_seconds < 2.0 * link, "{steady_seconds:e}, a link: {link:e}");
}

/// Returns the last turn of broadcasts of 8 bytes between two ranks with these roots. The ranks compute for
/// these seconds in between.
fn last_turn(roots: &[u32], computing: [f64; 2]) -> OperationTimes {
    let (model, layout) = (Model::default(), Layout::flat(2, 2));
    let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
    let shape = Shape::new(Collective::Bcast, 2, 0, 8);
    let generator = generator(Collective::Bcast, "knomial");
    let write = |root| -> Vec<Schedule> {
        (0..2).map(|rank| generator.generate(&Shape { rank, root, ..shape }, &WHOLE)).collect()
    };
    let operations = [write(0), write(1)];
    let order = roots.iter().map(|root| *root as usize).collect();
    let turns = follow(&Series::new(&operations, order, &computing), &Load::new(&shape), &stage);
    assert_eq!((turns.len(), turns[0].begin_seconds), (roots.len(), 0.0));
    turns[turns.len() - 1]
}

#[test]
fn operations_in_a_row_overlap_as_their_roots_allow() {
    let m = Model::default();
    let message = m.step + m.message_overhead + 8.0 * m.message_byte;
    // Times of both ranks: begins, then ends.
    let seen = |roots: &[u32], computing: [f64; 2], expected: [[f64; 2]; 2]| {
        let OperationTimes { begin_seconds, end_seconds } = last_turn(roots, computing);
        let mean = |times: [f64; 2]| (times[0] + times[1]) / 2.0;
        check("begin", begin_seconds, mean(expected[0]));
        check("end", end_seconds, mean(expected[1]));
    };
    let hop = 2.0 * message + m.message_latency[1];
    seen(&[0], [0.0; 2], [[0.0; 2], [message, hop]]);
    // A root that remains the root does not wait. The other rank finds each message when it has computed.
    let computes = 1e-5;
    let pace = computes + m.step + message;
    let third = |first: f64| first + 2.0 * pace;
    seen(&[0, 0, 0], [computes; 2], [[third(0.0), third(hop - message)], [third(message), third(hop)]]);
    // The next root needs the last row first, and the root before it then waits for the new one.
    let second = hop + m.step + computes;
    let end = second + message;
    let begins = [message + m.step + computes, second];
    seen(&[0, 1], [computes; 2], [begins, [end + m.message_latency[1] + message, end]]);
    // The rank that computes for longer delays the other one.
    let slow = 3e-5;
    let begins = [message + m.step, hop + m.step + slow];
    let end = begins[1] + message;
    seen(&[0, 1], [0.0, slow], [[message, begins[1]], [end + m.message_latency[1] + message, end]]);
}

#[test]
fn a_series_of_one_operation_is_that_operation() {
    let (model, layout) = (Model::default(), Layout::bound(&machine("laptop-4x2"), &Binding::Compact, 8, 2));
    let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
    for name in ["knomial", "levels", "levels_bank", "levels_circulant"] {
        let shape = Shape::new(Collective::Bcast, 8, 0, 100_000);
        let write = |rank| {
            let shape = Shape { rank, ..shape };
            generator(Collective::Bcast, name).generate_on(&shape, &WHOLE, Some(layout.hierarchy()))
        };
        let schedules: Vec<Schedule> = (0..8).map(write).collect();
        let load = Load::new(&shape);
        let alone = simulate(&schedules, &load, &stage).mean_seconds - model.call;
        let operations = [schedules];
        let row = |times: usize| follow(&Series::new(&operations, vec![0; times], &[]), &load, &stage);
        check(name, row(1)[0].end_seconds, alone);
        let turns = row(5);
        assert!(turns.windows(2).all(|two| two[0].end_seconds <= two[1].begin_seconds + 1e-12), "{turns:?}");
    }
}

#[test]
fn the_network_brings_segments_while_ranks_compute() {
    let (model, layout) =
        (Model { network_bandwidth: 1e8, ..Model::default() }, Layout::across(&[0, 1, 2], 1));
    let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
    let bytes = 64 << 10;
    let shape = Shape::new(Collective::Bcast, 3, 0, bytes);
    let chain = Params { radix: 1, segment: 8 << 10, ..WHOLE };
    let write = |rank| {
        let shape = Shape { rank, ..shape };
        generator(Collective::Bcast, "levels").generate_on(&shape, &chain, Some(layout.hierarchy()))
    };
    let operations = [(0..3).map(write).collect::<Vec<Schedule>>()];
    let link = bytes as f64 / model.network_bandwidth;
    let series = Series::new(&operations, vec![0; 6], &[10.0 * link; 3]);
    let turns = follow(&series, &Load::new(&shape), &stage);
    let OperationTimes { begin_seconds, end_seconds } = turns[5];
    assert!(end_seconds - begin_seconds < link / 4.0, "{turns:?}, a link: {link:e}");
}

/// Around a ring of hosts that share processors, the request for the next message waits behind the message
/// that leaves. Of two ranks that exchange messages, each has sent its request before.
#[test]
fn requests_wait_behind_what_leaves_their_host() {
    let layout = Layout::on_machines(&[0, 1, 2, 3], &tutti_base::Machines::shared(4, 2));
    let load = Load::new(&Shape::new(Collective::Allreduce, 4, 0, 1 << 20));
    let check = |name, expected: bool| {
        let [at_once, queued] = [0.0, 1e-3].map(|network_queue| {
            let model = Model { network_bandwidth: 1.2e8, network_queue, ..Model::default() };
            let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
            predict(generator(Collective::Allreduce, name), &load, &WHOLE, &stage, Bound::NONE).steady_seconds
        });
        assert_eq!(queued > 1.02 * at_once, expected, "{name}: {at_once}, {queued}");
    };
    check("ring", true);
    check("rabenseifner", false);
}

/// Returns the time in which all ranks write to windows of a file, each rank equally much to each, with
/// `in_flight` rounds in flight.
fn exchange_seconds(in_flight: u32, rounds: u32, bytes: u64) -> f64 {
    use crate::algorithms::files::{self, Exchange};
    let ranks = 4;
    let aggregators: Vec<u32> = (0..ranks).collect();
    let schedule = |rank| {
        let slot = bytes * u64::from(ranks);
        files::write(&Exchange { ranks, rank, aggregators: &aggregators, rounds, slot, in_flight })
    };
    let schedules: Vec<Schedule> = (0..ranks).map(schedule).collect();
    let pieces = u64::from(rounds * ranks);
    let shape = Shape { own: pieces, ..Shape::new(Collective::FileWrite, ranks, 0, bytes) };
    let (model, layout) = (Model::default(), Layout::flat(ranks, ranks));
    let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
    simulate(&schedules, &Load::new(&shape), &stage).seconds
}

#[test]
fn exchange_and_device_overlap() {
    let (one, two) = (exchange_seconds(1, 16, 256 << 10), exchange_seconds(2, 16, 256 << 10));
    assert!(two < 0.95 * one, "{two:e} beside {one:e}");
    // Time of the device alone.
    let device = 16.0 * 1024.0 * 1024.0 * 0.5e-9;
    assert!(two > device && one > device);
}

/// Returns the time of an operation in a row at each rank if all ranks compute beside it.
fn beside(layout: &Layout, of: (Collective, &str), bytes: u64, beside: Beside) -> Vec<f64> {
    let model = Model { network_bandwidth: 1.2e8, ..Model::default() };
    let stage = Stage { model: &model, layout, reach: Reach::Mapped };
    let load = Load::new(&Shape::new(of.0, layout.ranks(), 0, bytes));
    let generator = generator(of.0, of.1);
    let write = |rank| generator.generate_on(&load.shape_of(rank), &WHOLE, None);
    let schedules: Vec<Schedule> = (0..layout.ranks()).map(write).collect();
    periods(&Series::repeated(&schedules, 4).with_computation(beside), &load, &stage)
}

const TREE: (Collective, &str) = (Collective::Bcast, "knomial");

#[test]
fn computation_beside_an_operation_hides_what_needs_nobody() {
    let m = Model::default();
    let message = |bytes: f64| m.step + m.message_overhead + bytes * m.message_byte;
    let computing = Beside { seconds: 1e-3, ..Beside::default() };
    // The message arrives while its receiver computes, which takes it afterwards.
    let node = Layout::flat(2, 2);
    for period in beside(&node, TREE, 100, computing) {
        check("root and leaf", period, 1e-3 + m.step + message(100.0));
    }
    // Polls add their own cost.
    let looking = Beside { looks: 3, look_seconds: 1e-6, ..computing };
    check("with looks", beside(&node, TREE, 100, looking)[1], 1e-3 + 4.0 * (m.step + 1e-6) + message(100.0));
}

#[test]
fn what_needs_both_ranks_goes_on_when_they_look() {
    let hosts = Layout::on_machines(&[0, 1], &tutti_base::Machines::apart(2, 1));
    let leaf = |with| beside(&hosts, TREE, 1 << 20, with)[1];
    let alone = leaf(Beside::default());
    let seconds = 4.0 * alone;
    let with = |looks| leaf(Beside { seconds, looks, ..Beside::default() });
    // The request is not answered before the computation ends; then the operation takes as long as alone.
    let (none, many) = (with(0), with(100));
    assert!(none > seconds + 0.9 * alone, "{none:e}, {seconds:e} and {alone:e}");
    // Once a message was requested, the network carries it without a processor.
    assert!(many > seconds && many < seconds + 0.2 * alone, "{many:e}, {seconds:e} and {alone:e}");
    // With a push, the operation is over before the computation, but is not pushed for longer than allowed.
    let pushed = |pushed_seconds| leaf(Beside { seconds, pushed_seconds, ..Beside::default() });
    assert!(pushed(1.0) < seconds + 1.1 * alone, "{:e}", pushed(1.0));
    assert!(pushed(0.0) == none && pushed(alone / 100.0) < none + alone / 50.0);
}

/// Many ranks behave like few, and equally on every call.
#[test]
fn many_ranks_compute_beside() {
    let layout = Layout::flat(256, 256);
    let longest = |looks| {
        let computing = Beside { seconds: 1e-3, looks, ..Beside::default() };
        let found = beside(&layout, (Collective::Allreduce, "recursive_doubling"), 1024, computing);
        found.into_iter().fold(0.0, f64::max)
    };
    let (few, many) = (longest(0), longest(32));
    assert!(many < few && many > 1e-3, "{many:e} {few:e}");
    assert_eq!(longest(32), many);
}
