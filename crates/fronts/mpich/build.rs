//! Link arguments of `libmpi.so.12`.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    // The name under which programs ask for the library at run time.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.12");
    // Calls inside the library stay inside: MPI_X reaches our PMPI_X also when a tool defines MPI_X.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // It needs libmpi_abi.so.1, which lies two folders above, by that name alone: none of its symbols is named.
    let stub = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("libmpi_abi.so.1");
    let compiler =
        std::env::var("TARGET_CC").or_else(|_| std::env::var("CC")).unwrap_or_else(|_| "cc".to_string());
    let made = Command::new(&compiler)
        .args(["-shared", "-nostdlib", "-Wl,-soname,libmpi_abi.so.1", "-x", "c", "/dev/null", "-o"])
        .arg(&stub)
        .status();
    assert!(made.is_ok_and(|status| status.success()), "{compiler} makes no shared library");
    let stub = stub.display();
    println!("cargo:rustc-cdylib-link-arg=-Wl,--push-state,--no-as-needed,{stub},--pop-state");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN/../..,--enable-new-dtags");
    println!("cargo:rerun-if-changed=build.rs");
}
