//! Hints of communicators and windows, and those of files that do not concern storage (MPI-5 sections 7.4.4,
//! 12.2.7, 14.2.8).
//!
//! Each kind of object has a table of the hints that it uses. An object keeps the values that the program
//! set. A hint is ignored if it is not in the table or has an invalid value: it changes nothing and is not
//! returned. All others are returned, with the value that was set or with the default.

use crate::info::Info;
use crate::memory_kinds;

/// Definition of a hint: its key, default and valid values.
#[derive(Debug)]
pub struct Hint {
    /// Key in info objects.
    pub key: &'static str,
    /// Value if the program sets none. A hint without a default is then not returned.
    pub default: Option<&'static str>,
    /// Values that are valid for it.
    pub values: Values,
    /// True if it has a meaning only when the object is created.
    pub at_creation: bool,
}

/// Set of valid values of a hint.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// Logical value: `true` or `false`.
    Logical,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Either `none`, or a list of these words.
    NoneOrWords(&'static [&'static str]),
    /// Number that is not negative.
    Count,
    /// Power of two up to [`MOST_ALIGNMENT_BYTES`].
    Alignment,
    /// Kinds of memory that are supported.
    MemoryKinds,
}

/// Hints of one object: a table of definitions, and the values that the program set.
#[derive(Debug)]
pub struct Hints {
    table: &'static [Hint],
    /// Values that the program set, by key.
    given: Vec<(&'static str, Box<str>)>,
}

const fn assertion(key: &'static str) -> Hint {
    Hint { key, default: Some("false"), values: Values::Logical, at_creation: false }
}

/// Assertion that all buffers are of these kinds of memory (MPI-5 section 11.4.3).
const ONLY_KINDS: Hint = Hint {
    key: "mpi_assert_memory_alloc_kinds",
    default: None,
    values: Values::MemoryKinds,
    at_creation: false,
};

/// Hints that communicators use (MPI-5 section 7.4.4).
pub static OF_COMMUNICATORS: [Hint; 6] = [
    assertion("mpi_assert_no_any_tag"),
    assertion("mpi_assert_no_any_source"),
    assertion("mpi_assert_exact_length"),
    assertion("mpi_assert_allow_overtaking"),
    assertion("mpi_assert_strict_persistent_collective_ordering"),
    ONLY_KINDS,
];

/// Hints of files that do not concern storage.
pub static OF_FILES: [Hint; 1] = [ONLY_KINDS];

/// Info key of the alignment of allocated memory.
pub const ALIGNMENT: &str = "mpi_minimum_memory_alignment";
/// Maximum alignment in bytes that can be requested.
const MOST_ALIGNMENT_BYTES: u64 = 1 << 30;
/// Info key that allows gaps between the memory of several processes.
pub const NONCONTIGUOUS: &str = "alloc_shared_noncontig";

/// Hints of windows; the last [`OF_ALLOCATION`] have a meaning only if the window allocates memory.
static OF_ALL_WINDOWS: [Hint; 9] = [
    assertion("no_locks"),
    Hint {
        key: "accumulate_ordering",
        default: Some("rar,raw,war,waw"),
        values: Values::NoneOrWords(&["rar", "raw", "war", "waw"]),
        at_creation: false,
    },
    Hint {
        key: "accumulate_ops",
        default: Some("same_op_no_op"),
        values: Values::Word(&["same_op", "same_op_no_op"]),
        at_creation: false,
    },
    Hint { key: "mpi_accumulate_granularity", default: Some("0"), values: Values::Count, at_creation: false },
    assertion("same_size"),
    assertion("same_disp_unit"),
    ONLY_KINDS,
    Hint { key: NONCONTIGUOUS, default: Some("false"), values: Values::Logical, at_creation: true },
    Hint { key: ALIGNMENT, default: None, values: Values::Alignment, at_creation: true },
];
const OF_ALLOCATION: usize = 2;

/// Returns the hints of windows that allocate their memory, or of those that do not.
pub fn of_windows(is_allocated: bool) -> &'static [Hint] {
    let most = OF_ALL_WINDOWS.len();
    &OF_ALL_WINDOWS[..if is_allocated { most } else { most - OF_ALLOCATION }]
}

impl Values {
    /// Returns true if a value is valid.
    fn allow(self, value: &str) -> bool {
        match self {
            Values::Logical => matches!(value, "true" | "false"),
            Values::Word(words) => words.contains(&value),
            Values::NoneOrWords(words) => {
                value == "none" || value.split(',').all(|word| words.contains(&word.trim()))
            }
            Values::Count => value.parse::<u64>().is_ok(),
            Values::Alignment => value
                .parse::<u64>()
                .is_ok_and(|bytes| bytes.is_power_of_two() && bytes <= MOST_ALIGNMENT_BYTES),
            Values::MemoryKinds => memory_kinds::are_supported(value),
        }
    }
}

