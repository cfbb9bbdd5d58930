//! Info objects: ordered pairs of key and value (MPI-5 chapter 10).
//!
//! Keys and values are byte strings without a zero byte. They need not be UTF-8.

use tutti_base::{Error, ErrorClass, Result};
use tutti_sys::job::ENV_MAXPROCS;
use tutti_sys::spawning::{ENV_ERROR_HANDLER, ENV_MEMORY_KINDS};

/// Maximum length of a key in bytes: `MPI_MAX_INFO_KEY` minus the terminator.
pub const MAX_KEY_BYTES: usize = 255;

/// Maximum length of a value in bytes: `MPI_MAX_INFO_VAL` minus the terminator.
pub const MAX_VALUE_BYTES: usize = 1023;

/// Info object: ordered pairs of key and value. A key keeps its position when its value is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pairs: Vec<Pair>,
}

/// Pair of key and value.
type Pair = (Box<[u8]>, Box<[u8]>);

/// Description of the start of this process, as far as it is known: the contents of `MPI_INFO_ENV` (MPI-5
/// section 11.2.1). Unknown values are not in the info object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartDescription {
    /// Name of the program.
    pub command: Vec<u8>,
    /// Arguments without the name of the program.
    pub arguments: Vec<Vec<u8>>,
    /// Number of processes that were requested.
    pub max_processes: Option<u32>,
    /// Host that was requested.
    pub host: Vec<u8>,
    /// Working directory of the program.
    pub working_directory: Vec<u8>,
    /// Name of the requested initial error handler.
    pub initial_error_handler: Vec<u8>,
    /// Requested kinds of memory (MPI-5 section 11.4.3).
    pub memory_kinds: Vec<u8>,
}

impl StartDescription {
    /// Returns the values that `mpirun` has passed to its programs in the environment.
    pub fn asked_for() -> StartDescription {
        let variable = |name| std::env::var(name).unwrap_or_default();
        StartDescription {
            max_processes: variable(ENV_MAXPROCS).parse().ok(),
            initial_error_handler: variable(ENV_ERROR_HANDLER).into_bytes(),
            memory_kinds: variable(ENV_MEMORY_KINDS).into_bytes(),
            ..StartDescription::default()
        }
    }
}

impl Info {
    /// Returns an info object without keys.
    pub const fn new() -> Info {
        Info { pairs: Vec::new() }
    }

    /// Returns the contents of `MPI_INFO_ENV` and `MPI_Info_create_env`. Values that are too long are
    /// omitted.
    pub fn of_start(start: &StartDescription) -> Info {
        let processes = start.max_processes.map(|count| count.to_string()).unwrap_or_default();
        let fields: [(&str, &[u8]); 9] = [
            ("command", &start.command),
            ("argv", &start.arguments.join(&b' ')),
            ("maxprocs", processes.as_bytes()),
            ("soft", processes.as_bytes()),
            ("host", &start.host),
            ("arch", std::env::consts::ARCH.as_bytes()),
            ("wdir", &start.working_directory),
            ("mpi_initial_errhandler", &start.initial_error_handler),
            ("mpi_memory_alloc_kinds", &start.memory_kinds),
        ];
        let mut info = Info::new();
        for (key, value) in fields.iter().filter(|(_, value)| (1..=MAX_VALUE_BYTES).contains(&value.len())) {
            info.set(key.as_bytes(), value)
                .expect("keys are short and lengths of values were just looked at");
        }
        info
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the key at `position`, in the order in which keys were added.
    ///
    /// # Errors
    /// `Arg` if there are not that many keys.
    pub fn nth_key(&self, position: i32) -> Result<&[u8]> {
        let key = usize::try_from(position).ok().and_then(|place| self.pairs.get(place));
        key.map(|(key, _)| &**key).ok_or_else(|| {
            let reason =
                format!("argument n is {position}, but the info object has {} keys", self.pairs.len());
            Error::new(ErrorClass::Arg, reason)
        })
    }

    /// Returns the value of `key`, if there is one.
    ///
    /// # Errors
    /// `InfoKey` if the key is empty or too long.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<&[u8]>> {
        let key = checked_key(key.as_ref())?;
        Ok(self.position(key).map(|place| &*self.pairs[place].1))
    }

