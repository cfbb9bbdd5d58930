//! Reduction operators and the types they apply to (MPI-5 section 6.9).

use crate::datatype::{Constructor, Datatype};
use crate::predefined::{Group, Predefined, scalar};
use std::fmt;
use std::sync::Arc;
use tutti_base::{Error, ErrorClass, Result};

/// A user's function: input, inout, count, datatype, handle; computes `inout[i] = input[i] op inout[i]`. The
/// handle is that of [`Reducer::named`](crate::Reducer::named).
pub type UserFunction = Arc<dyn Fn(*const u8, *mut u8, i64, &Datatype, usize) + Send + Sync>;

/// The predefined operators; the discriminants are the handles of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Sum = 0x21,
    Least = 0x22,
    Most = 0x23,
    Product = 0x24,
    BitAnd = 0x28,
    BitOr = 0x29,
    BitXor = 0x2a,
    LogicalAnd = 0x30,
    LogicalOr = 0x31,
    LogicalXor = 0x32,
    LeastWithIndex = 0x38,
    MostWithIndex = 0x39,
    Replace = 0x3c,
    Nothing = 0x3d,
}

#[derive(Clone)]
pub(crate) enum OperatorKind {
    Predefined(Operator),
    User { function: UserFunction, commutative: bool },
}

/// A reduction operator. Cheap to clone.
#[derive(Clone)]
pub struct Op(pub(crate) OperatorKind);

const PREDEFINED: [(&str, Op); 14] = {
    const fn op(operator: Operator) -> Op {
        Op(OperatorKind::Predefined(operator))
    }
    [
        ("MPI_SUM", op(Operator::Sum)),
        ("MPI_MIN", op(Operator::Least)),
        ("MPI_MAX", op(Operator::Most)),
        ("MPI_PROD", op(Operator::Product)),
        ("MPI_BAND", op(Operator::BitAnd)),
        ("MPI_BOR", op(Operator::BitOr)),
        ("MPI_BXOR", op(Operator::BitXor)),
        ("MPI_LAND", op(Operator::LogicalAnd)),
        ("MPI_LOR", op(Operator::LogicalOr)),
        ("MPI_LXOR", op(Operator::LogicalXor)),
        ("MPI_MINLOC", op(Operator::LeastWithIndex)),
        ("MPI_MAXLOC", op(Operator::MostWithIndex)),
        ("MPI_REPLACE", op(Operator::Replace)),
        ("MPI_NO_OP", op(Operator::Nothing)),
    ]
};

static TABLE: [(&str, Op); 14] = PREDEFINED;

