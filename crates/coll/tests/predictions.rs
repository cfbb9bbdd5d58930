//! Comparison of the simulator's predictions for recorded machines with golden text: a change of the model,
//! of an algorithm or of selection shows as a difference. With TUTTI_BLESS=1 in the environment the files are
//! written anew.

use std::fmt::Write;
use std::sync::Arc;

use tutti_coll::generator::Node;
use tutti_coll::simulate::{Binding, Layout, Reach};
use tutti_coll::{Collective, Environment, Shape, select};
use tutti_topo::{Level, Machine};

fn directory() -> String {
    format!("{}/../../fixtures", env!("CARGO_MANIFEST_DIR"))
}

fn table(name: &str, ranks: u32) -> String {
    use Collective as C;
    let text =
        std::fs::read_to_string(format!("{}/machines/{name}.txt", directory())).expect("it is recorded");
    let machine = Machine::parse(&text).expect("it was written by Tutti");
    let mut out = format!("{ranks} ranks on {name}: selected among messages, with its time in us\n");
    for binding in [Binding::Compact, Binding::Scatter, Binding::None] {
        let layout = Layout::bound(&machine, &binding, ranks, 1);
        let environment = Environment {
            cores: machine.count(Level::Core) as u32,
            oversubscribed: layout.crowded(),
            node: Node::Any,
            reach: Reach::Mapped,
            layout: Arc::new(layout),
            ..Environment::flat(ranks, 1)
        };
        for collective in [C::Barrier, C::Bcast, C::Allgather, C::Alltoall, C::Allreduce] {
            for bytes in [8, 16 << 10, 1 << 20] {
                let choice = select(&Shape::new(collective, ranks, 0, bytes), &environment, None);
                let (name, time) = (choice.generator.name, choice.time * 1e6);
                writeln!(out, "{binding:?} {collective} {bytes}: {name} {time:.2}")
                    .expect("a string takes all");
            }
        }
    }
    out
}

fn check(name: &str, ranks: u32) {
    tutti_golden::check(&format!("predictions/{name}-{ranks}.txt"), &table(name, ranks));
}

#[test]
fn recorded_machines_are_predicted_as_before() {
    check("epyc-2x16-nps2", 32);
    check("laptop-4x2", 4);
    check("one-2", 8);
}
