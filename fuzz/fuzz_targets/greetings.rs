//! See `tutti_transport::fabric::kernel::fuzz::greetings`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tutti_transport::fabric::kernel::fuzz::greetings(input));
