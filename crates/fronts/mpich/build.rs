//! Link arguments of `libmpi.so.12`.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    // The name under which programs ask for the library at run time.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.12");
    // Calls within the library stay within: MPI_X calls our PMPI_X also when a tool defines MPI_X. Zig's
    // linker, with which wheels are built, does not support the option. The order of libraries then has the
    // same effect, as a front precedes the libraries that it needs. -Bsymbolic would be wrong: data must be
    // the program's copy, if there is one.
    println!("cargo:rerun-if-env-changed=TUTTI_LINKER");
    if std::env::var("TUTTI_LINKER").as_deref() != Ok("zig") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    }
    // It needs libmpi_abi.so.1, which lies two folders above, by that name alone: none of its symbols is named.
    let stub = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("libmpi_abi.so.1");
    let target = std::env::var("TARGET").expect("cargo sets it").replace('-', "_");
    let compiler = [format!("CC_{target}"), "TARGET_CC".to_string(), "CC".to_string()];
    let compiler = compiler.iter().find_map(|name| std::env::var(name).ok()).unwrap_or("cc".to_string());
    let made = Command::new(&compiler)
        .args(["-shared", "-nostdlib", "-Wl,-soname,libmpi_abi.so.1", "-x", "c", "/dev/null", "-o"])
        .arg(&stub)
        .status();
    assert!(made.is_ok_and(|status| status.success()), "{compiler} makes no shared library");
    let stub = stub.display().to_string();
    for argument in ["-Wl,--no-as-needed", &stub, "-Wl,--as-needed"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN/../..,--enable-new-dtags");
    println!("cargo:rerun-if-changed=build.rs");
}
