//! Comparison of the kernel's program with the reference machine, packet by packet: BPF_PROG_TEST_RUN on
//! valid, stale, malformed and forged packets. TUTTI_PACKETS=1000000 makes it longer. It needs root.

use std::net::Ipv4Addr;

use aya::maps::Array;
use aya::programs::TestRun;
use aya::programs::TestRunOptions;
use aya::{Ebpf, Pod};

use tutti_coll::ir::Schedule;
use tutti_coll::lower::{
    AREAS, CHANNELS, Dropped, EVENTS, Machine, Operation, Packet, Program, Purpose, RULES, Record, Verdict,
    lower,
};
use tutti_coll::{Collective, Params, Shape, registry};
use tutti_netd::loaded::{EGRESS, INGRESS, Owner, fill_group, load, program, set};
use tutti_offload::layout::{
    AREA_BYTES, COUNTERS, Counter, OPERAND_BYTES, Operator, PORT, PROGRAMS, RECORD_BYTES, entries,
};
use tutti_offload::packet::{self, Line, PacketError};
use tutti_transport::adaptive::tag::Key;

const KEY: [u8; 16] = *b"sixteen bytes...";
const SLOT: usize = 2;
const RANKS: u32 = 6;
const RANK: u32 = 2;

fn programs(collective: Collective, name: &str, ranks: u32, root: u32) -> Vec<Program> {
    let generator = registry()
        .iter()
        .find(|generator| generator.collective == collective && generator.name == name)
        .expect("the test names a registered algorithm");
    let count = u64::from(collective != Collective::Barrier);
    let shape = |rank| Shape { root, ..Shape::new(collective, ranks, rank, count) };
    let schedules: Vec<Schedule> =
        (0..ranks).map(|rank| generator.generate(&shape(rank), &Params::default())).collect();
    lower(&shape(0), &schedules).expect("it is lowered")
}

struct Dice(u64);

impl Dice {
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, sides: u32) -> u32 {
        (self.word() >> 33) as u32 % sides
    }
}

/// Kernel's program with one group, and the reference machine of the same rank.
struct Both {
    kernel: Ebpf,
    machine: Machine,
    line: Line,
    counted: [u64; COUNTERS],
}

fn entry<V: Pod>(kernel: &Ebpf, table: &str, place: usize) -> V {
    let array: Array<_, V> = Array::try_from(kernel.map(table).expect("a table")).expect("an array");
    array.get(&(place as u32), 0).expect("an entry")
}

impl Both {
    /// Loads the program; returns `None` where programs may not be loaded.
    fn new(rank: u32, ranks: u32, all: &[Vec<Program>]) -> Option<Both> {
        let owner = Owner { job: 77, key: KEY, address: Ipv4Addr::new(10, 9, 0, 1), port: 4000 };
        let loaded = load(&owner, [2, 0, 0, 0, 0, 1]);
        // Loading must succeed as root.
        let is_root =
            std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        let mut kernel = match loaded {
            Err(why) if !is_root => {
                eprintln!("skipped: {why}");
                return None;
            }
            loaded => loaded.expect("root may load programs"),
        };
        let peers: Vec<_> = (0..ranks)
            .filter(|peer| *peer != rank)
            .map(|peer| (peer, Ipv4Addr::new(10, 9, 0, 2 + peer as u8), [2, 0, 0, 0, 1, peer as u8]))
            .collect();
        fill_group(&mut kernel, SLOT, (5, rank), &peers).expect("tables are filled");
        let own: Vec<Program> = all.iter().map(|programs| programs[rank as usize].clone()).collect();
        let names: Vec<u32> = peers.iter().map(|(rank, ..)| *rank).collect();
        for (number, program) in own.iter().enumerate() {
            let (rules, events) = entries(program, &names).expect("all are peers");
            let first = SLOT * PROGRAMS + number;
            for (place, rule) in rules.into_iter().enumerate() {
                set(&mut kernel, "rules", first * RULES + place, rule).expect("tables are filled");
            }
            for (place, event) in events.into_iter().enumerate() {
                set(&mut kernel, "events", first * EVENTS + place, event).expect("tables are filled");
            }
        }
        let line = Line { job: 77, group: 5, key: Key::from_bytes(KEY) };
        let machine = Machine::new(rank, own, Operator::combine);
        Some(Both { kernel, machine, line, counted: [0; COUNTERS] })
    }

