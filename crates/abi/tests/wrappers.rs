//! Tests of mpicc and mpicxx: the commands that they would run.
#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::path::Path;
use std::process::Command;

/// Runs the wrapper `name` from an installation in a scratch folder; `PREFIX` in `expected` stands for it.
fn check(name: &str, arguments: &[&str], environment: &[(&str, &str)], expected: &str) {
    let wrappers = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrappers");
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("prefix-{name}-{}", arguments.len()));
    let program = prefix.join("bin").join(name);
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    std::fs::copy(wrappers.join("mpicc"), &program).unwrap();
    let output = Command::new(&program)
        .args(arguments)
        .env_remove("CC")
        .env_remove("CXX")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let prefix = prefix.canonicalize().unwrap();
    let said = String::from_utf8(output.stdout).unwrap().replace(prefix.to_str().unwrap(), "PREFIX");
    assert_eq!(said.trim_end(), expected);
}

const LINK: &str = "-LPREFIX/lib -Wl,-rpath,PREFIX/lib -Wl,--enable-new-dtags -lmpi_abi";

#[test]
fn wrappers_show_the_command() {
    check("mpicc", &["-show"], &[], &format!("cc -IPREFIX/include {LINK}"));
    check("mpicxx", &["-show"], &[("CXX", "clang++")], &format!("clang++ -IPREFIX/include {LINK}"));
    check("mpicc", &["-show", "-c", "a.c"], &[("MPICC_CC", "tcc")], "tcc -IPREFIX/include -c a.c");
    check("mpicc", &["-show", "-c", "a.c"], &[("CC", "mpicc")], "cc -IPREFIX/include -c a.c");
    check("mpicc", &["a.c", "-show", "-o", "a"], &[], &format!("cc -IPREFIX/include a.c -o a {LINK}"));
    check("mpicc", &["--showme:compile"], &[], "-IPREFIX/include");
    check("mpicc", &["--showme:link"], &[], LINK);
    check("mpicc", &["-cc=gcc", "-compile-info"], &[], "gcc -IPREFIX/include");
}
