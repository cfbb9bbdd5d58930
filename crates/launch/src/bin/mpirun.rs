//! The command `mpirun`.
fn main() {}
