//! Groups: immutable ordered sets of processes (MPI-5 section 7.3).
//!
//! A group is stored as an arithmetic progression if its members form one. So the group of a job with a
//! million processes is three numbers, and so are its halves, its even ranks and its reverse. Any other group
//! is a list. Its index is built at the first lookup of a member by its world rank. Clones share the list.
//!
//! A group knows the session from which it was made, and so do the communicators made of it ([`Origin`]).

use std::sync::{Arc, OnceLock};

use tutti_base::{Error, ErrorClass, Rank, Result, WorldRank};

use crate::origin::Origin;

/// Maximum length of lists that are searched linearly.
const SEARCH_LIMIT: usize = 16;

/// Ordered set of processes.
#[derive(Clone, Debug)]
pub struct Group {
    members: Members,
    origin: Origin,
}

/// Relation of two groups (MPI-5 section 7.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal members in the same order.
    Identical,
    /// Equal members in different orders.
    Similar,
    /// Different members of the groups.
    Unequal,
}

/// Triplet `(first, last, stride)` of `MPI_Group_range_incl`.
pub type RankRange = [i32; 3];

/// Storage of a group's members.
#[derive(Clone, Debug)]
enum Members {
    Progression(Progression),
    List(Arc<List>),
}

/// Progression `first`, `first + step`, ... of `size` members. The step is never zero. It is one if the size
/// is below two, so that equal groups have equal fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progression {
    first: u32,
    step: i64,
    size: u32,
}

/// Members in a list, with an index that is built when needed.
#[derive(Debug)]
struct List {
    members: Box<[WorldRank]>,
    /// Positions in `members`, sorted by world rank.
    by_world_rank: OnceLock<Box<[u32]>>,
}

impl FromIterator<WorldRank> for Group {
    /// Returns a group of the given processes in the given order. The caller ensures that they are distinct.
    fn from_iter<I: IntoIterator<Item = WorldRank>>(members: I) -> Group {
        let mut builder = Builder::default();
        members.into_iter().for_each(|member| builder.push(member));
        builder.finish()
    }
}

impl Group {
    /// Returns the group without members.
    pub fn empty() -> Group {
        Group::progression(0, 1, 0)
    }

    /// Returns the group of all processes of a job with `size` processes.
    pub fn world(size: u32) -> Group {
        Group::progression(0, 1, size)
    }

    /// Returns the group of a single process.
    pub fn single(member: WorldRank) -> Group {
        Group::progression(member.0, 1, 1)
    }

    /// Returns a group of the world model whose members form a progression.
    fn progression(first: u32, step: i64, size: u32) -> Group {
        let progression = match size {
            0 => Progression { first: 0, step: 1, size },
            1 => Progression { first, step: 1, size },
            _ => Progression { first, step, size },
        };
        Group { members: Members::Progression(progression), origin: Origin::WORLD }
    }

    /// Returns the group with the same members and another origin.
    #[must_use]
    pub fn with_origin(self, origin: Origin) -> Group {
        Group { origin, ..self }
    }

