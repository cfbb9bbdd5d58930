//! Error classes, codes and strings: those of the standard and those that a program adds (MPI-5 sections 9.4
//! and 9.5).
//!
//! A standard class is also its only code. Classes and codes of the program have numbers above
//! `MPI_ERR_LASTCODE`. The number of a removed one is used again when all numbers have been used.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tutti_base::{Error, ErrorClass, Result};

use crate::lanes::FirstLaneCell;

/// Value of `MPI_ERR_LASTCODE`: the largest code of the standard ABI. Codes of the program follow.
pub const LAST_CODE: i32 = 16383;

/// Maximum length of an error string in bytes: `MPI_MAX_ERROR_STRING` minus the terminator.
pub const MAX_STRING_BYTES: usize = 511;

/// Error codes of this process.
pub static CODES: FirstLaneCell<ErrorCodes> = FirstLaneCell::new(ErrorCodes::new());

/// Meanings of the tool interface's classes (MPI-5 section 15.3.10), starting with `MPI_T_ERR_CANNOT_INIT`.
const TOOL_ERRORS: [&str; 18] = [
    "MPI_T_ERR_CANNOT_INIT: the interface cannot be initialised",
    "MPI_T_ERR_NOT_ACCESSIBLE: the interface is not accessible",
    "MPI_T_ERR_NOT_INITIALIZED: the interface is not initialised",
    "MPI_T_ERR_NOT_SUPPORTED: the functionality is not there",
    "MPI_T_ERR_MEMORY: out of memory",
    "MPI_T_ERR_INVALID: invalid use of the interface or wrong argument",
    "MPI_T_ERR_INVALID_INDEX: no variable, category or event has this index",
    "MPI_T_ERR_INVALID_ITEM: the enumeration has no item of this number",
    "MPI_T_ERR_INVALID_SESSION: invalid session",
    "MPI_T_ERR_INVALID_HANDLE: invalid handle",
    "MPI_T_ERR_INVALID_NAME: nothing has this name",
    "MPI_T_ERR_OUT_OF_HANDLES: no more handles",
    "MPI_T_ERR_OUT_OF_SESSIONS: no more sessions",
    "MPI_T_ERR_CVAR_SET_NOT_NOW: the variable cannot be set at this moment",
    "MPI_T_ERR_CVAR_SET_NEVER: the variable can no longer be set",
    "MPI_T_ERR_PVAR_NO_WRITE: the variable cannot be written or reset",
    "MPI_T_ERR_PVAR_NO_STARTSTOP: the variable cannot be started or stopped",
    "MPI_T_ERR_PVAR_NO_ATOMIC: the variable cannot be read and reset in one step",
];
const FIRST_TOOL_ERROR: i32 = 1001;

/// Classes and codes that the program has added.
#[derive(Debug)]
pub struct ErrorCodes {
    last_used: i32,
    /// Number that was assigned last.
    latest: i32,
    added: BTreeMap<i32, Added>,
}

/// Class or code that the program has added.
#[derive(Debug)]
struct Added {
    /// Class of a code; a class has itself.
    class: i32,
    string: Vec<u8>,
}

impl Default for ErrorCodes {
    fn default() -> ErrorCodes {
        ErrorCodes::new()
    }
}

impl ErrorCodes {
    /// Returns the codes of the standard only.
    pub const fn new() -> ErrorCodes {
        ErrorCodes { last_used: LAST_CODE, latest: LAST_CODE, added: BTreeMap::new() }
    }

    /// Returns the largest number in use: the value of `MPI_LASTUSEDCODE`.
    pub fn last_used(&self) -> i32 {
        self.last_used
    }

    /// Adds a new class and returns it.
    ///
    /// # Errors
    /// `Other` if there are no more numbers.
    pub fn add_class(&mut self) -> Result<i32> {
        let number = self.next_number()?;
        self.added.insert(number, Added { class: number, string: Vec::new() });
        Ok(number)
    }

