//! Parts of a region: loops, statements, accesses, nests and arrays.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::affine::Affine;
use crate::clang::{Node, Variable};
use crate::refusal::{SourcePosition, Unsupported};

/// A `for` that counts upwards by one.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The variable that counts, as isl knows it.
    pub variable: String,
    /// Name in the program.
    pub name: String,
    /// Declaration, which distinguishes it from others of the same name.
    pub key: Variable,
    /// C type of the variable, without typedefs and qualifiers.
    pub type_name: String,
    /// Whether its type has no sign.
    pub is_unsigned: bool,
    /// The type as it is written, if the loop declares its variable.
    pub declared: Option<String>,
    /// First value of the variable.
    pub low: Affine,
    /// The value after the last.
    pub high: Affine,
    /// The two, as the user wrote them (`high` may have been made exclusive), as numbers with a sign.
    pub texts: [String; 2],
    /// Range of bytes from `for` to the body.
    pub header: Range<usize>,
    /// Position of the keyword `for`.
    pub place: SourcePosition,
}

impl Loop {
    /// Returns the variable in C, converted to a signed number.
    pub fn value(&self) -> String {
        if self.is_unsigned { format!("(long){}", self.name) } else { self.name.clone() }
    }
}

/// A value that the program computes in a type which must hold it, or it would wrap around.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Value as a sum of variables.
    pub value: Affine,
    /// The loops in which it is computed.
    pub loops: Vec<Loop>,
    /// A further condition under which it is computed, in isl's language.
    pub and: String,
    /// The values that C can have made of it without undefined behaviour.
    pub possible: (i64, i64),
    /// The values that the type holds.
    pub held: (i64, i64),
}

/// Assignment or declaration, with the loops around it.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Number of the nest that contains the statement.
    pub nest: usize,
    /// The loops around it in the nest, from outside.
    pub loops: Vec<Loop>,
    /// Position in the order of the nest: variables of loops and positions in blocks, from outside.
    pub position: Vec<String>,
    /// Element that the statement writes; `None` if it writes a variable of the nest.
    pub write: Option<Access>,
    /// Elements of arrays that the statement reads.
    pub reads: Vec<Access>,
    /// Position of the statement in the file.
    pub place: SourcePosition,
    /// Source text of the statement.
    pub text: String,
}

/// An element of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Name of the array.
    pub array: String,
    /// Subscripts of the element.
    pub subscripts: Vec<Affine>,
}

/// Coordinate that determines which block computes an instance of a nest.
#[derive(Clone, Debug)]
pub enum Coordinate {
    /// The variable of this loop of the nest.
    Loop(Box<Loop>),
    /// The nest has one place along the dimension that is distributed.
    Fixed(Affine),
}

/// Nest: statement directly in the loop over time, with everything in it.
#[derive(Clone, Debug)]
pub struct Nest {
    /// Range of the nest's bytes in the file.
    pub span: Range<usize>,
    /// Position of the nest in the file.
    pub place: SourcePosition,
    /// Distributed coordinate of the nest.
    pub coordinate: Coordinate,
    /// Variables of its loops that are declared outside.
    pub shared_variables: Vec<String>,
}

/// An array of a region.
#[derive(Clone, Debug)]
pub struct Array {
    /// Name in the program.
    pub name: String,
    /// Declaration, which distinguishes it from others of the same name.
    pub key: Variable,
    /// Whether it is an array, and not a pointer to its first element.
    pub is_array: bool,
    /// The type of its elements without typedefs and qualifiers.
    pub element: String,
    /// Whether its elements are constant.
    pub is_constant: bool,
    /// Number of subscripts of the array.
    pub dimensions: usize,
    /// Extents of all dimensions but the first; `None` if the extent is a variable.
    pub rows: Vec<Option<u64>>,
    /// Whether the region writes it.
    pub is_written: bool,
    /// Index of the distributed subscript, if the region writes the array.
    pub distributed: usize,
}

/// A size: a variable that the region does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the program.
    pub name: String,
    /// Least and greatest value of the type.
    pub range: (i64, i64),
    /// Whether it has no sign.
    pub is_unsigned: bool,
}

/// A number that the region reads and that is declared outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// Name in the program.
    pub name: String,
    /// Type without typedefs and qualifiers.
    pub type_name: String,
}

/// Region of a program that is to be distributed.
#[derive(Clone, Debug)]
pub struct Region {
    /// Bytes of the file to replace: whole lines, from the pragma to the end of the region.
    pub span: Range<usize>,
    /// The loop over time in the file.
    pub code: Range<usize>,
    /// Bytes of the function that has the region.
    pub function: Range<usize>,
    /// The lines of the loop over time.
    pub lines: (usize, usize),
    /// The loop over time.
    pub time: Loop,
    /// Nests of the loop over time, in order.
    pub nests: Vec<Nest>,
    /// Statements of all nests.
    pub statements: Vec<Statement>,
    /// Parts of the region, by their names in isl.
    pub arrays: BTreeMap<String, Array>,
    /// Parts of the region, by their names in isl.
    pub parameters: BTreeMap<String, Parameter>,
    /// Numbers that are read, sizes among them, by name.
    pub scalars: BTreeMap<String, Scalar>,
    /// Values that must not wrap around.
    pub fits: Vec<Fit>,
    /// Loop variables by their names in isl: as a number with a sign in C.
    pub counters: BTreeMap<String, String>,
}

/// A file with its tree.
pub struct File<'s> {
    /// Source text of the file.
    pub source: &'s str,
    /// Declarations of the file.
    pub nodes: &'s [Node],
}

impl File<'_> {
    /// Returns the text of a node.
    pub fn text(&self, node: &Node) -> &str {
        self.source.get(node.span.clone()).unwrap_or_default()
    }

    /// Returns a refusal of `node`.
    pub fn refuse<T>(&self, node: &Node, wrong: &str, remedy: &str) -> Result<T, Unsupported> {
        Err(Unsupported::at_place(node.place, self.text(node), wrong, remedy))
    }
}
