//! Grids of processes (MPI-5 section 8.5). Ranks are in row-major order: the last dimension varies fastest.

use tutti_base::{Error, ErrorClass, Result};

/// Grid of processes. A grid without dimensions has one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dims: Vec<u32>,
    periodic: Vec<bool>,
    size: u32,
}

impl Cartesian {
    /// Returns a grid with these extents. A dimension is periodic if its period is not 0.
    ///
    /// # Errors
    /// `Dims` for an extent below 1, or for more processes than an `int` can count.
    pub fn new(dims: &[i32], periods: &[i32]) -> Result<Cartesian> {
        let mut size = 1i32;
        let mut extents = Vec::with_capacity(dims.len());
        for (place, dim) in dims.iter().enumerate() {
            let wrong = |why| Error::new(ErrorClass::Dims, format!("argument dims[{place}] is {dim}; {why}"));
            extents.push(
                u32::try_from(*dim)
                    .ok()
                    .filter(|dim| *dim > 0)
                    .ok_or_else(|| wrong("it must be 1 or more"))?,
            );
            size = size.checked_mul(*dim).ok_or_else(|| wrong("the grid has too many processes"))?;
        }
        let periodic = periods.iter().map(|period| *period != 0).collect();
        Ok(Cartesian { dims: extents, periodic, size: size as u32 })
    }

    /// Returns the extents of the dimensions.
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// Returns a flag for each dimension: true if it is periodic.
    pub fn periodic(&self) -> &[bool] {
        &self.periodic
    }

    /// Returns the number of processes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the coordinates of `rank`, which must be below [`Cartesian::size`].
    pub fn coords(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut coords = vec![0; self.dims.len()];
        for (coord, dim) in coords.iter_mut().zip(&self.dims).rev() {
            (*coord, rest) = (rest % dim, rest / dim);
        }
        coords
    }

    /// Returns the rank at `coords`. In a periodic dimension any coordinate is valid.
    ///
    /// # Errors
    /// `Arg` for an invalid coordinate in a dimension that is not periodic (the standard calls that
    /// erroneous).
    pub fn rank(&self, coords: &[i32]) -> Result<u32> {
        let mut rank = 0;
        for (place, (coord, dim)) in coords.iter().zip(&self.dims).enumerate() {
            let within = wrap(i64::from(*coord), *dim, self.periodic[place]).ok_or_else(|| {
                let last = dim - 1;
                let reason = format!("argument coords[{place}] is {coord}; it must be 0 to {last}");
                Error::new(ErrorClass::Arg, reason)
            })?;
            rank = rank * dim + within;
        }
        Ok(rank)
    }

    /// Returns the source and the destination of `rank` when all data move by `displacement` along
    /// `direction`. None stands for MPI_PROC_NULL.
    pub fn shift(&self, rank: u32, direction: usize, displacement: i32) -> (Option<u32>, Option<u32>) {
        let dim = self.dims[direction];
        let stride: u32 = self.dims[direction + 1..].iter().product();
        let own = rank / stride % dim;
        let at = |moved: i64| {
            let there = wrap(i64::from(own) + moved, dim, self.periodic[direction])?;
            Some(rank - own * stride + there * stride)
        };
        (at(-i64::from(displacement)), at(displacement.into()))
    }

    /// Returns the grid of the remaining dimensions, and the number of the one of these grids that contains
    /// `rank`.
    pub fn sub(&self, rank: u32, remain: &[bool]) -> (Cartesian, u32) {
        let (mut kept, mut color) = (Cartesian { dims: vec![], periodic: vec![], size: 1 }, 0);
        for (place, coord) in self.coords(rank).into_iter().enumerate() {
            let dim = self.dims[place];
            if remain[place] {
                kept.dims.push(dim);
                kept.periodic.push(self.periodic[place]);
                kept.size *= dim;
            } else {
                color = color * dim + coord;
            }
        }
        (kept, color)
    }

