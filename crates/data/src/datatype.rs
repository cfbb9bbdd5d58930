//! The datatype: what its constructor said, what follows from it, and its program once committed.

use crate::darray::Darray;
use crate::expand;
use crate::facts::{Basics, Facts};
use crate::layout::Layout;
use crate::predefined::{self, Predefined};
use crate::shape::Shape;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tutti_base::{Error, ErrorClass, Result};

/// Which of the two bindings made a datatype: it decides how it decodes (MPI-5 section 5.1.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// `MPI_Type_vector` and the like: counts decode as integers, byte displacements as addresses.
    Int,
    /// `MPI_Type_vector_c` and the like: both decode as large counts.
    Count,
}

/// How an array is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last dimension is contiguous.
    C = 0xc,
    /// The first dimension is contiguous.
    Fortran = 0xf,
}

impl Order {
    /// From `MPI_ORDER_C` or `MPI_ORDER_FORTRAN`; an argument error otherwise.
    pub fn from_code(code: i32) -> Result<Order> {
        match code {
            0xc => Ok(Order::C),
            0xf => Ok(Order::Fortran),
            _ => Err(Error::new(
                ErrorClass::Arg,
                format!("order is {code}; give MPI_ORDER_C or MPI_ORDER_FORTRAN"),
            )),
        }
    }
}

/// What made a datatype, with its arguments.
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
        kind: crate::fortran::Kind,
        row: &'static Predefined,
    },
    /// An unnamed pair.
    ValueIndex {
        row: &'static Predefined,
    },
}

/// How many constructors may nest: bounds the recursion of commit, walk and drop.
const MAX_DEPTH: u32 = 500;

pub(crate) struct Node {
    pub constructor: Constructor,
    pub form: Form,
    pub facts: Facts,
    pub lb: i64,
    pub ub: i64,
    depth: u32,
    committed: AtomicBool,
    /// What [`Datatype::dense`] says; 0 for none.
    dense: AtomicU64,
    /// Made at commit, or when an outer type's program needs it.
    pub layout: OnceLock<Layout>,
    /// The program with basic types kept apart, for external32 and element counts.
    pub typed: OnceLock<Shape>,
}

/// An MPI datatype. Cheap to clone; equal when it is the same object (not when it looks the same).
#[derive(Clone)]
pub struct Datatype(pub(crate) Arc<Node>);

