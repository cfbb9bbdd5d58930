//! Calls of collectives: the arguments of a call, and the call with its [`Shape`], which later stages read.
//!
//! [`Arguments`] are built from what a program or the library passes. [`Call::new`] computes the shape from
//! them, once for each call. Route, plan and execution take the shape from there.
//!
//! # Safety
//! The maker of [`Arguments`] promises that the memory of its arrays fulfils the requirements of MPI-5
//! section 6 until the operation is over. `bind` passes that promise to the engine: the counts it
//! multiplies are those of the blocks that the user described.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::null_mut;

use tutti_coll::{Collective, Shape};
use tutti_data::{Datatype, Reducer};

use super::key::CallKey;
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

/// Arguments of a call of a collective at one rank.
pub struct Arguments<'a> {
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
    key: Option<CallKey>,
    /// Lists of counts and displacements of the call.
    lists: Vec<i64>,
    /// Addresses from which displacements count.
    bases: [*mut u8; 2],
    is_internal: bool,
}

/// A call of a collective, with everything that later stages need of it.
pub struct Call<'a> {
    shape: Shape,
    arguments: Arguments<'a>,
}

impl<'a> Arguments<'a> {
    /// Makes arguments without root and operator.
    ///
    /// # Safety
    /// See the module's Safety section.
    pub unsafe fn new(collective: Collective, send: Side<'a>, recv: Side<'a>) -> Arguments<'a> {
        Arguments {
            collective,
            root: 0,
            send,
            recv,
            reducer: None,
            blocks: Vec::new(),
            key: None,
            lists: Vec::new(),
            bases: [null_mut(); 2],
            is_internal: false,
        }
    }

    /// Marks an operation for the library's own use, of which users want to know nothing.
    pub fn internal(self) -> Arguments<'a> {
        Arguments { is_internal: true, ..self }
    }

    /// Sets the root of the operation.
    pub fn with_root(self, root: u32) -> Arguments<'a> {
        Arguments { root, ..self }
    }

    /// Sets the operator on the elements, and whether it commutes.
    pub fn with_operator(self, reducer: Reducer, commutative: bool) -> Arguments<'a> {
        Arguments { reducer: Some((reducer, commutative)), ..self }
    }

    /// Sets the number of elements of each rank's block (reduce_scatter).
    pub fn with_blocks(self, blocks: Vec<u64>) -> Arguments<'a> {
        Arguments { blocks, ..self }
    }

    /// Sets the key of the call, by which it can be replayed.
    pub fn with_key(self, key: CallKey) -> Arguments<'a> {
        Arguments { key: Some(key), ..self }
    }

    /// Sets the lists of counts and displacements of the call, one behind the other. `bases` holds the
    /// addresses of the send and receive buffers from which displacements count.
    pub fn with_lists(self, lists: Vec<i64>, bases: [*mut u8; 2]) -> Arguments<'a> {
        Arguments { lists, bases, ..self }
    }

    /// Computes the shape of the operation on a communicator.
    fn shape(&self, comm: &Communicator) -> Shape {
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

    /// Returns the number of bytes that a side describes, or of elements for a reduction.
    fn units(&self, side: &Side<'_>) -> u64 {
        match (side, &self.reducer) {
            (Side::Block(array), Some(_)) => array.count,
            _ => bytes(side),
        }
    }
}

