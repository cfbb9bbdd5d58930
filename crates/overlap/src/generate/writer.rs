//! State that the writers of all parts of a program share.

use super::text::{Names, Text};
use crate::polyhedra::Model;
use crate::region::Region;

/// Distribution that the user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Steps where they are possible, otherwise tiles.
    Auto,
    /// Steps, with one exchange in each.
    Step,
    /// Slanted tiles of several steps.
    Tiles,
}

/// Options of the generator.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Requested distribution of the regions.
    pub scheme: Scheme,
    /// Whether messages travel while there is computing.
    pub overlap: bool,
    /// Whether the program measures itself.
    pub measure: bool,
}

/// State that the writers of all parts share.
pub struct Writer<'w> {
    /// Model of the region to write.
    pub model: &'w Model<'w>,
    /// Text of the user's file.
    pub source: &'w str,
    /// Names that do not occur in the user's program.
    pub names: &'w mut Names,
    /// Options of the generator.
    pub options: Options,
}

impl Writer<'_> {
    /// Returns the region to write.
    pub fn region(&self) -> &Region {
        self.model.region
    }

    /// Adds lines with `$names`.
    pub fn add(&mut self, out: &mut Text, lines: &str) {
        let filled = self.names.fill(lines);
        out.add(&filled);
    }
}
