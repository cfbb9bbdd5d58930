//! Blocks, and how what they have computed comes to all ranks in the end.

use std::collections::BTreeMap;

use super::cells::Action;
use super::text::Text;
use super::writer::Writer;
use crate::affine::Affine;
use crate::isl::Set;
use crate::polyhedra::extents;
use crate::region::{Coordinate, Loop};

impl Writer<'_> {
    /// Who has which block; `$blocks` and what bounds them are there already.
    pub fn blocks(&mut self, out: &mut Text) {
        self.add(
            out,
            "const long $begin = $overlap_border($head, $first, $past, $tail, $rank, $blocks);
            const long $end = $overlap_border($head, $first, $past, $tail, $rank + 1, $blocks);",
        );
    }

    /// How many blocks there are, each at least `least` wide.
    pub fn count_blocks(&mut self, out: &mut Text, least: i64) {
        let positions =
            if least > 1 { format!("($past - $first) / {least}") } else { "$past - $first".into() };
        self.add(out, &format!("const long $blocks = $overlap_max(1, $overlap_min($ranks, {positions}));"));
    }

    /// Who we are, and from where to where coordinates go, each with the shifts of its nest in all of
    /// `partitions`. Borders lie in [first, past), where all nests with a loop have positions, `last` is
    /// where the last position ends; `names` are those of the three.
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
        self.add(out, "int $rank, $ranks;\n$overlap_start();\nMPI_Comm_rank(MPI_COMM_WORLD, &$rank);\nMPI_Comm_size(MPI_COMM_WORLD, &$ranks);\n\n");
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

    /// Gathers `owned`, the cells of the block [begin, end), on all ranks, if there are several and steps.
    pub fn gather(&mut self, out: &mut Text, owned: &Set, context: &str) {
        let (begin, end) = (self.names.get("begin"), self.names.get("end"));
        let (low, high) = (self.names.get("low"), self.names.get("high"));
        let element = self.element();
        let other = [(begin.as_str(), low.as_str()), (end.as_str(), high.as_str())];
        let [low_text, high_text] = &self.region().time.texts;
        let measured = if self.options.measure { " && $communicate" } else { "" };
        let when = format!("$ranks > 1 && {low_text} < {high_text}{measured}");
        let block = "const long $low = $overlap_border($head, $first, $past, $tail, $block, $blocks);
            const long $high = $overlap_border($head, $first, $past, $tail, $block + 1, $blocks);";
        self.add(
            out,
            &format!(
                "\n/* What each block has computed, to all ranks. */
                if ({when}) {{
                int *$counts = $overlap_room(2 * $ranks * (long)sizeof(int)), *$places = $counts + $ranks;
                long $total = 0;
                for (int $block = 0; $block < $ranks; $block++) {{
                {block}
                long $count = 0;"
            ),
        );
        self.cells(out, owned, context, &other, Action::Count);
        let c = &element.c;
        self.add(
            out,
            &format!(
                "$counts[$block] = (int)$count;
                $places[$block] = (int)$total;
                $total += $count;
                }}
                if ($total > INT_MAX) {{
                fprintf(stderr, \"overlap: %ld elements are too many to gather\\n\", $total);
                MPI_Abort(MPI_COMM_WORLD, 1);
                }}
                {c} *$all = $overlap_room($total * (long)sizeof *$all), *$next = $all + $places[$rank];"
            ),
        );
        self.cells(out, owned, context, &[], Action::Pack);
        let mpi = &element.mpi;
        self.add(
            out,
            &format!(
                "MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, $all, $counts, $places, {mpi}, MPI_COMM_WORLD);
                for (int $block = 0; $block < $ranks; $block++) {{
                if ($block == $rank)
                continue;"
            ),
        );
        self.add(out, block);
        self.add(out, "$next = $all + $places[$block];");
        self.cells(out, owned, context, &other, Action::Unpack);
        self.add(out, "}\nfree($all);\nfree($counts);\n}");
    }

    /// Loop variables of the program that live on, as the sequential loops leave them.
    pub fn counters(&mut self, out: &mut Text) {
        let region = self.region();
        let time = std::iter::once(&region.time);
        let all = time.chain(region.statements.iter().flat_map(|statement| &statement.loops));
        let is_known = |one: &&Loop| {
            let sizes = one.low.terms.keys().chain(one.high.terms.keys());
            one.declared.is_none() && sizes.into_iter().all(|name| region.parameters.contains_key(name))
        };
        let last: BTreeMap<String, [String; 2]> =
            all.filter(is_known).map(|one| (one.variable.clone(), one.texts.clone())).collect();
        for (at, (variable, [low, high])) in last.iter().enumerate() {
            if at == 0 {
                self.add(out, "\n/* The loop variables, as the sequential loops leave them. */");
            }
            self.add(out, &format!("{variable} = $overlap_max({low}, {high});"));
        }
    }
}
