//! Programs that run with other rights than their caller: set-user-ID, set-group-ID, file capabilities.
//!
//! Their environment comes from a user with fewer rights. Its variables name libraries to load
//! (`PMIX_PREFIX`), files to write (`TUTTI_TRACE`) and a job whose memory that user holds (`TUTTI_FD`).
//! Such a program may start alone, without any of these variables; otherwise it is refused.

use tutti_base::{Error, ErrorClass, Result};
use tutti_sys::user;

/// Prefixes of environment variables that control the library or a library that it loads.
const PREFIXES: [&str; 6] = ["TUTTI_", "PMI", "HWLOC_", "FI_", "UCX_", "ROMIO_"];

/// Refuses the start of a privileged program if its environment contains variables that control the
/// library.
///
/// # Errors
/// Returns `Other`, naming the variable.
pub fn check_environment() -> Result<()> {
    if !user::is_privileged_program() {
        return Ok(());
    }
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    first_believed(names).map_or(Ok(()), |name| {
        let why = format!(
            "this program has other rights than its caller (set-user-ID, set-group-ID or file capabilities), and {name} in its \
             environment could have it load libraries or write files with these rights: take the rights from the program, or \
             start it without such variables"
        );
        Err(Error::new(ErrorClass::Other, why))
    })
}

/// Returns the first variable that would control the library, in alphabetical order.
fn first_believed(names: impl Iterator<Item = String>) -> Option<String> {
    let is_believed = |name: &String| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    names.filter(is_believed).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expected: Option<&str>) {
        assert_eq!(first_believed(names.iter().map(|name| name.to_string())).as_deref(), expected);
    }

    #[test]
    fn variables_of_starters_and_settings_are_named() {
        check(&["HOME", "PATH", "XDG_RUNTIME_DIR"], None);
        check(&["HOME", "TUTTI_TRACE"], Some("TUTTI_TRACE"));
        check(&["PMIX_PREFIX", "PMI_RANK"], Some("PMIX_PREFIX"));
        check(&["FI_PROVIDER_PATH"], Some("FI_PROVIDER_PATH"));
        assert!(check_environment().is_ok());
    }
}
