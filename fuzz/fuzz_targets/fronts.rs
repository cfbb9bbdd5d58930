//! See `tutti_transport::fabric::kernel::fuzz::fronts`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tutti_transport::fabric::kernel::fuzz::fronts(input));
