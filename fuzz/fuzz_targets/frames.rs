//! See `tutti_launch::tree::fuzz::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tutti_launch::tree::fuzz::frames(input));