impl Hints {
    /// Creates hints with the defaults of a table.
    pub const fn new(table: &'static [Hint]) -> Hints {
        Hints { table, given: Vec::new() }
    }

    /// Creates the hints of a new object from the program's info object.
    pub fn with_info(table: &'static [Hint], info: &Info) -> Hints {
        let mut hints = Hints::new(table);
        hints.set(info, |_| true);
        hints
    }

    /// Adopts the hints of an info object. All others remain.
    pub fn update(&mut self, info: &Info) {
        self.set(info, |hint| !hint.at_creation);
    }

    /// Adopts those hints of an info object for which `is_open` is true and whose values are valid.
    fn set(&mut self, info: &Info, is_open: impl Fn(&Hint) -> bool) {
        for hint in self.table.iter().filter(|hint| is_open(hint)) {
            let Some(value) = info.text(hint.key).filter(|value| hint.values.allow(value)) else { continue };
            match self.given.iter_mut().find(|(key, _)| *key == hint.key) {
                Some((_, present)) => *present = value.into(),
                None => self.given.push((hint.key, value.into())),
            }
        }
    }

    /// Returns the value of a hint, or its default.
    pub fn value(&self, key: &str) -> Option<&str> {
        let given = self.given.iter().find(|(known, _)| *known == key).map(|(_, value)| &**value);
        given.or_else(|| self.table.iter().find(|hint| hint.key == key)?.default)
    }

    /// Returns an info object with all hints that are in use.
    pub fn in_use(&self) -> Info {
        let mut info = Info::new();
        for hint in self.table {
            if let Some(value) = self.value(hint.key) {
                info.set(hint.key, value)
                    .expect("keys of tables are short, and values come from info objects");
            }
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(pairs: &[(&str, &str)]) -> Info {
        let mut info = Info::new();
        pairs.iter().for_each(|(key, value)| info.set(key, value).unwrap());
        info
    }

    fn check(hints: &Hints, expected: &[(&str, Option<&str>)]) {
        let used = hints.in_use();
        for (key, value) in expected {
            assert_eq!((used.text(key), hints.value(key)), (*value, *value), "{key}");
        }
    }

    #[test]
    fn only_named_hints_change() {
        let mut hints = Hints::new(&OF_COMMUNICATORS);
        check(&hints, &[("mpi_assert_no_any_tag", Some("false")), ("mpi_assert_memory_alloc_kinds", None)]);
        hints
            .update(&info(&[("mpi_assert_no_any_tag", "true"), ("mpi_assert_memory_alloc_kinds", "system")]));
        hints.update(&info(&[("mpi_assert_exact_length", "true"), ("mpi_assert_no_any_tag", "perhaps")]));
        check(
            &hints,
            &[
                ("mpi_assert_no_any_tag", Some("true")),
                ("mpi_assert_exact_length", Some("true")),
                ("mpi_assert_allow_overtaking", Some("false")),
                ("mpi_assert_memory_alloc_kinds", Some("system")),
            ],
        );
        assert_eq!(hints.in_use().len(), 6);
    }

    #[test]
    fn what_is_not_known_is_ignored() {
        let given = info(&[("colour", "red"), ("mpi_assert_memory_alloc_kinds", "cuda:device")]);
        check(
            &Hints::with_info(&OF_COMMUNICATORS, &given),
            &[("colour", None), ("mpi_assert_memory_alloc_kinds", None)],
        );
    }

    #[test]
    fn some_hints_are_for_new_windows() {
        let given = info(&[(NONCONTIGUOUS, "true"), (ALIGNMENT, "8192"), ("accumulate_ordering", "rar,waw")]);
        let mut hints = Hints::with_info(of_windows(true), &given);
        hints.update(&info(&[(NONCONTIGUOUS, "false"), (ALIGNMENT, "3"), ("accumulate_ordering", "raw,x")]));
        let expected = [
            (NONCONTIGUOUS, Some("true")),
            (ALIGNMENT, Some("8192")),
            ("accumulate_ordering", Some("rar,waw")),
        ];
        check(&hints, &expected);
        hints.update(&info(&[("accumulate_ordering", "none"), ("mpi_accumulate_granularity", "-1")]));
        check(&hints, &[("accumulate_ordering", Some("none")), ("mpi_accumulate_granularity", Some("0"))]);
        let plain = Hints::with_info(of_windows(false), &given);
        check(&plain, &[(NONCONTIGUOUS, None), (ALIGNMENT, None), ("no_locks", Some("false"))]);
    }
}
