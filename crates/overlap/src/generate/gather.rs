//! Blocks of the ranks, and the collection of their results at rank 0.

use super::cells::Action;
use super::text::Text;
use super::writer::Writer;
use crate::affine::Affine;
use crate::isl::Set;
use crate::polyhedra::extents;
use crate::region::Coordinate;

impl Writer<'_> {
    /// Writes the borders of this rank's block. `$blocks` and the bounds are variables of the program
    /// already.
    pub fn blocks(&mut self, out: &mut Text) {
        self.add(
            out,
            "const long $begin = $overlap_border($head, $first, $past, $tail, $rank, $blocks);
            const long $end = $overlap_border($head, $first, $past, $tail, $rank + 1, $blocks);",
        );
    }

    /// Writes the number of blocks, each of which is at least `least` wide.
    pub fn count_blocks(&mut self, out: &mut Text, least: i64) {
        let positions =
            if least > 1 { format!("($past - $first) / {least}") } else { "$past - $first".into() };
        self.add(out, &format!("const long $blocks = $overlap_max(1, $overlap_min($ranks, {positions}));"));
    }

    /// Writes number of ranks, own rank, and the range of coordinates with the shifts of all `partitions`.
    /// Borders lie in [first, past), where all nests with a loop have positions. `last` is the end of the
    /// last position. `names` are the names of these three variables.
    pub fn who_and_where(&mut self, out: &mut Text, partitions: &[&[i64]], names: [&str; 3]) {
        let one = Affine::constant(1);
        let (mut ends, mut inner) = ([vec![], vec![]], [vec![], vec![]]);
        for (at, (low, high)) in extents(self.region()).into_iter().enumerate() {
            for shifts in partitions {
                let both = [&low, &high].map(|end| end.clone().plus(shifts[at], &one).to_string());
                let both = both.each_ref().map(|text| self.c(text, &[]));
                let is_loop = matches!(self.region().nests[at].coordinate, Coordinate::Loop(_));
                for (side, text) in both.into_iter().enumerate() {
                    if is_loop {
                        inner[side].push(text.clone());
                    }
                    ends[side].push(text);
                }
            }
        }
        if inner[0].is_empty() {
            inner = ends.clone();
        }
        let [lows, highs] = ends;
        let (head, tail) = (self.extreme("overlap_min", lows), self.extreme("overlap_max", highs));
        let [lows, highs] = inner;
        let (first, past) = (self.extreme("overlap_max", lows), self.extreme("overlap_min", highs));
        self.add(out, "int $rank, $ranks;\nMPI_Comm_rank(MPI_COMM_WORLD, &$rank);\nMPI_Comm_size(MPI_COMM_WORLD, &$ranks);\n\n");
        self.add(
            out,
            &format!(
                "/* Positions begin at head; all nests have some from {} to {}. */",
                &names[0][1..],
                &names[1][1..]
            ),
        );
        let [inside, outside, last] = names;
        self.add(
            out,
            &format!("const long $head = {head}, {inside} = {first}, {outside} = {past}, {last} = {tail};"),
        );
    }

    /// Sends `owned`, the cells of the block [begin, end), to rank 0.
    pub fn gather(&mut self, out: &mut Text, owned: &Set, context: &str) {
        let (begin, end) = (self.names.get("begin"), self.names.get("end"));
        let (low, high) = (self.names.get("low"), self.names.get("high"));
        let c = self.element().c;
        let other = [(begin.as_str(), low.as_str()), (end.as_str(), high.as_str())];
        let when = if self.options.measure { "$ranks > 1 && $communicate" } else { "$ranks > 1" };
        self.add(
            out,
            &format!(
                "\n/* What each block has computed, to rank 0. */
                if ({when}) {{
                for (int $block = $rank == 0 ? 1 : $rank; $block < ($rank == 0 ? $ranks : $rank + 1); $block++) {{
                const long $low = $overlap_border($head, $first, $past, $tail, $block, $blocks);
                const long $high = $overlap_border($head, $first, $past, $tail, $block + 1, $blocks);
                long $count = 0;"
            ),
        );
        self.cells(out, owned, context, &other, Action::Count);
        self.add(
            out,
            &format!(
                "{c} *$values = $overlap_room($count * (long)sizeof *$values), *$next = $values;
                if ($rank > 0) {{"
            ),
        );
        self.cells(out, owned, context, &other, Action::Pack);
        self.add(
            out,
            "$overlap_pass($values, (size_t)$count * sizeof *$values, $rank, $block);
            } else {
            $overlap_pass($values, (size_t)$count * sizeof *$values, $rank, $block);",
        );
        self.cells(out, owned, context, &other, Action::Unpack);
        self.add(out, "}\nfree($values);\n}\n}");
    }
}
