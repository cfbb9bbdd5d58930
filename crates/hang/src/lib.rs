//! Decides why a job hangs. Each waiting rank publishes a [`Card`]: its waits, and what ends each of them.
//! The launcher collects the cards of all ranks, and [`judge`] makes a wait-for graph of them. The graph has
//! two kinds of waits: for all of several ranks (a barrier), and for any of them (a receive from any source).
//!
//! A rank is *stuck* if no rank outside waits can release it, directly or through others. That is a proof,
//! and the [`Finding`] is certain. All other findings are hints.
//!
//! | module | content |
//! |---|---|
//! | [`card`] | what a rank publishes, and its encoding |
//! | [`ranks`] | sets of ranks |
//! | [`graph`] | the stuck ranks, and a shortest cycle among them |
//! | [`finding`] | causes: deadlock, mismatch, a rank that has left or computes |
//! | [`message`] | the text for the user, of at most 15 lines |
//! | [`json`] | the whole report for programs |
//!
//! Deliberately absent: I/O, clocks, unsafe code, dependencies. The library of the ranks uses this crate too.

#![deny(unsafe_code)]

pub mod card;
pub mod finding;
pub mod graph;
pub mod json;
pub mod message;
pub mod ranks;

pub use card::{Card, Kind, Message, Mode, Need, Wait};
pub use finding::{Cause, Certainty, Finding, judge};
pub use graph::RankStatus;
pub use ranks::Ranks;
