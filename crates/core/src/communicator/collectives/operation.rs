//! A collective operation in the user's terms, and its translation for the planner and the engine.
//!
//! # Safety
//! The maker of an [`Operation`] promises that the memory of its arrays fulfils the requirements of MPI-5
//! section 6 until the operation is over. `bind` passes that promise to the engine: the counts it
//! multiplies are those of the blocks that the user described.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::null_mut;

use tutti_coll::{Collective, Shape};
use tutti_data::{Datatype, Reducer};

use super::Words;
use crate::communicator::Communicator;
use crate::engine::{Array, Bindings, Memory};

/// One of the two buffers of an operation.
#[derive(Clone, Debug)]
pub enum Side<'a> {
    /// Not significant at this rank.
    Absent,
    /// MPI_IN_PLACE.
    InPlace,
    /// One array. It describes one block (gather, scatter, allgather, alltoall: the contribution or result
    /// of one rank), or all the data (bcast, reductions).
    Block(Array<'a>),
    /// An array for each rank.
    Entries(Vec<Array<'a>>),
}

/// A collective operation at one rank.
pub struct Operation<'a> {
    collective: Collective,
    /// Root of the operation, 0 if it has none.
    root: u32,
    /// Send buffer of this rank.
    send: Side<'a>,
    /// Receive buffer of this rank.
    recv: Side<'a>,
    /// Operator bound to a datatype, and whether it commutes.
    reducer: Option<(Reducer, bool)>,
    /// Number of elements of each rank's block (reduce_scatter).
    blocks: Vec<u64>,
    /// Key of the call, if it can be replayed.
    words: Option<Words>,
    /// Lists of counts and displacements of the call.
    lists: Vec<i64>,
    /// Addresses from which displacements count.
    given: [*mut u8; 2],
    is_internal: bool,
}