    /// Passes the bytes to the kernel's program.
    fn give(&mut self, bytes: &[u8], is_own: bool) {
        let frame = frame(bytes);
        let name = if is_own { EGRESS } else { INGRESS };
        let options = TestRunOptions { data_in: Some(&frame), ..TestRunOptions::default() };
        program(&mut self.kernel, name).expect("it is loaded").test_run(options).expect("it runs");
    }

    /// Passes the bytes to both, and checks that they agree.
    fn take(&mut self, rank: u32, bytes: &[u8], is_own: bool) {
        self.give(bytes, is_own);
        let name = if is_own { EGRESS } else { INGRESS };
        let mut out = Vec::new();
        let read = packet::read(bytes, rank, &self.line, is_own);
        let (counter, sequence) = match &read {
            Err(PacketError::NotOurs) => (None, None),
            Err(PacketError::Dropped(counter)) => (Some(*counter), None),
            Ok(packet) => {
                let verdict = self.machine.take(packet, &mut out);
                (Some(counter_of(verdict)), Some(packet.sequence))
            }
        };
        let is_over = matches!(counter, Some(Counter::Completed));
        let counter = if is_over { Some(Counter::Taken) } else { counter };
        if let Some(counter) = counter {
            self.counted[counter as usize] += 1;
        }
        self.counted[Counter::Completed as usize] += u64::from(is_over);
        self.counted[Counter::Emitted as usize] += out.len() as u64;
        let told: [u64; COUNTERS] = std::array::from_fn(|place| entry(&self.kernel, "counters", place));
        assert_eq!(told, self.counted, "{name} of {read:?}");
        if let Some(sequence) = sequence {
            self.compare(sequence, &format!("{name} of {read:?}"));
        }
    }

    fn compare(&self, sequence: u32, what: &str) {
        let place = SLOT * CHANNELS as usize + (sequence % CHANNELS) as usize;
        let words: [u8; RECORD_BYTES] = entry(&self.kernel, "records", place);
        let word = |at: usize| u32::from_le_bytes(words[at..at + 4].try_into().expect("four bytes"));
        let expected = self.machine.record(sequence);
        let operation = Operation {
            program: words[8],
            operator: words[9],
            bytes: u16::from_le_bytes([words[10], words[11]]),
        };
        let told = Record {
            sequence: word(4),
            operation,
            arrived: word(12),
            fired: word(16),
            done: word(20),
            disputed: word(24),
            heard: word(32),
            areas: expected.areas.clone(),
        };
        assert_eq!((word(0), &told), (0, expected), "{what}");
        for (area, expected) in expected.areas.iter().enumerate().filter(|(_, area)| !area.is_empty()) {
            let told: [u8; AREA_BYTES] = entry(&self.kernel, "areas", place * AREAS + area);
            assert!(are_equal(&told[..expected.len()], expected, operation.operator), "area {area}: {what}");
        }
    }
}

/// Returns true if blocks are equal. The bits of a NaN depend on the hardware.
fn are_equal(told: &[u8], expected: &[u8], operator: u8) -> bool {
    let number = |bytes: &[u8; 8]| f64::from_le_bytes(*bytes);
    let words = told.as_chunks::<8>().0.iter().zip(expected.as_chunks::<8>().0);
    let is_sum = operator == Operator::SumF64 as u8;
    told == expected
        || is_sum && words.into_iter().all(|(x, y)| x == y || number(x).is_nan() && number(y).is_nan())
}

