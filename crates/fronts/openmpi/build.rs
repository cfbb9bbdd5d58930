//! Link arguments of `libmpi.so.40`.

fn main() {
    // The name under which programs ask for the library at run time.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.40");
    // Calls inside the library stay inside: MPI_X reaches our PMPI_X also when a tool defines MPI_X.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rerun-if-changed=build.rs");
}
