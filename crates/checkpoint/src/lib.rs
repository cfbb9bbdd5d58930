//! Checkpoint and restart of a whole job, from outside and without privileges (S7; Yu 2006, chapter 4).
//!
//! The daemon of a host stops its ranks (ptrace), looks at them (/proc) and writes what they are; nothing is
//! loaded into them. **Memory is consistent when all ranks of a host stand still**: requests, queues, rings,
//! banks in the middle of a collective, windows and derived types need no code of their own. What lies
//! outside memory is listed here, with who makes it again:
//!
//! | what | who makes it again |
//! |---|---|
//! | the objects that ranks map and share (memfd) | the launcher: filled anew, inherited |
//! | descriptors, by role: outputs, input, the way to ask | the launcher gives new ones, at the old numbers |
//! | files, eventfd, epoll, timerfd, signalfd, pipes between ranks | the launcher, as the kernel said; files are cut back |
//! | userfaultfd, /proc/self | the process itself, by the plan of its restorer |
//! | numbers of processes in records | stay, as names, looked up at the system call (`tutti_sys::kept`) |
//! | numbers of threads in the C library | the restorer, where the kernel clears them at a thread's end |
//! | what the kernel maps (vdso) | moved to where it was; on another kernel the restart is refused |
//! | system calls that were interrupted | begun anew |
//! | signal handlers, interval timers, masks, alternate stacks, restartable sequences | the restorer |
//! | sockets, child processes, devices, timers of timer_create, filters | nobody: refused by name first |
//!
//! The parts: [`coordination`] has the phases of a job as a pure state machine; [`image`] what is kept;
//! [`sets`] how it becomes whole in one step, [`lock`] that one job at a time writes there,
//! [`trust`] whose sets a restart believes;
//! [`process`] stops and looks, and makes the copies of ranks from which is written while they go on;
//! [`pace`] decides whether; [`mod@write`] writes, and writes no block a second time that has not changed;
//! [`restore`] has the pure function from an image to system calls, and runs them in a fresh process;
//! [`input`] says how the standard input is continued. [`call`] is how users ask. Deliberately absent: the
//! job, its hosts and its command line, which are the launcher's.
#![deny(unsafe_code)]

pub mod call;
pub mod coordination;
pub mod image;
pub mod input;
pub mod lock;
pub mod pace;
pub mod process;
pub mod restore;
pub mod sets;
pub mod trust;
pub mod write;