    /// Adds a new code of `class` and returns it.
    ///
    /// # Errors
    /// `Arg` if there is no such class, `Other` if there are no more numbers.
    pub fn add_code(&mut self, class: i32) -> Result<i32> {
        if !self.is_class(class) {
            return Err(arg(format!("argument errorclass: there is no error class {class}")));
        }
        let number = self.next_number()?;
        self.added.insert(number, Added { class, string: Vec::new() });
        Ok(number)
    }

    /// Sets the string of an added class or code. A string that is too long is truncated.
    ///
    /// # Errors
    /// `Arg` if `code` was not added.
    pub fn set_string(&mut self, code: i32, string: &[u8]) -> Result<()> {
        let added = self.added_mut(code)?;
        added.string = string[..string.len().min(MAX_STRING_BYTES)].to_vec();
        Ok(())
    }

    /// Removes an added class.
    ///
    /// # Errors
    /// `Arg` if `class` was not added, or has a string or codes.
    pub fn remove_class(&mut self, class: i32) -> Result<()> {
        if self.added_mut(class)?.class != class {
            return Err(arg(format!("argument errorclass: {class} is an error code, not a class")));
        }
        let code = self.added.iter().find(|(code, added)| added.class == class && **code != class);
        if let Some((code, _)) = code {
            return Err(arg(format!(
                "argument errorclass: class {class} still has the code {code}; remove that first"
            )));
        }
        self.remove(class)
    }

    /// Removes an added code.
    ///
    /// # Errors
    /// `Arg` if `code` was not added or has a string.
    pub fn remove_code(&mut self, code: i32) -> Result<()> {
        if self.added_mut(code)?.class == code {
            return Err(arg(format!("argument errorcode: {code} is an error class; remove it as such")));
        }
        self.remove(code)
    }

    /// Removes the string of an added class or code.
    ///
    /// # Errors
    /// `Arg` if `code` was not added or has no string.
    pub fn remove_string(&mut self, code: i32) -> Result<()> {
        let added = self.added_mut(code)?;
        if added.string.is_empty() {
            return Err(arg(format!("argument errorcode: {code} has no string")));
        }
        added.string.clear();
        Ok(())
    }

    /// Returns the class of `code`.
    ///
    /// # Errors
    /// `Arg` if there is no such code.
    pub fn class_of(&self, code: i32) -> Result<i32> {
        match self.added.get(&code) {
            Some(added) => Ok(added.class),
            None if is_of_standard(code) => Ok(code),
            None => Err(unknown(code)),
        }
    }

    /// Returns the string of `code`. It is empty if the program has added the code without a string.
    ///
    /// # Errors
    /// `Arg` if there is no such code.
    pub fn string_of(&self, code: i32) -> Result<Cow<'_, [u8]>> {
        if let Some(added) = self.added.get(&code) {
            return Ok(Cow::Borrowed(&added.string));
        }
        let text = match (code, ErrorClass::from_code(code)) {
            (_, Some(class)) => Cow::Owned(format!("{}: {}", class.name(), class.meaning())),
            (0, _) => Cow::Borrowed("MPI_SUCCESS: no error"),
            (LAST_CODE, _) => Cow::Borrowed("MPI_ERR_LASTCODE: the last error code"),
            _ => Cow::Borrowed(*tool_error(code).ok_or_else(|| unknown(code))?),
        };
        Ok(match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        })
    }

    /// Returns the next unused number.
    fn next_number(&mut self) -> Result<i32> {
        for _ in 0..=self.added.len() {
            self.latest = self.latest.checked_add(1).unwrap_or(LAST_CODE + 1);
            if !self.added.contains_key(&self.latest) {
                self.last_used = self.last_used.max(self.latest);
                return Ok(self.latest);
            }
        }
        Err(Error::new(ErrorClass::Other, "there are no more error codes"))
    }

    fn is_class(&self, number: i32) -> bool {
        self.added.get(&number).map_or_else(|| is_of_standard(number), |added| added.class == number)
    }

    /// Returns an added class or code, or an error for a standard or unknown one.
    fn added_mut(&mut self, code: i32) -> Result<&mut Added> {
        self.added.get_mut(&code).ok_or_else(|| match is_of_standard(code) {
            true => arg(format!("argument errorcode or errorclass is {code}, which is one of the standard; only added ones can be changed")),
            false => unknown(code),
        })
    }

    /// Removes an added class or code that has no string.
    fn remove(&mut self, number: i32) -> Result<()> {
        if !self.added_mut(number)?.string.is_empty() {
            return Err(arg(format!("{number} still has a string; remove that first")));
        }
        self.added.remove(&number);
        Ok(())
    }
}