impl Op {
    /// Returns the predefined operator with this handle of the ABI (0x21..=0x3d).
    pub fn predefined(code: u32) -> Option<&'static Op> {
        TABLE.iter().map(|entry| &entry.1).find(|op| op.code() == Some(code))
    }

    /// Creates an operator from a user's function (`MPI_Op_create`).
    pub fn user(function: UserFunction, commutative: bool) -> Op {
        Op(OperatorKind::User { function, commutative })
    }

    /// Returns the handle of the ABI, if predefined.
    pub fn code(&self) -> Option<u32> {
        match self.0 {
            OperatorKind::Predefined(operator) => Some(operator as u32),
            OperatorKind::User { .. } => None,
        }
    }

    /// Returns the standard's name, if predefined.
    pub fn name(&self) -> Option<&'static str> {
        let code = self.code()?;
        TABLE.iter().find(|entry| entry.1.code() == Some(code)).map(|entry| entry.0)
    }

    /// Returns true if operands may change places. `MPI_REPLACE` and `MPI_NO_OP` do not commute.
    pub fn is_commutative(&self) -> bool {
        match &self.0 {
            OperatorKind::Predefined(operator) => !matches!(operator, Operator::Replace | Operator::Nothing),
            OperatorKind::User { commutative, .. } => *commutative,
        }
    }

    /// Checks that a reduction may use this operator with this type. Predefined operators take predefined
    /// types of their groups; `MPI_REPLACE`, `MPI_NO_OP` and user functions take any type. Otherwise an
    /// operator error names both.
    ///
    /// `MPI_CHAR` counts as the integer that C takes a `char` for. The standard gives it no operator (MPI-5
    /// section 6.9.2), but MPICH and Open MPI take it, and it is the default type of common benchmarks;
    /// [`Op::check_strictly`] refuses it.
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        match self.0 {
            OperatorKind::User { .. } | OperatorKind::Predefined(Operator::Replace | Operator::Nothing) => {
                Ok(())
            }
            OperatorKind::Predefined(_) if !datatype.is_predefined() => {
                let name = self.name().unwrap_or_default();
                let message = format!(
                    "{name} does not apply to a derived datatype ({datatype:?}); give a predefined type or a user operator"
                );
                Err(Error::new(ErrorClass::Op, message))
            }
            OperatorKind::Predefined(operator) => self.row(operator, datatype).map(|_| ()),
        }
    }

    /// Checks an operator for a collective reduction or MPI_Reduce_local: unlike [`Op::check`] it refuses
    /// `MPI_REPLACE` and `MPI_NO_OP`.
    ///
    /// # Errors
    /// `Op`, naming the operator and the type.
    pub fn check_reduction(&self, datatype: &Datatype) -> Result<()> {
        if let OperatorKind::Predefined(Operator::Replace | Operator::Nothing) = self.0 {
            let message = format!(
                "{} is for one-sided operations only (MPI-5 section 6.9.2)",
                self.name().unwrap_or_default()
            );
            return Err(Error::new(ErrorClass::Op, message));
        }
        self.check(datatype)
    }

    /// Checks that the operator does not compute with characters, from which `datatype` may be derived.
    ///
    /// # Errors
    /// `Op`, naming both.
    pub fn check_strictly(&self, datatype: &Datatype) -> Result<()> {
        let operator = match self.0 {
            OperatorKind::User { .. } | OperatorKind::Predefined(Operator::Replace | Operator::Nothing) => {
                return Ok(());
            }
            OperatorKind::Predefined(operator) => operator,
        };
        if self.row(operator, datatype)?.group != Group::Character {
            return Ok(());
        }
        let message = format!(
            "{} does not apply to {datatype:?}: a char is no number (MPI-5 section 6.9.2); give MPI_SIGNED_CHAR or \
             MPI_UNSIGNED_CHAR, or leave TUTTI_CHECK_TYPES off",
            self.name().unwrap_or_default()
        );
        Err(Error::new(ErrorClass::Op, message))
    }

    /// Returns the predefined type whose items a predefined operator would combine.
    pub(crate) fn row(&self, operator: Operator, datatype: &Datatype) -> Result<&'static Predefined> {
        let row = match &datatype.0.constructor {
            Constructor::Named(row) | Constructor::Fortran { row, .. } | Constructor::ValueIndex { row } => {
                Some(*row)
            }
            _ => datatype.basic().and_then(Datatype::code).map(scalar),
        };
        let name = self.name().unwrap_or_default();
        let refuse =
            |why: &str| Error::new(ErrorClass::Op, format!("{name} does not apply to {datatype:?}{why}"));
        let row = row.ok_or_else(|| refuse(": its items are of several types"))?;
        match applies(operator, row.group) {
            true => Ok(row),
            false => Err(refuse("; see MPI-5 section 6.9.2 for the types of each operator")),
        }
    }
}

impl Datatype {
    /// Returns true if items may be compared and swapped: integers, logicals and bytes, not derived (MPI-5
    /// section 12.3.4); `MPI_CHAR` as in [`Op::check`].
    #[inline]
    pub fn is_integral(&self) -> bool {
        use Group::{Byte, CInteger, Character, FortranInteger, Logical, MultiLanguage};
        match &self.0.constructor {
            Constructor::Named(row) | Constructor::Fortran { row, .. } => {
                matches!(row.group, CInteger | FortranInteger | MultiLanguage | Logical | Byte | Character)
            }
            _ => false,
        }
    }
}

impl Datatype {
    /// Returns true if it is `MPI_CHAR`.
    pub fn is_char(&self) -> bool {
        matches!(&self.0.constructor, Constructor::Named(row) if row.group == Group::Character)
    }
}

fn applies(operator: Operator, group: Group) -> bool {
    use Group::{Byte, CInteger, Complex, Floating, FortranInteger, Logical, MultiLanguage};
    let group = if group == Group::Character { CInteger } else { group };
    match operator {
        Operator::Least | Operator::Most => {
            matches!(group, CInteger | FortranInteger | Floating | MultiLanguage)
        }
        Operator::Sum | Operator::Product => {
            matches!(group, CInteger | FortranInteger | Floating | Complex | MultiLanguage)
        }
        Operator::LogicalAnd | Operator::LogicalOr | Operator::LogicalXor => {
            // The standard leaves out the multi-language types; other libraries take them as integers.
            matches!(group, CInteger | Logical | MultiLanguage)
        }
        Operator::BitAnd | Operator::BitOr | Operator::BitXor => {
            matches!(group, CInteger | FortranInteger | Byte | MultiLanguage)
        }
        Operator::LeastWithIndex | Operator::MostWithIndex => group == Group::Pair,
        Operator::Replace | Operator::Nothing => true,
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("user operator"))
    }
}
