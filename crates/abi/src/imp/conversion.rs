//! Handles as integers (MPI-5 section 19.3.4), and arithmetic on addresses (section 4.1.5).

use std::ffi::c_int;

use tutti_core::lanes;
use tutti_core::process::process;
use tutti_core::request::RequestId;

use crate::generated::constants::MPI_REQUEST_NULL;
use crate::handles;
use crate::handles::Stored;
use crate::handles::kind::Kind;
use crate::handles::request::handle_of;
use crate::types::{MPI_Aint, MPI_Request, Raw};

/// Converts a handle to an integer (MPI_Comm_toint, MPI_Type_toint, ...).
pub fn to_int<K: Kind>(raw: Raw<K>) -> c_int {
    handles::to_int(raw)
}

/// Converts an integer to a handle (MPI_Comm_fromint, MPI_Type_fromint, ...).
pub fn from_int<K: Stored>(number: c_int) -> Raw<K> {
    handles::from_int(number)
}

/// Adds a displacement to an address (MPI_Aint_add).
pub fn aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// Returns the difference of two addresses in bytes (MPI_Aint_diff).
pub fn aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}

/// Converts an integer to a request, by the table of core (MPI_Request_fromint).
pub fn request_from_int(number: c_int) -> MPI_Request {
    if (number as u32 as usize) < handles::FIRST_INT {
        return Raw::predefined(number as usize);
    }
    let index = number as u32 - handles::FIRST_INT as u32;
    let lane = RequestId::lane_of_index(index);
    let held = lanes::enter_lane(lane);
    let id = process().and_then(|process| process.messages.borrow(&held).state.requests.id_at(index));
    id.map_or(MPI_REQUEST_NULL, handle_of)
}
