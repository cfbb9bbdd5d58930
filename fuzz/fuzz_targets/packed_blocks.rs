//! See `tutti_checkpoint::image::packing::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tutti_checkpoint::image::packing::fuzz(input));
