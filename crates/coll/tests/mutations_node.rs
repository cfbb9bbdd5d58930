//! Tests that the verifier rejects broken schedules: schedules for ranks that share a node, changed in one
//! place. The subjects are those of all registered algorithms, and a few written here with features that no
//! algorithm may happen to have.

use std::sync::Arc;

use tutti_coll::build::{Builder, blocks, range};
use tutti_coll::generator::{Association, Need, Node};
use tutti_coll::hierarchy::{Hierarchy, RankLocation};
use tutti_coll::ir::{
    Access, BufferId, Division, Index, Kind, Length, Schedule, Span, Start, StepId, Tables,
};
use tutti_coll::verify::{Case, Fault, Pattern, verify_on};
use tutti_coll::{Collective, Params, registry};

/// Something to break.
struct Subject {
    name: String,
    case: Case,
    schedules: Vec<Schedule>,
    /// Assignment of ranks to hosts, if there are several hosts.
    hosts: Option<Arc<Hierarchy>>,
    /// Flag by which ranks only keep in step, beside the private ones, which begin with [`Kind::PACING`].
    pace: Option<u16>,
}

impl Subject {
    fn verify(&self) -> Result<(), Fault> {
        verify_on(&self.case, &self.schedules, Association::Free, self.hosts.as_deref())
    }
}

/// Places three ranks on one host and the others on another.
fn two_hosts(ranks: u32) -> Arc<Hierarchy> {
    let on = |rank| RankLocation { host: u32::from(rank > 2), at: Default::default() };
    Arc::new(Hierarchy::new(&(0..ranks).map(on).collect::<Vec<_>>()))
}

fn case(collective: Collective, ranks: u32, commutative: bool, params: Params) -> Case {
    let count = if collective == Collective::Barrier { 0 } else { 8 };
    let root = if collective.rooted() { 1 } else { 0 };
    Case { collective, ranks, root, count, commutative, in_place: false, params, pattern: Pattern::Whole }
}

fn written(name: &str, collective: Collective, write: impl Fn(u32, &mut Builder)) -> Subject {
    let params = Params { segment: 2, ..Params::default() };
    let case = case(collective, 4, false, params);
    let schedules = (0..case.ranks).map(|rank| {
        let mut builder = Builder::new(collective.unit());
        builder.in_program_order();
        write(rank, &mut builder);
        builder.finish()
    });
    Subject { name: name.into(), schedules: schedules.collect(), case, hosts: None, pace: None }
}

/// Returns the other ranks, one in each of three iterations.
fn others(rank: u32) -> Index {
    Index::cyclic(i64::from(rank) + 1, 1, 4)
}

fn await_others(rank: u32, value: u32, builder: &mut Builder) {
    builder.repeat(3, 1, |builder| {
        builder.wait(others(rank), 0, value);
    });
}

/// Writes a broadcast of eight units in segments of two, through two slots of the bank.
fn pipeline(rank: u32, builder: &mut Builder) {
    let segment = |buffer, modulus| Span {
        buffer,
        start: Start::Affine { offset: 0, stride: 2, index: Index::cyclic(0, 1, modulus) },
        length: Length::Fixed(2),
    };
    builder.bank(4);
    if rank != 1 {
        builder.post(0, 2);
    }
    builder.repeat(4, 1, |builder| {
        if rank == 1 {
            for peer in [0, 2, 3] {
                builder.wait(peer, 0, Index::linear(1, 1));
            }
            builder.copy(segment(BufferId::RECV, 4), segment(BufferId::BANK, 2), &[]);
            builder.post(0, Index::linear(1, 1));
        } else {
            builder.wait(1, 0, Index::linear(1, 1));
            builder.pull(1, segment(BufferId::BANK, 2), segment(BufferId::RECV, 4));
            builder.post(0, Index::linear(3, 1));
        }
    });
}

fn block(buffer: BufferId, index: Index) -> Span {
    blocks(buffer, Division::Regular { size: 8, total: 32 }, index, 1)
}

/// Pushes from every rank into the exposed memory of all others.
fn pushing(rank: u32, builder: &mut Builder) {
    builder.expose(0, range(BufferId::RECV, 0, 32), Access::Write);
    builder.post(0, 1);
    let mine = Index::from(rank);
    builder.copy(block(BufferId::SEND, mine), block(BufferId::RECV, mine), &[]);
    builder.repeat(3, 1, |builder| {
        builder.wait(others(rank), 0, 1);
        builder.push(others(rank), block(BufferId::SEND, others(rank)), block(BufferId::exposed(0), mine));
    });
    builder.post(0, 2);
    await_others(rank, 2, builder);
}

