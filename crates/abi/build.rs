//! Link arguments of `libmpi_abi.so.1`.

fn main() {
    // The name under which programs ask for the library at run time.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    // Calls inside the library stay inside: MPI_X reaches our PMPI_X also when a tool defines MPI_X.
    // Zig's linker, which wheels are made with, knows it for data and functions together; there are no data
    // that programs use.
    println!("cargo:rerun-if-env-changed=TUTTI_LINKER");
    let is_zig = std::env::var("TUTTI_LINKER").as_deref() == Ok("zig");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic{}", if is_zig { "" } else { "-functions" });
    println!("cargo:rerun-if-changed=build.rs");
}
