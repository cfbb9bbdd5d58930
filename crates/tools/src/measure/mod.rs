//! Measurement of libraries from outside, as programs see them: the machine, the libraries, the programs,
//! concurrent jobs that measure one cell each in turns, and the evaluation of the times.

pub mod awake;
pub mod cells;
pub mod crew;
pub mod job_end;
pub mod library;
pub mod machine;
pub mod network;
pub mod options;
pub mod programs;
pub mod progress;
pub mod rank_test;
pub mod report;
pub mod results;
pub mod run;
pub mod sample;
pub mod session;
