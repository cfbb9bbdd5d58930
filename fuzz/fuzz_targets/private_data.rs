//! See `tutti_transport::adaptive::fuzz::private_data`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tutti_transport::adaptive::fuzz::private_data(input));
