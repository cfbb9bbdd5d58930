//! See `tutti_storage::servers::session::fuzz::greetings`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tutti_storage::servers::session::fuzz::greetings(input));
