//! What was asked for of a communicator's operations: their algorithms, and whether they are tuned.
//!
//! The settings say it for the whole job, the control variable TUTTI_TUNE from where it is written on, the
//! info keys of a communicator or of a persistent operation for these:
//!
//! | key | value |
//! |---|---|
//! | `tutti_algorithm` | as TUTTI_ALGORITHM: `allreduce=ring,bcast=knomial:radix=4` |
//! | `tutti_tune` | `off`, `known` or `on` |
//!
//! All members have to say the same (MPI-5 section 10 lets an implementation ask for that).

use std::sync::atomic::{AtomicU8, Ordering};

use tutti_base::config::algorithms::{self, algorithm_in};
use tutti_base::config::{Config, Tune};

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
    algorithms: String,
}

impl Wishes {
    /// Whether it names algorithms.
    pub(crate) fn name_algorithms(&self) -> bool {
        !self.algorithms.is_empty()
    }

    /// What an info object says. A key whose value is none of those is taken out, so that the program can see
    /// that it is of no effect.
    pub fn take(info: &mut Info) -> Wishes {
        let tune = info.text(TUNE).and_then(Tune::of_name);
        let algorithms = info
            .text(ALGORITHM)
            .filter(|text| algorithms::check_list(text).is_ok())
            .unwrap_or_default()
            .to_string();
        for (key, is_used) in [(TUNE, tune.is_some()), (ALGORITHM, !algorithms.is_empty())] {
            // Most have none at all, and what is refused is put in words.
            if !is_used && !info.is_empty() {
                // That there was none is as good.
                let _ = info.delete(key);
            }
        }
        Wishes { tune, algorithms }
    }

    /// Whether operations for which this was asked are tuned.
    #[inline]
    pub fn tune_of(&self, config: &Config) -> Tune {
        self.tune.unwrap_or_else(|| tune_of(config))
    }

    /// These, and of what they do not say the others.
    pub fn or(&self, others: &Wishes) -> Wishes {
        let own = !self.algorithms.is_empty();
        Wishes {
            tune: self.tune.or(others.tune),
            algorithms: if own { &self.algorithms } else { &others.algorithms }.clone(),
        }
    }

    /// The algorithm of a collective that was asked for, here or by the settings.
    pub fn algorithm_of<'a>(&'a self, config: &'a Config, collective: &str) -> Option<&'a str> {
        algorithm_in(&self.algorithms, collective).or_else(|| config.algorithm_of(collective))
    }
}

/// What a communicator's info object says that is not in it: how its operations are tuned, if they are.
pub fn add_used(info: &mut Info, tune: Tune) {
    if tune.is_on() && info.text(TUNE).is_none() {
        info.set(TUNE, tune.name()).expect("key and value are short");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], tune: Option<Tune>, algorithms: &str, left: usize) {
        let mut info = Info::new();
        pairs.iter().for_each(|(key, value)| info.set(key, value).unwrap());
        let wishes = Wishes::take(&mut info);
        assert_eq!((wishes.tune, &*wishes.algorithms, info.len()), (tune, algorithms, left), "{pairs:?}");
    }

    #[test]
    fn keys_are_used_or_taken_out() {
        check(&[], None, "", 0);
        check(&[("other", "x"), (TUNE, "on")], Some(Tune::On), "", 2);
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
        let of = |tune, algorithms: &str| Wishes { tune, algorithms: algorithms.to_string() };
        let own = of(Some(Tune::Off), "").or(&of(Some(Tune::On), "bcast=tree"));
        assert_eq!(own, of(Some(Tune::Off), "bcast=tree"));
        assert_eq!(
            of(None, "bcast=flat").or(&of(Some(Tune::On), "bcast=tree")),
            of(Some(Tune::On), "bcast=flat")
        );
    }
}