impl<'a> Operation<'a> {
    /// Makes an operation without root and operator.
    ///
    /// # Safety
    /// See the module's Safety section.
    pub unsafe fn new(collective: Collective, send: Side<'a>, recv: Side<'a>) -> Operation<'a> {
        Operation {
            collective,
            root: 0,
            send,
            recv,
            reducer: None,
            blocks: Vec::new(),
            words: None,
            lists: Vec::new(),
            given: [null_mut(); 2],
            is_internal: false,
        }
    }

    /// Marks an operation for the library's own use, of which users want to know nothing.
    pub fn internal(self) -> Operation<'a> {
        Operation { is_internal: true, ..self }
    }

    /// Returns true if the operation is for the library's own use.
    pub fn is_internal(&self) -> bool {
        self.is_internal
    }

    /// Sets the root of the operation.
    pub fn rooted(self, root: u32) -> Operation<'a> {
        Operation { root, ..self }
    }

    /// Sets the operator on the elements, and whether it commutes.
    pub fn reducing(self, reducer: Reducer, commutative: bool) -> Operation<'a> {
        Operation { reducer: Some((reducer, commutative)), ..self }
    }

    /// Sets the number of elements of each rank's block (reduce_scatter).
    pub fn blocks(self, blocks: Vec<u64>) -> Operation<'a> {
        Operation { blocks, ..self }
    }

    /// Sets the key of the call, by which it can be replayed.
    pub fn said(self, words: Words) -> Operation<'a> {
        Operation { words: Some(words), ..self }
    }

    /// Sets the lists of counts and displacements of the call, one behind the other. `given` holds the
    /// addresses of the send and receive buffers from which displacements count.
    pub fn listed(self, lists: Vec<i64>, given: [*mut u8; 2]) -> Operation<'a> {
        Operation { lists, given, ..self }
    }

    /// Returns the values given to [`Operation::listed`], or empty and null if none.
    pub(crate) fn lists(&self) -> (&[i64], [*mut u8; 2]) {
        (&self.lists, self.given)
    }

    /// Returns the key of the call, if it identifies the call completely.
    pub(crate) fn words(&self) -> Option<Words> {
        self.words
    }

    /// Returns the collective of the operation.
    pub fn collective(&self) -> Collective {
        self.collective
    }

    /// Returns the send and the receive buffer.
    pub(crate) fn sides(&self) -> (&Side<'a>, &Side<'a>) {
        (&self.send, &self.recv)
    }

    /// Returns the operator, if there is one.
    pub(crate) fn reducer(&self) -> Option<&Reducer> {
        self.reducer.as_ref().map(|(reducer, _)| reducer)
    }

    /// Returns the operator and whether it commutes.
    pub(crate) fn operator(&self) -> Option<&(Reducer, bool)> {
        self.reducer.as_ref()
    }

    /// Returns the shape of the operation, from which the planner selects an algorithm.
    pub fn shape(&self, comm: &Communicator) -> Shape {
        use Collective as C;
        let rank = comm.number(comm.rank(), false);
        let in_place = matches!(self.send, Side::InPlace) || matches!(self.recv, Side::InPlace);
        let count = match self.collective {
            C::Barrier | C::NeighborAllgatherv | C::NeighborAlltoallv => 0,
            C::Bcast => bytes(&self.recv),
            C::Gather | C::Reduce if rank != self.root => self.units(&self.send),
            C::Scatter if rank == self.root => bytes(&self.send),
            C::Gatherv if rank != self.root => bytes(&self.send),
            C::Gatherv => own_entry(&self.recv, rank),
            C::Scatterv if rank != self.root => bytes(&self.recv),
            C::Scatterv => own_entry(&self.send, rank),
            C::Alltoallv if !in_place => 0,
            C::ReduceScatter => self.blocks.iter().sum(),
            _ => self.units(&self.recv),
        };
        let between = comm.inter().is_some();
        let own = match self.collective {
            C::ReduceScatter => self.blocks.get(comm.rank().0 as usize).copied().unwrap_or(0),
            C::Allgather | C::Allgatherv | C::Alltoall if between => bytes(&self.send),
            C::NeighborAllgather | C::NeighborAllgatherv | C::NeighborAlltoall => bytes(&self.send),
            _ => 0,
        };
        let shape = Shape::new(self.collective, comm.everybody(), rank, count);
        let mut shape = Shape { first_group: comm.first_group(), root: self.root, own, in_place, ..shape };
        if let Some((reducer, commutative)) = &self.reducer {
            (shape.unit_bytes, shape.commutative) = (reducer.datatype().size() as u64, *commutative);
            // The result of two operands is rounded once anyway. Between groups there is no such algorithm.
            shape.together = reducer.is_exact() && shape.ranks > 2 && !between;
        }
        shape
    }

    /// Binds the engine to the memory of the operation.
    pub(crate) fn bind(&self, bindings: &mut Bindings, comm: &Communicator) {
        use Collective as C;
        if let Some((reducer, _)) = &self.reducer {
            bindings.operate(reducer);
        }
        // Numbers of ranks: those that a block comes from or goes to, and those that a result is divided
        // among.
        let (all, members) = (u64::from(comm.peers().size()), u64::from(comm.size()));
        let total = self.blocks.iter().sum::<u64>();
        let in_place = matches!(self.send, Side::InPlace);
        let (send_blocks, recv_blocks) = match self.collective {
            C::Scatter => (all, 1),
            C::Gather | C::Allgather => (1, all),
            C::Alltoall => (all, all),
            C::ReduceScatterBlock => (members, if in_place { members } else { 1 }),
            C::NeighborAllgather | C::NeighborAlltoall => {
                let (sources, destinations) = comm.degrees();
                let one = self.collective == C::NeighborAllgather;
                (if one { 1 } else { destinations as u64 }, sources as u64)
            }
            _ => (1, 1),
        };
        let mut send_entries = arrays(&self.send).iter().copied();
        let mut recv_entries = arrays(&self.recv).iter().copied();
        let send = memory(&self.send, send_blocks, &mut send_entries);
        let mut recv = memory(&self.recv, recv_blocks, &mut recv_entries);
        if let (C::ReduceScatter, true, Memory::Whole(array)) = (self.collective, in_place, &mut recv) {
            array.count = total;
        }
        // SAFETY: the maker of the operation has promised it; see the module's Safety section.
        unsafe { bindings.bind(send, recv, &self.blocks) };
    }

    /// Returns the number of bytes that a side describes, or of elements for a reduction.
    fn units(&self, side: &Side<'_>) -> u64 {
        match (side, &self.reducer) {
            (Side::Block(array), Some(_)) => array.count,
            _ => bytes(side),
        }
    }
}

