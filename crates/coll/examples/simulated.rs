//! How fast the simulator is: `cargo run --release -p tutti-coll --example simulated`.

use std::time::Instant;

use tutti_coll::hierarchy::Ignored;
use tutti_coll::simulate::{Layout, Load, Reach, Stage, predict};
use tutti_coll::{Collective, Model, Params, Shape, registry};

fn main() {
    let model = Model::default();
    for (collective, name, ranks, bytes) in [
        (Collective::Bcast, "knomial", 8, 1024),
        (Collective::Barrier, "dissemination", 64, 0),
        (Collective::Allgather, "ring", 64, 1024),
        (Collective::Bcast, "kary", 64, 16 << 20),
        (Collective::Allreduce, "recursive_doubling", 4096, 1024),
        (Collective::Allgather, "ring", 4096, 1024),
    ] {
        let layout = Layout::flat(ranks, ranks);
        let stage = Stage { model: &model, layout: &layout, reach: Reach::Mapped };
        let load = Load::new(&Shape::new(collective, ranks, 0, bytes));
        let generator = registry().iter().find(|one| one.collective == collective && one.name == name);
        let generator = generator.expect("the list names algorithms that there are");
        let params = Params { radix: 2, segment: 8192, window: 4, ignored: Ignored::NONE };
        for bound in [2048, 4 << 20] {
            let start = Instant::now();
            let (mut rounds, mut last) = (0, None);
            while rounds < 3 || start.elapsed().as_millis() < 100 {
                last = Some(predict(generator, &load, &params, &stage, bound));
                rounds += 1;
            }
            let (each, last) = (start.elapsed() / rounds, last.expect("there were rounds"));
            println!(
                "{collective} {name} on {ranks}: {each:.1?}, {} pieces of work, {:.0} ns each; says {:.1} us{}",
                last.tasks,
                each.as_nanos() as f64 / last.tasks as f64,
                last.seconds * 1e6,
                if last.exact { "" } else { " (cut)" }
            );
        }
    }
}
