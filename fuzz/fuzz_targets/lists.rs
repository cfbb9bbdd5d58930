//! See `tutti_transport::fabric::remote::fuzz::lists`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tutti_transport::fabric::remote::fuzz::lists(input));