/// An operation that is stored until it can begin.
pub(crate) struct Owned {
    operation: Operation<'static>,
    /// Datatypes of its arrays, kept alive.
    _datatypes: Box<[Datatype]>,
}

impl Owned {
    /// Copies an operation, with its datatypes.
    ///
    /// # Safety
    /// The memory of the arrays must stay as the operation's maker has promised.
    pub(crate) unsafe fn new(operation: &Operation<'_>) -> Owned {
        let of = |side: &Side<'_>| -> Vec<Datatype> {
            match side {
                Side::Block(array) => vec![array.datatype.clone()],
                Side::Entries(all) => all.iter().map(|array| array.datatype.clone()).collect(),
                Side::Absent | Side::InPlace => Vec::new(),
            }
        };
        let send = of(&operation.send);
        let split = send.len();
        let datatypes: Box<[Datatype]> = send.into_iter().chain(of(&operation.recv)).collect();
        let kept = |place: usize| -> &'static Datatype {
            let datatype: *const Datatype = &raw const datatypes[place];
            // SAFETY: the boxed slice neither moves nor changes while the value lives, and the value lends
            // the operation only by reference.
            unsafe { &*datatype }
        };
        let side = |side: &Side<'_>, first: usize| match side {
            Side::Absent => Side::Absent,
            Side::InPlace => Side::InPlace,
            Side::Block(array) => {
                Side::Block(Array { base: array.base, count: array.count, datatype: kept(first) })
            }
            Side::Entries(all) => {
                let entry = |(place, array): (usize, &Array<'_>)| Array {
                    base: array.base,
                    count: array.count,
                    datatype: kept(first + place),
                };
                Side::Entries(all.iter().enumerate().map(entry).collect())
            }
        };
        let (send, recv) = (side(&operation.send, 0), side(&operation.recv, split));
        // SAFETY: passed on.
        let kept = unsafe { Operation::new(operation.collective, send, recv) };
        let kept = Operation {
            is_internal: operation.is_internal,
            root: operation.root,
            reducer: operation.reducer.clone(),
            blocks: operation.blocks.clone(),
            words: operation.words,
            lists: operation.lists.clone(),
            given: operation.given,
            ..kept
        };
        Owned { operation: kept, _datatypes: datatypes }
    }

    /// Calls `work` with the operation.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&Operation<'_>) -> R) -> R {
        work(&self.operation)
    }
}

// SAFETY: addresses with a promise about them, valid in every thread of the process.
unsafe impl Send for Owned {}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("collective", &self.operation.collective).finish_non_exhaustive()
    }
}

/// Returns the bytes of an array's data.
fn bytes_of(array: &Array<'_>) -> u64 {
    array.count * array.datatype.size() as u64
}

/// Returns the bytes of a side's data; 0 if it has none.
fn bytes(side: &Side<'_>) -> u64 {
    match side {
        Side::Absent | Side::InPlace => 0,
        Side::Block(array) => bytes_of(array),
        Side::Entries(arrays) => arrays.iter().map(bytes_of).sum(),
    }
}

/// Returns the bytes of one rank's entry, or of the whole side if it has no entries.
fn own_entry(side: &Side<'_>, rank: u32) -> u64 {
    match side {
        Side::Entries(arrays) => arrays.get(rank as usize).map_or(0, bytes_of),
        _ => bytes(side),
    }
}

/// Returns the entries of a side, none if it is not a list.
fn arrays<'s>(side: &'s Side<'s>) -> &'s [Array<'s>] {
    match side {
        Side::Entries(arrays) => arrays,
        _ => &[],
    }
}

/// Describes a side for the engine. An array stands for `blocks` blocks of its count.
fn memory<'m>(side: &Side<'m>, blocks: u64, entries: &'m mut dyn Iterator<Item = Array<'m>>) -> Memory<'m> {
    match side {
        Side::Absent | Side::InPlace => Memory::None,
        Side::Block(array) => Memory::Whole(Array { count: array.count * blocks, ..*array }),
        Side::Entries(_) => Memory::Entries(entries),
    }
}
