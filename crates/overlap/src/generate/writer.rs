//! What the writers of the parts of a program share.

use super::text::{Names, Text};
use crate::polyhedra::Model;
use crate::region::Region;

/// Which distribution is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// By steps where that is possible, else by tiles.
    Auto,
    /// One exchange a step.
    Step,
    /// Slanted tiles of several steps.
    Tiles,
}

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which distribution.
    pub scheme: Scheme,
    /// Whether messages travel while there is computing.
    pub overlap: bool,
    /// Whether the program measures itself.
    pub measure: bool,
}

/// What the writers of parts share.
pub struct Writer<'w> {
    /// The region.
    pub model: &'w Model<'w>,
    /// The user's text.
    pub source: &'w str,
    /// Names of ours.
    pub names: &'w mut Names,
    /// What is wanted.
    pub options: Options,
}

impl Writer<'_> {
    /// The region.
    pub fn region(&self) -> &Region {
        self.model.region
    }

    /// Adds lines with `$names`.
    pub fn add(&mut self, out: &mut Text, lines: &str) {
        let filled = self.names.fill(lines);
        out.add(&filled);
    }
}