impl<'a> Call<'a> {
    /// Makes the call of these arguments on a communicator, and computes its shape.
    pub fn new(comm: &Communicator, arguments: Arguments<'a>) -> Call<'a> {
        Call { shape: arguments.shape(comm), arguments }
    }

    /// Returns the shape of the operation, from which the planner selects an algorithm.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the collective that is called.
    #[inline]
    pub fn collective(&self) -> Collective {
        self.shape.collective
    }

    /// Returns true if the operation is for the library's own use.
    pub(crate) fn is_internal(&self) -> bool {
        self.arguments.is_internal
    }

    /// Returns the lists of [`Arguments::with_lists`] and their bases, or empty and null if there are none.
    pub(crate) fn lists(&self) -> (&[i64], [*mut u8; 2]) {
        (&self.arguments.lists, self.arguments.bases)
    }

    /// Returns the key of the call, if it identifies the call completely.
    pub(crate) fn key(&self) -> Option<CallKey> {
        self.arguments.key
    }

    /// Returns the send and the receive buffer.
    pub(crate) fn sides(&self) -> (&Side<'a>, &Side<'a>) {
        (&self.arguments.send, &self.arguments.recv)
    }

    /// Returns the operator, if there is one.
    pub(crate) fn reducer(&self) -> Option<&Reducer> {
        self.arguments.reducer.as_ref().map(|(reducer, _)| reducer)
    }

    /// Returns the operator and whether it commutes.
    pub(crate) fn operator(&self) -> Option<&(Reducer, bool)> {
        self.arguments.reducer.as_ref()
    }

    /// Binds the engine to the memory of the operation.
    pub(crate) fn bind(&self, bindings: &mut Bindings, comm: &Communicator) {
        use Collective as C;
        if let Some((reducer, _)) = &self.arguments.reducer {
            bindings.operate(reducer);
        }
        // Numbers of ranks: those that a block comes from or goes to, and those that a result is divided
        // among.
        let (all, members) = (u64::from(comm.peers().size()), u64::from(comm.size()));
        let total = self.arguments.blocks.iter().sum::<u64>();
        let in_place = matches!(self.arguments.send, Side::InPlace);
        let (send_blocks, recv_blocks) = match self.arguments.collective {
            C::Scatter => (all, 1),
            C::Gather | C::Allgather => (1, all),
            C::Alltoall => (all, all),
            C::ReduceScatterBlock => (members, if in_place { members } else { 1 }),
            C::NeighborAllgather | C::NeighborAlltoall => {
                let (sources, destinations) = comm.degrees();
                let one = self.arguments.collective == C::NeighborAllgather;
                (if one { 1 } else { destinations as u64 }, sources as u64)
            }
            _ => (1, 1),
        };
        let mut send_entries = arrays(&self.arguments.send).iter().copied();
        let mut recv_entries = arrays(&self.arguments.recv).iter().copied();
        let send = memory(&self.arguments.send, send_blocks, &mut send_entries);
        let mut recv = memory(&self.arguments.recv, recv_blocks, &mut recv_entries);
        if let (C::ReduceScatter, true, Memory::Whole(array)) =
            (self.arguments.collective, in_place, &mut recv)
        {
            array.count = total;
        }
        // SAFETY: the maker of the operation has promised it; see the module's Safety section.
        unsafe { bindings.bind(send, recv, &self.arguments.blocks) };
    }
}

/// A call that is stored until its operation can begin.
pub(crate) struct OwnedCall {
    call: Call<'static>,
    /// Datatypes of its arrays, kept alive.
    _datatypes: Box<[Datatype]>,
}

impl OwnedCall {
    /// Copies a call, with its datatypes.
    ///
    /// # Safety
    /// The memory of the arrays must stay as the maker of the arguments has promised.
    pub(crate) unsafe fn new(call: &Call<'_>) -> OwnedCall {
        let arguments = &call.arguments;
        let of = |side: &Side<'_>| -> Vec<Datatype> {
            match side {
                Side::Block(array) => vec![array.datatype.clone()],
                Side::Entries(all) => all.iter().map(|array| array.datatype.clone()).collect(),
                Side::Absent | Side::InPlace => Vec::new(),
            }
        };
        let send = of(&arguments.send);
        let split = send.len();
        let datatypes: Box<[Datatype]> = send.into_iter().chain(of(&arguments.recv)).collect();
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
        let (send, recv) = (side(&arguments.send, 0), side(&arguments.recv, split));
        // SAFETY: passed on.
        let kept = unsafe { Arguments::new(arguments.collective, send, recv) };
        let kept = Arguments {
            is_internal: arguments.is_internal,
            root: arguments.root,
            reducer: arguments.reducer.clone(),
            blocks: arguments.blocks.clone(),
            key: arguments.key,
            lists: arguments.lists.clone(),
            bases: arguments.bases,
            ..kept
        };
        OwnedCall { call: Call { shape: call.shape, arguments: kept }, _datatypes: datatypes }
    }

    /// Returns the call.
    pub(crate) fn call(&self) -> &Call<'_> {
        &self.call
    }
}

// SAFETY: addresses with a promise about them, valid in every thread of the process.
unsafe impl Send for OwnedCall {}

impl fmt::Debug for OwnedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedCall").field("shape", &self.call.shape).finish_non_exhaustive()
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
