//! A cached small collective allocates nothing: what is counted in nanoseconds must not ask for memory.
//!
//! # Safety
//! The allocator passes everything on; the memory bound to an execution outlives it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use tutti_base::Result;
use tutti_coll::ir::Access;
use tutti_coll::{Collective, Environment, Plan, Shape};
use tutti_core::buffer::Buffer;
use tutti_core::engine::{
    Array, Execution, ExecutionStatus, Exposed, Memory, NodePort, Port, Remote, Started,
};
use tutti_data::{Datatype, Op};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Peers that are always there: a send is complete at once, a receive at the second question.
struct Instant;

/// No schedule here has steps within a node.
impl NodePort for Instant {
    fn granted(&mut self) -> bool {
        unreachable!("no node")
    }
    fn post(&mut self, _: u16, _: u64) {}
    fn reached(&mut self, _: u32, _: u16, _: u64) -> bool {
        unreachable!("no node")
    }
    fn bank(&mut self, _: u32) -> *mut u8 {
        unreachable!("no node")
    }
    fn expose(&mut self, _: u16, _: Exposed<'_>, _: Access) -> Result<()> {
        Ok(())
    }
    fn direct(&mut self, _: Remote, _: u64) -> Option<*const u8> {
        None
    }
    fn pull(&mut self, _: Remote, _: &Buffer) -> Result<()> {
        Ok(())
    }
    fn push(&mut self, _: &Buffer, _: Remote) -> Result<()> {
        Ok(())
    }
    fn leave(&mut self) {}
}

impl Port for Instant {
    type Handle = bool;

    fn send(&mut self, _: u32, _: u16, _: Buffer) -> Result<Started<bool>> {
        Ok(Started::Done)
    }

    fn recv(&mut self, _: u32, _: u16, _: Buffer) -> Result<Started<bool>> {
        Ok(Started::Pending(false))
    }

    fn done(&mut self, asked: &mut bool) -> Result<bool> {
        Ok(std::mem::replace(asked, true))
    }

    fn cancel(&mut self, _: bool) {}
}

#[test]
fn a_cached_operation_allocates_nothing() {
    let environment = Environment::flat(8, 2);
    let int = Datatype::all_predefined().find(|datatype| datatype.name() == Some("MPI_INT")).expect("named");
    let add = Op::predefined(0x21).expect("MPI_SUM").bind(int).expect("applies to int");
    let (mut send, mut recv) = (vec![1i32; 4], vec![0i32; 4]);
    for name in ["recursive_doubling", "rabenseifner", "ring", "tree"] {
        let shape = Shape { unit_bytes: 4, ..Shape::new(Collective::Allreduce, 8, 0, 4) };
        let plan = Arc::new(Plan::new(&shape, &environment, Some(name)));
        let mut execution = Execution::new(plan);
        let mut run = |rounds: u32| {
            for _ in 0..rounds {
                execution.bindings().operate(&add);
                let array = |base| Memory::Whole(Array { base, count: 4, datatype: int });
                let (from, into) = (send.as_mut_ptr().cast(), recv.as_mut_ptr().cast());
                // SAFETY: both vectors outlive the run and hold four items.
                unsafe { execution.bindings().bind(array(from), array(into), &[]) };
                execution.start();
                while execution.progress(&mut Instant).expect("never fails") == ExecutionStatus::Pending {}
            }
        };
        run(1);
        let before = ALLOCATIONS.with(Cell::get);
        run(10);
        assert_eq!(ALLOCATIONS.with(Cell::get), before, "{name}");
        if std::env::var_os("TUTTI_TIME").is_some() {
            let start = std::time::Instant::now();
            run(100_000);
            println!("{name}: {:?} a run", start.elapsed() / 100_000);
        }
    }
}
