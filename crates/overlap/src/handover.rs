//! Transfer of values between two rows of steps with different distributions: tiles of another height, or
//! tiles and steps.
//!
//! After a row that ends before step `t1`, each block has the values that a next row of the same kind reads.
//! But the next row may have another partition: by the coordinate (steps), or slanted from `t1` on (tiles).
//! So values go over each border at the end of every row except the last. A value does if an instance of step
//! `t1` reads it on one side of the border, in either partition, and an instance on the other side has
//! written it. Values live for at most one step (checked by [`crate::tiles`]), so nothing else is read later.
//! Both sides have executed all instances before `t1`. So an arriving value is the newest before `t1`, and
//! can hide no newer one.

use crate::isl::{Map, Set};
use crate::polyhedra::{Model, least};
use crate::tiles::{TileNames, Tiles};

/// Values that cross a border between two rows.
pub struct Handover {
    /// Values for the right neighbour.
    pub up: Set,
    /// Values for the left neighbour.
    pub down: Set,
}

/// After each kind of row.
pub struct Handovers {
    /// After one whose last tile was [t0, t1).
    pub after_tiles: Handover,
    /// After one by steps up to t1.
    pub after_steps: Handover,
    /// Blocks are at least `slope * height + least` wide.
    pub least: i64,
}

/// Finds the values to transfer. `and_steps` is true if rows may also go by steps.
pub fn plan(model: &Model, tiles: &Tiles, names: &TileNames, and_steps: bool) -> Result<Handovers, String> {
    let sides = Rows { model, tiles, and_steps };
    let after = |by_tiles| {
        let [up, down] = [true, false].map(|is_up| {
            let between = [names.border.as_str(), &names.border, &names.t0, &names.t1];
            sides.flow(by_tiles, is_up, between).domain().apply(&model.writes).coalesce()
        });
        // Values that a tile has sent up serve the next step too, in its own partition.
        Handover { up, down }
    };
    let forms: &[bool] = if and_steps { &[true, false] } else { &[true] };
    let slope = tiles.slope;
    let width = least(tiles.least, |width| {
        let wide = format!("far - near >= {slope} * height + {width} and height >= tb - ta and ta < tb");
        let extra = ["near", "far", "ta", "tb", "height"];
        let given = model.instances(&extra, &|_, _, _| wide.clone());
        forms.iter().all(|by_tiles| {
            [["near", "far", "ta", "tb"], ["far", "near", "ta", "tb"]].into_iter().all(|between| {
                let is_up = between[0] == "near";
                sides.flow(*by_tiles, is_up, between).restrict_domain(&given).is_empty()
            })
        })
    });
    let least = width.ok_or("a value is needed farther away than in the next block")?;
    Ok(Handovers { after_tiles: after(true), after_steps: after(false), least })
}

struct Rows<'m> {
    model: &'m Model<'m>,
    tiles: &'m Tiles,
    and_steps: bool,
}

impl Rows<'_> {
    /// Returns the flow from one side of `from` (the left one, if `is_up`), in the last tile or step of a
    /// row, to the other side of `to` in step t1.
    fn flow(&self, by_tiles: bool, is_up: bool, [from, to, t0, t1]: [&str; 4]) -> Map {
        let extra = [from, to, t0, t1];
        let [near, far] = if is_up { ["<", ">="] } else { [">=", "<"] };
        let Tiles { slope, shifts, .. } = self.tiles;
        let writers = self.model.instances(&extra, &|time, c, nest| match by_tiles {
            true => {
                let q = format!("{c} + {slope} * ({time} - {t0}) + {}", shifts[nest]);
                format!("{t0} <= {time} < {t1} and {q} {near} {from}")
            }
            false => format!("{time} = {t1} - 1 and {c} {near} {from}"),
        });
        let mut readers = self.model.instances(&extra, &|time, c, nest| {
            format!("{time} = {t1} and {c} + {} {far} {to}", shifts[nest])
        });
        if self.and_steps {
            let plain = |time: &str, c: &str, _: usize| format!("{time} = {t1} and {c} {far} {to}");
            readers = readers.union(&self.model.instances(&extra, &plain));
        }
        self.model.flow.restrict_domain(&writers).restrict_range(&readers)
    }
}