    /// Returns the origin of the group.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Checks that both groups come from the same session, or both from the world model. An empty group fits
    /// any other. `arguments` names both in the error.
    ///
    /// # Errors
    /// The class passed as `class`: MPI-5 section 11.3 forbids mixed groups but defines no error class for
    /// them.
    pub fn check_origin(&self, other: &Group, class: ErrorClass, arguments: &str) -> Result<()> {
        if self.origin == other.origin || self.is_empty() || other.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "arguments {arguments} come from {} and from {}, which one call must not mix (MPI-5 section 11.3)",
            self.origin, other.origin
        );
        Err(Error::new(class, reason))
    }

    /// Returns the number of members.
    pub fn size(&self) -> u32 {
        match &self.members {
            Members::Progression(progression) => progression.size,
            Members::List(list) => list.members.len() as u32,
        }
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// Returns the process at `rank`, or None if the group is smaller.
    #[inline]
    pub fn get(&self, rank: Rank) -> Option<WorldRank> {
        match &self.members {
            Members::Progression(progression) => progression.get(rank.0),
            Members::List(list) => list.members.get(rank.0 as usize).copied(),
        }
    }

    /// Returns the rank of `member` in this group, if it is a member.
    #[inline]
    pub fn rank_of(&self, member: WorldRank) -> Option<Rank> {
        match &self.members {
            Members::Progression(progression) => progression.position(member.0),
            Members::List(list) => list.position(member),
        }
        .map(Rank)
    }

    /// Returns true if `member` is in this group.
    pub fn contains(&self, member: WorldRank) -> bool {
        self.rank_of(member).is_some()
    }

    /// Returns the members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = WorldRank> + '_ {
        (0..self.size()).map(|rank| self.get(Rank(rank)).expect("the rank is below the size"))
    }

    /// Returns the rank in `other` of the process at `rank` in this group, if it is in both.
    pub fn translate(&self, rank: Rank, other: &Group) -> Option<Rank> {
        other.rank_of(self.get(rank)?)
    }

    /// Compares this group with `other`.
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            return Comparison::Unequal;
        }
        if self.is_same_object(other) || self.iter().eq(other.iter()) {
            return Comparison::Identical;
        }
        match self.iter().all(|member| other.contains(member)) {
            true => Comparison::Similar,
            false => Comparison::Unequal,
        }
    }

    /// Returns true if both share the same storage, which decides most comparisons without a look at members.
    fn is_same_object(&self, other: &Group) -> bool {
        match (&self.members, &other.members) {
            (Members::Progression(mine), Members::Progression(theirs)) => mine == theirs,
            (Members::List(mine), Members::List(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        }
    }

    /// Returns the members of this group, followed by those of `other` that are not in this one.
    pub fn union(&self, other: &Group) -> Group {
        let all: Group = self.iter().chain(other.iter().filter(|member| !self.contains(*member))).collect();
        all.with_origin(if self.is_empty() { other.origin } else { self.origin })
    }

    /// Returns the members of this group that are in `other`, in the order of this one.
    pub fn intersection(&self, other: &Group) -> Group {
        self.only(|_, member| other.contains(member))
    }

    /// Returns the members of this group that are not in `other`, in the order of this one.
    pub fn difference(&self, other: &Group) -> Group {
        self.only(|_, member| !other.contains(member))
    }

    /// Returns the group of the members at `ranks`, in that order.
    ///
    /// # Errors
    /// `Rank` if a rank is outside this group or given twice.
    pub fn incl(&self, ranks: &[i32]) -> Result<Group> {
        self.select(&Selection::of_list(self, ranks)?)
    }

    /// Returns the group of all members except those at `ranks`, in the order of this group.
    ///
    /// # Errors
    /// The same as of [`Group::incl`].
    pub fn excl(&self, ranks: &[i32]) -> Result<Group> {
        Ok(self.without(&Selection::of_list(self, ranks)?))
    }

    /// Returns the group of the members at the ranks of all triplets, in the order of the triplets.
    ///
    /// # Errors
    /// `Rank` if a rank is outside this group or appears twice, `Arg` if a stride is zero or leads
    /// away from the last rank.
    pub fn range_incl(&self, ranges: &[RankRange]) -> Result<Group> {
        self.select(&Selection::of_ranges(self, ranges)?)
    }

    /// Returns the group of all members except those at the ranks of the triplets, in the order of this
    /// group.
    ///
    /// # Errors
    /// The same as of [`Group::range_incl`].
    pub fn range_excl(&self, ranges: &[RankRange]) -> Result<Group> {
        Ok(self.without(&Selection::of_ranges(self, ranges)?))
    }

    fn select(&self, selection: &Selection) -> Result<Group> {
        let member = |rank| self.get(Rank(rank)).expect("the selection was checked against this group");
        let chosen: Group = selection.ranks.iter().flat_map(Progression::iter).map(member).collect();
        Ok(chosen.with_origin(self.origin))
    }

    fn without(&self, selection: &Selection) -> Group {
        self.only(|rank, _| !selection.contains(rank))
    }

    /// Returns the group of the members that are `wanted`, in the order of this group.
    fn only(&self, wanted: impl Fn(u32, WorldRank) -> bool) -> Group {
        let all = (0..).zip(self.iter());
        let some: Group =
            all.filter(|(rank, member)| wanted(*rank, *member)).map(|(_, member)| member).collect();
        some.with_origin(self.origin)
    }
}

impl Progression {
    fn get(&self, position: u32) -> Option<WorldRank> {
        (position < self.size).then(|| WorldRank(self.at(position)))
    }

    fn at(&self, position: u32) -> u32 {
        (i64::from(self.first) + i64::from(position) * self.step) as u32
    }

    fn position(&self, value: u32) -> Option<u32> {
        let distance = i64::from(value) - i64::from(self.first);
        let position = distance / self.step;
        let inside = distance % self.step == 0 && (0..i64::from(self.size)).contains(&position);
        inside.then_some(position as u32)
    }

    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size).map(|position| self.at(position))
    }
}

