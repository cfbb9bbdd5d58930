//! Verdicts of the verifier on small hand-written schedules of program order, correct and incorrect ones.

use super::{Case, Pattern, verify};
use crate::build::{Builder, block, range};
use crate::ir::{Access, BufferId, Division, Index, Kind, Length, Order, Schedule, Span, Start, Table};
use crate::shape::{Collective, Params};

const BANK: BufferId = BufferId::BANK;
const SEND: BufferId = BufferId::SEND;
const RECV: BufferId = BufferId::RECV;
const THERE: BufferId = BufferId::exposed(0);

fn case(collective: Collective, ranks: u32, count: u64) -> Case {
    let params = Params::default();
    Case {
        collective,
        ranks,
        root: 0,
        count,
        commutative: false,
        in_place: false,
        params,
        pattern: Pattern::Whole,
    }
}

fn schedules(case: &Case, write: impl Fn(u32, &mut Builder)) -> Vec<Schedule> {
    let schedule = |rank| {
        let mut builder = Builder::new(case.collective.unit());
        builder.in_program_order();
        write(rank, &mut builder);
        builder.finish()
    };
    (0..case.ranks).map(schedule).collect()
}

/// Verifies what `write` writes for every rank; `expected` is a part of the fault, empty if there is none.
fn check(case: Case, expected: &str, write: impl Fn(u32, &mut Builder)) {
    match (verify(&case, &schedules(&case, write)), expected) {
        (Ok(()), "") => {}
        (Err(fault), expected) if !expected.is_empty() && fault.to_string().contains(expected) => {}
        (found, _) => panic!("expected {expected:?}, found {found:?}"),
    }
}

fn acknowledged(builder: &mut Builder, ranks: u32) {
    (1..ranks).for_each(|peer| {
        builder.wait(peer, 0, 1);
    });
}

#[test]
fn bank() {
    let case = case(Collective::Bcast, 3, 5);
    let (whole, bank) = (range(RECV, 0, 5), range(BANK, 0, 5));
    let bcast = |expected, root: &[Kind], leaf: &[Kind]| {
        check(case, expected, |rank, builder| {
            builder.bank(5);
            for kind in if rank == 0 { root } else { leaf } {
                builder.step(*kind, &[]);
            }
        });
    };
    let fill = Kind::Copy { from: whole, into: bank };
    let post = |value| Kind::Post { flag: 0, value: Index::fixed(value) };
    let wait = |value| Kind::Await { peer: Index::fixed(0), flag: 0, value: Index::fixed(value) };
    let pull = |from| Kind::Pull { peer: Index::fixed(0), from, into: whole };
    bcast("", &[fill, post(1)], &[wait(1), pull(bank)]);
    bcast("", &[post(3), fill, post(7)], &[wait(0), wait(2), wait(4), pull(bank)]);
    bcast("nothing orders", &[fill, post(1)], &[pull(bank)]);
    bcast("nothing orders", &[post(1), fill], &[wait(1), pull(bank)]);
    bcast("nothing orders", &[post(1), fill, post(2)], &[wait(1), pull(bank)]);
    bcast("wrong result", &[post(1)], &[wait(1), pull(bank)]);
    bcast("deadlock", &[fill], &[wait(1), pull(bank)]);
    bcast("rank 2 in step 0 (iteration 0) for flag 0 of rank 0", &[fill, post(1)], &[wait(2), pull(bank)]);
    bcast("differs", &[fill, post(1)], &[wait(1), pull(range(BANK, 0, 4))]);
    bcast("out of reach", &[fill, post(1)], &[wait(1), pull(range(BANK, 1, 5))]);
    bcast(
        "out of reach",
        &[fill, post(1)],
        &[wait(1), Kind::Push { peer: Index::fixed(0), from: whole, into: bank }],
    );
    bcast("is 2", &[fill, post(2), post(2)], &[wait(1), pull(bank)]);
    bcast("out of bounds", &[fill, post(Kind::VALUES)], &[wait(1), pull(bank)]);
    bcast("out of bounds", &[fill, Kind::Post { flag: Kind::ALL_FLAGS, value: Index::fixed(1) }], &[]);
    bcast(
        "no such peer",
        &[fill, post(1)],
        &[Kind::Await { peer: Index::fixed(3), flag: 0, value: Index::fixed(1) }],
    );
}

#[test]
fn banks_are_equal_bounded_and_in_program_order() {
    let barrier = case(Collective::Barrier, 1, 0);
    check(barrier, "", |_, builder| builder.bank(4));
    check(barrier, "a bank of", |_, builder| builder.bank(1 << 20));
    let bcast = case(Collective::Bcast, 2, 0);
    check(bcast, "size of the bank", |rank, builder| builder.bank(u64::from(rank)));
    let mut edges = schedules(&bcast, |_, builder| {
        builder.post(0, 1);
    });
    edges.iter_mut().for_each(|schedule| schedule.order = Order::Edges);
    assert!(verify(&bcast, &edges).is_err_and(|fault| fault.to_string().contains("program order")));
}

