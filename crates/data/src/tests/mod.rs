//! Tests over the whole crate: against type maps written out item by item, as MPI-5 section 5.1 defines
//! them, and nothing else.

mod exact;
mod external;
mod inverse;
mod operators;
mod transfer;
mod types;

use crate::{Contents, Datatype};

/// A type map with its markers: the reference for everything about a datatype.
#[derive(Clone, Debug, Default)]
struct Map {
    /// (displacement, bytes, alignment, code) of each basic item.
    items: Vec<(i64, i64, i64, u32)>,
    /// Lower and upper bound markers.
    marks: Vec<(i64, i64)>,
    /// Bounds of the parts.
    parts: Vec<(i64, i64)>,
}

impl Map {
    fn basic(code: u32) -> Map {
        let row = crate::predefined::scalar(code);
        let Some((value, index)) = row.pair else {
            let items = vec![(0, row.bytes.into(), row.align().into(), code)];
            return Map { items, ..Map::default() };
        };
        let (mut value, index) = (Map::basic(value), Map::basic(index));
        let (size, align) = (value.items[0].1, index.items[0].2);
        value.append(&index, (size + align - 1) / align * align);
        value
    }

    fn append(&mut self, other: &Map, displacement: i64) {
        self.items.extend(other.items.iter().map(|item| (item.0 + displacement, item.1, item.2, item.3)));
        let moved = |bounds: &(i64, i64)| (bounds.0 + displacement, bounds.1 + displacement);
        self.marks.extend(other.marks.iter().map(moved));
        self.parts.extend(other.parts.iter().map(moved));
    }

    /// Copies at displacements.
    fn at(&self, displacements: impl IntoIterator<Item = i64>) -> Map {
        let mut all = Map::default();
        displacements.into_iter().for_each(|displacement| all.append(self, displacement));
        all
    }

    fn blocks(&self, blocks: impl IntoIterator<Item = (i64, i64)>) -> Map {
        let extent = self.extent();
        let each = |(length, displacement)| (0..length).map(move |i| displacement + i * extent);
        self.at(blocks.into_iter().flat_map(each))
    }

    fn true_bounds(&self) -> (i64, i64) {
        let low = self.items.iter().map(|item| item.0).min().unwrap_or(0);
        let high = self.items.iter().map(|item| item.0 + item.1).max().unwrap_or(0);
        (low, high)
    }

    fn bounds(&self) -> (i64, i64) {
        if !self.marks.is_empty() {
            let low = self.marks.iter().map(|mark| mark.0).min().expect("not empty");
            return (low, self.marks.iter().map(|mark| mark.1).max().expect("not empty"));
        }
        let (mut low, mut high) = self.true_bounds();
        for part in self.parts.iter().filter(|_| !self.items.is_empty()) {
            (low, high) = (low.min(part.0), high.max(part.1));
        }
        let align = self.items.iter().map(|item| item.2).max().unwrap_or(1);
        (low, low + (high - low + align - 1) / align * align)
    }

    fn extent(&self) -> i64 {
        let (low, high) = self.bounds();
        high - low
    }

    fn size(&self) -> i64 {
        self.items.iter().map(|item| item.1).sum()
    }

    /// Returns the memory offset of every packed byte of `count` items.
    fn bytes(&self, count: i64) -> Vec<i64> {
        let all = self.at((0..count).map(|i| i * self.extent()));
        all.items.iter().flat_map(|item| item.0..item.0 + item.1).collect()
    }

    /// Builds the map of a datatype from its constructor's arguments.
    fn of(datatype: &Datatype) -> Map {
        use crate::Combiner::*;
        let Contents { integers, addresses, datatypes, .. } = datatype.contents();
        let int = |i: usize| i64::from(integers[i]);
        let ints = |from: usize, n: usize| integers[from..from + n].iter().map(|i| i64::from(*i));
        let inner: Vec<Map> = datatypes.iter().map(Map::part).collect();
        match datatype.combiner() {
            Named => Map::basic(datatype.code().expect("named")),
            Dup => inner[0].clone(),
            Contiguous => inner[0].blocks([(int(0), 0)]),
            Vector => {
                let extent = inner[0].extent();
                inner[0].blocks((0..int(0)).map(|i| (int(1), i * int(2) * extent)))
            }
            Hvector => inner[0].blocks((0..int(0)).map(|i| (int(1), i * addresses[0]))),
            Indexed => {
                let (n, extent) = (integers[0] as usize, inner[0].extent());
                inner[0].blocks(ints(1, n).zip(ints(1 + n, n).map(|d| d * extent)))
            }
            Hindexed => inner[0].blocks(ints(1, integers[0] as usize).zip(addresses)),
            IndexedBlock => {
                let extent = inner[0].extent();
                inner[0].blocks(ints(2, integers[0] as usize).map(|d| (int(1), d * extent)))
            }
            HindexedBlock => inner[0].blocks(addresses.iter().map(|d| (int(1), *d))),
            Struct => {
                let mut all = Map::default();
                for ((length, displacement), inner) in ints(1, inner.len()).zip(addresses).zip(&inner) {
                    all.append(&inner.blocks([(length, displacement)]), 0);
                }
                all
            }
            Subarray => Map::subarray(&integers, &inner[0]),
            Resized => Map {
                items: inner[0].items.clone(),
                marks: vec![(addresses[0], addresses[0] + addresses[1])],
                parts: vec![],
            },
            other => panic!("no reference for {other:?}"),
        }
    }

    /// Returns the map of a datatype as a part of another one.
    fn part(datatype: &Datatype) -> Map {
        let map = Map::of(datatype);
        let parts = if map.items.is_empty() { vec![] } else { vec![map.bounds()] };
        Map { parts, ..map }
    }

    fn subarray(integers: &[i32], inner: &Map) -> Map {
        let n = integers[0] as usize;
        let (sizes, rest) = integers[1..].split_at(n);
        let (subsizes, rest) = rest.split_at(n);
        let (starts, order) = rest.split_at(n);
        let total: i64 = sizes.iter().map(|size| i64::from(*size)).product();
        let extent = inner.extent();
        // Every element of the whole array in storage order, kept if its indices lie in the box.
        let inside = |linear: i64| {
            let mut rest = linear;
            let mut dimensions: Vec<usize> = (0..n).collect();
            if order[0] == 0xc {
                dimensions.reverse();
            }
            dimensions.into_iter().all(|d| {
                let index = (rest % i64::from(sizes[d])) as i32;
                rest /= i64::from(sizes[d]);
                (starts[d]..starts[d] + subsizes[d]).contains(&index)
            })
        };
        let mut map = inner.at((0..total).filter(|linear| inside(*linear)).map(|linear| linear * extent));
        map.marks = vec![(0, total * extent)];
        map
    }
}

/// Returns the predefined datatype with this handle.
fn named(code: u32) -> Datatype {
    Datatype::predefined(code).expect("a valid code").clone()
}

const INT: u32 = 0x209;
const DOUBLE: u32 = 0x214;
const SHORT: u32 = 0x208;
const CHAR: u32 = 0x243;
const SHORT_INT: u32 = 0x22c;
const DOUBLE_INT: u32 = 0x229;
