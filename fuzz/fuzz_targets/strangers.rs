//! See `tutti_launch::tree::fuzz::strangers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tutti_launch::tree::fuzz::strangers(input));
