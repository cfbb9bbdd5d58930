//! What was asked for of a communicator's operations: their algorithms, and whether they are tuned.
//!
//! The settings say it for the whole job, the control variable TUTTI_TUNE from where it is written on, the
//! info keys of a communicator or of a persistent operation for these:
//!
//! | key | value |
//! |---|---|
//! | `tutti_algorithm` | as TUTTI_ALGORITHM: `allreduce=ring,bcast=tree:radix=2`; empty for none |
//! | `tutti_tune` | `off`, `known` or `on` |
//!
//! All members have to say the same (MPI-5 section 10 lets an implementation ask for that).

use std::sync::atomic::{AtomicU8, Ordering};

use tutti_base::config::{Config, Tune, algorithm_in};
use tutti_coll::registry;

use crate::info::Info;

/// The info keys.
const ALGORITHM: &str = "tutti_algorithm";
const TUNE: &str = "tutti_tune";

/// What a tool has written; [`UNWRITTEN`]: as the settings say.
static WRITTEN: AtomicU8 = AtomicU8::new(UNWRITTEN);
const UNWRITTEN: u8 = u8::MAX;
const EVERY: [Tune; 3] = [Tune::Off, Tune::Known, Tune::On];

/// Whether operations of this process are tuned, unless something else is asked for.
#[inline]
pub fn tune_of(config: &Config) -> Tune {
    let written = EVERY.get(usize::from(WRITTEN.load(Ordering::Relaxed)));
    written.copied().unwrap_or(config.collectives.tune)
}

/// From the next operation on; all members of a communicator have to say so before the same one.
pub fn set_tune(tune: Tune) {
    let place = EVERY.iter().position(|known| *known == tune);
    WRITTEN.store(place.map_or(UNWRITTEN, |place| place as u8), Ordering::Relaxed);
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Whether operations are tuned.
    pub tune: Option<Tune>,
    /// Algorithms, as in TUTTI_ALGORITHM.
    algorithms: Option<Box<str>>,
}

impl Wishes {
    /// Whether it names algorithms.
    pub(crate) fn name_algorithms(&self) -> bool {
        self.algorithms.as_ref().is_some_and(|algorithms| !algorithms.is_empty())
    }

    /// Returns the wishes that an info object names. A key with a value that means nothing is ignored.
    pub fn from_info(info: &Info) -> Wishes {
        let tune = info.text(TUNE).and_then(Tune::of_name);
        let algorithms = info.text(ALGORITHM).filter(|text| text.is_empty() || are_algorithms(text));
        Wishes { tune, algorithms: algorithms.map(Into::into) }
    }

    /// Adds what is in use to the info object that describes a communicator.
    pub(crate) fn add_to(&self, info: &mut Info, config: &Config) {
        let tune = self.tune.or_else(|| Some(tune_of(config)).filter(|tune| tune.is_on()));
        let algorithms = self.algorithms.as_deref().filter(|algorithms| !algorithms.is_empty());
        for (key, value) in [(TUNE, tune.map(Tune::name)), (ALGORITHM, algorithms)] {
            if let Some(value) = value {
                info.set(key, value).expect("the key is short, and the value comes from an info object");
            }
        }
    }

    /// Whether operations for which this was asked are tuned.
    #[inline]
    pub fn tune_of(&self, config: &Config) -> Tune {
        self.tune.unwrap_or_else(|| tune_of(config))
    }

    /// These, and of what they do not say the others.
    pub fn or(&self, others: &Wishes) -> Wishes {
        let algorithms = self.algorithms.as_ref().or(others.algorithms.as_ref());
        Wishes { tune: self.tune.or(others.tune), algorithms: algorithms.cloned() }
    }

    /// The algorithm of a collective that was asked for, here or by the settings.
    pub fn algorithm_of<'a>(&'a self, config: &'a Config, collective: &str) -> Option<&'a str> {
        algorithm_in(self.algorithms.as_deref().unwrap_or_default(), collective)
            .or_else(|| config.algorithm_of(collective))
    }
}

/// Whether all entries name algorithms that there are.
fn are_algorithms(text: &str) -> bool {
    let is_one = |entry: &str| {
        entry.split_once('=').is_some_and(|(collective, algorithm)| {
            let name = algorithm.split(':').next().unwrap_or_default().trim();
            registry().iter().any(|known| known.collective.name() == collective.trim() && known.name == name)
        })
    };
    text.split(',').all(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], tune: Option<Tune>, algorithms: &str, left: usize) {
        let mut info = Info::new();
        pairs.iter().for_each(|(key, value)| info.set(key, value).unwrap());
        let wishes = Wishes::from_info(&info);
        let named = wishes.algorithms.as_deref().unwrap_or_default();
        assert_eq!((wishes.tune, named), (tune, algorithms), "{pairs:?}");
        let mut used = Info::new();
        wishes.add_to(&mut used, &Config::default());
        assert_eq!(used.len(), left, "{pairs:?}");
    }

    #[test]
    fn keys_are_used_or_ignored() {
        check(&[], None, "", 0);
        check(&[("other", "x"), (TUNE, "on")], Some(Tune::On), "", 1);
        check(
            &[(TUNE, "known"), (ALGORITHM, "allreduce=ring:window=2")],
            Some(Tune::Known),
            "allreduce=ring:window=2",
            2,
        );
        check(&[(TUNE, "yes"), (ALGORITHM, "bcast=tree,allreduce=none")], None, "", 0);
        check(&[(ALGORITHM, "tree")], None, "", 0);
    }

    #[test]
    fn an_operation_says_more_than_its_communicator() {
        let of = |tune, algorithms: &str| Wishes {
            tune,
            algorithms: Some(algorithms).filter(|text| !text.is_empty()).map(Into::into),
        };
        let own = of(Some(Tune::Off), "").or(&of(Some(Tune::On), "bcast=tree"));
        assert_eq!(own, of(Some(Tune::Off), "bcast=tree"));
        assert_eq!(
            of(None, "bcast=flat").or(&of(Some(Tune::On), "bcast=tree")),
            of(Some(Tune::On), "bcast=flat")
        );
    }
}
