//! Hints for the operations of a communicator: which algorithms to use, and whether to tune them.
//!
//! Hints come from three sources; later ones take precedence:
//!
//! 1. settings of the job (`TUTTI_ALGORITHM`, `TUTTI_TUNE`),
//! 2. the control variable TUTTI_TUNE, from the moment it is written,
//! 3. info keys of a communicator or of a persistent operation:
//!
//! | key | value |
//! |---|---|
//! | `tutti_algorithm` | as TUTTI_ALGORITHM: `allreduce=ring,bcast=knomial:radix=4`; empty for none |
//! | `tutti_tune` | `off`, `known` or `on` |
//! | `tutti_reproducible` | `true`: sums and products are rounded once; `false`: as the settings say |
//!
//! All members must set the same hints (MPI-5 section 10 allows an implementation to require that).

use std::sync::atomic::{AtomicU8, Ordering};

use tutti_base::config::algorithms::{self, algorithm_in};
use tutti_base::config::{Config, Tune};

use crate::info::Info;

/// Names of the info keys.
const ALGORITHM: &str = "tutti_algorithm";
const TUNE: &str = "tutti_tune";
const REPRODUCIBLE: &str = "tutti_reproducible";

/// Index of the mode that a tool has written; [`UNWRITTEN`] if none, so that the settings apply.
static WRITTEN: AtomicU8 = AtomicU8::new(UNWRITTEN);
/// Value of `WRITTEN` while no tool has written a mode.
const UNWRITTEN: u8 = u8::MAX;
/// Modes by the index that is stored.
const EVERY: [Tune; 3] = [Tune::Off, Tune::Known, Tune::On];

/// Returns the tuning mode of operations in this process that have no hint of their own.
#[inline]
pub fn tune_of(config: &Config) -> Tune {
    let written = EVERY.get(usize::from(WRITTEN.load(Ordering::Relaxed)));
    written.copied().unwrap_or(config.collectives.tune)
}

/// Sets the tuning mode of the next and later operations. All members of a communicator must set it before
/// the same operation.
pub fn set_tune(tune: Tune) {
    let place = EVERY.iter().position(|known| *known == tune);
    WRITTEN.store(place.map_or(UNWRITTEN, |place| place as u8), Ordering::Relaxed);
}

/// Hints of one communicator or persistent operation. The default is "no hint".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectiveHints {
    /// Requested tuning mode, if any.
    pub tune: Option<Tune>,
    /// True if results are to be rounded once, if requested.
    pub reproducible: Option<bool>,
    /// Requested algorithms in the syntax of TUTTI_ALGORITHM.
    algorithms: Option<Box<str>>,
}

impl CollectiveHints {
    /// Returns true if at least one algorithm is requested.
    pub(crate) fn name_algorithms(&self) -> bool {
        self.algorithms.as_ref().is_some_and(|algorithms| !algorithms.is_empty())
    }

    /// Reads the hints from an info object. A key with an invalid value is ignored.
    pub fn from_info(info: &Info) -> CollectiveHints {
        let tune = info.text(TUNE).and_then(Tune::of_name);
        let algorithms =
            info.text(ALGORITHM).filter(|text| text.is_empty() || algorithms::check_list(text).is_ok());
        let reproducible = info.text(REPRODUCIBLE).and_then(|text| text.parse().ok());
        CollectiveHints { tune, reproducible, algorithms: algorithms.map(Into::into) }
    }

    /// Adds the hints in use to an info object that describes a communicator.
    pub(crate) fn add_to(&self, info: &mut Info, config: &Config) {
        let tune = self.tune.or_else(|| Some(tune_of(config)).filter(|tune| tune.is_on()));
        let algorithms = self.algorithms.as_deref().filter(|algorithms| !algorithms.is_empty());
        let reproducible =
            self.reproducible.or_else(|| Some(true).filter(|_| config.collectives.reproducible));
        let reproducible = reproducible.map(|on| if on { "true" } else { "false" });
        for (key, value) in
            [(TUNE, tune.map(Tune::name)), (ALGORITHM, algorithms), (REPRODUCIBLE, reproducible)]
        {
            if let Some(value) = value {
                info.set(key, value).expect("the key is short, and the value comes from an info object");
            }
        }
    }

    /// Returns the tuning mode of operations with these hints.
    #[inline]
    pub fn tune_of(&self, config: &Config) -> Tune {
        self.tune.unwrap_or_else(|| tune_of(config))
    }

    /// Returns these hints, with missing ones taken from `others`.
    pub fn or(&self, others: &CollectiveHints) -> CollectiveHints {
        let algorithms = self.algorithms.as_ref().or(others.algorithms.as_ref());
        let (tune, reproducible) = (self.tune.or(others.tune), self.reproducible.or(others.reproducible));
        CollectiveHints { tune, reproducible, algorithms: algorithms.cloned() }
    }

    /// Returns true if results are to be rounded once, by these hints or by the settings.
    pub fn is_reproducible(&self, config: &Config) -> bool {
        self.reproducible.unwrap_or(config.collectives.reproducible)
    }

    /// Returns the algorithm requested for a collective, by these hints or by the settings.
    pub fn algorithm_of<'a>(&'a self, config: &'a Config, collective: &str) -> Option<&'a str> {
        algorithm_in(self.algorithms.as_deref().unwrap_or_default(), collective)
            .or_else(|| config.algorithm_of(collective))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], tune: Option<Tune>, algorithms: &str, left: usize) {
        let mut info = Info::new();
        pairs.iter().for_each(|(key, value)| info.set(key, value).unwrap());
        let hints = CollectiveHints::from_info(&info);
        let named = hints.algorithms.as_deref().unwrap_or_default();
        assert_eq!((hints.tune, named), (tune, algorithms), "{pairs:?}");
        let mut used = Info::new();
        hints.add_to(&mut used, &Config::default());
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
        check(&[(REPRODUCIBLE, "true")], None, "", 1);
        check(&[(REPRODUCIBLE, "perhaps")], None, "", 0);
    }

    #[test]
    fn an_operation_says_more_than_its_communicator() {
        let of = |tune, algorithms: &str| CollectiveHints {
            tune,
            reproducible: None,
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
