//! `--measure`: the region runs as always, with tuning and gathering in its time, then only computing, then
//! only communicating, both in the way that was kept, and once more for the results; and the program prints
//! how much was hidden (Barigou 2016, section 4.2): ROR = (T_comp + T_comm - T_exec) / min(T_comp, T_comm).

use super::cells::Action;
use super::text::Text;
use super::writer::Writer;

impl Writer<'_> {
    /// Writes the neighbours of this rank. In a measured program, a pass over the region begins here.
    pub fn neighbours(&mut self, out: &mut Text, are_needed: bool) {
        if !self.options.measure && !are_needed {
            return;
        }
        if !self.options.measure {
            return self.add(
                out,
                "const int $left = $rank > 0 && $rank < $blocks ? $rank - 1 : MPI_PROC_NULL;
                const int $right = $rank + 1 < $blocks ? $rank + 1 : MPI_PROC_NULL;",
            );
        }
        let (cells, c) = (self.model.writes.range(), self.element().c);
        let context = self.model.context(&[], &["0 = 0".to_string()]);
        self.add(
            out,
            "\n/* What the region will change, to begin each pass with the same. */\nlong $count = 0;",
        );
        self.cells(out, &cells, &context, &[], Action::Count);
        self.add(
            out,
            &format!("{c} *$saved = $overlap_room($count * (long)sizeof *$saved), *$next = $saved;"),
        );
        self.cells(out, &cells, &context, &[], Action::Pack);
        self.add(
            out,
            "\n/* As always; only computing; only communicating; and once more for the results. */
            double $seconds[4];
            for (int $pass = 0; $pass < 4; $pass++) {
            const int $compute = $pass != 2, $communicate = $pass != 1;
            const int $left = $communicate && $rank > 0 && $rank < $blocks ? $rank - 1 : MPI_PROC_NULL;
            const int $right = $communicate && $rank + 1 < $blocks ? $rank + 1 : MPI_PROC_NULL;",
        );
        if !are_needed {
            self.add(out, "(void)$left, (void)$right;");
        }
        self.add(out, "$next = $saved;");
        self.cells(out, &cells, &context, &[], Action::Unpack);
        self.add(out, "MPI_Barrier(MPI_COMM_WORLD);\nconst double $started = MPI_Wtime();");
    }

    /// Writes the end of a pass, and the output of the table.
    pub fn passed(&mut self, out: &mut Text, is_tuned: bool) {
        if !self.options.measure {
            return;
        }
        let (first, last) = self.region().lines;
        let show = if is_tuned { "\n$overlap_show(&$tuning);" } else { "" };
        self.add(
            out,
            &format!(
                "$seconds[$pass] = MPI_Wtime() - $started;
                }}
                free($saved);
                $overlap_table(\"lines {first} to {last}\", $seconds);{show}"
            ),
        );
    }
}
