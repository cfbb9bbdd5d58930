//! The predefined datatypes: one table row each, numbered by the standard ABI, with the sizes of
//! x86-64 Linux (MPI-5 sections 3.2.2, 6.9.4, 14.5.2 and the ABI chapter).
//!
//! The optional Fortran types (`MPI_REAL2`, `MPI_REAL16`, `MPI_INTEGER16`, `MPI_LOGICAL16`,
//! `MPI_COMPLEX4`, `MPI_COMPLEX32`) are always present: they move and convert as values of their size.
//! `REAL2` computes in single precision and rounds, `REAL16` uses the compiler's binary128 routines,
//! `INTEGER16` is a native 128-bit integer.

/// Meaning of the bytes of a basic item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// Two's complement.
    Signed,
    /// Unsigned.
    Unsigned,
    /// IEEE binary16, 32, 64 or 128.
    Float,
    /// bfloat16.
    Brain,
    /// The 80-bit format of x87 in 16 bytes.
    Extended,
    /// Two IEEE floats.
    Complex,
    /// Two x87 floats.
    ExtendedComplex,
    /// Zero is false, anything else true.
    Logical,
    /// One character.
    Character,
    /// `wchar_t`, UTF-32 here.
    Wide,
    /// Uninterpreted, matches anything.
    Byte,
    /// Output of `MPI_Pack`, matches anything.
    Packed,
}

/// The groups of MPI-5 section 6.9.2, which say what operators apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    CInteger,
    FortranInteger,
    Floating,
    Logical,
    Complex,
    Byte,
    MultiLanguage,
    /// Pairs: only MINLOC and MAXLOC.
    Pair,
    /// `char`: no arithmetic by the standard, but that of small integers by habit (see [`crate::Op::check`]).
    Character,
    /// Remaining characters and packed data: no arithmetic.
    Other,
}

/// Row of one predefined datatype: a scalar, or a pair of a value and an index.
#[derive(Debug)]
pub(crate) struct Predefined {
    /// Handle of the ABI; 0 for unnamed pairs and Fortran kinds.
    pub code: u32,
    /// Name of the type in the standard.
    pub name: &'static str,
    pub class: Class,
    /// Bytes in memory; of a pair, of both items without padding.
    pub bytes: u8,
    pub group: Group,
    /// Bytes in external32 (MPI-5 section 14.5.2).
    pub external: u8,
    /// The codes of value and index, if this is a pair.
    pub pair: Option<(u32, u32)>,
}

impl Predefined {
    /// Returns the alignment that the x86-64 ABI requires of this type.
    pub fn align(&self) -> u8 {
        match self.class {
            Class::Complex | Class::ExtendedComplex => self.bytes / 2,
            _ => self.bytes,
        }
    }

    /// Returns the class that arithmetic uses: a `char` is a small integer, as in C.
    pub fn arithmetic_class(&self) -> Class {
        match self.group {
            Group::Character if std::ffi::c_char::MIN == 0 => Class::Unsigned,
            Group::Character => Class::Signed,
            _ => self.class,
        }
    }

    /// Returns true if the type matches any other, as bytes and packed data do (MPI-5 section 3.3.1).
    pub fn is_wildcard(&self) -> bool {
        matches!(self.class, Class::Byte | Class::Packed)
    }
}

const fn row(code: u32, name: &'static str, class: Class, bytes: u8, group: Group) -> Predefined {
    Predefined { code, name, class, bytes, group, external: bytes, pair: None }
}

/// Returns a [`row`] whose type has another size in external32 than in memory.
const fn narrow(mut row: Predefined, external: u8) -> Predefined {
    row.external = external;
    row
}

const fn pair(code: u32, name: &'static str, value: u32, index: u32) -> Predefined {
    let pair = Some((value, index));
    Predefined { code, name, class: Class::Byte, bytes: 0, group: Group::Pair, external: 0, pair }
}

use Class::{
    Brain, Byte, Character, Complex, Extended, ExtendedComplex, Float, Packed, Signed, Unsigned, Wide,
};
use Group::{CInteger, Floating, FortranInteger, MultiLanguage, Other};

