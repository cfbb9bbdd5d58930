//! Headlines that two cores cannot show: the same schedules on the simulator, with one rank a core of a recorded machine.

use super::list::{Algorithms, Way};
use tutti_coll::model::Model;
use tutti_coll::registry::registry;
use tutti_coll::shape::{Collective, Params, Shape};
use tutti_coll::simulate::{Binding, Layout, Load, Reach, Stage, predict};
use tutti_topo::{Level, Machine};

/// Pieces of work after which a simulation extrapolates.
const BOUND: u64 = 200_000;

/// A way's best time, and how it comes about.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// The predicted time.
    pub seconds: f64,
    /// Algorithm and parameters.
    pub how: String,
}

/// Ranks that fill `machine`: one a core.
fn ranks(machine: &Machine) -> u32 {
    machine.count(Level::Core) as u32
}

/// The predicted time of the best that `way` holds; None if it holds nothing.
///
/// # Errors
/// The recorded machine cannot be read.
pub fn best(
    way: &Way,
    collective: Collective,
    bytes: u64,
    text: &str,
    binding: &Binding,
) -> Result<Option<Best>, String> {
    let machine = Machine::parse(text).map_err(|error| format!("a recorded machine: {error:?}"))?;
    let ranks = ranks(&machine);
    let layout = Layout::bound(&machine, binding, ranks, 1);
    let model = Model::default();
    let stage = Stage { model: &model, layout: &layout, reach: Reach::Call };
    let shape = Shape::new(collective, ranks, 0, bytes);
    let load = Load::new(&shape);
    let held = |generator: &&_| holds(way.algorithms, generator, &shape);
    let mut best: Option<Best> = None;
    for generator in registry().iter().filter(held) {
        for params in generator.candidates(&shape).into_iter().filter(|params| segmented(way, params)) {
            let seconds = predict(generator, &load, &params, &stage, BOUND).seconds;
            if best.as_ref().is_none_or(|known| seconds < known.seconds) {
                best = Some(Best { seconds, how: format!("{} ({params})", generator.name) });
            }
        }
    }
    Ok(best)
}

fn holds(algorithms: Algorithms, generator: &tutti_coll::registry::Generator, shape: &Shape) -> bool {
    generator.suits(shape) && algorithms.hold(generator)
}

fn segmented(way: &Way, params: &Params) -> bool {
    way.pipelined.is_none_or(|wanted| (params.segment > 0) == wanted)
}

/// What part of the speed is lost where it takes `bad` instead of `good`.
pub fn loss(good: f64, bad: f64) -> f64 {
    1.0 - good / bad
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_coll::registry::Node;

    const LAPTOP: &str = include_str!("../../../../fixtures/machines/laptop-4x2.txt");

    fn check(way: &Way, expected: bool) {
        let found = best(way, Collective::Bcast, 1 << 20, LAPTOP, &Binding::Compact).unwrap();
        assert_eq!(found.is_some_and(|best| best.seconds > 0.0), expected, "{}", way.name);
    }

    #[test]
    fn a_way_has_a_best_algorithm_or_none() {
        let way =
            Way { name: "messages", algorithms: Algorithms::Of(Node::Any), settings: &[], pipelined: None };
        check(&way, true);
        check(&Way { pipelined: Some(false), ..way }, true);
        assert!(best(&way, Collective::Bcast, 8, "nonsense", &Binding::Compact).is_err());
    }

    #[test]
    fn twice_the_time_is_half_the_speed() {
        assert_eq!(loss(1.0, 2.0), 0.5);
        assert_eq!(loss(1.0, 1.0), 0.0);
    }
}
