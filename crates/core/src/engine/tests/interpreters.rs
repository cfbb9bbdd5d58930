//! Comparison of the four interpreters of a schedule: verifier, simulator, engine step by step, and compiled
//! code. Each reads flags in its own way, so the meaning of a flag must be tested in all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tutti_coll::Schedule;
use tutti_coll::build::Builder;
use tutti_coll::ir::{Index, Unit};
use tutti_coll::simulate::{Layout, Load, Reach, Stage, simulate};
use tutti_coll::verify;

use super::*;

const RANKS: u32 = 2;
/// Flag that is never set, and two flags that a pipeline counts.
const NEVER: u16 = 2;
const DONE: u16 = 3;
const READY: u16 = 4;

/// Returns a barrier of two ranks. Before it, rank 0 waits for a flag of rank 1 with values from `first` on.
/// It waits once, in each iteration of a loop, and with a counting value. A pipeline does the latter if its
/// first iteration need not wait.
fn schedule(rank: u32, first: i64) -> Schedule {
    let mut b = Builder::new(Unit::Byte);
    b.in_program_order();
    if rank == 0 {
        b.wait(1, NEVER, Index::linear(first, 0));
        b.repeat(2, 1, |b| {
            b.wait(1, NEVER, Index::linear(first, 0));
        });
        b.repeat(3, 1, |b| {
            b.wait(1, DONE, Index::linear(first, 1));
            b.post(READY, Index::linear(1, 1));
        });
    } else {
        b.repeat(3, 1, |b| {
            b.wait(0, READY, Index::linear(1, 1));
            b.post(DONE, Index::linear(1, 1));
        });
    }
    b.post(0, 1);
    b.wait(1 - rank, 0, 1);
    b.finish()
}

fn is_proved(schedules: &[Schedule]) -> bool {
    let case = verify::Case {
        collective: Collective::Barrier,
        ranks: RANKS,
        root: 0,
        count: 0,
        commutative: true,
        in_place: false,
        params: Params::default(),
        pattern: verify::Pattern::Whole,
    };
    verify::verify(&case, schedules).is_ok()
}

fn is_simulated(schedules: &[Schedule]) -> bool {
    let (model, layout) = (tutti_coll::Model::default(), Layout::flat(RANKS, RANKS));
    let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
    let load = Load::new(&Shape::new(Collective::Barrier, RANKS, 0, 0));
    // An endless wait is a bug for the simulator, which only debug builds detect.
    catch_unwind(AssertUnwindSafe(|| simulate(schedules, &load, &stage))).is_ok()
}

fn is_done(schedules: &[Schedule], execution: fn(Arc<Plan>) -> Execution<usize>) -> bool {
    let world = Rc::new(RefCell::new(World { banks: vec![vec![0]; RANKS as usize], ..World::default() }));
    let mut runs: Vec<(Execution<usize>, FakePort)> = (0..RANKS)
        .zip(schedules)
        .map(|(rank, schedule)| {
            let shape = Shape::new(Collective::Barrier, RANKS, rank, 0);
            let mut plan = Plan::new(&shape, &Environment::flat(RANKS, RANKS), None);
            plan.schedule = schedule.clone();
            let port = FakePort { rank, world: world.clone(), eager: false, lends: false };
            (execution(Arc::new(plan)), port)
        })
        .collect();
    for (execution, _) in &mut runs {
        // SAFETY: a barrier has no memory.
        unsafe { execution.bindings().bind(Memory::None, Memory::None, &[]) };
        execution.start();
    }
    let mut open: Vec<usize> = (0..runs.len()).collect();
    for _ in 0..100 {
        open.retain(|&rank| {
            let (execution, port) = &mut runs[rank];
            execution.progress(port).expect("the port never fails") != ExecutionStatus::Done
        });
    }
    open.is_empty()
}

/// Checks whether each interpreter reaches the end.
fn check(first: i64, expected: bool) {
    let schedules: Vec<Schedule> = (0..RANKS).map(|rank| schedule(rank, first)).collect();
    assert_eq!(is_proved(&schedules), expected, "the verifier, at {first}");
    if cfg!(debug_assertions) || expected {
        assert_eq!(is_simulated(&schedules), expected, "the simulator, at {first}");
    }
    assert_eq!(is_done(&schedules, Execution::stepwise), expected, "the engine step by step, at {first}");
    assert_eq!(is_done(&schedules, Execution::new), expected, "compiled code, at {first}");
}

#[test]
fn a_flag_awaited_at_0_is_no_wait() {
    check(0, true);
    check(1, false);
}
