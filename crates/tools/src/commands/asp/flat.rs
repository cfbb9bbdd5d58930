//! Schedule of the broadcast that the paper's ASP is compared with: Open MPI's tuned component for rows of 2
//! to 362 KiB. It is only simulated. Tutti's own chains of ranks have more neighbours on the same host.

use tutti_coll::build::{self, Builder};
use tutti_coll::ir::{BufferId, Division, Index, Schedule};
use tutti_coll::{Collective, Shape};

/// Bytes of a segment.
const SEGMENT: u64 = 1024;
/// Number of segments in flight: a rank receives one and forwards the segment before.
const WINDOW: u32 = 2;

/// Returns the schedule of the split binary tree: the first half goes down the tree below one child of the
/// root, the second half below the other one, in segments. Then each rank exchanges halves with one of the
/// other tree. Ranks are numbered from the root and lie in the tree level by level, in steps of the level's
/// width, so that parent and child are the farther apart the deeper they are.
pub fn split_binary(shape: &Shape) -> Schedule {
    let mut builder = Builder::new(Collective::Bcast.unit());
    let b = &mut builder;
    let size = shape.ranks;
    let me = (shape.rank + size - shape.root) % size;
    let rank = |number: u32| (number + shape.root) % size;
    let segments = shape.count.div_ceil(SEGMENT) as u32;
    let division = Division::Regular { size: SEGMENT, total: shape.count };
    let first = segments.div_ceil(2);
    // Of the half that goes down the tree of a rank: where it begins, and how many segments it has.
    let half = |number: u32| if number % 2 == 1 { (0, first) } else { (first, segments - first) };
    let segment = |begin: u32| build::block(BufferId::RECV, division, Index::linear(i64::from(begin), 1));
    let whole = |(begin, count): (u32, u32)| build::blocks(BufferId::RECV, division, begin, count);
    let children: Vec<u32> = children(me).into_iter().filter(|child| *child < size).collect();
    if me == 0 {
        for &child in &children {
            let (begin, count) = half(child);
            b.repeat(count, WINDOW, |b| {
                b.send(rank(child), 0, segment(begin), &[]);
            });
        }
    } else {
        let (begin, count) = half(me);
        b.repeat(count, WINDOW, |b| {
            let arrived = b.recv(rank(parent(me)), 0, segment(begin), &[]).done();
            for &child in &children {
                b.send(rank(child), 0, segment(begin), &[arrived]);
            }
        });
    }
    b.join();
    let pair = if me % 2 == 1 { (me + 1) % size } else { (me + size - 1) % size };
    // Of an even number the last one's partner is the root, which needs nothing.
    if (me > 0 || size.is_multiple_of(2)) && pair != 0 {
        b.send(rank(pair), 0, whole(half(me)), &[]);
    }
    if me > 0 {
        b.recv(rank(pair), 0, whole(half(me + 1)), &[]);
    }
    builder.finish()
}

/// Returns the number of ranks on the level of this number.
fn width(number: u32) -> u32 {
    1 << (number + 1).ilog2()
}

fn children(number: u32) -> [u32; 2] {
    [number + width(number), number + 2 * width(number)]
}

fn parent(number: u32) -> u32 {
    let above = width(number) / 2;
    let near = number - above;
    if near + 1 < 2 * above { near } else { near - above }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_coll::Params;
    use tutti_coll::verify::{Case, Pattern, verify};

    fn check(ranks: u32, root: u32, bytes: u64) {
        let shape = Shape { root, ..Shape::new(Collective::Bcast, ranks, 0, bytes) };
        let schedules: Vec<Schedule> =
            (0..ranks).map(|rank| split_binary(&Shape { rank, ..shape })).collect();
        let (collective, params, pattern) = (Collective::Bcast, Params::DEFAULT, Pattern::Whole);
        let case = Case {
            collective,
            ranks,
            root,
            count: bytes,
            commutative: true,
            in_place: false,
            params,
            pattern,
        };
        verify(&case, &schedules)
            .unwrap_or_else(|fault| panic!("{ranks} ranks, root {root}, {bytes} bytes: {fault:?}"));
    }

    #[test]
    fn everybody_gets_both_halves() {
        for ranks in 2..=33 {
            for bytes in [1, 5000, 65536] {
                check(ranks, ranks / 3, bytes);
            }
        }
    }

    #[test]
    fn the_tree_is_numbered_by_levels() {
        assert_eq!([0, 1, 2, 3, 6].map(children), [[1, 2], [3, 5], [4, 6], [7, 11], [10, 14]]);
        for number in 0..1000 {
            assert_eq!(children(number).map(parent), [number; 2]);
        }
    }
}
