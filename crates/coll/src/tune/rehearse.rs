//! Simulation of ranks that tune together. The alternatives of the program have given times, with noise from
//! a seed. Tests and tables use it instead of a job.

use super::search::Strategy;
use super::{Account, Alternative, Decision, NextStep, Rules, Sample, Tuner};

/// Simulated program with its alternatives.
#[derive(Clone, Debug)]
pub struct Play {
    /// Alternatives to choose from; the first is the default.
    pub alternatives: Vec<Alternative>,
    /// Time that each alternative takes inside MPI, in nanoseconds, by rank.
    pub inside: Vec<Vec<f64>>,
    /// Time that passes outside MPI with each alternative, in nanoseconds.
    pub outside: Vec<f64>,
    /// Number of operations of the program.
    pub iterations: u32,
    /// Noise by which samples are longer.
    pub noise: Noise,
    /// Largest number of operations until the maximum over all ranks arrives.
    pub latency: u32,
}

/// Distribution of the factors by which samples are longer than usual.
#[derive(Clone, Debug)]
pub struct Noise(Vec<f64>);

impl Noise {
    /// Returns the noise of recorded samples: equally frequent factors, at least one.
    pub fn recorded(mut factors: Vec<f64>) -> Noise {
        assert!(!factors.is_empty(), "at least one factor is needed");
        factors.sort_by(f64::total_cmp);
        Noise(factors)
    }

    /// Returns noise within this part of the usual time, except for one sample in fifty that takes twenty
    /// times as long.
    pub fn even(part: f64) -> Noise {
        let of = |place: u32| 1.0 + part * (f64::from(place) / 24.0 - 1.0);
        Noise::recorded((0..49).map(of).chain([20.0]).collect())
    }

    /// Draws the factor of one sample.
    fn factor(&self, random: &mut Random) -> f64 {
        self.0[(random.unit() * self.0.len() as f64) as usize]
    }
}

/// Result of a simulated program.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Final decision, or `None` if the program ended before.
    pub decision: Option<Decision>,
    /// Number of operations with each alternative.
    pub taken: Vec<u32>,
    /// Time of all operations together, in nanoseconds, without noise and as if all were warm.
    pub total_ns: f64,
    /// Time of the same number of operations with the default, in nanoseconds.
    pub default_ns: f64,
    /// Alternative of each operation until the decision.
    pub course: Vec<usize>,
    /// Alternative of all operations after the decision.
    pub chosen: usize,
}

/// Generator of random numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns a number of at least 0 and less than 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Factor of the time of an operation that is not warm.
const COLD: f64 = 2.0;

impl Play {
    /// Returns the time from one operation to the next with an alternative, once it is warm, in nanoseconds.
    pub fn period_ns(&self, alternative: usize) -> f64 {
        self.inside[alternative].iter().copied().fold(0.0, f64::max) + self.outside[alternative]
    }

    /// Runs the whole program. Every rank has a tuner of its own, and the maxima arrive at each rank at a
    /// different time.
    pub fn run(&self, strategy: &dyn Fn() -> Box<dyn Strategy>, rules: Rules, seed: u64) -> Outcome {
        let ranks = self.inside[0].len();
        let number = self.alternatives.len();
        let tuner = || Tuner::new(self.alternatives.clone(), strategy(), rules);
        let mut cast: Vec<Player> = (0..ranks).map(|_| Player::new(tuner())).collect();
        let mut random = Random(seed);
        let taken = vec![0; number];
        let course = Vec::new();
        let mut outcome =
            Outcome { decision: None, taken, total_ns: 0.0, default_ns: 0.0, course, chosen: 0 };
        while outcome.course.len() < self.iterations as usize && cast[0].tuner.decision().is_none() {
            let alternative = self.operation(&mut cast, &outcome.taken, &mut random);
            outcome.course.push(alternative);
            outcome.taken[alternative] += 1;
            outcome.total_ns += self.period_ns(alternative);
        }
        (outcome.decision, outcome.chosen) = (cast[0].tuner.decision(), cast[0].tuner.best());
        assert!(
            cast.iter().all(|player| player.tuner.decision() == outcome.decision),
            "all ranks make the same decision"
        );
        // All further operations use the decision.
        let (left, chosen) = (self.iterations - outcome.course.len() as u32, outcome.chosen);
        outcome.taken[chosen] += left;
        outcome.total_ns += f64::from(left) * self.period_ns(chosen);
        outcome.default_ns = f64::from(self.iterations) * self.period_ns(0);
        outcome
    }

    fn cold(&self, alternative: usize, taken: &[u32]) -> f64 {
        if taken[alternative] < self.alternatives[alternative].warm_up { COLD } else { 1.0 }
    }

    /// Runs one operation on all ranks, and returns the alternative that it used.
    fn operation(&self, cast: &mut [Player], taken: &[u32], random: &mut Random) -> usize {
        let mut maxima: Option<Vec<u64>> = None;
        let mut chosen = None;
        for (rank, player) in cast.iter_mut().enumerate() {
            let NextStep::Take { alternative, operation, words } = player.turn() else {
                unreachable!("a rank waits at most once, and all alternatives were given to the tuner")
            };
            assert!(*chosen.get_or_insert(alternative) == alternative, "all ranks use the same alternative");
            let factor = self.cold(alternative, taken) * self.noise.factor(random);
            let inside_ns = (self.inside[alternative][rank] * factor) as u64;
            let period_ns = inside_ns + self.outside[alternative] as u64;
            player.account.elapsed_ns += period_ns;
            if let Some(operation) = operation {
                player.tuner.record(operation, Sample { inside_ns, period_ns });
            }
            if let Some(words) = words {
                let merged = maxima.get_or_insert_with(|| vec![0; words.len()]);
                merged.iter_mut().zip(words).for_each(|(most, word)| *most = word.max(*most));
            }
        }
        if let Some(words) = maxima {
            for player in cast {
                player.mail = Some(((random.unit() * f64::from(self.latency + 1)) as u32, words.clone()));
            }
        }
        chosen.expect("a program has at least one rank")
    }
}

/// Maxima under way, with the number of operations until they arrive.
type Mail = Option<(u32, Vec<u64>)>;

/// Simulated rank with its tuner.
struct Player {
    tuner: Tuner,
    mail: Mail,
    account: Account,
    lost_ns: f64,
}

impl Player {
    fn new(tuner: Tuner) -> Player {
        Player { tuner, mail: None, account: Account::default(), lost_ns: 0.0 }
    }

    /// Returns this rank's next step. Delivers maxima that are due, and those that the step has to wait
    /// for.
    fn turn(&mut self) -> NextStep {
        match self.mail.take() {
            Some((0, words)) => self.tuner.heard(&words),
            Some((left, words)) => self.mail = Some((left - 1, words)),
            None => {}
        }
        self.tuner.account(self.account);
        let step = match self.tuner.turn() {
            NextStep::Await => {
                let (_, words) = self.mail.take().expect("a rank that waits for maxima has contributed");
                self.tuner.heard(&words);
                self.tuner.turn()
            }
            step => step,
        };
        self.lost_ns = (self.lost_ns + self.tuner.take_lost_ns()).max(0.0);
        self.account.lost_ns = self.lost_ns as u64;
        step
    }
}