impl List {
    fn position(&self, member: WorldRank) -> Option<u32> {
        if self.members.len() <= SEARCH_LIMIT {
            return self.members.iter().position(|other| *other == member).map(|found| found as u32);
        }
        let index = self.by_world_rank.get_or_init(|| self.index());
        let found = index.binary_search_by_key(&member, |position| self.members[*position as usize]);
        found.ok().map(|place| index[place])
    }

    fn index(&self) -> Box<[u32]> {
        let mut positions: Vec<u32> = (0..self.members.len() as u32).collect();
        positions.sort_unstable_by_key(|position| self.members[*position as usize]);
        positions.into_boxed_slice()
    }
}

/// Builder of a group, which stays a progression as long as the members form one.
#[derive(Default)]
struct Builder {
    progression: Option<Progression>,
    list: Vec<WorldRank>,
}

impl Builder {
    fn push(&mut self, member: WorldRank) {
        if !self.list.is_empty() {
            return self.list.push(member);
        }
        match &mut self.progression {
            None => self.progression = Some(Progression { first: member.0, step: 1, size: 1 }),
            Some(so_far) if so_far.size == 1 && so_far.first != member.0 => {
                so_far.step = i64::from(member.0) - i64::from(so_far.first);
                so_far.size = 2;
            }
            Some(so_far) if i64::from(so_far.at(so_far.size - 1)) + so_far.step == i64::from(member.0) => {
                so_far.size += 1;
            }
            Some(so_far) => {
                self.list.extend(so_far.iter().map(WorldRank));
                self.list.push(member);
            }
        }
    }

    fn finish(self) -> Group {
        if self.list.is_empty() {
            return self
                .progression
                .map_or_else(Group::empty, |p| Group::progression(p.first, p.step, p.size));
        }
        let list = List { members: self.list.into_boxed_slice(), by_world_rank: OnceLock::new() };
        debug_assert!(
            list.index()
                .windows(2)
                .all(|pair| list.members[pair[0] as usize] != list.members[pair[1] as usize])
        );
        Group { members: Members::List(Arc::new(list)), origin: Origin::WORLD }
    }
}

/// Ranks of a group selected by a user, which are checked to be valid and distinct.
struct Selection {
    ranks: Vec<Progression>,
    /// Selected ranks, one bit for each rank of the group.
    chosen: Vec<u64>,
}

impl Selection {
    fn new(group: &Group) -> Selection {
        Selection { ranks: Vec::new(), chosen: vec![0; group.size().div_ceil(64) as usize] }
    }

    fn of_list(group: &Group, ranks: &[i32]) -> Result<Selection> {
        let mut selection = Selection::new(group);
        for (index, rank) in ranks.iter().enumerate() {
            selection.choose(i64::from(*rank), group, || format!("argument ranks[{index}]"))?;
            selection.ranks.push(Progression { first: *rank as u32, step: 1, size: 1 });
        }
        Ok(selection)
    }

    fn of_ranges(group: &Group, ranges: &[RankRange]) -> Result<Selection> {
        let mut selection = Selection::new(group);
        for (index, [first, last, stride]) in ranges.iter().enumerate() {
            let [first, last, stride] = [*first, *last, *stride].map(i64::from);
            let place = || format!("argument ranges[{index}] = ({first}, {last}, {stride})");
            if stride == 0 {
                let reason = format!("{}: the stride must not be zero", place());
                return Err(Error::new(ErrorClass::Arg, reason));
            }
            if (last - first).signum() * stride.signum() < 0 {
                let reason = format!("{}: the stride leads away from the last rank", place());
                return Err(Error::new(ErrorClass::Arg, reason));
            }
            let count = (last - first) / stride + 1;
            // Both ends are checked first, so that a range outside the group does not cost its length.
            for end in [first, first + (count - 1) * stride] {
                check_inside(end, group, place)?;
            }
            for position in 0..count {
                selection.choose(first + position * stride, group, place)?;
            }
            let step = if count == 1 { 1 } else { stride };
            selection.ranks.push(Progression { first: first as u32, step, size: count as u32 });
        }
        Ok(selection)
    }

