//! What any user may send to `tutti netd`: a request that is read is written as it was.
#![no_main]

use tutti_offload::desk::Request;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some(request) = Request::read(input) {
        assert_eq!(request.write(), input);
    }
});
