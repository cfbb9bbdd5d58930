//! Meaning of a datatype's constructor: its facts, found when it is made, and its programs, found when they
//! are first needed. Also the predefined datatypes, which are made the same way.

use crate::datatype::{Constructor, Datatype, Form, Node};
use crate::expand;
use crate::facts::{Basics, Facts};
use crate::layout::Layout;
use crate::predefined::{self, CODES, Predefined, ROWS};
use crate::shape::Shape;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use tutti_base::{Error, ErrorClass, Result};

static TABLE: LazyLock<Box<[Option<Datatype>]>> = LazyLock::new(|| {
    let mut table: Vec<Option<Datatype>> = CODES.map(|_| None).collect();
    for row in ROWS {
        table[(row.code - CODES.start) as usize] = Some(Datatype::named(row));
    }
    table.into()
});

/// Returns the datatype of an ABI handle, if the handle is a predefined datatype other than null.
fn of_code(code: u32) -> Option<&'static Datatype> {
    TABLE.get(code.wrapping_sub(CODES.start) as usize)?.as_ref()
}

/// Highest nesting of constructors; it bounds the recursion of commit, walk and drop.
const MAX_DEPTH: u32 = 500;

impl Datatype {
    /// Returns the predefined datatype with this handle of the ABI (0x201..=0x2ff), in constant time.
    pub fn predefined(code: u32) -> Option<&'static Datatype> {
        of_code(code)
    }

    /// Returns every named predefined datatype.
    pub fn all_predefined() -> impl Iterator<Item = &'static Datatype> {
        TABLE.iter().flatten()
    }

    /// Makes a datatype from its constructor. Fails if a size or bound does not fit 63 bits.
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

    /// Makes the type ready for communication (`MPI_Type_commit`); idempotent.
    pub fn commit(&self) {
        if let Some((0, bytes)) = self.contiguous(2) {
            self.0.dense.store(bytes / 2, Ordering::Relaxed);
        }
        self.0.committed.store(true, Ordering::Release);
    }

    /// Returns the predefined type of which all of this type is made, if there is one; pairs count as
    /// predefined. `MPI_Accumulate` requires that of derived types. A predefined type returns itself.
    pub fn basic(&self) -> Option<&'static Datatype> {
        match (self.code(), self.0.facts.predefined) {
            (None, Basics::One(code)) => of_code(code),
            (code, _) => code.and_then(of_code),
        }
    }

    /// Returns the number of basic items in the first `bytes` packed bytes of an array of this type
    /// (`MPI_Get_elements`), or `None` if `bytes` ends within one.
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

    /// Returns the program that names the runs of memory.
    pub(crate) fn layout(&self) -> &Layout {
        self.0.layout.get_or_init(|| Layout::new(self.shape(false), self.extent()))
    }

    /// Returns the program with runs of different basic types kept apart.
    pub(crate) fn typed(&self) -> &Shape {
        self.0.typed.get_or_init(|| self.shape(true))
    }

    /// Returns the program of a type made of pairs in which each pair is one item with its padding: runs are
    /// arrays of pairs.
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
