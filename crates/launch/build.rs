//! Link arguments of `mpirun`.

fn main() {
    // Debuggers then find their symbols even in a program without a symbol table. Zig's linker, with which
    // wheels are built, does not support the option.
    println!("cargo:rerun-if-env-changed=TUTTI_LINKER");
    if std::env::var("TUTTI_LINKER").as_deref() != Ok("zig") {
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/debugger.list");
        println!("cargo:rustc-link-arg-bin=mpirun=-Wl,--dynamic-list={list}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=debugger.list");
}