impl Datatype {
    /// The predefined datatype with this handle of the ABI (0x201..=0x2ff), in constant time.
    pub fn predefined(code: u32) -> Option<&'static Datatype> {
        predefined::datatype(code)
    }

    /// Every named predefined datatype.
    pub fn all_predefined() -> impl Iterator<Item = &'static Datatype> {
        predefined::all()
    }

    /// A datatype by what made it. Fails if a size or bound does not fit 63 bits.
    pub(crate) fn new(constructor: Constructor, form: Form) -> Result<Datatype> {
        let depth = 1 + constructor.inner().iter().map(|inner| inner.0.depth).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            let message = format!("the datatype nests {depth} constructors, the limit is {MAX_DEPTH}");
            return Err(Error::new(ErrorClass::Type, message));
        }
        let part = |inner: &Datatype| Ok(inner.0.facts.part(inner.0.lb, inner.0.ub));
        let mut facts = expand::expand(&constructor, &part, &|row| Facts::item(row))?;
        if let Constructor::Named(row) = constructor {
            facts = facts.of_predefined(row);
        }
        let (lb, ub) = facts.bounds()?;
        let committed = AtomicBool::new(constructor.is_unnamed_predefined());
        let (dense, layout, typed) = (AtomicU64::new(0), OnceLock::new(), OnceLock::new());
        let node = Node { constructor, form, facts, lb, ub, depth, committed, dense, layout, typed };
        Ok(Datatype(Arc::new(node)))
    }

    pub(crate) fn named(row: &'static Predefined) -> Datatype {
        let named = Datatype::new(Constructor::Named(row), Form::Int)
            .expect("the sizes of predefined types are far below 2^63");
        named.commit();
        named
    }

    /// Bytes of data in one item (`MPI_Type_size`).
    pub fn size(&self) -> i64 {
        self.0.facts.size
    }

    /// Lower bound in bytes.
    pub fn lb(&self) -> i64 {
        self.0.lb
    }

    /// Upper bound in bytes.
    pub fn ub(&self) -> i64 {
        self.0.ub
    }

    /// Bytes from one item to the next in an array.
    pub fn extent(&self) -> i64 {
        self.0.ub - self.0.lb
    }

    /// Where the data begin, in bytes; 0 without data.
    pub fn true_lb(&self) -> i64 {
        self.0.facts.data.map_or(0, |data| data.0)
    }

    /// Bytes from the first to the last byte of data.
    pub fn true_extent(&self) -> i64 {
        self.0.facts.data.map_or(0, |(low, high)| high - low)
    }

    /// The memory that `count` items may touch, as offsets `low..high` from the buffer's address.
    /// `None` if there are no data or the range does not fit 63 bits.
    pub fn span(&self, count: u64) -> Option<(i64, i64)> {
        let (low, high) = self.0.facts.data.filter(|_| count > 0)?;
        let last = i64::try_from(count - 1).ok()?.checked_mul(self.extent())?;
        Some((low.checked_add(last.min(0))?, high.checked_add(last.max(0))?))
    }

    /// The handle of the ABI, if this is a named predefined datatype.
    pub fn code(&self) -> Option<u32> {
        match &self.0.constructor {
            Constructor::Named(row) => Some(row.code),
            _ => None,
        }
    }

    /// The standard's name of a named predefined datatype.
    pub fn name(&self) -> Option<&'static str> {
        match &self.0.constructor {
            Constructor::Named(row) => Some(row.name),
            _ => None,
        }
    }

    /// Named or not (Fortran kinds, pairs): not to be freed, always committed.
    pub fn is_predefined(&self) -> bool {
        matches!(self.0.constructor, Constructor::Named(_)) || self.0.constructor.is_unnamed_predefined()
    }

    /// A number that is the same for two handles of one object, for tables of handles.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Makes the type ready for communication (`MPI_Type_commit`); idempotent.
    pub fn commit(&self) {
        if let Some((0, bytes)) = self.contiguous(2) {
            self.0.dense.store(bytes / 2, Ordering::Relaxed);
        }
        self.0.committed.store(true, Ordering::Release);
    }

    /// The bytes of an item, if the type is committed and any number of items is one run that begins at the
    /// buffer's address: the usual case, told by one load. Types without it may be so too.
    #[inline]
    pub fn dense(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.0.dense.load(Ordering::Relaxed))
    }

    /// The bytes of so many items, if the type is [`Datatype::dense`]; `None` also where they do not fit 63
    /// bits.
    #[inline]
    pub fn dense_bytes(&self, count: u64) -> Option<u64> {
        count.checked_mul(self.dense()?.get()).filter(|bytes| *bytes <= i64::MAX as u64)
    }

    /// Whether communication may use the type.
    pub fn is_committed(&self) -> bool {
        self.0.committed.load(Ordering::Acquire)
    }

    /// The predefined type, pairs among them, of which all of this type is made, if there is one: what
    /// `MPI_Accumulate` requires of derived types. Of a predefined type it is itself.
    pub fn basic(&self) -> Option<&'static Datatype> {
        match (self.code(), self.0.facts.predefined) {
            (None, Basics::One(code)) => predefined::datatype(code),
            (code, _) => code.and_then(predefined::datatype),
        }
    }

    /// A hash of the signature of `count` items: equal for equal sequences of basic types, however they
    /// were constructed. `None` if bytes or packed data, which match anything, are among them.
    pub fn signature_hash(&self, count: u64) -> Option<u64> {
        self.0.facts.signature.repeat(count).hash()
    }

    /// Basic items in one item of this type; a pair such as `MPI_FLOAT_INT` counts two.
    pub fn elements(&self) -> i64 {
        self.0.facts.elements
    }

    /// Basic items in the first `bytes` packed bytes of an array of this type (`MPI_Get_elements`), or
    /// `None` if `bytes` ends within one.
    pub fn element_count(&self, bytes: u64) -> Option<u64> {
        let size = self.size() as u64;
        if size == 0 {
            return (bytes == 0).then_some(0);
        }
        let (whole, rest) = (bytes / size * self.elements() as u64, bytes % size);
        if rest == 0 {
            return Some(whole);
        }
        if let Basics::One(code) = self.0.facts.basics {
            let item = u64::from(predefined::scalar(code).bytes);
            return (rest % item == 0).then(|| whole + rest / item);
        }
        Some(whole + self.typed().elements_before(rest)?)
    }

    /// Whole items in `bytes` packed bytes (`MPI_Get_count`), or `None` if a part remains. For a type
    /// without data, 0.
    pub fn complete_items(&self, bytes: u64) -> Option<u64> {
        match self.size() as u64 {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// The space that `count` items need in a buffer of `MPI_Pack`, in bytes.
    pub fn pack_size(&self, count: i64) -> Result<i64> {
        crate::facts::fit(i128::from(self.size()) * i128::from(count.max(0)), "the packed size")
    }

    /// The program that names the runs of memory.
    pub(crate) fn layout(&self) -> &Layout {
        self.0.layout.get_or_init(|| Layout::new(self.shape(false), self.extent()))
    }

    /// The program with runs of different basic types kept apart.
    pub(crate) fn typed(&self) -> &Shape {
        self.0.typed.get_or_init(|| self.shape(true))
    }

    /// The program of a type made of pairs in which each pair is one item with its padding: runs are arrays
    /// of pairs.
    pub(crate) fn pairs(&self) -> Layout {
        Layout::new(self.pair_shape(), self.extent())
    }

    fn pair_shape(&self) -> Shape {
        if matches!(self.0.constructor, Constructor::Named(_)) {
            return Shape::bytes(self.extent() as u64);
        }
        let inner = |inner: &Datatype| Ok(inner.pair_shape());
        expand::expand(&self.0.constructor, &inner, &|row| Shape::item(row, false))
            .expect("the shape's offsets lie within the bounds that construction checked")
    }

    fn shape(&self, typed: bool) -> Shape {
        let inner = |inner: &Datatype| match typed {
            true => Ok(inner.typed().clone()),
            false => Ok(inner.layout().shape.clone()),
        };
        let item = |row: &'static Predefined| Shape::item(row, typed);
        expand::expand(&self.0.constructor, &inner, &item)
            .expect("the shape's offsets lie within the bounds that construction checked")
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