fn counter_of(verdict: Verdict) -> Counter {
    match verdict {
        Verdict::Taken => Counter::Taken,
        Verdict::Complete => Counter::Completed,
        Verdict::Dropped(Dropped::Malformed) => Counter::Malformed,
        Verdict::Dropped(Dropped::Stale) => Counter::Stale,
        Verdict::Dropped(Dropped::Disagreement) => Counter::Disagreement,
        Verdict::Dropped(Dropped::Again) => Counter::Again,
        Verdict::Dropped(Dropped::Waits) => Counter::Waits,
    }
}

/// Returns the bytes with headers of Ethernet, IPv4 and UDP before them.
fn frame(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let total = (28 + bytes.len()) as u16;
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 3, 10, 9, 0, 1]);
    frame.extend([PORT.to_be_bytes(), PORT.to_be_bytes(), (total - 20).to_be_bytes(), [0, 0]].concat());
    frame.extend(bytes);
    frame
}

fn random_packet(dice: &mut Dice, programs: &[Vec<Program>], sequence: u32) -> Packet {
    let beyond = u32::from(dice.below(50) == 0);
    let number = if beyond == 1 { programs.len() as u32 } else { sequence % programs.len() as u32 };
    let own = programs.get(number as usize).map(|all| &all[RANK as usize]);
    let events = own.map_or(3, |own| own.events.len() as u32);
    let beyond = u32::from(dice.below(20) == 0);
    let event = dice.below(events + beyond) as u8;
    let known = own.and_then(|own| own.events.get(usize::from(event)));
    let purpose = match dice.below(8) {
        0 => Purpose::Ask { rule: dice.below(own.map_or(4, |own| own.rules.len() as u32)) as u8 },
        1 if event > 0 => Purpose::Alive { event },
        _ if event == 0 => Purpose::Enter,
        _ => Purpose::Message { event },
    };
    let asks = |rule: u8| match own.map(|own| own.rules[usize::from(rule)].action) {
        Some(tutti_coll::lower::Action::Emit { peer, .. }) => peer,
        _ => 1,
    };
    let (from, has_data) = match purpose {
        Purpose::Ask { rule } => (asks(rule), false),
        Purpose::Alive { .. } => (known.map_or(1, |known| known.peer), false),
        _ => (known.map_or(1, |known| known.peer), known.is_some_and(|known| known.into.is_some())),
    };
    let from = if dice.below(30) == 0 { dice.below(RANKS) } else { from };
    // Each operation is the same at all members, with few exceptions.
    let odd = dice.below(40) == 0;
    let operator = if number == 1 { 1 + (sequence % 4) as u8 } else { 0 };
    let bytes = if number == 0 { 0 } else { 8 + 8 * (sequence * 7 % 16) as u16 + u16::from(number > 1) * 3 };
    let operation = Operation {
        program: number as u8,
        operator,
        bytes: if odd { dice.below(700) as u16 } else { bytes },
    };
    let length = if has_data { usize::from(operation.bytes) } else { 0 };
    let data = (0..length).map(|_| dice.word() as u8).collect();
    Packet { sequence, operation, from, to: RANK, purpose, data }
}

#[test]
fn packets_mean_the_same_to_the_kernel_and_to_the_reference_machine() {
    let all = [
        programs(Collective::Barrier, "dissemination", RANKS, 0),
        programs(Collective::Allreduce, "recursive_doubling", RANKS, 0),
        programs(Collective::Bcast, "knomial", RANKS, RANK),
        programs(Collective::Bcast, "knomial", RANKS, 0),
        programs(Collective::Allgather, "ring", RANKS, 0),
    ];
    let Some(mut both) = Both::new(RANK, RANKS, &all) else { return };
    let packets = std::env::var("TUTTI_PACKETS").map_or(10_000, |count| count.parse().expect("a number"));
    let mut dice = Dice(0x1234_5678_9abc_def1);
    for round in 0..packets {
        let latest = 2 + round / 24;
        let sequence =
            (latest - dice.below(latest.min(3))).saturating_sub(40 * u32::from(dice.below(60) == 0));
        let packet = random_packet(&mut dice, &all, sequence);
        let mut bytes = packet::write(&packet, &both.line);
        match dice.below(12) {
            0 => {
                let place = dice.below(bytes.len() as u32) as usize;
                bytes[place] ^= 1 << dice.below(8);
            }
            1 => bytes.truncate(dice.below(bytes.len() as u32 + 1) as usize),
            2 => bytes.extend([0; 8]),
            _ => {}
        }
        let is_own = (packet.purpose == Purpose::Enter) != (dice.below(40) == 0);
        both.take(RANK, &bytes, is_own);
    }
    let [taken, ..] = both.counted;
    assert!(taken > u64::from(packets) / 8, "{:?}", both.counted);
    assert!(
        both.counted.iter().enumerate().all(|(place, count)| *count > 0 || place == Counter::Busy as usize),
        "every way is taken: {:?}",
        both.counted
    );
}