/// Combines one part of all exposed operands at every rank, and writes it there.
fn slices(rank: u32, builder: &mut Builder) {
    let slice = |buffer, index| blocks(buffer, Division::Even { parts: 4, total: 8 }, index, 1);
    let all = |buffer| range(buffer, 0, 8);
    let mine = |buffer| slice(buffer, Index::from(rank));
    builder.copy(all(BufferId::SEND), all(BufferId::RECV), &[]);
    builder.expose(0, all(BufferId::RECV), Access::ReadWrite);
    builder.post(0, 1);
    await_others(rank, 1, builder);
    let temporary = builder.temporary(2);
    let sum = range(temporary, 0, 2);
    builder.pull(3, mine(BufferId::exposed(0)), sum);
    builder.repeat(3, 1, |builder| {
        builder.combine(Index::linear(2, -1), mine(BufferId::exposed(0)), sum, sum);
    });
    builder.copy(sum, mine(BufferId::RECV), &[]);
    builder.repeat(3, 1, |builder| {
        builder.push(others(rank), sum, mine(BufferId::exposed(0)));
    });
    builder.post(0, 2);
    await_others(rank, 2, builder);
}

fn subjects() -> Vec<Subject> {
    let mut subjects = vec![
        written("pipeline", Collective::Bcast, pipeline),
        written("pushing", Collective::Alltoall, pushing),
        written("slices", Collective::Allreduce, slices),
    ];
    let params = [0, 2].map(|segment| Params { segment, ..Params::default() });
    for generator in registry().iter().filter(|generator| generator.node() > Node::Any) {
        use Collective as C;
        // Tables have empty blocks, whose steps do nothing, right or wrong.
        if let C::Gatherv | C::Scatterv | C::Allgatherv | C::Alltoallv | C::ReduceScatter =
            generator.collective
        {
            continue;
        }
        // If the number of ranks is no power of two, a barrier by dissemination gets some signals twice.
        let ranks = if generator.collective == C::Barrier { 4 } else { 5 };
        let ranks = generator.ranks_from(ranks).expect("it has a number of ranks");
        for &params in &params[..if generator.parameters.segments().is_some() { 2 } else { 1 }] {
            for commutative in [false, true] {
                let mut case = case(generator.collective, ranks, commutative, params);
                if !generator.suits(&case.shape(0)) {
                    continue;
                }
                let hosts = generator.requires(Need::SeveralHosts).then(|| two_hosts(ranks));
                // No slice is empty.
                case.count *= if hosts.is_some() { 3 } else { 1 };
                let write = |rank| generator.generate_on(&case.shape(rank), &params, hosts.as_ref());
                let schedules = (0..ranks).map(write).collect();
                // The flag of its turns only paces.
                let pace = (generator.name == "multicast_turns").then_some(2);
                subjects.push(Subject { name: format!("{generator:?}"), case, schedules, hosts, pace });
            }
        }
    }
    subjects
}

/// One step of one rank.
struct At<'a> {
    all: &'a [Schedule],
    rank: usize,
    step: usize,
    pace: Option<u16>,
}

impl At<'_> {
    fn kind(&self) -> &Kind {
        &self.all[self.rank].steps[self.step].kind
    }

    /// Returns true if it only keeps ranks in step, so that no data depend on it.
    fn paces(&self) -> bool {
        matches!(self.kind(), Kind::Await { flag, .. } if *flag >= Kind::PACING || Some(*flag) == self.pace)
    }

    /// Values of a flag, in the order of the posts, each with the step of its post.
    fn posts(&self, rank: usize, flag: u16) -> Vec<(u64, usize)> {
        let mut posts = Vec::new();
        for_all(&self.all[rank], |step, kind, iteration| match kind {
            Kind::Post { flag: posted, value } if *posted == flag => {
                posts.push((value.in_iteration(iteration), step))
            }
            _ => {}
        });
        posts.sort_unstable();
        posts
    }

    /// Returns the step of `peer` whose post first satisfies this rank's await of `value`.
    fn first(&self, peer: u64, flag: u16, value: u64) -> Option<(u64, usize)> {
        self.posts(peer as usize, flag).into_iter().find(|post| post.0 >= value)
    }

    /// Returns true if another rank comes after a post of this step.
    fn is_awaited(&self) -> bool {
        let mut awaited = false;
        for (rank, schedule) in self.all.iter().enumerate().filter(|(rank, _)| *rank != self.rank) {
            for_all(schedule, |_, kind, iteration| {
                let Kind::Await { peer, flag, value } = kind else { return };
                let (peer, value) = (peer.in_iteration(iteration), value.in_iteration(iteration));
                let at = At { rank, ..*self };
                let mine = peer == self.rank as u64 && value > 0;
                awaited |= mine && at.first(peer, *flag, value).is_some_and(|post| post.1 == self.step);
            });
        }
        awaited
    }
}

