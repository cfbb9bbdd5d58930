//! Walks a shape over a range of packed bytes, from anywhere to anywhere.
//!
//! Finding the place costs a division a loop and a binary search a table: O(depth + log n). There is no
//! state between two walks, so a stream of fragments needs nothing but its position.

use crate::shape::{Entry, Kind, Shape, Unit};

/// Receives the runs of memory in packed order. Every method returns whether to go on.
pub(crate) trait Visitor: Sized {
    /// Visits one run; `offset` is from the buffer's address.
    fn run(&mut self, offset: i64, bytes: u64, unit: Unit) -> bool;

    /// Visits equal runs, `stride` apart.
    fn strided(&mut self, offset: i64, stride: i64, count: u64, bytes: u64, unit: Unit) -> bool {
        (0..count).all(|i| self.run(offset + i as i64 * stride, bytes, unit))
    }

    /// Visits equal runs at `base` plus each offset.
    fn listed(&mut self, base: i64, offsets: &[i64], bytes: u64, unit: Unit) -> bool {
        offsets.iter().all(|offset| self.run(base + offset, bytes, unit))
    }

    /// Visits the whole `body` `count` times, where it is neither empty nor a single run.
    fn repeated(&mut self, body: &Shape, offset: i64, stride: i64, count: u64) -> bool {
        (0..count).all(|i| whole(self, body, offset + i as i64 * stride))
    }
}

/// Visits all of `shape`, placed at `base`.
pub(crate) fn whole<V: Visitor>(visitor: &mut V, shape: &Shape, base: i64) -> bool {
    let base = base + shape.offset;
    match &shape.kind {
        Kind::Run { unit } => visitor.run(base, shape.size, *unit),
        Kind::Loop { count, stride, body } => repetitions(visitor, body, base, *stride, *count),
        Kind::List { offsets, body } => list(visitor, body, base, offsets),
        Kind::Table { entries, unit } => table(visitor, entries, *unit, base, 0, shape.size),
        Kind::Parts { parts } => parts.iter().all(|part| whole(visitor, &part.shape, base)),
    }
}

/// Visits `take` packed bytes of `shape` after the first `skip`; not more than there are.
pub(crate) fn part<V: Visitor>(visitor: &mut V, shape: &Shape, base: i64, skip: u64, take: u64) -> bool {
    if skip == 0 && take == shape.size {
        return whole(visitor, shape, base);
    }
    let base = base + shape.offset;
    match &shape.kind {
        Kind::Run { unit } => visitor.run(base + skip as i64, take, *unit),
        Kind::Loop { stride, body, .. } => looped(visitor, body, base, *stride, skip, take),
        Kind::List { offsets, body } => {
            let at = |index: u64| base + offsets[index as usize];
            let listed = |visitor: &mut V, first: u64, count: u64| {
                list(visitor, body, base, &offsets[first as usize..(first + count) as usize])
            };
            ends(visitor, body, skip, take, at, listed)
        }
        Kind::Table { entries, unit } => table(visitor, entries, *unit, base, skip, take),
        Kind::Parts { parts } => {
            let first = parts.partition_point(|part| part.start <= skip) - 1;
            let end = skip + take;
            parts[first..].iter().take_while(|part| part.start < end).all(|one| {
                let from = skip.saturating_sub(one.start);
                let to = (end - one.start).min(one.shape.size);
                part(visitor, &one.shape, base, from, to - from)
            })
        }
    }
}

/// Visits `take` packed bytes after `skip` of an endless loop over `body`.
pub(crate) fn looped<V: Visitor>(
    visitor: &mut V,
    body: &Shape,
    base: i64,
    stride: i64,
    skip: u64,
    take: u64,
) -> bool {
    let at = |index: u64| base + index as i64 * stride;
    let middle =
        |visitor: &mut V, first: u64, count: u64| repetitions(visitor, body, at(first), stride, count);
    ends(visitor, body, skip, take, at, middle)
}

/// Copies of one body: a part of the first, whole ones, a part of the last.
fn ends<V: Visitor>(
    visitor: &mut V,
    body: &Shape,
    skip: u64,
    mut take: u64,
    at: impl Fn(u64) -> i64,
    middle: impl Fn(&mut V, u64, u64) -> bool,
) -> bool {
    let (mut index, within) = (skip / body.size, skip % body.size);
    if within > 0 {
        let bytes = take.min(body.size - within);
        if !part(visitor, body, at(index), within, bytes) {
            return false;
        }
        take -= bytes;
        index += 1;
    }
    let (count, rest) = (take / body.size, take % body.size);
    if count > 0 && !middle(visitor, index, count) {
        return false;
    }
    rest == 0 || part(visitor, body, at(index + count), 0, rest)
}

fn repetitions<V: Visitor>(visitor: &mut V, body: &Shape, base: i64, stride: i64, count: u64) -> bool {
    match &body.kind {
        Kind::Run { unit } => visitor.strided(base + body.offset, stride, count, body.size, *unit),
        _ => visitor.repeated(body, base, stride, count),
    }
}

fn list<V: Visitor>(visitor: &mut V, body: &Shape, base: i64, offsets: &[i64]) -> bool {
    match &body.kind {
        Kind::Run { unit } => visitor.listed(base + body.offset, offsets, body.size, *unit),
        _ => offsets.iter().all(|offset| whole(visitor, body, base + offset)),
    }
}

fn table<V: Visitor>(
    visitor: &mut V,
    entries: &[Entry],
    unit: Unit,
    base: i64,
    skip: u64,
    take: u64,
) -> bool {
    let end = skip + take;
    let mut index = entries.partition_point(|entry| entry.start <= skip) - 1;
    let mut position = skip;
    while position < end {
        let entry = entries[index];
        index += 1;
        let stop = entries.get(index).map_or(end, |next| next.start.min(end));
        let offset = base + entry.offset + (position - entry.start) as i64;
        if !visitor.run(offset, stop - position, unit) {
            return false;
        }
        position = stop;
    }
    true
}