/// A broadcast in segments of one unit through two slots of the bank. `credit`: how many segments the root
/// may be ahead of the others.
#[test]
fn slots_are_reused_when_all_have_read_them() {
    let case = Case { params: Params { segment: 1, ..Params::default() }, ..case(Collective::Bcast, 3, 8) };
    let segment = |buffer, modulus| Span {
        buffer,
        start: Start::Affine { offset: 0, stride: 1, index: Index::cyclic(0, 1, modulus) },
        length: Length::Fixed(1),
    };
    for (credit, expected) in [(1, ""), (2, ""), (3, "nothing orders")] {
        check(case, expected, |rank, builder| {
            builder.bank(2);
            if rank > 0 {
                builder.post(0, credit);
            }
            builder.repeat(8, 1, |builder| {
                if rank == 0 {
                    (1..3).for_each(|peer| {
                        builder.wait(peer, 0, Index::linear(1, 1));
                    });
                    builder.copy(segment(RECV, 8), segment(BANK, 2), &[]);
                    builder.post(0, Index::linear(1, 1));
                } else {
                    builder.wait(0, 0, Index::linear(1, 1));
                    builder.pull(0, segment(BANK, 2), segment(RECV, 8));
                    builder.post(0, Index::linear(i64::from(credit) + 1, 1));
                }
            });
        });
    }
}

#[test]
fn operands_keep_their_order() {
    let case = case(Collective::Scan, 4, 3);
    let whole = |buffer| range(buffer, 0, 3);
    for (right, expected) in [(true, ""), (false, "wrong result")] {
        check(case, expected, |rank, builder| {
            builder.bank(3);
            if !right && rank > 0 {
                builder.wait(rank - 1, 0, 1);
                builder.pull(rank - 1, whole(BANK), whole(RECV));
                builder.reduce(whole(SEND), whole(RECV), &[]);
            } else if rank > 0 {
                builder.wait(rank - 1, 0, 1);
                builder.combine(rank - 1, whole(BANK), whole(SEND), whole(RECV));
            } else {
                builder.copy(whole(SEND), whole(RECV), &[]);
            }
            builder.copy(whole(RECV), whole(BANK), &[]);
            builder.post(0, 1);
        });
    }
    check(case, "differs", |_, builder| {
        builder.bank(3);
        builder.copy(whole(SEND), whole(BANK), &[]);
        builder.combine(0, range(BANK, 0, 2), range(BANK, 1, 2), range(BANK, 2, 1));
    });
}

/// A broadcast out of the root's memory.
#[test]
fn exposed_for_reading() {
    let case = case(Collective::Bcast, 3, 5);
    let bcast = |expected, span: Span, access, from: Span, steps: &str| {
        check(case, expected, |rank, builder| {
            if rank > 0 {
                builder.wait(0, 0, 1);
                builder.pull(0, from, range(RECV, 5 - from.in_iteration(0, &Default::default()).length, 4));
                builder.pull(0, range(THERE, 0, 1), range(RECV, 0, 1));
                builder.post(0, 1);
                return;
            }
            for step in steps.chars() {
                match step {
                    'e' => drop_step(builder.expose(0, span, access)),
                    'p' => drop_step(builder.post(0, 1)),
                    'w' => drop_step(builder.copy(range(RECV, 0, 1), range(RECV, 1, 1), &[])),
                    _ => acknowledged(builder, 3),
                }
            }
        });
    };
    let (all, rest) = (range(RECV, 0, 5), range(THERE, 1, 4));
    bcast("", all, Access::Read, rest, "epa");
    bcast("", all, Access::ReadWrite, rest, "epa");
    bcast("exposed as Write", all, Access::Write, rest, "epa");
    bcast("not known to be exposed", all, Access::Read, rest, "pea");
    bcast("not known to be exposed", all, Access::Read, rest, "pa");
    bcast("may leave before", all, Access::Read, rest, "ep");
    bcast("exposed for reading", all, Access::Read, rest, "epwa");
    bcast("nothing orders", all, Access::ReadWrite, rest, "epwa");
    bcast("twice", all, Access::Read, rest, "eepa");
    bcast("has 4 units", range(RECV, 0, 4), Access::Read, rest, "epa");
    bcast("wrong result", all, Access::Read, range(THERE, 0, 4), "epa");
    bcast("cannot be exposed", range(BANK, 0, 0), Access::Read, rest, "epa");
    bcast("entries where", all, Access::Read, Span { start: Start::Entry(Index::fixed(0)), ..rest }, "epa");
}

fn drop_step(_: crate::ir::StepId) {}

