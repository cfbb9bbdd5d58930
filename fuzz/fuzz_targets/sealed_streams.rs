//! See `tutti_seal::fuzz::changed_streams`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tutti_seal::fuzz::changed_streams(input));
