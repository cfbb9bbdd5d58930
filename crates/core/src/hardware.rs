//! stub
#![allow(missing_docs)]
use crate::communicator::{Communicator, split::HardwareSplit};
use crate::giant::Held;
use crate::process::Process;
use tutti_base::Result;
pub fn color(_h: &mut Held, _p: &Process, _c: &Communicator, _s: &HardwareSplit) -> Result<i32> {
    Ok(0)
}
