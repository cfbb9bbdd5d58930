//! The command `tutti`.
fn main() {}
