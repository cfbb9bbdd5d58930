//! Suppression files for tools that watch a program, so that their reports concern the program and not the
//! library.
//!
//! The thread sanitizer sees only code that was compiled with it. Valgrind's helgrind and drd see only locks
//! of pthreads. The synchronisation inside the library looks like a race to them. Therefore suppression files
//! are installed with the library (`PREFIX/share/tutti`), and mpirun names them in the tool's own variable.
//! The sanitizers of addresses, leaks and undefined behaviour need none, nor does valgrind's memcheck without
//! a search for leaks.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::environment::Variables;
use crate::needed;

/// Adds the path of the suppressions to the variables of `program`, if it is such a tool or was built with
/// one. `prefix` is the folder of the installation. The user's own options come first. If the tool takes one
/// file only, the user's file stands.
pub fn add_suppressions(variables: &mut Variables, program: &Path, prefix: &Path) {
    let folder = prefix.join("share/tutti");
    if program.file_name() == Some(OsStr::new("valgrind")) {
        let file = folder.join("valgrind.supp");
        add(variables, "VALGRIND_OPTS", "--suppressions=", &file, |_| false);
    } else if needed::is_linked_to(program, "libtsan.so") {
        let file = folder.join("thread-sanitizer.supp");
        add(variables, "TSAN_OPTIONS", "suppressions=", &file, |before| before.contains("suppressions="));
    }
}

/// Appends an option with the path of a suppression file to a variable. Does nothing if the file does not
/// exist, or if `stands` returns true for the present value.
fn add(variables: &mut Variables, name: &str, option: &str, file: &Path, stands: impl Fn(&str) -> bool) {
    let before = variables.get(OsStr::new(name)).cloned().unwrap_or_default();
    if !file.exists() || stands(&before.to_string_lossy()) {
        return;
    }
    let mut value = OsString::from(option);
    value.push(file);
    if !before.is_empty() {
        value = [before, value].join(OsStr::new(" "));
    }
    variables.insert(name.into(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the value of variable `name` for `program`, whose value was `before`. PREFIX stands for the
    /// folder of the installation.
    fn check(program: &str, name: &str, before: &str, expected: Option<&str>) {
        let prefix = std::env::temp_dir().join(format!("tutti-instruments-{}", std::process::id()));
        std::fs::create_dir_all(prefix.join("share/tutti")).unwrap();
        for file in ["valgrind.supp", "thread-sanitizer.supp"] {
            std::fs::write(prefix.join("share/tutti").join(file), "").unwrap();
        }
        let mut variables = Variables::new();
        if !before.is_empty() {
            variables.insert(name.into(), before.into());
        }
        add_suppressions(&mut variables, Path::new(program), &prefix);
        let got = variables.get(OsStr::new(name)).map(|value| value.to_string_lossy().into_owned());
        let got = got.map(|value| value.replace(&*prefix.to_string_lossy(), "PREFIX"));
        assert_eq!(got.as_deref(), expected, "{program} {name}={before}");
    }

    #[test]
    fn tools_are_told_and_what_was_set_stays() {
        let file = "--suppressions=PREFIX/share/tutti/valgrind.supp";
        check("/usr/bin/valgrind", "VALGRIND_OPTS", "", Some(file));
        check("/usr/bin/valgrind", "VALGRIND_OPTS", "--quiet", Some(&format!("--quiet {file}")));
        check("/bin/true", "VALGRIND_OPTS", "", None);
        check("/bin/true", "TSAN_OPTIONS", "", None);
    }
}
