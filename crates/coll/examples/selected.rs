//! Prints which algorithm is selected for sizes and numbers of ranks: `cargo run -p tutti-coll --example selected`.

use tutti_coll::{Collective, Environment, Shape, select};

fn main() {
    for (ranks, cores) in [(2, 2), (4, 2), (8, 2), (4, 8), (16, 16), (64, 64), (24, 64)] {
        let environment = Environment::flat(ranks, cores);
        let mut selecting = Vec::new();
        println!("{ranks} ranks on {cores} cores");
        for collective in Collective::ALL {
            print!("  {collective:21}");
            for bytes in [8, 1 << 10, 16 << 10, 128 << 10, 1 << 20, 16 << 20] {
                let start = std::time::Instant::now();
                let choice = select(&Shape::new(collective, ranks, 0, bytes), &environment, None);
                selecting.push(start.elapsed());
                let params = choice.params;
                let radix = if params.radix == u32::MAX { "flat".into() } else { params.radix.to_string() };
                let params = format!("{} {}k w{}", radix, params.segment >> 10, params.window);
                print!(" {:>32}", format!("{} {params} {:.1}", choice.generator.name, choice.time * 1e6));
            }
            println!();
        }
        selecting.sort_unstable();
        let (middle, last) = (selecting[selecting.len() / 2], selecting[selecting.len() - 1]);
        println!("  selecting took {middle:.0?} in the middle, {last:.0?} at most");
    }
}