/// Returns a number that is difficult to add correctly.
fn hard(dice: &mut Dice, near: Option<f64>) -> f64 {
    let word = dice.word();
    match (dice.below(8), near) {
        (0, _) => f64::from_bits(word),
        (1, _) => [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE, 1.0]
            [word as usize % 8],
        (2, _) => f64::from_bits(word & 0x801f_ffff_ffff_ffff),
        (3, Some(near)) => f64::from_bits((near.to_bits() ^ 1 << 63).wrapping_add(word % 5).wrapping_sub(2)),
        (4 | 5, Some(near)) => {
            let exponent = (near.to_bits() >> 52 & 0x7ff).wrapping_add(word >> 52 & 0x7f).wrapping_sub(64);
            f64::from_bits(exponent.min(0x7fe) << 52 | word & 0x800f_ffff_ffff_ffff)
        }
        (6, Some(near)) => f64::from_bits(near.to_bits() & !0xfff_ffff | word & 0x8000_0000_0000_000f),
        _ => f64::from_bits((word & 0x800f_ffff_ffff_ffff) | (1000 + u64::from(dice.below(60))) << 52),
    }
}

#[test]
fn sums_of_the_kernel_are_those_of_the_hardware() {
    let all = [programs(Collective::Allreduce, "recursive_doubling", 2, 0)];
    let Some(mut both) = Both::new(0, 2, &all) else { return };
    let pairs: u32 = std::env::var("TUTTI_PAIRS").map_or(200_000, |count| count.parse().expect("a number"));
    let mut dice = Dice(0xfeed_beef_1234_5677);
    let operation = Operation { program: 0, operator: Operator::SumF64 as u8, bytes: OPERAND_BYTES as u16 };
    let result = usize::from(all[0][0].result[0]);
    for sequence in 1..=pairs / 16 {
        let left: [f64; 16] = std::array::from_fn(|_| hard(&mut dice, None));
        let right: [f64; 16] = std::array::from_fn(|place| hard(&mut dice, Some(left[place])));
        for (purpose, from, numbers) in [(Purpose::Enter, 0, left), (Purpose::Message { event: 1 }, 1, right)]
        {
            let data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let packet = Packet { sequence, operation, from, to: 0, purpose, data };
            both.give(&packet::write(&packet, &both.line), purpose == Purpose::Enter);
        }
        let place = (SLOT * CHANNELS as usize + (sequence % CHANNELS) as usize) * AREAS + result;
        let told: [u8; AREA_BYTES] = entry(&both.kernel, "areas", place);
        for (place, told) in told.as_chunks::<8>().0[..16].iter().enumerate() {
            // `black_box` ensures that the hardware adds, not the compiler.
            let (x, y) = (std::hint::black_box(left[place]), std::hint::black_box(right[place]));
            let told = f64::from_le_bytes(*told);
            let same = told.to_bits() == (x + y).to_bits() || told.is_nan() && (x + y).is_nan();
            assert!(same, "{x:e} + {y:e} = {:e}, and not {told:e}", x + y);
        }
    }
    let completed: u64 = entry(&both.kernel, "counters", Counter::Completed as usize);
    assert_eq!(completed, u64::from(pairs / 16));
}
