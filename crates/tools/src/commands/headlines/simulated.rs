//! Headlines that two cores cannot show: simulation of the same schedules, with one rank on each core of a
//! recorded machine.

use super::list::{Algorithms, Way};
use crate::simulate::cluster::Cluster;
use std::sync::Arc;
use tutti_coll::Environment;
use tutti_coll::generator::{Generator, Node, Situation};
use tutti_coll::lower::lower;
use tutti_coll::lower::times::{Costs, completion_ns};
use tutti_coll::registry;
use tutti_coll::select::closed_form;
use tutti_coll::shape::{Collective, Params, Shape};
use tutti_coll::simulate::{Binding, Bound, Layout, Load, predict};
use tutti_topo::{Level, Machine};

/// Pieces of work after which a simulation extrapolates.
const BOUND: u64 = 200_000;

/// A way's best algorithm, and its time.
#[derive(Clone, Copy, Debug)]
pub struct Best {
    /// Predicted time in seconds.
    pub seconds: f64,
    generator: &'static Generator,
    params: Params,
}

impl Best {
    /// Describes the algorithm and its parameters.
    pub fn how(&self) -> String {
        format!("{} ({})", self.generator.name, self.params)
    }
}

/// An operation on recorded machines, one rank a core.
pub struct Scene {
    shape: Shape,
    environment: Environment,
}

/// Greatest number of ranks that is simulated; beyond, closed forms predict the times.
const SIMULATED_RANKS: u32 = 8192;

impl Scene {
    /// Creates a simulation of the operation, with ranks on the cores of the machine in `text` by `binding`.
    ///
    /// # Errors
    /// Fails if the recorded machine cannot be read.
    pub fn new(collective: Collective, bytes: u64, text: &str, binding: &Binding) -> Result<Scene, String> {
        let machine = Machine::parse(text).map_err(|error| format!("a recorded machine: {error:?}"))?;
        let ranks = machine.count(Level::Core) as u32;
        let layout = Layout::bound(&machine, binding, ranks, 1);
        let environment =
            Environment { layout: Arc::new(layout), node: Node::Exposed, ..Environment::flat(ranks, ranks) };
        Ok(Scene { shape: Shape::new(collective, ranks, 0, bytes), environment })
    }

    /// Creates a simulation of the operation on several hosts.
    ///
    /// # Errors
    /// Fails if the recorded machine cannot be read.
    pub fn across(collective: Collective, bytes: u64, cluster: &Cluster) -> Result<Scene, String> {
        let shape = Shape::new(collective, cluster.ranks(), 0, bytes);
        Ok(Scene { shape, environment: cluster.environment(cluster.model(), false)? })
    }

    /// Returns the fastest algorithm of `way`, or `None` if there is none.
    pub fn best(&self, way: &Way) -> Option<Best> {
        let several = self.environment.layout.hosts() > 1;
        let held = registry().iter().filter(|generator| {
            // Algorithms for one host do not apply to several.
            let multicast = matches!(way.algorithms, Algorithms::Named(_));
            let hosts = Some((Node::Exposed, 2));
            let situation =
                Situation { hosts, multicast: Some(multicast), ..Situation::of_shape(&self.shape) };
            let meets = !several || generator.meets(&situation).is_ok();
            meets && holds(way.algorithms, generator, &self.shape)
        });
        held.flat_map(|generator| {
            let candidates = generator.candidates(&self.shape).into_iter();
            candidates.filter(|params| segmented(way, params)).map(move |params| Best {
                seconds: self.seconds(generator, &params),
                generator,
                params,
            })
        })
        .min_by(|one, other| one.seconds.total_cmp(&other.seconds))
    }

    /// Returns the time of the algorithm `best` with the same parameters in this simulation.
    pub fn again(&self, best: &Best) -> f64 {
        self.seconds(best.generator, &best.params)
    }

    fn seconds(&self, generator: &Generator, params: &Params) -> f64 {
        if self.shape.ranks > SIMULATED_RANKS {
            return closed_form(generator, &self.shape, params, &self.environment);
        }
        predict(generator, &Load::new(&self.shape), params, &self.environment.stage(), Bound::tasks(BOUND))
            .seconds
    }
}

/// Returns the time in seconds of a barrier of `hosts` hosts: by processes, and by the kernel's packet
/// program.
///
/// # Errors
/// Fails if the schedule cannot be lowered.
pub fn barriers(hosts: u32) -> Result<[f64; 2], String> {
    let generator = registry()
        .iter()
        .find(|one| one.collective == Collective::Barrier && one.name == "dissemination")
        .ok_or("there is no such barrier")?;
    let shape = |rank| Shape::new(Collective::Barrier, hosts, rank, 0);
    let schedules: Vec<_> =
        (0..hosts).map(|rank| generator.generate(&shape(rank), &Params::default())).collect();
    let programs = lower(&shape(0), &schedules).map_err(|refusal| refusal.to_string())?;
    Ok([Costs::PROCESSES, Costs::KERNEL].map(|costs| completion_ns(&programs, &costs) as f64 * 1e-9))
}

fn holds(algorithms: Algorithms, generator: &Generator, shape: &Shape) -> bool {
    generator.suits(shape) && algorithms.hold(generator)
}

fn segmented(way: &Way, params: &Params) -> bool {
    way.pipelined.is_none_or(|wanted| (params.segment > 0) == wanted)
}

/// Returns the fraction of the speed that is lost by a time of `bad` instead of `good`.
pub fn loss(good: f64, bad: f64) -> f64 {
    1.0 - good / bad
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::cluster::Network;

    const LAPTOP: &str = include_str!("../../../../../fixtures/machines/laptop-4x2.txt");

    fn check(way: &Way, expected: bool) {
        let scene = Scene::new(Collective::Bcast, 1 << 20, LAPTOP, &Binding::Compact).unwrap();
        let found = scene.best(way);
        assert_eq!(found.is_some_and(|best| best.seconds > 0.0), expected, "{}", way.name);
        assert!(found.is_none_or(|best| scene.again(&best) == best.seconds));
    }

    #[test]
    fn a_way_has_a_best_algorithm_or_none() {
        let way =
            Way { name: "messages", algorithms: Algorithms::Of(Node::Any), settings: &[], pipelined: None };
        check(&way, true);
        check(&Way { pipelined: Some(false), ..way }, true);
        check(&Way { algorithms: Algorithms::Named("no such algorithm"), ..way }, false);
        assert!(Scene::new(Collective::Bcast, 8, "nonsense", &Binding::Compact).is_err());
    }

    #[test]
    fn levels_pay_across_hosts() {
        let network = Network { bandwidth: 1e8, latency: 3e-5, overhead: 5e-6 };
        let cluster =
            Cluster { name: "test", machine: LAPTOP, hosts: 4, ranks_per_host: 4, by_node: true, network };
        let scene = Scene::across(Collective::Bcast, 1 << 20, &cluster).unwrap();
        let time = |algorithms| {
            let way = Way { name: "test", algorithms, settings: &[], pipelined: None };
            scene.best(&way).unwrap().seconds
        };
        let levels = time(Algorithms::Levels);
        assert!(levels > (1 << 20) as f64 / 1e8 && 2.0 * levels < time(Algorithms::Flat(Node::Any)));
    }

    #[test]
    fn twice_the_time_is_half_the_speed() {
        assert_eq!(loss(1.0, 2.0), 0.5);
        assert_eq!(loss(1.0, 1.0), 0.0);
    }
}
