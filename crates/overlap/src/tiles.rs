//! Slanted tiles of several steps: the slope that makes them legal, the values to send, and the distance from
//! the border within which these matter.
//!
//! The coordinate of an instance in the tile of steps [t0, t1) is `q = c + slope * (t - t0) + shift[nest]`. A
//! block is an interval of `q`. It is processed in parts from left to right, each through all steps of the
//! tile. That is legal if no dependence on memory points left in `q`. isl finds the least distances between
//! any two nests, and the shifts follow as shortest paths (Bellman and Ford). Then the following holds.
//!
//! - values that a block reads were written in its own block, in the left one (in this tile or the one
//!   before), or, in an earlier tile, in the right one: so one message goes right when a block is done with a
//!   tile, and one left for the next tile;
//! - a value that arrives is the newest that its reader may see, and hides none: had the receiver written the
//!   cell after the value was written, but before the message is unpacked, the reader would have that value
//!   in the sequential program, since nothing between them points left;
//! - values live for at most one step beyond the one they are written in (checked), so that the message left
//!   holds what step t1 reads, whatever the height of the next tile is: heights are free in each tile.

use crate::isl::{Map, Set};
use crate::polyhedra::{Model, extents, least};
use crate::region::Coordinate;

/// TileNames of the parameters in the sets; they are variables of the generated program.
#[derive(Clone, Debug)]
pub struct TileNames {
    /// First step of a tile.
    pub t0: String,
    /// The step after its last.
    pub t1: String,
    /// The border between two blocks.
    pub border: String,
    /// First coordinate of a block.
    pub begin: String,
    /// The coordinate after its last.
    pub end: String,
}

/// Distribution of a region by tiles.
pub struct Tiles {
    /// Positions to the left for each step.
    pub slope: i64,
    /// Shift of the coordinate for instances of each nest.
    pub shifts: Vec<i64>,
    /// Values that the left block sends to the right one at `border`, at the end of the tile [t0, t1).
    pub up: Set,
    /// Values that the right block sends to the left one, for steps after the tile.
    pub down: Set,
    /// Blocks are at least `slope * height + least` wide.
    pub least: i64,
    /// Parts that end at most at `border - slope * height - fed` need no values from the right neighbour.
    pub fed: i64,
    /// Offset: after all parts up to `border + slope * height + done`, the values for the left neighbour are
    /// computed.
    pub done: i64,
    /// The cells that a block [begin, end) has in the end, if its last tile begins at t0.
    pub owned: Set,
}

/// Finds the tiles for a region, or returns the reason why tiles are not legal.
pub fn plan(model: &Model, names: &TileNames) -> Result<Tiles, String> {
    if model.steps(&model.flow).is_some_and(|(_, most)| most.is_none_or(|most| most > 1)) {
        return Err("a value is read more than one step after it was written".to_string());
    }
    let (slope, shifts) = slant(model)?;
    let sides = Sides { model, names, slope, shifts: &shifts };
    let (up, down) =
        (sides.up(&names.border, &names.t0, &names.t1), sides.down(&names.border, &names.t0, &names.t1));
    let owned = sides.owned()?;
    let least = sides.least().ok_or("a value is needed farther away than in the next block")?;
    let fed = sides.fed().ok_or("no part of a block can do without what comes from the right")?;
    let done = sides.done().ok_or("what goes left is complete only when the whole block is")?;
    Ok(Tiles { slope, shifts, up, down, least, fed, done, owned })
}

/// Returns the least slope, with shifts, that lets no dependence point left.
fn slant(model: &Model) -> Result<(i64, Vec<i64>), String> {
    const MOST: i64 = 8;
    let count = model.region.nests.len();
    'slopes: for slope in 0..=MOST {
        let mut edges = Vec::new();
        for from in 0..count {
            for to in 0..count {
                match model.reach(&model.memory, from, to, slope) {
                    None => {}
                    Some((Some(nearest), _)) => edges.push((from, to, -nearest)),
                    Some((None, _)) => continue 'slopes,
                }
            }
        }
        let mut shifts = vec![0i64; count];
        for _ in 0..=count {
            let before = shifts.clone();
            for (from, to, by) in &edges {
                shifts[*to] = shifts[*to].max(shifts[*from] + by);
            }
            if before == shifts {
                return Ok((slope, shifts));
            }
        }
    }
    Err(format!("dependences reach more than {MOST} places against the direction of the loop in a step"))
}

struct Sides<'m> {
    model: &'m Model<'m>,
    names: &'m TileNames,
    slope: i64,
    shifts: &'m [i64],
}