    /// Returns the neighbours of `rank`, dimension by dimension, first in the negative and then in the
    /// positive direction. None stands for MPI_PROC_NULL (MPI-5 section 8.6).
    pub fn neighbours(&self, rank: u32) -> impl Iterator<Item = Option<u32>> + '_ {
        (0..self.dims.len()).flat_map(move |direction| {
            let (below, above) = self.shift(rank, direction, 1);
            [below, above]
        })
    }
}

/// Returns a coordinate as one in `0..dim`, or None if it is outside a dimension that is not periodic.
fn wrap(coord: i64, dim: u32, periodic: bool) -> Option<u32> {
    let dim = i64::from(dim);
    let within = if periodic { coord.rem_euclid(dim) } else { coord };
    (0..dim).contains(&within).then_some(within as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(dims: &[i32], periods: &[i32]) -> Cartesian {
        Cartesian::new(dims, periods).expect("a grid")
    }

    /// Checks the neighbours of a rank; -1 stands for none.
    fn check(dims: &[i32], periods: &[i32], rank: u32, expected: &[i64]) {
        let found: Vec<i64> =
            grid(dims, periods).neighbours(rank).map(|one| one.map_or(-1, i64::from)).collect();
        assert_eq!(found, expected, "rank {rank} of {dims:?} periodic {periods:?}");
    }

    #[test]
    fn neighbours_come_dimension_by_dimension() {
        check(&[3], &[0], 0, &[-1, 1]);
        check(&[3], &[1], 0, &[2, 1]);
        check(&[2], &[1], 0, &[1, 1]);
        check(&[1], &[1], 0, &[0, 0]);
        check(&[1], &[0], 0, &[-1, -1]);
        check(&[2, 3], &[0, 1], 4, &[1, -1, 3, 5]);
        check(&[2, 3], &[1, 0], 3, &[0, 0, -1, 4]);
        check(&[], &[], 0, &[]);
    }

    #[test]
    fn coordinates_name_ranks_and_ranks_coordinates() {
        let grid = grid(&[4, 3, 2], &[1, 0, 0]);
        for rank in 0..grid.size() {
            let coords: Vec<i32> = grid.coords(rank).into_iter().map(|coord| coord as i32).collect();
            assert_eq!(grid.rank(&coords).expect("a place of the grid"), rank);
        }
        assert_eq!(grid.rank(&[-1, 0, 1]).expect("periodic"), grid.rank(&[3, 0, 1]).expect("a place"));
        assert_eq!(grid.rank(&[0, 3, 0]).map_err(|error| error.class), Err(ErrorClass::Arg));
    }

    #[test]
    fn shifts_leave_a_grid_that_is_not_periodic() {
        let grid = grid(&[3, 2], &[1, 0]);
        assert_eq!(grid.shift(4, 0, 2), (Some(0), Some(2)));
        assert_eq!(grid.shift(4, 0, i32::MIN), (Some(2), Some(0)));
        assert_eq!(grid.shift(4, 1, 1), (None, Some(5)));
        assert_eq!(grid.shift(4, 1, 0), (Some(4), Some(4)));
    }

    #[test]
    fn parts_of_a_grid_are_grids() {
        let (row, color) = grid(&[4, 3, 2], &[0, 1, 0]).sub(15, &[false, true, false]);
        assert_eq!((row.dims(), row.periodic(), row.size(), color), (&[3][..], &[true][..], 3, 5));
        let (one, color) = grid(&[4, 3], &[0, 0]).sub(7, &[false, false]);
        assert_eq!((one.dims().len(), one.size(), color), (0, 1, 7));
    }

    #[test]
    fn extents_are_checked() {
        let class =
            |dims: &[i32]| Cartesian::new(dims, &[]).map(|grid| grid.size()).map_err(|error| error.class);
        assert_eq!(class(&[]), Ok(1));
        assert_eq!(class(&[2, 0]), Err(ErrorClass::Dims));
        assert_eq!(class(&[-2]), Err(ErrorClass::Dims));
        assert_eq!(class(&[1 << 20, 1 << 20]), Err(ErrorClass::Dims));
    }
}
