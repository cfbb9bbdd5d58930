//! Info objects (MPI-5 chapter 10).

use std::ffi::c_int;

use tutti_base::Result;
use tutti_core::giant::GiantCell;
use tutti_core::info::Info as Entries;

use crate::entry::Call;
use crate::kind::Info;
use crate::scope::{HandleOut, In, Out, Text};

/// The predefined info objects.
pub fn predefined(_number: usize) -> Option<GiantCell<Entries>> {
    None
}

/// MPI_Info_create.
pub fn create(_call: &mut Call, info: HandleOut<Info>) -> Result<()> {
    info.create(GiantCell::new(Entries::default())).map(drop)
}

/// MPI_Info_set.
pub fn set(call: &mut Call, info: In<Info>, key: Text, value: Text) -> Result<()> {
    info.get()?.borrow_mut(&call.held).set(key.bytes()?, value.bytes()?)
}

/// MPI_Info_get_nkeys.
pub fn get_nkeys(call: &mut Call, info: In<Info>, nkeys: Out<c_int>) -> Result<()> {
    nkeys.set(info.get()?.borrow(&call.held).len() as c_int)
}

/// MPI_Info_free.
pub fn free(_call: &mut Call, info: HandleOut<Info>) -> Result<()> {
    info.remove().map(drop)
}