impl Sides<'_> {
    /// Returns the expression `q` of an instance, for tiles that begin with step `start`.
    fn slanted(&self, time: &str, coordinate: &str, nest: usize, start: &str) -> String {
        format!("({coordinate} + {} * ({time} - {start}) + {})", self.slope, self.shifts[nest])
    }

    /// Instances of the steps [first, past) with `q` in `relation` to `bound`, as in `"< border"`.
    fn block(&self, extra: &[&str], first: &str, past: &str, relation: &str) -> Set {
        self.model.instances(extra, &|time, coordinate, nest| {
            format!(
                "{first} <= {time} < {past} and {} {relation}",
                self.slanted(time, coordinate, nest, first)
            )
        })
    }

    /// Instances of the step `step`, which begins a tile.
    fn next(&self, extra: &[&str], step: &str, relation: &str) -> Set {
        self.model.instances(extra, &|time, coordinate, nest| {
            format!("{time} = {step} and {} {relation}", self.slanted(time, coordinate, nest, step))
        })
    }

    /// Returns the flow from the left of `border` in the tile [t0, t1) to the right of `beyond`, in this tile
    /// or later.
    fn flow_up(&self, border: &str, beyond: &str, t0: &str, t1: &str) -> Map {
        let extra = [border, beyond, t0, t1];
        let readers = self.block(&extra, t0, t1, &format!(">= {beyond}")).union(&self.next(
            &extra,
            t1,
            &format!(">= {beyond}"),
        ));
        self.model
            .flow
            .restrict_domain(&self.block(&extra, t0, t1, &format!("< {border}")))
            .restrict_range(&readers)
    }

    fn flow_down(&self, border: &str, beyond: &str, t0: &str, t1: &str) -> Map {
        let extra = [border, beyond, t0, t1];
        self.model
            .flow
            .restrict_domain(&self.block(&extra, t0, t1, &format!(">= {beyond}")))
            .restrict_range(&self.next(&extra, t1, &format!("< {border}")))
    }

    fn up(&self, border: &str, t0: &str, t1: &str) -> Set {
        self.flow_up(border, border, t0, t1).domain().apply(&self.model.writes).coalesce()
    }

    fn down(&self, border: &str, t0: &str, t1: &str) -> Set {
        self.flow_down(border, border, t0, t1).domain().apply(&self.model.writes).coalesce()
    }

    /// Returns all instances, restricted by conditions on parameters only.
    fn given(&self, extra: &[&str], conditions: &str) -> Set {
        self.model.instances(extra, &|_, _, _| conditions.to_string())
    }

    fn least(&self) -> Option<i64> {
        let extra = ["near", "far", "ta", "tb", "tc", "height"];
        least(1, |width| {
            let wide = format!(
                "far - near >= {} * height + {width} and height >= tb - ta and height >= tc - tb and ta < tb and tb < tc",
                self.slope
            );
            let given = self.given(&extra, &wide);
            let up = self.flow_up("near", "far", "ta", "tb").restrict_domain(&given);
            let down = self.flow_down("near", "far", "ta", "tb").restrict_domain(&given);
            // The right neighbour's values for this tile must not be among those that the left one sends in
            // it.
            let left = self
                .flow_up("near", "near", "tb", "tc")
                .restrict_domain(&given)
                .domain()
                .apply(&self.model.writes);
            let right = self
                .flow_down("far", "far", "ta", "tb")
                .restrict_domain(&given)
                .domain()
                .apply(&self.model.writes);
            up.is_empty() && down.is_empty() && left.intersect(&right).is_empty()
        })
    }

    fn fed(&self) -> Option<i64> {
        let extra = ["border", "q", "ta", "tb", "tc", "height"];
        let touched = self.model.writes.union(&self.model.reads);
        least(0, |margin| {
            let far = format!(
                "q <= border - {} * height - {margin} and height >= tb - ta and height >= tc - tb and ta < tb and tb < tc",
                self.slope
            );
            let cells =
                self.block(&extra, "tb", "tc", "< q").intersect(&self.given(&extra, &far)).apply(&touched);
            cells.intersect(&self.down("border", "ta", "tb")).is_empty()
        })
    }

    fn done(&self) -> Option<i64> {
        let extra = ["border", "q", "ta", "tb", "height"];
        least(0, |margin| {
            let far =
                format!("q >= border + {} * height + {margin} and height >= tb - ta and ta < tb", self.slope);
            let cells = self
                .block(&extra, "ta", "tb", ">= q")
                .intersect(&self.given(&extra, &far))
                .apply(&self.model.writes);
            cells.intersect(&self.down("border", "ta", "tb")).is_empty()
        })
    }

    fn owned(&self) -> Result<Set, String> {
        let (names, time) = (self.names, &self.model.region.time);
        let last = self.model.last_writers();
        let early = self.model.instances(&[], &|step, _, _| format!("{step} < {} - 1", time.high));
        if !last.restrict_range(&early).is_empty() {
            return Err("a place is not written in the last step".to_string());
        }
        let extra = [names.t0.as_str(), &names.begin, &names.end];
        let own = self.model.instances(&extra, &|step, coordinate, nest| {
            let q = self.slanted(step, coordinate, nest, &names.t0);
            format!("{} <= {q} < {} and {step} >= {}", names.begin, names.end, names.t0)
        });
        Ok(last.restrict_range(&own).domain().coalesce())
    }
}

/// Returns the conditions on the border of two blocks in [t0, t1), for loops over `up` and `down`.
pub fn border_conditions(model: &Model, tiles: &Tiles, names: &TileNames) -> Vec<String> {
    let (t0, t1, border, time) = (&names.t0, &names.t1, &names.border, &model.region.time);
    let mut all = vec![format!("{} <= {t0} < {t1} <= {}", time.low, time.high)];
    for (at, (low, high)) in extents(model.region).iter().enumerate() {
        if matches!(model.region.nests[at].coordinate, Coordinate::Loop(_)) {
            let margin = format!("{} * ({t1} - {t0}) + {}", tiles.slope, tiles.least);
            all.push(format!("{low} + {margin} <= {border} <= {high} - ({margin}) + {}", tiles.shifts[at]));
        }
    }
    all
}
