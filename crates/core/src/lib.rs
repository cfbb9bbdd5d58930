//! MPI semantics: communicators, requests, matching, protocols, progress and the schedule engine.
//!
//! Entry points: [`giant::enter`] gives the token that everything here asks for; [`process`] the process.
//! Deliberately absent: C types, handles, raw user pointers outside [`buffer`].
#![deny(unsafe_code)]

pub mod apart;
pub mod attributes;
pub mod boot;
pub mod buffer;
pub mod buffered;
pub mod collective;
pub mod communicator;
pub mod completion;
pub mod context;
pub mod dims;
pub mod dynamic;
pub mod engine;
pub mod error_codes;
pub mod error_handler;
pub mod exchange;
pub mod flow;
pub mod giant;
pub mod group;
pub mod hardware;
pub mod info;
pub mod matching;
pub mod names;
pub mod p2p;
pub mod partitioned;
pub mod process;
pub mod progress;
pub mod progress_thread;
pub mod request;
pub mod session;
pub mod single_copy;
pub mod special;
pub mod tool;
pub mod topology;
pub mod trace;
pub mod type_object;
pub mod window;
pub mod wire;
