//! Checkpoint and restart of a whole job, from outside and without privileges (S7; Yu 2006, chapter 4).
//!
//! The daemon of a host stops its ranks (ptrace), reads their state (/proc) and writes it to files. No
//! library is loaded into them.
//!
//! **Memory is consistent when all ranks of a host stand still.** This covers requests, queues, rings,
//! windows, derived types, and banks during a collective. None of them needs code of its own. State outside
//! memory is listed here, with the part that restores it:
//!
//! | state | restored by |
//! |---|---|
//! | the objects that ranks map and share (memfd) | the launcher: filled again, inherited |
//! | descriptors, by role: outputs, input, inquiries | the launcher opens new ones, at the old numbers |
//! | files, eventfd, epoll, timerfd, signalfd, pipes between ranks | the launcher; files are cut back |
//! | userfaultfd, /proc/self | the process itself, by the plan of its restorer |
//! | process numbers in records | kept as names, looked up at the system call (`tutti_sys::kept`) |
//! | thread numbers in the C library | the restorer, where the kernel clears them at a thread's end |
//! | code that the kernel maps (vdso) | moved to its old address; refused on another kernel |
//! | interrupted system calls | restarted |
//! | signal handlers, interval timers, masks, alternate stacks, restartable sequences | the restorer |
//! | sockets, child processes, devices, timers of timer_create, filters | none: refused by name first |
//!
//! The modules:
//!
//! | module | task |
//! |---|---|
//! | [`coordination`] | phases of a job, as a pure state machine |
//! | [`image`] | contents of a checkpoint |
//! | [`sets`] | completes a set of files in one step |
//! | [`lock`] | lets one job at a time write in a directory |
//! | [`trust`] | checks whose sets a restart accepts |
//! | [`process`] | stops ranks, reads their state, and copies those that go on while they are written |
//! | [`pace`] | decides whether to write from such copies |
//! | [`mod@write`] | writes the files; a block that has not changed is not written again |
//! | [`restore`] | computes system calls from an image (pure), and runs them in a fresh process |
//! | [`input`] | continues the standard input |
//! | [`call`] | requests of users |
//!
//! Deliberately absent: the job, its hosts and its command line, which belong to the launcher.
#![deny(unsafe_code)]

pub mod call;
pub mod coordination;
pub mod error;
pub mod image;
pub mod input;
pub mod lock;
pub mod pace;
pub mod process;
pub mod restore;
pub mod sets;
pub mod trust;
pub mod write;
