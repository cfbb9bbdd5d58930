//! What a region consists of.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::affine::Affine;
use crate::clang::Node;
use crate::refusal::{Place, Refusal};

/// A `for` that counts upwards by one.
#[derive(Clone, Debug)]
pub struct Loop {
    /// What counts.
    pub variable: String,
    /// The type, if the loop declares its variable.
    pub declared: Option<String>,
    /// The first value.
    pub low: Affine,
    /// The value after the last.
    pub high: Affine,
    /// The two, as the user wrote them (`high` may have been made exclusive).
    pub texts: [String; 2],
    /// From `for` to what is repeated.
    pub header: Range<usize>,
    /// Where `for` stands.
    pub place: Place,
}

/// One assignment or declaration, with what is around it.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The nest that it is in.
    pub nest: usize,
    /// The loops around it in the nest, from outside.
    pub loops: Vec<Loop>,
    /// When it is done in the nest: variables of loops and positions in blocks, from outside.
    pub position: Vec<String>,
    /// What it writes of arrays; it may write a variable of the nest.
    pub write: Option<Access>,
    /// What it reads of arrays.
    pub reads: Vec<Access>,
    /// Where it stands.
    pub place: Place,
    /// Its text.
    pub text: String,
}

/// An element of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The array.
    pub array: String,
    /// Which element.
    pub subscripts: Vec<Affine>,
}

/// What says which block computes an instance of a nest.
#[derive(Clone, Debug)]
pub enum Coordinate {
    /// The variable of this loop of the nest.
    Loop(Loop),
    /// The nest has one place along the dimension that is distributed.
    Fixed(Affine),
}

/// What stands directly in the loop over time.
#[derive(Clone, Debug)]
pub struct Nest {
    /// Its bytes in the file.
    pub span: Range<usize>,
    /// Where it begins.
    pub place: Place,
    /// What is distributed.
    pub coordinate: Coordinate,
    /// Variables of its loops that are declared outside.
    pub shared_variables: Vec<String>,
}

/// An array of a region.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of its elements, as the source spells it, and without typedefs.
    pub element: [String; 2],
    /// How many subscripts.
    pub dimensions: usize,
    /// Whether the region writes it.
    pub is_written: bool,
    /// Which subscript is distributed, if it is written.
    pub distributed: usize,
}

/// A size: a variable that the region does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Whether it has no sign.
    pub is_unsigned: bool,
}

/// A region.
#[derive(Clone, Debug)]
pub struct Region {
    /// What is replaced: whole lines, from the pragma to the end.
    pub span: Range<usize>,
    /// The lines of the loop over time.
    pub lines: (usize, usize),
    /// The loop over time.
    pub time: Loop,
    /// What is in it.
    pub nests: Vec<Nest>,
    /// Statements of all nests.
    pub statements: Vec<Statement>,
    /// By name.
    pub arrays: BTreeMap<String, Array>,
    /// By name.
    pub parameters: BTreeMap<String, Parameter>,
}

/// A file with its tree.
pub struct File<'s> {
    /// Its text.
    pub source: &'s str,
    /// Its declarations.
    pub nodes: &'s [Node],
}

impl File<'_> {
    /// The text of a node.
    pub fn text(&self, node: &Node) -> &str {
        &self.source[node.span.clone()]
    }

    /// A refusal of `node`.
    pub fn refuse<T>(&self, node: &Node, wrong: &str, remedy: &str) -> Result<T, Refusal> {
        Err(Refusal::at(node.place, self.text(node), wrong, remedy))
    }
}
