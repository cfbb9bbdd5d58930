//! MPI semantics: communicators, requests, matching, protocols, progress and the schedule engine.
//!
//! Entry points: [`giant::enter`] gives the token that everything here asks for; [`process`] the process.
//! Deliberately absent: C types, handles, raw user pointers outside [`buffer`].
#![deny(unsafe_code)]

pub mod attributes;
pub mod engine;
pub mod error_codes;
pub mod error_handler;
pub mod giant;
pub mod group;
pub mod info;
pub mod names;
