//! The header and the library from outside: compilers take `mpi.h` without a word, every function links, every
//! symbol is there under both names, constants and layouts are those of the tables.
#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn table(name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("spec").join(name)).unwrap();
    let rows = text.lines().skip(1).filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').map(str::to_string).collect()).collect()
}

/// Returns a folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the library that cargo built for this test: beside the test's own executable.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap().to_path_buf();
    // `cargo test` builds the library as a dependency only where another target needs it.
    let path = folder.join("libmpi_abi.so");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "tutti-abi"]);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success());
    path
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{command:?}: {}\n{said}", output.status);
}

/// Compiles `source` with every warning on; gives the executable if it is to be linked.
fn check_compiles(compiler: &str, standard: &str, source: &Path, link: bool) -> Option<PathBuf> {
    if Command::new(compiler).arg("--version").output().is_err() {
        return None;
    }
    let folder = scratch(&format!("{}-{compiler}-{standard}", source.file_stem().unwrap().display()));
    let out = folder.join(source.file_stem().unwrap());
    let mut command = Command::new(compiler);
    let language = if standard.starts_with("c++") { "c++" } else { "c" };
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", &format!("-std={standard}"), "-x", language]);
    command.arg(source).args(["-x", "none", "-I"]).arg(root().join("crates/abi/include"));
    if link {
        let library = library();
        // The name under which a program asks for it.
        let soname = folder.join("libmpi_abi.so.1");
        std::fs::copy(&library, &soname).unwrap();
        command.arg(&soname).arg(format!("-Wl,-rpath,{}", folder.display()));
    } else {
        command.arg("-c");
    }
    run(command.arg("-o").arg(&out));
    link.then_some(out)
}

const COMPILERS: &[(&str, &str)] =
    &[("gcc", "c99"), ("gcc", "c11"), ("g++", "c++17"), ("clang", "c99"), ("clang++", "c++17")];

/// Returns a program that takes the address of every function under both names, and ends well if none is
/// null.
fn address_of_every_function() -> String {
    let mut text = String::from(
        "#include <mpi.h>\ntypedef void (*function)(void);\nstatic function const functions[] = {\n",
    );
    for row in table("functions.tsv") {
        text.push_str(&format!("    (function)&{name}, (function)&P{name},\n", name = row[0]));
    }
    text.push_str(
        "};\nint main(void)\n{\n    for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)\n        \
         if (!functions[i])\n            return 1;\n    return 0;\n}\n",
    );
    text
}

#[test]
fn every_function_links() {
    let source = scratch("functions").join("every_function.c");
    std::fs::write(&source, address_of_every_function()).unwrap();
    for (compiler, standard) in COMPILERS {
        if let Some(program) = check_compiles(compiler, standard, &source, true) {
            run(&mut Command::new(program));
        }
    }
}

/// Returns a `static assert` for each constant, valid in C and C++.
fn assertions() -> String {
    let mut text = String::from(
        "#include <mpi.h>\n#include <mpi-ext.h>\n#include <stddef.h>\n\
         #define SAME(name, condition) extern int name[(condition) ? 1 : -1]\n",
    );
    let plain = ["int", "MPI_Offset", "MPI_T_cb_safety", "MPI_T_source_order"];
    for row in table("constants.tsv") {
        let (name, ctype, value) = (&row[0], &row[1], &row[2]);
        if plain.contains(&ctype.as_str()) {
            text.push_str(&format!("SAME(same_{name}, {name} == {value});\n"));
        } else if ctype != "alias" {
            // Addresses are no integer constants: compared when the program runs.
            text.push_str(&format!(
                "static int check_{name}(void) {{ return {name} == ({ctype}){value} \
                                    && (intptr_t){name} == {value}; }}\n"
            ));
        }
    }
    text.push_str(
        "SAME(status, sizeof(MPI_Status) == 32 && offsetof(MPI_Status, MPI_TAG) == 4\n    \
         && offsetof(MPI_Status, MPI_ERROR) == 8 && offsetof(MPI_Status, MPI_internal) == 12);\n\
         SAME(integers, sizeof(MPI_Aint) == sizeof(void *) && sizeof(MPI_Count) == 8\n    \
         && sizeof(MPI_Offset) == 8 && sizeof(MPI_Comm) == sizeof(void *));\n\
         int main(void)\n{\n    int good = 1;\n",
    );
    for row in table("constants.tsv") {
        if !plain.contains(&row[1].as_str()) && row[1] != "alias" {
            text.push_str(&format!("    good &= check_{}();\n", row[0]));
        }
    }
    text.push_str("    return !good;\n}\n");
    text
}

#[test]
fn constants_are_those_of_the_tables() {
    let source = scratch("constants").join("constants.c");
    std::fs::write(&source, assertions()).unwrap();
    for (compiler, standard) in COMPILERS {
        if let Some(program) = check_compiles(compiler, standard, &source, true) {
            run(&mut Command::new(program));
        }
    }
}

#[test]
fn the_library_exports_exactly_the_functions_of_the_standard_and_the_extensions() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Further exports: the wrapper `madvise`, the structure of functions for fronts (see `dialect`), and the
    // variable by which debuggers of parallel programs let a rank go on (see `sys::debugger`).
    let own = ["madvise", "tutti_interface", "MPIR_debug_gate"];
    let exported: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split(' ').nth(2)).filter(|name| !own.contains(name)).collect();
    let mut names: Vec<String> = table("functions.tsv").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(names.len(), 664);
    names.extend(table("extensions.tsv").into_iter().map(|row| row[0].clone()));
    let profiled: Vec<String> = names.iter().map(|name| format!("P{name}")).collect();
    let wanted: BTreeSet<&str> = names.iter().chain(&profiled).map(String::as_str).collect();
    let missing: Vec<_> = wanted.difference(&exported).collect();
    let surplus: Vec<_> = exported.difference(&wanted).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
}

#[test]
fn the_library_says_its_soname() {
    let output = Command::new("readelf").arg("-d").arg(library()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Library soname: [libmpi_abi.so.1]"), "{text}");
}
