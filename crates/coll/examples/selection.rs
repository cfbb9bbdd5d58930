//! Time to select an algorithm at the first use of a shape, on one node and on hosts at 1 Gbit/s. All ranks
//! wait for that time; it is in milliseconds of one processor.
//!
//! Usage: cargo run --release -p tutti-coll --example selection [BYTES...]

use std::sync::Arc;
use std::time::Instant;

use tutti_coll::generator::Node;
use tutti_coll::select::Choice;
use tutti_coll::simulate::{Layout, Reach};
use tutti_coll::{Collective, Environment, Model, Shape, select};

const COLLECTIVES: [Collective; 6] = [
    Collective::Bcast,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::Allgather,
    Collective::Alltoall,
    Collective::ReduceScatterBlock,
];

fn environment(hosts: u32, ranks_per_host: u32) -> Environment {
    let ranks = hosts * ranks_per_host;
    if hosts == 1 {
        return Environment { node: Node::Exposed, reach: Reach::Mapped, ..Environment::flat(ranks, 2) };
    }
    let places: Vec<u32> = (0..ranks).map(|rank| rank / ranks_per_host).collect();
    let model = Model { network_bandwidth: 1.18e8, network_overhead: 6e-6, ..Model::default() };
    let mut environment =
        Environment::on_hosts(Arc::new(Layout::across(&places, ranks_per_host)), Arc::new(model));
    environment.node = Node::Exposed;
    environment.reach = Reach::Mapped;
    environment
}

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![8, 64 << 10, 1 << 20, 4 << 20, 16 << 20] } else { sizes };
    for (hosts, ranks_per_host) in [(1, 8), (1, 64), (4, 4), (8, 4), (2, 32), (32, 24)] {
        let environment = environment(hosts, ranks_per_host);
        for collective in COLLECTIVES {
            print!("{hosts}x{ranks_per_host} {collective}:");
            for &bytes in &sizes {
                let shape = Shape::new(collective, hosts * ranks_per_host, 0, bytes);
                let begin = Instant::now();
                let choice = select(&shape, &environment, None);
                let took_ms = begin.elapsed().as_secs_f64() * 1e3;
                let Choice { generator, params, time, .. } = &choice;
                print!(
                    "  {bytes} B {took_ms:.1} ({} {} {} {:.1})",
                    generator.name,
                    params.radix,
                    params.segment,
                    time * 1e6
                );
            }
            println!();
        }
    }
}
