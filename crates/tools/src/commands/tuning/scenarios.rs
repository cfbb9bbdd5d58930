//! Scenarios from a seed: operations of programs with the computation beside them. The simulator provides the
//! true time of each algorithm.

use tutti_coll::select::{self, Choice};
use tutti_coll::simulate::{Beside, Bound, Load, Series, periods, predict};
use tutti_coll::tune::rehearse::Random;
use tutti_coll::tune::{Alternative, CallForm, ProgressMode, alternatives};
use tutti_coll::{Collective, Environment, Params, Schedule, Shape, registry};

use crate::simulate::cluster::{Cluster, PARAPLUIE, SERVERS, STREMI};

/// One operation of a loop, on hosts.
pub struct Scenario {
    cluster: Cluster,
    collective: Collective,
    bytes: u64,
    ranks: u32,
    looks: u32,
    /// Concurrent computation, as a multiple of the time of the best algorithm alone.
    computing: f64,
}

/// Algorithms of a scenario, with their true times.
pub struct Truth {
    /// Alternatives to choose from; the first is the choice of the model.
    pub alternatives: Vec<Alternative>,
    /// Seconds inside MPI of each rank, by alternative.
    pub inside: Vec<Vec<f64>>,
    /// Time in seconds that the program computes.
    pub computing: f64,
}

/// Collectives of nine successive scenarios. For ibcast, the paper varies fan-outs and segments.
const NINE: [Collective; 9] = {
    use Collective as C;
    [
        C::Bcast,
        C::Alltoall,
        C::Bcast,
        C::Allreduce,
        C::Allgather,
        C::Bcast,
        C::Alltoall,
        C::Allreduce,
        C::Allgather,
    ]
};
/// Numbers of ranks of nine successive scenarios: those of the paper, and few large ones.
const RANKS: [u32; 9] = [32, 64, 32, 128, 32, 64, 128, 32, 256];
/// Fan-outs of the paper's broadcast (barigou-2016, section 3.1): a chain, two to five, a binomial tree, all
/// from the root.
const FAN_OUTS: [(&str, u32); 7] =
    [("kary", 1), ("kary", 2), ("kary", 3), ("kary", 4), ("kary", 5), ("knomial", 2), ("kary", Params::FLAT)];
/// Lengths of segments that scenarios try, in bytes.
const SEGMENTS: [u64; 3] = [32 << 10, 64 << 10, 128 << 10];
/// Number of successive operations that are simulated to obtain the time of each.
const IN_A_ROW: u32 = 3;
/// Greatest number of tasks in the simulation of a prior; larger ones are extrapolated.
const PRIOR: Bound = Bound::tasks(100_000);

/// Returns `number` scenarios from a seed.
pub fn all(number: u32, seed: u64) -> Vec<Scenario> {
    let mut random = Random(seed);
    (0..number as usize).map(|place| one(place, &mut random)).collect()
}

fn one(place: usize, random: &mut Random) -> Scenario {
    let mut of = |number: usize| (random.unit() * number as f64) as usize;
    let collective = NINE[place % NINE.len()];
    let ranks = RANKS[of(RANKS.len())];
    let known = [STREMI, PARAPLUIE, SERVERS][of(3)];
    let ranks_per_host = [1, 4, 8, 16][of(4)];
    // Powers of four: to 2 MiB to be broadcast, of a block to 128 KiB.
    let bytes = match collective {
        Collective::Bcast | Collective::Allreduce => [1 << 10, 8 << 10, 64 << 10, 512 << 10, 2 << 20][of(5)],
        _ => [1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10][of(5)],
    };
    let (looks, computing) = ([0, 1, 4, 16, 64][of(5)], [0.5, 1.0, 2.0][of(3)]);
    let by_node = of(2) == 1;
    let cluster = Cluster { hosts: ranks / ranks_per_host, ranks_per_host, by_node, ..known };
    Scenario { cluster, collective, bytes, ranks, looks, computing }
}

impl Scenario {
    /// Describes the scenario in one line.
    pub fn line(&self) -> String {
        let Scenario { cluster, collective, bytes, ranks, looks, computing } = self;
        let (name, hosts) = (cluster.name, cluster.hosts);
        let place = format!("{ranks} ranks on {hosts} hosts of {name}");
        format!("i{collective} {bytes} bytes, {place}, {looks} looks, x{computing}")
    }

