//! Executions of all ranks of a schedule in one thread, in random interleavings, on real memory. The tests
//! compare every algorithm with the standard, on 1 to 9 ranks.
//!
//! # Safety
//! Memory of the tests is owned by [`Array`]s that outlive the executions bound to it.
#![allow(unsafe_code)]

mod interpreters;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use tutti_base::Result;
use tutti_coll::generator::Parameter;
use tutti_coll::ir::Access;
use tutti_coll::{Choice, Collective, Environment, Generator, Params, Plan, Shape, registry};
use tutti_data::{Datatype, Form, Op};

use super::{Array, Execution, ExecutionStatus, Exposed, Memory, NodePort, Port, Remote, Started};
use crate::buffer::Buffer;

/// Tested numbers of ranks, cases of a generator, and the step between generators. There are fewer under
/// Miri, which checks each access to memory.
const RANKS: std::ops::RangeInclusive<u32> = if cfg!(miri) { 3..=3 } else { 1..=9 };
const NUMBERS: &[usize] = if cfg!(miri) { &[13, 22] } else { &ALL };
const EVERY: usize = if cfg!(miri) { 3 } else { 1 };
const ALL: [usize; 24] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23];

/// Generator of pseudo-random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Map x -> a x + b. Its composition does not commute.
type Item = [i32; 2];
const ITEM_BYTES: u64 = 8;

fn compose(left: Item, right: Item) -> Item {
    [left[0].wrapping_mul(right[0]), left[0].wrapping_mul(right[1]).wrapping_add(left[1])]
}

fn add(left: Item, right: Item) -> Item {
    [left[0].wrapping_add(right[0]), left[1].wrapping_add(right[1])]
}

fn operation(commutative: bool) -> fn(Item, Item) -> Item {
    if commutative { add } else { compose }
}

fn int() -> Datatype {
    Datatype::all_predefined().find(|datatype| datatype.name() == Some("MPI_INT")).expect("named").clone()
}

/// Returns three layouts of an item: without gaps; with a gap inside; with gaps, beside its origin and with a
/// negative bound.
fn layouts() -> [Datatype; 3] {
    let form = Form::Int;
    let plain = Datatype::create_contiguous(2, &int(), form).expect("valid");
    let gap = Datatype::create_vector(2, 1, 2, &int(), form).expect("valid");
    let beside = Datatype::create_struct(&[1, 1], &[4, 12], &[int(), int()], form).expect("valid");
    let beside = Datatype::create_resized(-4, 20, &beside, form).expect("valid");
    [plain, gap, beside]
}

/// Items in separate memory. All other bytes are 0xa5.
struct Store {
    datatype: Datatype,
    bytes: Vec<u8>,
    origin: isize,
    items: u64,
}

impl Store {
    fn new(datatype: &Datatype, items: u64) -> Store {
        let (low, high) = datatype.span(items).unwrap_or((0, 0));
        let bytes = vec![0xa5; (high - low) as usize + 8];
        Store { datatype: datatype.clone(), bytes, origin: -low as isize, items }
    }

    fn base(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_offset(self.origin)
    }

    fn put(&mut self, index: u64, item: Item) {
        let mut bytes = [0; ITEM_BYTES as usize];
        for (place, part) in bytes.chunks_exact_mut(size_of::<i32>()).zip(item) {
            place.copy_from_slice(&part.to_ne_bytes());
        }
        let (base, items) = (self.base(), self.items);
        // SAFETY: the store covers its items.
        unsafe { self.datatype.unpack(base, items, index * ITEM_BYTES, &bytes) };
    }
}

/// Messages between ranks of one process, delivered when the test requests it.
#[derive(Default)]
struct World {
    complete: Vec<bool>,
    buffers: Vec<Buffer>,
    waiting: HashMap<(u32, u32, u16), [VecDeque<usize>; 2]>,
    matched: Vec<(usize, usize)>,
    /// Memory of the node: banks, flags, and exposed memory.
    banks: Vec<Vec<u64>>,
    flags: HashMap<(u32, u16), u64>,
    exposed: HashMap<(u32, u16), Vec<(*mut u8, u64)>>,
    /// Copies passed by value, for light ports.
    carried: Vec<Vec<u8>>,
}

struct FakePort {
    rank: u32,
    world: Rc<RefCell<World>>,
    eager: bool,
    lends: bool,
}

