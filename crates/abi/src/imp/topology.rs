//! Process topologies (MPI-5 chapter 8).

use std::ffi::c_int;

use tutti_base::Result;
use tutti_core::dims;

use crate::entry::Call;
use crate::scope::ArrayOut;

/// MPI_Dims_create.
pub fn dims_create(_call: &mut Call, nnodes: c_int, ndims: c_int, dims: ArrayOut<c_int>) -> Result<()> {
    dims::fill(nnodes, dims.slice(ndims.into())?)
}
