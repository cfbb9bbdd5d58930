//! Addresses as they come from the directory and from peers.
#![no_main]

use tutti_transport::fabric::address::{decode, encode};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some(address) = decode(input) {
        assert_eq!(encode(address), input);
    }
});
