//! Development tasks: code generation and tidy.
fn main() {}