/// A gather into the root's memory, each his part.
#[test]
fn exposed_for_writing() {
    let case = case(Collective::Gather, 3, 2);
    for (distance, last, expected) in [(2, 3, ""), (1, 3, "nothing orders"), (2, 2, "may leave before")] {
        check(case, expected, |rank, builder| {
            if rank == 0 {
                builder.expose(0, range(RECV, 0, 6), Access::Write);
                builder.post(0, 1);
                builder.copy(range(SEND, 0, 2), range(RECV, 0, 2), &[]);
                acknowledged(builder, last);
            } else {
                builder.wait(0, 0, 1);
                builder.push(0, range(SEND, 0, 2), range(THERE, u64::from(rank) * distance, 2));
                builder.post(0, 1);
            }
        });
    }
    check(case, "exposed as Write", |rank, builder| {
        if rank == 0 {
            builder.expose(0, range(RECV, 0, 6), Access::Write);
            builder.post(0, 1);
        } else {
            builder.wait(0, 0, 1);
            builder.pull(0, range(THERE, 0, 1), range(SEND, 0, 1));
        }
    });
    check(case, "writes the send buffer", |_, builder| {
        builder.expose(0, range(SEND, 0, 2), Access::Write);
    });
}

/// The owner of a buffer given by a table knows where its entries are; the others name them.
#[test]
fn entries() {
    let case = case(Collective::Alltoallv, 4, 2);
    let division = Division::Table(Table::Send);
    let whole = Span {
        buffer: SEND,
        start: Start::Block { division, index: Index::fixed(0) },
        length: Length::Blocks { division, index: Index::fixed(0), count: 4 },
    };
    let part = Span { length: Length::Blocks { division, index: Index::fixed(0), count: 3 }, ..whole };
    let alltoallv = |expected, exposed: Span, entry: fn(u32) -> u32, affine: bool| {
        check(case, expected, |rank, builder| {
            builder.expose(0, exposed, Access::Read);
            builder.post(0, 1);
            builder.repeat(4, 1, |builder| {
                let peer = Index::cyclic(i64::from(rank), 1, 4);
                let into = block(RECV, Division::Table(Table::Recv), peer);
                builder.wait(peer, 0, 1);
                let start = Start::Entry(Index::fixed(u64::from(entry(rank))));
                let from = Span { buffer: THERE, start, length: into.length };
                builder.pull(peer, if affine { Span { buffer: THERE, ..into } } else { from }, into);
            });
            builder.post(0, 2);
            builder.repeat(4, 1, |builder| {
                builder.wait(Index::cyclic(i64::from(rank), 1, 4), 0, 2);
            });
        });
    };
    alltoallv("", whole, |rank| rank, false);
    alltoallv("is not entry", whole, |rank| rank + 1, false);
    alltoallv("entries where", whole, |rank| rank, true);
    alltoallv("neither an entry nor all", part, |rank| rank, false);
}

#[test]
fn barrier() {
    let case = case(Collective::Barrier, 4, 0);
    // Number of ranks whose signals the root awaits, and whether it awaits them before it releases the
    // others.
    for (heard, waits, expected) in
        [(4, true, ""), (3, true, "after 3 of 4"), (4, false, "the barrier after")]
    {
        check(case, expected, |rank, builder| {
            if rank > 0 {
                builder.post(0, 1);
                builder.wait(0, 0, 1);
                return;
            }
            if waits {
                acknowledged(builder, heard);
            }
            builder.post(0, 1);
            if !waits {
                acknowledged(builder, heard);
            }
        });
    }
}

/// A rank that awaits a rank that awaited another comes after both: a broadcast whose flags go along a chain.
#[test]
fn order_is_transitive() {
    let case = case(Collective::Bcast, 4, 1);
    let (unit, bank) = (range(RECV, 0, 1), range(BANK, 0, 1));
    for (broken, expected) in [(0, ""), (1, "nothing orders"), (2, "nothing orders")] {
        check(case, expected, |rank, builder| {
            builder.bank(1);
            if rank == 0 {
                builder.copy(unit, bank, &[]);
            } else if rank != broken {
                builder.wait(rank - 1, 0, 1);
            }
            builder.post(0, 1);
            if rank == 3 || rank > 0 && broken == 0 {
                builder.pull(0, bank, unit);
            }
        });
    }
}

/// Messages between steps within a node: they order the receiver after the sender, not the other way round.
#[test]
fn messages_in_program_order() {
    let (case, unit, bank) = (case(Collective::Bcast, 2, 1), range(RECV, 0, 1), range(BANK, 0, 1));
    check(case, "", |rank, builder| {
        builder.bank(1);
        if rank == 0 {
            builder.copy(unit, bank, &[]);
            builder.send(1, 0, Span::SIGNAL, &[]);
        } else {
            builder.recv(0, 0, Span::SIGNAL, &[]);
            builder.pull(0, bank, unit);
        }
    });
    check(case, "nothing orders", |rank, builder| {
        builder.bank(1);
        if rank == 0 {
            builder.copy(unit, bank, &[]);
            builder.recv(1, 0, Span::SIGNAL, &[]);
        } else {
            builder.send(0, 0, Span::SIGNAL, &[]);
            builder.pull(0, bank, unit);
        }
    });
    for (first, expected) in [(0, ""), (1, "deadlock; 2 wait")] {
        check(case, expected, |rank, builder| {
            let peer = 1 - rank;
            if rank == 0 || first == 1 {
                builder.send(peer, 0, unit, &[]);
            }
            builder.recv(peer, 0, unit, &[]);
            if rank == 1 && first == 0 {
                builder.send(peer, 0, unit, &[]);
            }
        });
    }
}