impl FakePort {
    fn post(&mut self, key: (u32, u32, u16), buffer: Buffer, receive: usize) -> Started<usize> {
        let mut world = self.world.borrow_mut();
        let number = world.complete.len();
        let copied = self.eager && receive == 0;
        world.complete.push(copied);
        world.buffers.push(if copied { Buffer::owned(buffer.to_vec()) } else { buffer });
        world.waiting.entry(key).or_default()[receive].push_back(number);
        let both = world.waiting.get_mut(&key).expect("just made");
        if !both[0].is_empty() && !both[1].is_empty() {
            let pair = both.each_mut().map(|side| side.pop_front().expect("not empty"));
            world.matched.push((pair[0], pair[1]));
        }
        if copied { Started::Done } else { Started::Pending(number) }
    }
}

impl Port for FakePort {
    type Handle = usize;

    fn send(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<usize>> {
        Ok(self.post((self.rank, peer, lane), buffer, 0))
    }

    fn recv(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<usize>> {
        Ok(self.post((peer, self.rank, lane), buffer, 1))
    }

    fn done(&mut self, handle: &mut usize) -> Result<bool> {
        Ok(self.world.borrow().complete[*handle])
    }

    fn cancel(&mut self, _: usize) {}
}

impl FakePort {
    fn address(&self, remote: Remote, bytes: u64) -> *mut u8 {
        let world = self.world.borrow();
        let (base, length) = world.exposed[&(remote.peer, remote.slot)][remote.entry as usize];
        assert!(remote.offset + bytes <= length, "inside of what is exposed");
        base.wrapping_add(remote.offset as usize)
    }
}

impl NodePort for FakePort {
    fn granted(&mut self) -> bool {
        self.world.borrow_mut().flags.retain(|(rank, _), _| *rank != self.rank);
        true
    }

    fn post(&mut self, flag: u16, value: u64) {
        let before = self.world.borrow_mut().flags.insert((self.rank, flag), value);
        assert!(before.unwrap_or(0) < value, "flags grow");
    }

    fn reached(&mut self, peer: u32, flag: u16, value: u64) -> bool {
        self.world.borrow().flags.get(&(peer, flag)).is_some_and(|reached| *reached >= value)
    }

    fn bank(&mut self, peer: u32) -> *mut u8 {
        self.world.borrow_mut().banks[peer as usize].as_mut_ptr().cast()
    }

    fn expose(&mut self, slot: u16, memory: Exposed<'_>, access: Access) -> Result<()> {
        let mut runs: Vec<_> = (0..memory.runs()).map(|number| memory.run(number)).collect();
        let mut world = self.world.borrow_mut();
        match access {
            Access::Read if self.eager => {
                for (base, bytes) in runs.iter_mut().filter(|run| run.1 > 0) {
                    // SAFETY: exposed by an execution whose memory lives until the run is over.
                    let mut copy = unsafe { Buffer::bytes_at(*base, *bytes) }.to_vec();
                    *base = copy.as_mut_ptr();
                    world.carried.push(copy);
                }
            }
            _ => self.lends = true,
        }
        world.exposed.insert((self.rank, slot), runs);
        Ok(())
    }

    fn lends(&self) -> bool {
        self.lends
    }

    fn direct(&mut self, from: Remote, bytes: u64) -> Option<*const u8> {
        self.eager.then(|| self.address(from, bytes).cast_const())
    }

    fn pull(&mut self, from: Remote, into: &Buffer) -> Result<()> {
        let address = self.address(from, into.bytes());
        // SAFETY: exposed by an execution whose memory lives until the run is over.
        into.copy_from(&unsafe { Buffer::bytes_at(address, into.bytes()) });
        Ok(())
    }

    fn push(&mut self, from: &Buffer, into: Remote) -> Result<()> {
        let address = self.address(into, from.bytes());
        // SAFETY: as above.
        unsafe { Buffer::bytes_at(address, from.bytes()) }.copy_from(from);
        Ok(())
    }

    fn leave(&mut self) {}
}

impl World {
    fn deliver(&mut self, index: usize) {
        let (send, recv) = self.matched.swap_remove(index);
        assert_eq!(self.buffers[send].bytes(), self.buffers[recv].bytes());
        self.buffers[recv].copy_from(&self.buffers[send]);
        (self.complete[send], self.complete[recv]) = (true, true);
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    collective: Collective,
    ranks: u32,
    root: u32,
    /// Number of items of a block, or the mean number.
    count: u64,
    commutative: bool,
    in_place: bool,
    layout: usize,
    params: Params,
}

fn item(rank: u32, index: u64) -> Item {
    [(rank as i32 * 7 + index as i32) * 2 + 1, rank as i32 * 1000 + index as i32]
}

/// Items in the buffers of a rank before and after the operation. None: the item must not change.
struct Expected {
    send: Vec<Item>,
    before: Vec<Option<Item>>,
    after: Vec<Option<Item>>,
}

impl Case {
    fn block(&self, block: u32) -> u64 {
        use Collective as C;
        match self.collective {
            C::Gatherv | C::Scatterv | C::Allgatherv | C::ReduceScatter => {
                self.count * u64::from((block + 1) % 3)
            }
            _ => self.count,
        }
    }

    fn pair(&self, from: u32, to: u32) -> u64 {
        let regular = self.collective == Collective::Alltoall;
        if regular { self.count } else { self.count * u64::from((from + to) % 3) }
    }

    fn in_place(&self, rank: u32) -> bool {
        use Collective as C;
        match self.collective {
            C::Barrier | C::Bcast => false,
            collective if collective.rooted() => self.in_place && rank == self.root,
            _ => self.in_place,
        }
    }

    fn shape(&self, rank: u32) -> Shape {
        use Collective as C;
        let total: u64 = (0..self.ranks).map(|block| self.block(block)).sum();
        let items = match self.collective {
            C::Barrier => 0,
            C::Gatherv | C::Scatterv => self.block(rank),
            C::Allgatherv | C::ReduceScatter => total,
            C::Alltoallv if self.in_place(rank) => (0..self.ranks).map(|from| self.pair(from, rank)).sum(),
            C::Alltoallv => 0,
            _ => self.count,
        };
        let element = self.collective.unit() == tutti_coll::ir::Unit::Element;
        Shape {
            root: self.root,
            count: if element { items } else { items * ITEM_BYTES },
            own: if self.collective == C::ReduceScatter { self.block(rank) } else { 0 },
            unit_bytes: if element { ITEM_BYTES } else { 1 },
            commutative: self.commutative,
            in_place: self.in_place(rank),
            ..Shape::new(self.collective, self.ranks, rank, 0)
        }
    }

    /// Returns the lengths of the blocks of the receive (1) or send (0) buffer, if the operation has a length
    /// for each.
    fn lengths(&self, rank: u32, which: usize) -> Option<Vec<u64>> {
        use Collective as C;
        let ranks = 0..self.ranks;
        let root = rank == self.root;
        match (self.collective, which) {
            (C::Gatherv, 1) | (C::Scatterv, 0) if !root => None,
            (C::Gatherv | C::Allgatherv, 1) | (C::Scatterv, 0) => {
                Some(ranks.map(|b| self.block(b)).collect())
            }
            (C::Alltoallv, 0) => Some(ranks.map(|to| self.pair(rank, to)).collect()),
            (C::Alltoallv, 1) => Some(ranks.map(|from| self.pair(from, rank)).collect()),
            _ => None,
        }
    }

    fn expected(&self, rank: u32) -> Expected {
        use Collective as C;
        let (n, root) = (self.count, self.root);
        let own = |items: u64| (0..items).map(|index| item(rank, index)).collect::<Vec<_>>();
        let total: u64 = (0..self.ranks).map(|block| self.block(block)).sum();
        let start: u64 = (0..rank).map(|block| self.block(block)).sum();
        let all = || -> Vec<Option<Item>> {
            (0..self.ranks).flat_map(|b| (0..self.block(b)).map(move |i| Some(item(b, i)))).collect()
        };
        let reduced = |end: u32, first: u64, items: u64| -> Vec<Option<Item>> {
            let value = |index| (0..end).map(|rank| item(rank, index)).reduce(operation(self.commutative));
            (first..first + items).map(value).collect()
        };
        let (send, after): (Vec<Item>, Vec<Option<Item>>) = match self.collective {
            C::Barrier => (vec![], vec![]),
            C::Bcast => (vec![], (0..n).map(|index| Some(item(root, index))).collect()),
            C::Gather | C::Gatherv => (own(self.block(rank)), if rank == root { all() } else { vec![] }),
            C::Scatter | C::Scatterv => {
                let mine = (start..start + self.block(rank)).map(|index| Some(item(root, index)));
                (own(if rank == root { total } else { 0 }), mine.collect())
            }
            C::Allgather | C::Allgatherv => (own(self.block(rank)), all()),
            C::Alltoall | C::Alltoallv => {
                let first = |from: u32| (0..rank).map(|to| self.pair(from, to)).sum::<u64>();
                let part =
                    |from: u32| (0..self.pair(from, rank)).map(move |i| Some(item(from, first(from) + i)));
                let sent = (0..self.ranks).map(|to| self.pair(rank, to)).sum();
                (own(sent), (0..self.ranks).flat_map(part).collect())
            }
            C::Reduce if rank != root => (own(n), vec![]),
            C::Reduce | C::Allreduce => (own(n), reduced(self.ranks, 0, n)),
            C::ReduceScatter | C::ReduceScatterBlock => {
                (own(total), reduced(self.ranks, start, self.block(rank)))
            }
            C::Scan => (own(n), reduced(rank + 1, 0, n)),
            C::Exscan => (own(n), if rank == 0 { vec![None; n as usize] } else { reduced(rank, 0, n) }),
            neighbours => unreachable!("{neighbours} needs a topology"),
        };
        self.placed(rank, send, after, start)
    }

    /// Places the own contribution where the standard requires it for MPI_IN_PLACE.
    fn placed(&self, rank: u32, send: Vec<Item>, mut after: Vec<Option<Item>>, start: u64) -> Expected {
        use Collective as C;
        let mut before = vec![None; after.len()];
        match self.collective {
            C::Bcast if rank == self.root => before.clone_from(&after),
            C::Scatter | C::Scatterv if self.in_place(rank) => after.fill(None),
            _ if !self.in_place(rank) => {}
            C::Gather | C::Gatherv | C::Allgather | C::Allgatherv => {
                let range = start as usize..start as usize + send.len();
                before[range.clone()].copy_from_slice(&after[range]);
            }
            _ => {
                let own: Vec<_> = send.iter().copied().map(Some).collect();
                before = own.clone();
                let known = after.len();
                after.extend_from_slice(&own[known..]);
                if self.collective == C::Exscan && rank == 0 {
                    after = own;
                }
            }
        }
        Expected { send, before, after }
    }
}

/// User's memory at one rank. Blocks with lengths of their own are in reverse order and not adjacent.
struct Side {
    store: Store,
    lengths: Option<Vec<u64>>,
    places: Vec<u64>,
}

impl Side {
    fn new(datatype: &Datatype, items: u64, lengths: Option<Vec<u64>>) -> Side {
        let Some(lengths) = lengths else {
            let places = (0..items).collect();
            return Side { store: Store::new(datatype, items), lengths: None, places };
        };
        let mut places = Vec::new();
        for (block, length) in lengths.iter().enumerate() {
            let first: u64 = lengths[block + 1..].iter().map(|length| length + 1).sum();
            places.extend(first..first + length);
        }
        let room = items + lengths.len() as u64;
        Side { store: Store::new(datatype, room), lengths: Some(lengths), places }
    }

    fn fill(&mut self, items: &[Option<Item>]) {
        for (index, item) in items.iter().enumerate() {
            if let Some(item) = item {
                self.store.put(self.places[index], *item);
            }
        }
    }

    fn with<R>(&mut self, present: bool, use_memory: impl FnOnce(Memory<'_>) -> R) -> R {
        if !present {
            return use_memory(Memory::None);
        }
        let (base, datatype) = (self.store.base(), &self.store.datatype);
        let Some(lengths) = &self.lengths else {
            let count = self.places.len() as u64;
            return use_memory(Memory::Whole(Array { base, count, datatype }));
        };
        let mut next = 0;
        let mut entries = lengths.iter().map(|&count| {
            let place = self.places.get(next).copied().unwrap_or(0);
            next += count as usize;
            let base = base.wrapping_offset(place as isize * datatype.extent() as isize);
            Array { base, count, datatype }
        });
        use_memory(Memory::Entries(&mut entries))
    }
}

fn operator(commutative: bool) -> Op {
    let combine = operation(commutative);
    Op::user(
        Arc::new(move |input, inout, count, datatype, _| {
            for index in 0..count {
                let read = |base: *const u8| -> Item {
                    let mut bytes = [0; 8];
                    let at = base.wrapping_offset(index as isize * datatype.extent() as isize);
                    // SAFETY: the engine passes `count` items.
                    unsafe { datatype.pack(at, 1, 0, &mut bytes) };
                    [0, 4].map(|first| i32::from_ne_bytes(bytes[first..first + 4].try_into().expect("four")))
                };
                let result = combine(read(input), read(inout));
                let bytes: Vec<u8> = result.iter().flat_map(|part| part.to_ne_bytes()).collect();
                let at = inout.wrapping_offset(index as isize * datatype.extent() as isize);
                // SAFETY: as above.
                unsafe { datatype.unpack(at, 1, 0, &bytes) };
            }
        }),
        commutative,
    )
}

/// Runs the executions. `again` has the memory for a restart of the same operations, if they can be compiled
/// for their tables.
fn run(case: &Case, executions: &mut [Execution<usize>], random: &mut Random, again: &[[*mut u8; 2]]) {
    let world = Rc::new(RefCell::new(World::default()));
    let bank = |run: &Execution<usize>| run.plan().schedule.bank as usize * ITEM_BYTES as usize / 8 + 1;
    world.borrow_mut().banks = executions.iter().map(|run| vec![0xa5a5; bank(run)]).collect();
    let mut ports: Vec<FakePort> = (0..case.ranks)
        .map(|rank| FakePort { rank, world: world.clone(), eager: random.below(2) == 0, lends: false })
        .collect();
    executions.iter_mut().for_each(Execution::start);
    for (execution, given) in executions.iter_mut().zip(again) {
        // SAFETY: the memory is that which is bound.
        let _ = execution.compile(*given) && unsafe { execution.restart(given[0], given[1]) };
    }
    let mut open: Vec<usize> = (0..executions.len()).collect();
    for _ in 0..1_000_000 {
        let matched = world.borrow().matched.len();
        if matched > 0 && random.below(2) == 0 {
            world.borrow_mut().deliver(random.below(matched));
            continue;
        }
        if open.is_empty() {
            assert_eq!(matched, 0, "{case:?}: an execution is done before its messages");
            return;
        }
        let turn = random.below(open.len());
        let rank = open[turn];
        if executions[rank].progress(&mut ports[rank]).expect("the port never fails") == ExecutionStatus::Done
        {
            open.swap_remove(turn);
        }
        // An eager message may still have to be delivered.
        if open.is_empty() && !world.borrow().matched.is_empty() {
            world.borrow_mut().deliver(0);
        }
    }
    panic!("{case:?}: stuck, open {open:?}");
}

/// Returns the choice of `generator` as another rank would report it, so that nothing is simulated.
fn chosen(generator: &Generator, shape: &Shape, environment: &Environment) -> Choice {
    let index = registry().iter().position(|other| std::ptr::eq(other, generator)).expect("registered");
    let (window, radix) = (1, 1);
    Choice::of_words([index as u64 | window << 24, radix, 0, 0], shape, environment).expect("it suits")
}

/// Runs a case repeatedly on the same executions, also compiled for its tables, and compares all memory.
fn check(generator: &Generator, case: Case, random: &mut Random) {
    if (0..case.ranks).any(|rank| !generator.suits(&case.shape(rank))) {
        return;
    }
    let datatype = layouts()[case.layout].clone();
    let environment = Environment::flat(case.ranks, 2);
    let mut executions: Vec<Execution<usize>> = (0..case.ranks)
        .map(|rank| {
            let shape = case.shape(rank);
            let mut plan = Plan::chosen(&shape, chosen(generator, &shape, &environment), None);
            plan.choice.params = case.params;
            plan.schedule = generator.generate(&shape, &case.params);
            let mut execution = Execution::new(Arc::new(plan));
            if case.collective.unit() == tutti_coll::ir::Unit::Element {
                let reducer = operator(case.commutative).bind(&datatype).expect("user operators take any");
                execution.bindings().operate(&reducer);
            }
            execution
        })
        .collect();
    for round in 0..if cfg!(miri) { 2 } else { 3 } {
        let mut memory = Vec::new();
        for (rank, execution) in (0..).zip(&mut executions) {
            let Expected { send, before, .. } = case.expected(rank);
            let mut sides = [
                Side::new(&datatype, send.len() as u64, case.lengths(rank, 0)),
                Side::new(&datatype, before.len() as u64, case.lengths(rank, 1)),
            ];
            sides[0].fill(&send.into_iter().map(Some).collect::<Vec<_>>());
            sides[1].fill(&before);
            bind(&case, rank, execution, &mut sides);
            memory.push(sides);
        }
        let bases = |sides: &mut [Side; 2]| sides.each_mut().map(|side| side.store.base());
        let given: Vec<_> = memory.iter_mut().map(bases).collect();
        run(&case, &mut executions, random, if round == 1 { &given } else { &[] });
        for (rank, [send, recv]) in (0..).zip(&memory) {
            let wanted = case.expected(rank);
            let mut sides = [
                Side::new(&datatype, wanted.send.len() as u64, case.lengths(rank, 0)),
                Side::new(&datatype, wanted.before.len() as u64, case.lengths(rank, 1)),
            ];
            sides[0].fill(&wanted.send.into_iter().map(Some).collect::<Vec<_>>());
            sides[1].fill(&wanted.before);
            sides[1].fill(&wanted.after);
            assert!(sides[0].store.bytes == send.store.bytes, "{generator:?} {case:?}: send of {rank}");
            assert!(sides[1].store.bytes == recv.store.bytes, "{generator:?} {case:?}: receive of {rank}");
        }
    }
}

fn bind(case: &Case, rank: u32, execution: &mut Execution<usize>, sides: &mut [Side; 2]) {
    use Collective as C;
    let blocks: Vec<u64> = match case.collective {
        C::ReduceScatter => (0..case.ranks).map(|block| case.block(block)).collect(),
        _ => Vec::new(),
    };
    let scatter = matches!(case.collective, C::Scatter | C::Scatterv);
    let in_place = case.in_place(rank);
    let sends = !matches!(case.collective, C::Barrier | C::Bcast) && (scatter || !in_place);
    let [send, recv] = sides;
    send.with(sends, |send| {
        recv.with(!(scatter && in_place), |recv| {
            // SAFETY: the sides live until the run is over, and have the sizes of the shape.
            unsafe { execution.bindings().bind(send, recv, &blocks) };
        });
    });
}

fn check_all(collective: Collective) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ collective as u64);
    let generators = registry().iter().filter(|generator| generator.collective == collective);
    for generator in generators.step_by(EVERY) {
        for ranks in RANKS {
            for root in 0..if collective.rooted() { ranks } else { 1 } {
                for &number in NUMBERS {
                    let parameters = generator.parameters;
                    let radix = if parameters.radix().is_some() {
                        [2, 3, Params::FLAT, 1][random.below(4)]
                    } else {
                        2
                    };
                    let radix = if generator.name == "knomial" { radix.max(2) } else { radix };
                    let segment =
                        if parameters.segments().is_some() { [0, 2, 24][random.below(3)] } else { 0 };
                    let window = [1, 2, 64][random.below(3)];
                    let fan_out = if parameters.has(Parameter::FanOut) {
                        [0, 2, Params::FLAT][random.below(3)]
                    } else {
                        0
                    };
                    let readers = if parameters.has(Parameter::Readers) { random.below(4) as u32 } else { 0 };
                    let case = Case {
                        collective,
                        ranks,
                        root,
                        count: [0, 1, 3, 20][number / 2 % 4],
                        commutative: number % 2 == 0,
                        in_place: random.below(2) == 0,
                        layout: number % 3,
                        params: Params { radix, fan_out, segment, window, readers, ..Params::default() },
                    };
                    check(generator, case, &mut random);
                }
            }
        }
    }
}

macro_rules! collectives {
    ($($name:ident: $collective:ident,)*) => {
        $(#[test]
        fn $name() {
            check_all(Collective::$collective);
        })*
    };
}

collectives! {
    barrier: Barrier, bcast: Bcast, gather: Gather, gatherv: Gatherv, scatter: Scatter,
    scatterv: Scatterv, allgather: Allgather, allgatherv: Allgatherv, alltoall: Alltoall,
    alltoallv: Alltoallv, reduce: Reduce, allreduce: Allreduce,
    reduce_scatter_block: ReduceScatterBlock, reduce_scatter: ReduceScatter, scan: Scan,
    exscan: Exscan,
}