    /// Adds a rank to the selection. It must be in the group and not selected yet.
    fn choose(&mut self, rank: i64, group: &Group, place: impl Fn() -> String) -> Result<()> {
        check_inside(rank, group, &place)?;
        let (word, bit) = (rank as usize / 64, 1 << (rank as usize % 64));
        if self.chosen[word] & bit != 0 {
            return Err(Error::new(ErrorClass::Rank, format!("{}: rank {rank} is given twice", place())));
        }
        self.chosen[word] |= bit;
        Ok(())
    }

    fn contains(&self, rank: u32) -> bool {
        self.chosen[rank as usize / 64] & (1 << (rank % 64)) != 0
    }
}

fn check_inside(rank: i64, group: &Group, place: impl Fn() -> String) -> Result<()> {
    if (0..i64::from(group.size())).contains(&rank) {
        return Ok(());
    }
    let reason = format!("{}: rank {rank} is not in a group of {} processes", place(), group.size());
    Err(Error::new(ErrorClass::Rank, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(got: Result<Group>, expected: std::result::Result<&[u32], (ErrorClass, &str)>) {
        match (got, expected) {
            (Ok(group), Ok(members)) => {
                assert_eq!(group.iter().map(|member| member.0).collect::<Vec<_>>(), members);
            }
            (Err(error), Err((class, part))) => {
                assert_eq!(error.class, class);
                assert!(error.message.contains(part), "{error}");
            }
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    fn group(members: &[u32]) -> Group {
        members.iter().copied().map(WorldRank).collect()
    }

    #[test]
    fn progressions_stay_compact() {
        let world = Group::world(1_000_000);
        let evens = world.range_incl(&[[0, 999_999, 2]]).unwrap();
        let back = world.range_incl(&[[999_999, 0, -1]]).unwrap();
        for (group, size) in [(&world, 1_000_000), (&evens, 500_000), (&back, 1_000_000)] {
            assert!(matches!(group.members, Members::Progression(_)));
            assert_eq!(group.size(), size);
        }
        assert_eq!(back.rank_of(WorldRank(0)), Some(Rank(999_999)));
        assert_eq!(evens.rank_of(WorldRank(3)), None);
        assert_eq!(world.compare(&back), Comparison::Similar);
        assert!(matches!(world.excl(&[0]).unwrap().members, Members::Progression(_)));
    }

    #[test]
    fn selections_name_what_is_wrong() {
        let world = Group::world(6);
        check(world.incl(&[5, 0, 2]), Ok(&[5, 0, 2]));
        check(world.incl(&[]), Ok(&[]));
        check(world.incl(&[1, 6]), Err((ErrorClass::Rank, "ranks[1]: rank 6 is not")));
        check(world.incl(&[-3]), Err((ErrorClass::Rank, "ranks[0]: rank -3")));
        check(world.excl(&[1, 2, 1]), Err((ErrorClass::Rank, "ranks[2]: rank 1 is given twice")));
        check(world.range_incl(&[[4, 0, -2], [1, 1, 7]]), Ok(&[4, 2, 0, 1]));
        check(world.range_excl(&[[1, 4, 2]]), Ok(&[0, 2, 4, 5]));
        check(world.range_incl(&[[0, 1, 0]]), Err((ErrorClass::Arg, "must not be zero")));
        check(world.range_incl(&[[0, 5, -1]]), Err((ErrorClass::Arg, "leads away")));
        check(world.range_excl(&[[0, i32::MAX, 1]]), Err((ErrorClass::Rank, "ranges[0]")));
        check(world.range_incl(&[[0, 2, 1], [2, 3, 1]]), Err((ErrorClass::Rank, "rank 2 is given twice")));
        check(Group::empty().range_incl(&[[0, 0, 1]]), Err((ErrorClass::Rank, "0 processes")));
    }

    #[test]
    fn groups_of_two_sessions_do_not_mix() {
        let (world, one, two) = (Group::world(4), Origin::numbered(1), Origin::numbered(2));
        let (first, second) = (world.clone().with_origin(one), world.clone().with_origin(two));
        let class = |left: &Group, right: &Group| {
            left.check_origin(right, ErrorClass::Group, "group1 and group2").err().map(|error| error.class)
        };
        assert_eq!(class(&first, &second), Some(ErrorClass::Group));
        assert_eq!(class(&world, &second), Some(ErrorClass::Group));
        let none = first.difference(&first);
        for part in
            [first.incl(&[2, 0]).unwrap(), first.excl(&[1]).unwrap(), first.union(&first), none.union(&first)]
        {
            assert_eq!((class(&first, &part), part.origin()), (None, one));
        }
        assert_eq!(class(&none, &second), None);
        assert_eq!(first.range_excl(&[[0, 3, 2]]).unwrap().intersection(&first).origin(), one);
    }

    fn members() -> impl Strategy<Value = Vec<u32>> {
        let scattered = proptest::collection::hash_set(0u32..60, 0..40)
            .prop_map(|set| set.into_iter().collect::<Vec<u32>>());
        let strided = (0u32..20, 1u32..4, 0u32..12, any::<bool>()).prop_map(|(first, step, size, back)| {
            let mut members: Vec<u32> = (0..size).map(|i| first + i * step).collect();
            if back {
                members.reverse();
            }
            members
        });
        prop_oneof![scattered, strided]
    }

    proptest! {
        #[test]
        fn algebra_is_that_of_lists(a in members(), b in members()) {
            let (left, right) = (group(&a), group(&b));
            let in_a = |x: &u32| a.contains(x);
            let in_b = |x: &u32| b.contains(x);
            let only_b = b.iter().copied().filter(|x| !in_a(x));
            check(Ok(left.union(&right)), Ok(&a.iter().copied().chain(only_b).collect::<Vec<_>>()));
            check(Ok(left.intersection(&right)), Ok(&a.iter().copied().filter(in_b).collect::<Vec<_>>()));
            check(
                Ok(left.difference(&right)),
                Ok(&a.iter().copied().filter(|x| !in_b(x)).collect::<Vec<_>>()),
            );
            for world in 0..60 {
                let expected = a.iter().position(|x| *x == world).map(|p| Rank(p as u32));
                prop_assert_eq!(left.rank_of(WorldRank(world)), expected);
            }
            for (rank, world) in a.iter().enumerate() {
                let expected = b.iter().position(|x| x == world).map(|p| Rank(p as u32));
                prop_assert_eq!(left.translate(Rank(rank as u32), &right), expected);
            }
            prop_assert_eq!(left.get(Rank(a.len() as u32)), None);
        }

        #[test]
        fn comparison_is_that_of_lists(a in members(), b in members()) {
            let mut sorted = [a.clone(), b.clone()];
            sorted.iter_mut().for_each(|members| members.sort_unstable());
            let expected = match (a == b, sorted[0] == sorted[1]) {
                (true, _) => Comparison::Identical,
                (false, true) => Comparison::Similar,
                (false, false) => Comparison::Unequal,
            };
            prop_assert_eq!(group(&a).compare(&group(&b)), expected);
            let mut turned = a.clone();
            turned.reverse();
            let expected = if a.len() < 2 { Comparison::Identical } else { Comparison::Similar };
            prop_assert_eq!(group(&a).compare(&group(&turned)), expected);
        }

        #[test]
        fn incl_and_excl_are_that_of_lists(a in members(), picks in proptest::collection::vec(0usize..40, 0..20)) {
            let mut ranks: Vec<i32> = Vec::new();
            for pick in picks {
                if pick < a.len() && !ranks.contains(&(pick as i32)) {
                    ranks.push(pick as i32);
                }
            }
            let chosen: Vec<u32> = ranks.iter().map(|rank| a[*rank as usize]).collect();
            let rest: Vec<u32> = a.iter().copied().filter(|member| !chosen.contains(member)).collect();
            check(group(&a).incl(&ranks), Ok(&chosen));
            check(group(&a).excl(&ranks), Ok(&rest));
            let triplets: Vec<RankRange> = ranks.iter().map(|rank| [*rank, *rank, 1]).collect();
            check(group(&a).range_incl(&triplets), Ok(&chosen));
            check(group(&a).range_excl(&triplets), Ok(&rest));
        }
    }
}
