//! Ranks that tune together, in a program whose alternatives take what they are said to take, with noise from
//! a seed: what tests and tables run instead of a job.

use super::search::Strategy;
use super::{Account, Alternative, Decision, NextStep, Rules, Sample, Tuner};

/// What is run.
#[derive(Clone, Debug)]
pub struct Play {
    /// What there is to choose from; the first is the default.
    pub alternatives: Vec<Alternative>,
    /// What each of them takes inside MPI, in nanoseconds, by rank.
    pub inside: Vec<Vec<f64>>,
    /// What goes by outside with each of them, in nanoseconds.
    pub outside: Vec<f64>,
    /// Operations.
    pub iterations: u32,
    /// By what factor samples are longer.
    pub noise: Noise,
    /// At most so many operations go by until the maximum has come.
    pub latency: u32,
}

/// How samples vary: what part of them is by no more than what factor longer than is usual.
#[derive(Clone, Debug)]
pub struct Noise(Vec<f64>);

impl Noise {
    /// Factors that are equally frequent, of samples that were recorded; at least one.
    pub fn recorded(mut factors: Vec<f64>) -> Noise {
        assert!(!factors.is_empty(), "samples vary in some way");
        factors.sort_by(f64::total_cmp);
        Noise(factors)
    }

    /// Within this part of what is usual, but for one sample in fifty that is twenty times as long.
    pub fn even(part: f64) -> Noise {
        let of = |place: u32| 1.0 + part * (f64::from(place) / 24.0 - 1.0);
        Noise::recorded((0..49).map(of).chain([20.0]).collect())
    }

    /// The factor of one sample.
    fn factor(&self, random: &mut Random) -> f64 {
        self.0[(random.unit() * self.0.len() as f64) as usize]
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended, if it has.
    pub decision: Option<Decision>,
    /// Operations with each alternative.
    pub taken: Vec<u32>,
    /// Nanoseconds of all operations together, without noise, as if all were warm,
    pub total_ns: f64,
    /// and those of as many of the default.
    pub default_ns: f64,
    /// What operations took until it was decided.
    pub course: Vec<usize>,
    /// What they take in the end, while nothing is tried.
    pub chosen: usize,
}

/// Numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// At least 0, less than 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// An operation that is not warm takes so many times as long.
const COLD: f64 = 2.0;

impl Play {
    /// How long an operation takes the loop, once it is warm, in nanoseconds.
    pub fn period_ns(&self, alternative: usize) -> f64 {
        self.inside[alternative].iter().copied().fold(0.0, f64::max) + self.outside[alternative]
    }

    /// All of it. Every rank has a tuner of its own, and the maxima come to each at another time.
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
        assert!(cast.iter().all(|player| player.tuner.decision() == outcome.decision), "all decide the same");
        // All others take what was decided.
        let (left, chosen) = (self.iterations - outcome.course.len() as u32, outcome.chosen);
        outcome.taken[chosen] += left;
        outcome.total_ns += f64::from(left) * self.period_ns(chosen);
        outcome.default_ns = f64::from(self.iterations) * self.period_ns(0);
        outcome
    }

    fn cold(&self, alternative: usize, taken: &[u32]) -> f64 {
        if taken[alternative] < self.alternatives[alternative].warm_up { COLD } else { 1.0 }
    }

    /// One operation of all ranks; which alternative it takes.
    fn operation(&self, cast: &mut [Player], taken: &[u32], random: &mut Random) -> usize {
        let mut maxima: Option<Vec<u64>> = None;
        let mut chosen = None;
        for (rank, player) in cast.iter_mut().enumerate() {
            let NextStep::Take { alternative, operation, words } = player.turn() else {
                unreachable!("nobody waits twice, and all alternatives are there")
            };
            assert!(*chosen.get_or_insert(alternative) == alternative, "all ranks take the same");
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
        chosen.expect("there are ranks")
    }
}

/// Maxima under way, with the number of operations until they arrive.
type Mail = Option<(u32, Vec<u64>)>;

/// Simulated rank.
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
                let (_, words) = self.mail.take().expect("who waits has contributed");
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
