//! The machines of many processes in a simulated network, from a seed; and the parsers on any bytes.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod contacts;
mod parsers;
mod runs;
mod world;
