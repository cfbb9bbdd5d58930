//! Exceptions of the processor behind SIGFPE, for the report of a crash.

use std::ffi::c_int;

/// Kind of arithmetic exception that the processor raised (sigaction(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    IntegerDivision,
    IntegerOverflow,
    Division,
    Overflow,
    Underflow,
    Inexact,
    Invalid,
}

impl Exception {
    /// Returns the exception that the kernel reports as `si_code` of SIGFPE, or `None` for an unknown code.
    pub fn from_code(code: c_int) -> Option<Exception> {
        // FPE_INTDIV and the following (siginfo.h); the libc crate does not define them.
        Some(match code {
            1 => Exception::IntegerDivision,
            2 => Exception::IntegerOverflow,
            3 => Exception::Division,
            4 => Exception::Overflow,
            5 => Exception::Underflow,
            6 => Exception::Inexact,
            7 => Exception::Invalid,
            _ => return None,
        })
    }

    /// Returns the name of the exception, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Exception::IntegerDivision => "integer division by zero",
            Exception::IntegerOverflow => "integer overflow",
            Exception::Division => "floating-point division by zero",
            Exception::Overflow => "floating-point overflow",
            Exception::Underflow => "floating-point underflow",
            Exception::Inexact => "inexact floating-point result",
            Exception::Invalid => "invalid floating-point operation",
        }
    }

    /// Returns an explanation of why the exception ended the process. Floating-point exceptions do so only
    /// where the program has enabled traps; integer exceptions need no explanation (`None`). `function` is
    /// the MPI function in which it happened, if any.
    pub fn complaint(self, function: Option<&str>) -> Option<String> {
        if matches!(self, Exception::IntegerDivision | Exception::IntegerOverflow) {
            return None;
        }
        let inside = function.map_or(String::new(), |function| {
            format!("; it is in the program's data or operator of {function}: MPI computes nothing else with its traps")
        });
        Some(format!("the program has enabled traps for this (feenableexcept, -ffpe-trap){inside}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: c_int, name: Option<&str>, has_complaint: bool) {
        let found = Exception::from_code(code);
        assert_eq!(found.map(Exception::name), name);
        let complaint = found.and_then(|exception| exception.complaint(Some("MPI_Reduce")));
        assert_eq!(complaint.is_some_and(|text| text.contains("operator of MPI_Reduce")), has_complaint);
    }

    #[test]
    fn exceptions_have_names() {
        check(1, Some("integer division by zero"), false);
        check(3, Some("floating-point division by zero"), true);
        check(7, Some("invalid floating-point operation"), true);
        check(0, None, false);
        check(-6, None, false);
        assert!(Exception::Overflow.complaint(None).is_some_and(|text| !text.contains("operator")));
    }
}
