//! The datatype: its constructor's arguments, and the facts that follow from them.

use crate::darray::Darray;
use crate::facts::Facts;
use crate::layout::Layout;
use crate::order::Order;
use crate::predefined::Predefined;
use crate::shape::Shape;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tutti_base::Result;

/// Binding that made a datatype, on which its decoding depends (MPI-5 section 5.1.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// `MPI_Type_vector` and the like: counts decode as integers, byte displacements as addresses.
    Int,
    /// `MPI_Type_vector_c` and the like: both decode as large counts.
    Count,
}

/// Arguments of `MPI_Type_create_f90_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FortranKind {
    Real { precision: i32, range: i32 },
    Complex { precision: i32, range: i32 },
    Integer { range: i32 },
}

/// Constructor of a datatype with its arguments.
pub(crate) enum Constructor {
    Named(&'static Predefined),
    Dup(Datatype),
    Contiguous {
        count: i64,
        inner: Datatype,
    },
    Vector {
        count: i64,
        blocklength: i64,
        stride: i64,
        inner: Datatype,
    },
    Hvector {
        count: i64,
        blocklength: i64,
        stride: i64,
        inner: Datatype,
    },
    Indexed {
        blocklengths: Box<[i64]>,
        displacements: Box<[i64]>,
        inner: Datatype,
    },
    Hindexed {
        blocklengths: Box<[i64]>,
        displacements: Box<[i64]>,
        inner: Datatype,
    },
    IndexedBlock {
        blocklength: i64,
        displacements: Box<[i64]>,
        inner: Datatype,
    },
    HindexedBlock {
        blocklength: i64,
        displacements: Box<[i64]>,
        inner: Datatype,
    },
    Struct {
        blocklengths: Box<[i64]>,
        displacements: Box<[i64]>,
        inner: Box<[Datatype]>,
    },
    Subarray {
        sizes: Box<[i64]>,
        subsizes: Box<[i64]>,
        starts: Box<[i64]>,
        order: Order,
        inner: Datatype,
    },
    Darray {
        array: Box<Darray>,
        inner: Datatype,
    },
    Resized {
        lb: i64,
        extent: i64,
        inner: Datatype,
    },
    /// A Fortran kind by precision and range; the row says what it is.
    Fortran {
        kind: FortranKind,
        row: &'static Predefined,
    },
    /// An unnamed pair.
    ValueIndex {
        row: &'static Predefined,
    },
}

impl Constructor {
    /// Returns the inner types, in the order of the arguments.
    pub(crate) fn inner(&self) -> &[Datatype] {
        match self {
            Constructor::Named(_) | Constructor::Fortran { .. } | Constructor::ValueIndex { .. } => &[],
            Constructor::Struct { inner, .. } => inner,
            Constructor::Dup(inner)
            | Constructor::Contiguous { inner, .. }
            | Constructor::Vector { inner, .. }
            | Constructor::Hvector { inner, .. }
            | Constructor::Indexed { inner, .. }
            | Constructor::Hindexed { inner, .. }
            | Constructor::IndexedBlock { inner, .. }
            | Constructor::HindexedBlock { inner, .. }
            | Constructor::Subarray { inner, .. }
            | Constructor::Darray { inner, .. }
            | Constructor::Resized { inner, .. } => std::slice::from_ref(inner),
        }
    }

    pub(crate) fn is_unnamed_predefined(&self) -> bool {
        matches!(self, Constructor::Fortran { .. } | Constructor::ValueIndex { .. })
    }
}

pub(crate) struct Node {
    pub constructor: Constructor,
    pub form: Form,
    pub facts: Facts,
    pub lb: i64,
    pub ub: i64,
    pub depth: u32,
    pub committed: AtomicBool,
    /// Cached result of [`Datatype::dense`]; 0 for none.
    pub dense: AtomicU64,
    /// Layout, computed at commit or when an outer type's program needs it.
    pub layout: OnceLock<Layout>,
    /// The program with basic types kept apart, for external32 and element counts.
    pub typed: OnceLock<Shape>,
}

/// An MPI datatype. Cheap to clone; equal when it is the same object (not when it looks the same).
#[derive(Clone)]
pub struct Datatype(pub(crate) Arc<Node>);

impl Datatype {
    /// Returns the bytes of data in one item (`MPI_Type_size`).
    pub fn size(&self) -> i64 {
        self.0.facts.size
    }