    /// Returns the operation of the scenario.
    pub fn collective(&self) -> Collective {
        self.collective
    }

    /// Returns true if the simulation is fast enough for unit tests.
    #[cfg(test)]
    pub fn is_light(&self) -> bool {
        self.ranks <= 32 && self.bytes <= 64 << 10 && self.collective == Collective::Bcast
    }

    /// Simulates all alternatives and returns their times.
    ///
    /// # Errors
    /// Fails if the recorded machine cannot be read.
    pub fn truth(&self) -> Result<Truth, String> {
        let environment = self.cluster.environment(self.cluster.model(), false)?;
        let shape = Shape::new(self.collective, self.ranks, 0, self.bytes);
        let ways = match self.collective {
            Collective::Bcast => trees(&shape, &environment),
            _ => {
                let default = select::select(&shape, &environment, None);
                let found = alternatives(&shape, &environment, &default, CallForm::Nonblocking, true);
                found.into_iter().map(|one| Way::new(&one.choice, one.manner, one.alternative)).collect()
            }
        };
        let least = ways.iter().map(|way| way.alternative.prior_s).fold(f64::INFINITY, f64::min);
        let computing = least * self.computing;
        let inside = ways.iter().map(|way| self.inside(way, &shape, &environment, computing)).collect();
        Ok(Truth { alternatives: ways.iter().map(|way| way.alternative).collect(), inside, computing })
    }

    /// Seconds inside MPI of each rank, in the long run.
    fn inside(&self, way: &Way, shape: &Shape, environment: &Environment, computing: f64) -> Vec<f64> {
        let load = Load::new(shape);
        let hierarchy = Some(environment.layout.hierarchy());
        let write = |rank| way.generator.generate_on(&load.shape_of(rank), &way.params, hierarchy);
        let schedules: Vec<Schedule> = (0..self.ranks).map(write).collect();
        let looks = match way.manner {
            ProgressMode::Sparse(tests) => self.looks / tests,
            // The simulated hosts offer no kernel.
            ProgressMode::Plain | ProgressMode::Pushed | ProgressMode::Kernel => self.looks,
        };
        let pushed_seconds =
            if way.manner == ProgressMode::Pushed { 2.0 * way.alternative.prior_s } else { 0.0 };
        let look_seconds = environment.model.call;
        let beside = Beside { seconds: computing, looks, look_seconds, pushed_seconds };
        let series = Series::repeated(&schedules, IN_A_ROW).with_computation(beside);
        let periods = periods(&series, &load, &environment.stage());
        periods.into_iter().map(|period| (period - computing).max(0.0)).collect()
    }
}

/// Algorithm for an operation, with its parameters.
struct Way {
    generator: &'static tutti_coll::Generator,
    params: Params,
    manner: ProgressMode,
    alternative: Alternative,
}

impl Way {
    fn new(choice: &Choice, manner: ProgressMode, alternative: Alternative) -> Way {
        Way { generator: choice.generator, params: choice.params, manner, alternative }
    }
}

/// Returns the broadcasts of the paper, the best by the model first.
fn trees(shape: &Shape, environment: &Environment) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for (number, (name, radix)) in (0..).zip(FAN_OUTS) {
        let found = registry().iter().find(|one| one.collective == shape.collective && one.name == name);
        let generator = found.expect("trees are registered by these names");
        for segment in SEGMENTS {
            let segment = if segment < shape.count { segment } else { 0 };
            let params = Params { radix, segment, window: 8, ..Params::DEFAULT };
            if ways.iter().any(|way| way.params == params && std::ptr::eq(way.generator, generator)) {
                continue;
            }
            let prediction = predict(generator, &Load::new(shape), &params, &environment.stage(), PRIOR);
            let attributes = tutti_coll::tune::Attributes([0, number, segment, 1]);
            let alternative =
                Alternative { attributes, prior_s: prediction.seconds, warm_up: 1, once_ns: 0.0 };
            ways.push(Way { generator, params, manner: ProgressMode::Plain, alternative });
        }
    }
    ways.sort_by(|one, two| one.alternative.prior_s.total_cmp(&two.alternative.prior_s));
    ways
}
