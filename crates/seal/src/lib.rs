//! Sealed records: what hosts of a job send to each other after the greeting.
#![deny(unsafe_code)]