    /// Returns the value of a key that the library uses, if there is one and it is UTF-8.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.position(key.as_bytes()).and_then(|place| std::str::from_utf8(&self.pairs[place].1).ok())
    }

    /// Adds a pair, or replaces the value of a key.
    ///
    /// # Errors
    /// `InfoKey` or `InfoValue` if one is too long, or the key is empty.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (checked_key(key.as_ref())?, value.as_ref());
        if value.len() > MAX_VALUE_BYTES {
            let reason = format!(
                "the value of key {} has {} bytes; {MAX_VALUE_BYTES} are allowed",
                key.escape_ascii(),
                value.len()
            );
            return Err(Error::new(ErrorClass::InfoValue, reason));
        }
        match self.position(key) {
            Some(place) => self.pairs[place].1 = value.into(),
            None => self.pairs.push((key.into(), value.into())),
        }
        Ok(())
    }

    /// Removes the pair of a key.
    ///
    /// # Errors
    /// `InfoNokey` if the key does not exist, `InfoKey` if it is empty or too long.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = checked_key(key.as_ref())?;
        let place = self.position(key).ok_or_else(|| {
            Error::new(ErrorClass::InfoNokey, format!("the info object has no key {}", key.escape_ascii()))
        })?;
        self.pairs.remove(place);
        Ok(())
    }

    fn position(&self, key: &[u8]) -> Option<usize> {
        self.pairs.iter().position(|(other, _)| **other == *key)
    }
}

fn checked_key(key: &[u8]) -> Result<&[u8]> {
    match key.len() {
        0 => Err(Error::new(ErrorClass::InfoKey, "argument key is empty")),
        1..=MAX_KEY_BYTES => Ok(key),
        long => {
            let reason = format!("argument key has {long} bytes; {MAX_KEY_BYTES} are allowed");
            Err(Error::new(ErrorClass::InfoKey, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(info: &Info, expected: &[(&str, &str)]) {
        let got: Vec<_> = (0..info.len() as i32)
            .map(|n| {
                let key = info.nth_key(n).unwrap();
                (
                    std::str::from_utf8(key).unwrap(),
                    std::str::from_utf8(info.get(key).unwrap().unwrap()).unwrap(),
                )
            })
            .collect();
        assert_eq!(got, expected);
    }

    fn check_refused<T: std::fmt::Debug>(result: Result<T>, class: ErrorClass) {
        assert_eq!(result.unwrap_err().class, class);
    }

    #[test]
    fn keys_keep_their_order() {
        let mut info = Info::new();
        for (key, value) in [("b", "1"), ("a", "2"), ("c", ""), ("b", "3")] {
            info.set(key, value).unwrap();
        }
        check(&info, &[("b", "3"), ("a", "2"), ("c", "")]);
        info.delete("a").unwrap();
        check(&info, &[("b", "3"), ("c", "")]);
        assert_eq!(info.get("a"), Ok(None));
        assert_eq!(info.text("b"), Some("3"));
    }

    #[test]
    fn limits_are_those_of_the_abi() {
        let mut info = Info::new();
        info.set("k".repeat(255), "v".repeat(1023)).unwrap();
        check_refused(info.set("k".repeat(256), ""), ErrorClass::InfoKey);
        check_refused(info.set("", ""), ErrorClass::InfoKey);
        check_refused(info.set("k", "v".repeat(1024)), ErrorClass::InfoValue);
        check_refused(info.get("k".repeat(300)), ErrorClass::InfoKey);
        check_refused(info.delete("k"), ErrorClass::InfoNokey);
        check_refused(info.nth_key(1), ErrorClass::Arg);
        check_refused(info.nth_key(-1), ErrorClass::Arg);
    }

    #[test]
    fn a_start_is_described_by_what_is_known() {
        let start = StartDescription {
            command: b"./asp".to_vec(),
            arguments: vec![b"-n".to_vec(), b"12".to_vec()],
            max_processes: Some(4),
            initial_error_handler: b"mpi_errors_return".to_vec(),
            ..StartDescription::default()
        };
        check(
            &Info::of_start(&start),
            &[
                ("command", "./asp"),
                ("argv", "-n 12"),
                ("maxprocs", "4"),
                ("soft", "4"),
                ("arch", std::env::consts::ARCH),
                ("mpi_initial_errhandler", "mpi_errors_return"),
            ],
        );
    }
}