#[rustfmt::skip]
pub(crate) const ROWS: &[Predefined] = &[
    row(0x201, "MPI_AINT", Signed, 8, MultiLanguage),
    row(0x202, "MPI_COUNT", Signed, 8, MultiLanguage),
    row(0x203, "MPI_OFFSET", Signed, 8, MultiLanguage),
    row(0x207, "MPI_PACKED", Packed, 1, Other),
    row(0x208, "MPI_SHORT", Signed, 2, CInteger),
    row(0x209, "MPI_INT", Signed, 4, CInteger),
    narrow(row(0x20a, "MPI_LONG", Signed, 8, CInteger), 4),
    row(0x20b, "MPI_LONG_LONG_INT", Signed, 8, CInteger),
    row(0x20c, "MPI_UNSIGNED_SHORT", Unsigned, 2, CInteger),
    row(0x20d, "MPI_UNSIGNED", Unsigned, 4, CInteger),
    narrow(row(0x20e, "MPI_UNSIGNED_LONG", Unsigned, 8, CInteger), 4),
    row(0x20f, "MPI_UNSIGNED_LONG_LONG", Unsigned, 8, CInteger),
    row(0x210, "MPI_FLOAT", Float, 4, Floating),
    row(0x212, "MPI_C_COMPLEX", Complex, 8, Group::Complex),
    row(0x213, "MPI_CXX_FLOAT_COMPLEX", Complex, 8, Group::Complex),
    row(0x214, "MPI_DOUBLE", Float, 8, Floating),
    row(0x216, "MPI_C_DOUBLE_COMPLEX", Complex, 16, Group::Complex),
    row(0x217, "MPI_CXX_DOUBLE_COMPLEX", Complex, 16, Group::Complex),
    row(0x218, "MPI_LOGICAL", Class::Logical, 4, Group::Logical),
    row(0x219, "MPI_INTEGER", Signed, 4, FortranInteger),
    row(0x21a, "MPI_REAL", Float, 4, Floating),
    row(0x21b, "MPI_COMPLEX", Complex, 8, Group::Complex),
    row(0x21c, "MPI_DOUBLE_PRECISION", Float, 8, Floating),
    row(0x21d, "MPI_DOUBLE_COMPLEX", Complex, 16, Group::Complex),
    row(0x21e, "MPI_CHARACTER", Character, 1, Other),
    row(0x220, "MPI_LONG_DOUBLE", Extended, 16, Floating),
    row(0x224, "MPI_C_LONG_DOUBLE_COMPLEX", ExtendedComplex, 32, Group::Complex),
    row(0x225, "MPI_CXX_LONG_DOUBLE_COMPLEX", ExtendedComplex, 32, Group::Complex),
    pair(0x228, "MPI_FLOAT_INT", 0x210, 0x209),
    pair(0x229, "MPI_DOUBLE_INT", 0x214, 0x209),
    pair(0x22a, "MPI_LONG_INT", 0x20a, 0x209),
    pair(0x22b, "MPI_2INT", 0x209, 0x209),
    pair(0x22c, "MPI_SHORT_INT", 0x208, 0x209),
    pair(0x22d, "MPI_LONG_DOUBLE_INT", 0x220, 0x209),
    pair(0x230, "MPI_2REAL", 0x21a, 0x21a),
    pair(0x231, "MPI_2DOUBLE_PRECISION", 0x21c, 0x21c),
    pair(0x232, "MPI_2INTEGER", 0x219, 0x219),
    row(0x238, "MPI_C_BOOL", Class::Logical, 1, Group::Logical),
    row(0x239, "MPI_CXX_BOOL", Class::Logical, 1, Group::Logical),
    narrow(row(0x23c, "MPI_WCHAR", Wide, 4, Other), 2),
    row(0x240, "MPI_INT8_T", Signed, 1, CInteger),
    row(0x241, "MPI_UINT8_T", Unsigned, 1, CInteger),
    row(0x243, "MPI_CHAR", Character, 1, Group::Character),
    row(0x244, "MPI_SIGNED_CHAR", Signed, 1, CInteger),
    row(0x245, "MPI_UNSIGNED_CHAR", Unsigned, 1, CInteger),
    row(0x247, "MPI_BYTE", Byte, 1, Group::Byte),
    row(0x248, "MPI_INT16_T", Signed, 2, CInteger),
    row(0x249, "MPI_UINT16_T", Unsigned, 2, CInteger),
    row(0x24c, "MPIX_BFLOAT16", Brain, 2, Floating),
    row(0x250, "MPI_INT32_T", Signed, 4, CInteger),
    row(0x251, "MPI_UINT32_T", Unsigned, 4, CInteger),
    row(0x258, "MPI_INT64_T", Signed, 8, CInteger),
    row(0x259, "MPI_UINT64_T", Unsigned, 8, CInteger),
    row(0x2c0, "MPI_LOGICAL1", Class::Logical, 1, Group::Logical),
    row(0x2c1, "MPI_INTEGER1", Signed, 1, FortranInteger),
    row(0x2c8, "MPI_LOGICAL2", Class::Logical, 2, Group::Logical),
    row(0x2c9, "MPI_INTEGER2", Signed, 2, FortranInteger),
    row(0x2ca, "MPI_REAL2", Float, 2, Floating),
    row(0x2d0, "MPI_LOGICAL4", Class::Logical, 4, Group::Logical),
    row(0x2d1, "MPI_INTEGER4", Signed, 4, FortranInteger),
    row(0x2d2, "MPI_REAL4", Float, 4, Floating),
    row(0x2d3, "MPI_COMPLEX4", Complex, 4, Group::Complex),
    row(0x2d8, "MPI_LOGICAL8", Class::Logical, 8, Group::Logical),
    row(0x2d9, "MPI_INTEGER8", Signed, 8, FortranInteger),
    row(0x2da, "MPI_REAL8", Float, 8, Floating),
    row(0x2db, "MPI_COMPLEX8", Complex, 8, Group::Complex),
    row(0x2e0, "MPI_LOGICAL16", Class::Logical, 16, Group::Logical),
    row(0x2e1, "MPI_INTEGER16", Signed, 16, FortranInteger),
    row(0x2e2, "MPI_REAL16", Float, 16, Floating),
    row(0x2e3, "MPI_COMPLEX16", Complex, 16, Group::Complex),
    row(0x2eb, "MPI_COMPLEX32", Complex, 32, Group::Complex),
];

/// The first and last handle of predefined datatypes.
pub(crate) const CODES: std::ops::Range<u32> = 0x200..0x300;

/// Returns the row of a scalar type. The code must be valid.
///
/// Walks no list: the position is precomputed at compile time.
pub(crate) fn scalar(code: u32) -> &'static Predefined {
    &ROWS[POSITIONS[(code - CODES.start) as usize] as usize]
}

const POSITIONS: [u8; 256] = {
    let mut positions = [u8::MAX; 256];
    let mut index = 0;
    while index < ROWS.len() {
        positions[(ROWS[index].code - CODES.start) as usize] = index as u8;
        index += 1;
    }
    positions
};

/// Returns the named pair type of these items, if the standard has one.
pub(crate) fn named_pair(value: u32, index: u32) -> Option<u32> {
    ROWS.iter().find(|row| row.pair == Some((value, index))).map(|row| row.code)
}