fn is_of_standard(code: i32) -> bool {
    code == 0 || code == LAST_CODE || ErrorClass::from_code(code).is_some() || tool_error(code).is_some()
}

fn tool_error(code: i32) -> Option<&'static &'static str> {
    TOOL_ERRORS.get(usize::try_from(code.checked_sub(FIRST_TOOL_ERROR)?).ok()?)
}

fn unknown(code: i32) -> Error {
    arg(format!("argument errorcode or errorclass is {code}, which is not known"))
}

fn arg(reason: String) -> Error {
    Error::new(ErrorClass::Arg, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(codes: &ErrorCodes, code: i32, expected: Option<(i32, &str)>) {
        let got = codes
            .class_of(code)
            .ok()
            .map(|class| (class, String::from_utf8(codes.string_of(code).unwrap().into_owned()).unwrap()));
        assert_eq!(got, expected.map(|(class, text)| (class, text.to_string())));
    }

    #[test]
    fn codes_of_the_standard() {
        let codes = ErrorCodes::new();
        check(&codes, 0, Some((0, "MPI_SUCCESS: no error")));
        check(&codes, 15, Some((15, "MPI_ERR_TRUNCATE: message truncated on receive")));
        check(&codes, 1018, Some((1018, TOOL_ERRORS[17])));
        check(&codes, 1000, None);
        check(&codes, 1019, None);
        check(&codes, i32::MIN, None);
        check(&codes, LAST_CODE, Some((LAST_CODE, "MPI_ERR_LASTCODE: the last error code")));
        assert_eq!(codes.last_used(), LAST_CODE);
    }

    #[test]
    fn codes_of_the_program() {
        let mut codes = ErrorCodes::new();
        let class = codes.add_class().unwrap();
        assert_eq!((class, codes.last_used()), (LAST_CODE + 1, LAST_CODE + 1));
        check(&codes, class, Some((class, "")));
        let code = codes.add_code(class).unwrap();
        let other = codes.add_code(ErrorClass::Other as i32).unwrap();
        codes.set_string(code, b"no tea").unwrap();
        check(&codes, code, Some((class, "no tea")));
        check(&codes, other, Some((ErrorClass::Other as i32, "")));
        assert!(codes.add_code(code).is_err() && codes.add_code(-1).is_err());
        assert!(codes.set_string(ErrorClass::Other as i32, b"").is_err());
    }

    #[test]
    fn numbers_come_again_at_their_end() {
        let mut codes = ErrorCodes::new();
        let [first, second] = [(); 2].map(|()| codes.add_class().unwrap());
        codes.remove_class(second).unwrap();
        codes.latest = i32::MAX - 1;
        let again = [(); 3].map(|()| codes.add_class().unwrap());
        assert_eq!(again, [i32::MAX, second, second + 1], "{first} is in use");
        assert_eq!(codes.last_used(), i32::MAX);
    }

    #[test]
    fn only_what_is_not_used_can_be_removed() {
        let mut codes = ErrorCodes::new();
        let class = codes.add_class().unwrap();
        let code = codes.add_code(class).unwrap();
        codes.set_string(code, b"x").unwrap();
        assert!(codes.remove_class(class).is_err() && codes.remove_class(code).is_err());
        assert!(codes.remove_code(code).is_err() && codes.remove_code(class).is_err());
        codes.remove_string(code).unwrap();
        assert!(codes.remove_string(code).is_err());
        codes.remove_code(code).unwrap();
        assert!(codes.remove_code(code).is_err());
        codes.remove_class(class).unwrap();
        assert!(codes.remove_class(class).is_err() && codes.remove_class(0).is_err());
        assert_eq!(codes.add_class().unwrap(), code + 1);
    }
}
