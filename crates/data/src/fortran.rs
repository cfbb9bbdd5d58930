//! Types found by their properties: Fortran kinds by precision and range (MPI-5 section 18.1.9), types by
//! class and size, pairs by value and index. Equal arguments give the same object.

use crate::datatype::{Constructor, Datatype, Form, FortranKind};
use crate::predefined::{self, Class, Group, Predefined};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use tutti_base::{Error, ErrorClass, Result};

/// `MPI_UNDEFINED`: the argument was not given.
const UNDEFINED: i32 = -32766;

/// Key by which an unnamed predefined type is found.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Kind(FortranKind),
    Pair(u32, u32),
}

/// Unnamed predefined types made so far. A program requests few: kinds are bounded by the arguments that
/// [`REALS`] and [`INTEGERS`] accept, pairs by the table of types.
static UNNAMED: LazyLock<Mutex<HashMap<Key, Datatype>>> = LazyLock::new(Mutex::default);

/// Decimal precision and exponent range of each real kind of GNU Fortran, with the codes of the real and
/// the complex type. The third is the 10-byte kind, which is `long double`.
const REALS: [(i32, i32, u32, u32); 4] =
    [(6, 37, 0x2d2, 0x2db), (15, 307, 0x2da, 0x2e3), (18, 4931, 0x220, 0x224), (33, 4931, 0x2e2, 0x2eb)];

/// Decimal range of each integer kind, with its code.
const INTEGERS: [(i32, u32); 5] = [(2, 0x2c1), (4, 0x2c9), (9, 0x2d1), (18, 0x2d9), (38, 0x2e1)];

impl Datatype {
    /// Returns the type of `MPI_Type_create_f90_real`; -32766 (`MPI_UNDEFINED`) means an argument that is not
    /// given.
    pub fn f90_real(precision: i32, range: i32) -> Result<Datatype> {
        let row = real(precision, range)?.2;
        Ok(kind(FortranKind::Real { precision, range }, row))
    }

    /// Returns the type of `MPI_Type_create_f90_complex`, with arguments as for reals.
    pub fn f90_complex(precision: i32, range: i32) -> Result<Datatype> {
        let row = real(precision, range)?.3;
        Ok(kind(FortranKind::Complex { precision, range }, row))
    }

    /// Returns the type of `MPI_Type_create_f90_integer`: the smallest kind for `range` decimal digits.
    pub fn f90_integer(range: i32) -> Result<Datatype> {
        let row = INTEGERS.iter().find(|kind| (0..=kind.0).contains(&range)).ok_or_else(|| {
            let message = format!("argument r is {range}; integer kinds have 0 to 38 decimal digits");
            Error::new(ErrorClass::Arg, message)
        })?;
        Ok(kind(FortranKind::Integer { range }, row.1))
    }

    /// Returns the Fortran type of a class (`MPI_TYPECLASS_*`, 191..=194) and a size in bytes
    /// (`MPI_Type_match_size`).
    pub fn match_size(typeclass: i32, size: i32) -> Result<&'static Datatype> {
        let code = match (typeclass, size) {
            (191, 1) => 0x2c0,
            (191, 2) => 0x2c8,
            (191, 4) => 0x2d0,
            (191, 8) => 0x2d8,
            (191, 16) => 0x2e0,
            (192, 1) => 0x2c1,
            (192, 2) => 0x2c9,
            (192, 4) => 0x2d1,
            (192, 8) => 0x2d9,
            (192, 16) => 0x2e1,
            (193, 2) => 0x2ca,
            (193, 4) => 0x2d2,
            (193, 8) => 0x2da,
            (193, 16) => 0x2e2,
            (194, 4) => 0x2d3,
            (194, 8) => 0x2db,
            (194, 16) => 0x2e3,
            (194, 32) => 0x2eb,
            (191..=194, _) => {
                return Err(Error::new(ErrorClass::Arg, format!("no type of this class has size {size}")));
            }
            _ => {
                let message = format!("typeclass is {typeclass}; give one of MPI_TYPECLASS_*");
                return Err(Error::new(ErrorClass::Arg, message));
            }
        };
        Ok(Datatype::predefined(code).expect("every code above is a row of the table of predefined types"))
    }

    /// Returns the pair of these two predefined types for MINLOC and MAXLOC (`MPI_Type_get_value_index`), or
    /// `None` if there is none (`MPI_DATATYPE_NULL`). Values may be of any type that MIN applies to, indices
    /// any integer.
    pub fn value_index(value: &Datatype, index: &Datatype) -> Option<Datatype> {
        let (value, index) = (value.code()?, index.code()?);
        if let Some(code) = predefined::named_pair(value, index) {
            return Datatype::predefined(code).cloned();
        }
        let (value_row, index_row) = (predefined::scalar(value), predefined::scalar(index));
        let integer = |row: &Predefined| {
            matches!(row.group, Group::CInteger | Group::FortranInteger | Group::MultiLanguage)
        };
        let is_value = integer(value_row) || value_row.group == Group::Floating;
        (is_value && integer(index_row)).then(|| unnamed(Key::Pair(value, index), || pair(value, index)))
    }
}

fn kind(kind: FortranKind, code: u32) -> Datatype {
    let row = predefined::scalar(code);
    unnamed(Key::Kind(kind), || Constructor::Fortran { kind, row })
}

/// Makes a row for a pair without a name. It is never freed: the table above keeps the type.
fn pair(value: u32, index: u32) -> Constructor {
    let row = Predefined {
        code: 0,
        name: "",
        class: Class::Byte,
        bytes: 0,
        group: Group::Pair,
        external: 0,
        pair: Some((value, index)),
    };
    Constructor::ValueIndex { row: Box::leak(Box::new(row)) }
}

fn unnamed(key: Key, make: impl FnOnce() -> Constructor) -> Datatype {
    let mut table = UNNAMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let entry = table.entry(key).or_insert_with(|| {
        Datatype::new(make(), Form::Int).expect("the sizes of predefined types are far below 2^63")
    });
    entry.clone()
}

/// Returns the smallest real kind with this precision and range.
fn real(precision: i32, range: i32) -> Result<&'static (i32, i32, u32, u32)> {
    if precision == UNDEFINED && range == UNDEFINED {
        return Err(Error::new(
            ErrorClass::Arg,
            "arguments p and r are both MPI_UNDEFINED; give one of them",
        ));
    }
    let known = |number: i32| number >= 0 || number == UNDEFINED;
    let fits = |kind: &&(i32, i32, u32, u32)| {
        known(precision) && known(range) && precision <= kind.0 && range <= kind.1
    };
    REALS.iter().find(fits).ok_or_else(|| {
        let message = format!(
            "arguments p and r are {precision} and {range}; real kinds have p up to 33 and r up to 4931"
        );
        Error::new(ErrorClass::Arg, message)
    })
}