    /// Returns the lower bound in bytes.
    pub fn lb(&self) -> i64 {
        self.0.lb
    }

    /// Returns the upper bound in bytes.
    pub fn ub(&self) -> i64 {
        self.0.ub
    }

    /// Bytes from one item to the next in an array.
    pub fn extent(&self) -> i64 {
        self.0.ub - self.0.lb
    }

    /// Returns the offset in bytes at which the data begin; 0 without data.
    pub fn true_lb(&self) -> i64 {
        self.0.facts.data.map_or(0, |data| data.0)
    }

    /// Returns the number of bytes from the first to the last byte of data.
    pub fn true_extent(&self) -> i64 {
        self.0.facts.data.map_or(0, |(low, high)| high - low)
    }

    /// Returns the memory that `count` items may touch, as offsets `low..high` from the buffer's address.
    /// `None` if there are no data or the range does not fit 63 bits.
    pub fn span(&self, count: u64) -> Option<(i64, i64)> {
        let (low, high) = self.0.facts.data.filter(|_| count > 0)?;
        let last = i64::try_from(count - 1).ok()?.checked_mul(self.extent())?;
        Some((low.checked_add(last.min(0))?, high.checked_add(last.max(0))?))
    }

    /// Returns the handle of the ABI, if this is a named predefined datatype.
    pub fn code(&self) -> Option<u32> {
        match &self.0.constructor {
            Constructor::Named(row) => Some(row.code),
            _ => None,
        }
    }

    /// Returns the standard's name of a named predefined datatype.
    pub fn name(&self) -> Option<&'static str> {
        match &self.0.constructor {
            Constructor::Named(row) => Some(row.name),
            _ => None,
        }
    }

    /// Returns true for predefined types, named or not (Fortran kinds, pairs). They are not to be freed and
    /// always committed.
    pub fn is_predefined(&self) -> bool {
        matches!(self.0.constructor, Constructor::Named(_)) || self.0.constructor.is_unnamed_predefined()
    }

    /// Returns a number that is the same for two handles of one object, for tables of handles.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Returns the bytes of an item if the type is committed and any number of items is one run that begins
    /// at the buffer's address. One load shows this usual case. `None` does not prove the opposite.
    #[inline]
    pub fn dense(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.0.dense.load(Ordering::Relaxed))
    }

    /// Returns the bytes of `count` items of a [`Datatype::dense`] type. `None` if it is not dense or they do
    /// not fit 63 bits.
    #[inline]
    pub fn dense_bytes(&self, count: u64) -> Option<u64> {
        count.checked_mul(self.dense()?.get()).filter(|bytes| *bytes <= i64::MAX as u64)
    }

    /// Returns true if communication may use the type.
    pub fn is_committed(&self) -> bool {
        self.0.committed.load(Ordering::Acquire)
    }

    /// Returns a hash of the signature of `count` items: equal for equal sequences of basic types, however
    /// they were constructed. `None` if bytes or packed data, which match anything, are among them.
    pub fn signature_hash(&self, count: u64) -> Option<u64> {
        self.0.facts.signature.repeat(count).hash()
    }

    /// Returns the number of basic items in one item of this type; a pair such as `MPI_FLOAT_INT` counts two.
    pub fn elements(&self) -> i64 {
        self.0.facts.elements
    }

    /// Returns the number of whole items in `bytes` packed bytes (`MPI_Get_count`), or `None` if a part
    /// remains. For a type without data, 0.
    pub fn complete_items(&self, bytes: u64) -> Option<u64> {
        match self.size() as u64 {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// Returns the bytes that `count` items need in a buffer of `MPI_Pack`.
    pub fn pack_size(&self, count: i64) -> Result<i64> {
        crate::facts::fit(i128::from(self.size()) * i128::from(count.max(0)), "the packed size")
    }
}

impl PartialEq for Datatype {
    fn eq(&self, other: &Datatype) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Datatype {}

impl fmt::Debug for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => {
                write!(f, "{:?}(size {}, lb {}, ub {})", self.combiner(), self.size(), self.lb(), self.ub())
            }
        }
    }
}