fn for_all(schedule: &Schedule, mut visit: impl FnMut(usize, &Kind, u32)) {
    for (number, step) in schedule.steps.iter().enumerate() {
        let count = step.in_loop.map_or(1, |number| schedule.loops[usize::from(number)].count);
        (0..count).for_each(|iteration| visit(number, &step.kind, iteration));
    }
}

/// Returns the schedule without a step.
fn without(schedule: &Schedule, step: usize) -> Schedule {
    let mut changed = schedule.clone();
    let in_loop = changed.steps.remove(step).in_loop.map(usize::from);
    for (number, this) in changed.loops.iter_mut().enumerate() {
        this.first -= u32::from(this.first as usize > step);
        this.steps -= u32::from(in_loop == Some(number));
    }
    changed.strands.iter_mut().for_each(|first| *first -= u32::from(*first as usize > step));
    changed.strands.retain(|first| *first > 0 && (*first as usize) < changed.steps.len());
    changed.strands.dedup();
    changed
}

/// Returns the schedule with another step in place of one.
fn with(schedule: &Schedule, step: usize, kind: Kind) -> Schedule {
    let mut changed = schedule.clone();
    changed.steps[step].kind = kind;
    changed
}

/// A way to break one step: the rank's schedule, broken; `None` where it does not apply.
type Break = fn(&At<'_>) -> Option<Schedule>;

/// Breaks every step of every rank, one at a time: all must be noticed.
fn check(change: Break, at_least: usize) {
    let (mut passed, mut tried) = (Vec::new(), 0);
    for mut subject in subjects() {
        assert_eq!(subject.verify(), Ok(()), "{}", subject.name);
        for rank in 0..subject.schedules.len() {
            for step in 0..subject.schedules[rank].steps.len() {
                let at = At { all: &subject.schedules, rank, step, pace: subject.pace };
                if at.paces() {
                    continue;
                }
                let Some(broken) = change(&at) else { continue };
                let whole = std::mem::replace(&mut subject.schedules[rank], broken);
                tried += 1;
                if subject.verify().is_ok() {
                    let Subject { name, case, .. } = &subject;
                    passed.push(format!("{name}, {case:?}, rank {rank}, step {step}: {}", whole.steps[step]));
                }
                subject.schedules[rank] = whole;
            }
        }
    }
    assert!(passed.is_empty(), "{} of {tried} not noticed: {passed:#?}", passed.len());
    assert!(tried >= at_least, "the change applied only {tried} times");
}

/// Posts and waits that only pace a rank may be missing, which is why the tests below exclude them.
#[test]
fn pacing_is_of_no_concern_to_the_data() {
    let mut tried = 0;
    for Subject { name, case, mut schedules, hosts, pace } in subjects() {
        for rank in 0..schedules.len() {
            for step in (0..schedules[rank].steps.len()).rev() {
                if (At { all: &schedules, rank, step, pace }).paces() {
                    schedules[rank] = without(&schedules[rank], step);
                    tried += 1;
                }
            }
        }
        let subject = Subject { name, case, schedules, hosts, pace };
        assert_eq!(subject.verify(), Ok(()), "{}", subject.name);
    }
    assert!(tried > 0, "no schedule has a pace");
}

/// Removes posts that a rank awaits and that no later post replaces.
#[test]
fn missing_posts() {
    check(
        |at| {
            let Kind::Post { flag, .. } = at.kind() else { return None };
            let last = at.posts(at.rank, *flag).last().map(|post| post.1);
            (at.is_awaited() && last == Some(at.step)).then(|| without(&at.all[at.rank], at.step))
        },
        12,
    );
}

#[test]
fn missing_awaits() {
    check(
        |at| {
            let Kind::Await { value, .. } = at.kind() else { return None };
            if !waits(at, *value) {
                return None;
            }
            Some(without(&at.all[at.rank], at.step))
        },
        12,
    );
}

/// Awaits of a value that is too small by one, if that makes a difference.
#[test]
fn early_awaits() {
    check(
        |at| {
            let Kind::Await { peer, flag, value } = at.kind() else { return None };
            let (there, now) = (peer.in_iteration(0), value.in_iteration(0));
            let differs =
                now > 0 && (now == 1 || at.first(there, *flag, now) != at.first(there, *flag, now - 1));
            let value = Index { base: value.base - 1, ..*value };
            let kind = Kind::Await { peer: *peer, flag: *flag, value };
            differs.then(|| with(&at.all[at.rank], at.step, kind))
        },
        12,
    );
}

/// Posts before the step that they announce, if that matters to others.
#[test]
fn early_posts() {
    check(
        |at| {
            let (Kind::Post { .. }, true) = (at.kind(), at.step > 0 && at.is_awaited()) else { return None };
            let mut changed = at.all[at.rank].clone();
            if changed.strands.contains(&(at.step as u32)) {
                return None;
            }
            let (before, this) = (&changed.steps[at.step - 1], &changed.steps[at.step]);
            let shared = |span: &Span| span.buffer == BufferId::BANK || span.buffer.exposure().is_some();
            let concerns = match &before.kind {
                Kind::Expose { .. } | Kind::Push { .. } => true,
                Kind::Pull { from, into, .. } => shared(into) || from.buffer.exposure().is_some(),
                kind => kind.writes().is_some_and(shared),
            };
            if !concerns || before.in_loop != this.in_loop {
                return None;
            }
            changed.steps.swap(at.step - 1, at.step);
            Some(changed)
        },
        8,
    );
}

fn shifted(span: Span, schedule: &Schedule) -> Option<Span> {
    let start = match span.start {
        Start::Affine { offset, stride, index } => Start::Affine { offset: offset + 1, stride, index },
        Start::Block { division, index } => {
            let index = Index { base: index.base + 1, ..index };
            Start::Block { division, index }
        }
        Start::Permuted { division, index } => {
            let index = Index { base: index.base + 1, ..index };
            return Some(Span { start: Start::Permuted { division, index }, ..span });
        }
        Start::Part { division, index, part, parts } => {
            let part = Index { base: part.base + 1, ..part };
            Start::Part { division, index, part, parts }
        }
        // Only schedules of files, which use messages, have such spans.
        Start::Within { .. } | Start::Entry(_) => return None,
    };
    let shifted = Span { start, ..span };
    let tables = Tables { permutation: &schedule.permutation, ..Tables::default() };
    (span.in_iteration(0, &tables).length > 0).then_some(shifted)
}

#[test]
fn shifted_spans() {
    check(
        |at| {
            let mut kind = *at.kind();
            match &mut kind {
                Kind::Pull { from: span, .. }
                | Kind::Combine { from: span, .. }
                | Kind::Push { into: span, .. } => {
                    *span = shifted(*span, &at.all[at.rank])?;
                }
                _ => return None,
            }
            Some(with(&at.all[at.rank], at.step, kind))
        },
        12,
    );
}

#[test]
fn wrong_peers() {
    check(
        |at| {
            let mut kind = *at.kind();
            match &mut kind {
                Kind::Pull { peer, from: span, .. }
                | Kind::Combine { peer, from: span, .. }
                | Kind::Push { peer, into: span, .. } => {
                    shifted(*span, &at.all[at.rank])?;
                    *peer = another(*peer, at.all.len());
                }
                // A rank that has awaited the same peer, or reads from it, is as good as the peer. The rank
                // itself is not.
                Kind::Await { value, .. } if !waits(at, *value) => return None,
                Kind::Await { peer, .. } if peer.in_iteration(0) != at.rank as u64 => {
                    *peer = Index::from(at.rank as u32)
                }
                Kind::Await { peer, .. } => *peer = another(*peer, at.all.len()),
                _ => return None,
            }
            Some(with(&at.all[at.rank], at.step, kind))
        },
        12,
    );
}

/// Returns true if there is anything to wait for: not for 0.
fn waits(at: &At<'_>, value: Index) -> bool {
    let last = at.all[at.rank].iterations(StepId(at.step as u32)).saturating_sub(1);
    value.in_iteration(0).max(value.in_iteration(last)) > 0
}

fn another(peer: Index, ranks: usize) -> Index {
    let base = peer.base + 1;
    Index { base: if peer.modulus == 0 && peer.step == 0 { base % ranks as i64 } else { base }, ..peer }
}

#[test]
fn missing_exposures_and_other_accesses() {
    check(|at| matches!(at.kind(), Kind::Expose { .. }).then(|| without(&at.all[at.rank], at.step)), 8);
    check(
        |at| {
            let Kind::Expose { slot, what, access } = *at.kind() else { return None };
            let access = if access == Access::Read { Access::Write } else { Access::Read };
            Some(with(&at.all[at.rank], at.step, Kind::Expose { slot, what, access }))
        },
        8,
    );
}
