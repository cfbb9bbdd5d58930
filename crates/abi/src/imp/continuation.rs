//! Continuations: functions of the program that run when operations are complete, which `mpi-ext.h` declares.
//!
//! # Safety
//! The program keeps the functions, their arguments and the statuses valid until the functions were called.

use std::ffi::{c_int, c_void};

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::completion::{self, Finished};
use tutti_core::continuation;
use tutti_core::request::RequestId;

use crate::entry::Call;
use crate::generated::constants::{MPI_REQUEST_NULL, MPI_SUCCESS};
use crate::handles::kind::{Info, Request};
use crate::handles::request::{handle_of, id_in};
use crate::imp::memory::process;
use crate::imp::request::{id_of, report, some_id};
use crate::scope::{Address, ArrayOut, HandleOut, In};
use crate::status::{StatusOut, Statuses};
use crate::types::{MPI_Request, MPI_Status, MPIX_Continue_cb_function};

/// Creates an inactive continuation request (MPIX_Continue_init).
pub fn continue_init(
    call: &mut Call,
    flags: c_int,
    _max_poll: c_int,
    _info: In<Info>,
    cont_req: HandleOut<Request>,
) -> Result<()> {
    cont_req.check_new()?;
    check_flags(flags)?;
    cont_req.set(handle_of(continuation::create_request(&call.held, process()?)))
}

/// Calls a function when an operation is complete (MPIX_Continue).
#[allow(clippy::too_many_arguments, reason = "as many as other libraries' function has")]
pub fn continue_one(
    call: &mut Call,
    request: HandleOut<Request>,
    function: Option<MPIX_Continue_cb_function>,
    data: Address,
    flags: c_int,
    status: StatusOut,
    cont_req: In<Request>,
) -> Result<()> {
    let handle = request.input()?;
    let (raw, ids) = (handle.raw(), [id_of(handle)?]);
    attach(call, &ids, function, data, flags, [status.pointer()].to_vec(), cont_req)?;
    if is_given_up(call, raw)? { request.set(MPI_REQUEST_NULL) } else { Ok(()) }
}

/// Calls a function when several operations are complete (MPIX_Continueall).
#[allow(clippy::too_many_arguments, reason = "as many as other libraries' function has")]
pub fn continue_all(
    call: &mut Call,
    count: c_int,
    requests: ArrayOut<MPI_Request>,
    function: Option<MPIX_Continue_cb_function>,
    data: Address,
    flags: c_int,
    statuses: Statuses,
    cont_req: In<Request>,
) -> Result<()> {
    let ids = requests.handles(count.into())?.map(id_of).collect::<Result<Vec<_>>>()?;
    let places = (0..ids.len()).map(|place| statuses.output_at(place).pointer()).collect();
    attach(call, &ids, function, data, flags, places, cont_req)?;
    for raw in requests.slice(count.into())? {
        if is_given_up(call, *raw)? {
            *raw = MPI_REQUEST_NULL;
        }
    }
    Ok(())
}

/// Returns true if the program loses the handle of a request that has a continuation: unless it is
/// persistent, or null already.
fn is_given_up(call: &Call, raw: MPI_Request) -> Result<bool> {
    let Some(id) = id_in(raw) else { return Ok(false) };
    Ok(!completion::is_persistent(&call.held, process()?, id))
}

fn check_flags(flags: c_int) -> Result<()> {
    if flags == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorClass::Arg, format!("argument flags is {flags}; it must be 0")))
}

/// Addresses of statuses that the program wants, null where it does not.
struct Places(Vec<*mut MPI_Status>);

// SAFETY: the program leaves them to the library until the continuation runs.
unsafe impl Send for Places {}
// SAFETY: as above; each is written once.
unsafe impl Sync for Places {}

fn attach(
    call: &mut Call,
    ids: &[Option<RequestId>],
    function: Option<MPIX_Continue_cb_function>,
    data: Address,
    flags: c_int,
    statuses: Vec<*mut MPI_Status>,
    cont_req: In<Request>,
) -> Result<()> {
    check_flags(flags)?;
    let missing = || Error::new(ErrorClass::Arg, "argument cb is a null pointer");
    let function = function.ok_or_else(missing)?;
    let (places, owner, data) = (Places(statuses), some_id(cont_req)?, data.bits());
    let report = Box::new(move |number: usize, finished: &Finished| {
        let places = &places;
        // SAFETY: the program vouches for the statuses until the continuation runs.
        unsafe { StatusOut::new(places.0[number]) }.set(report(finished.status));
    });
    let callback = Box::new(move |error: Option<Error>| {
        let code = error.map_or(MPI_SUCCESS, |error| error.code());
        // SAFETY: the program vouches for the function and its argument.
        unsafe { function(code, data as *mut c_void) };
    });
    // A null request counts as complete.
    let ids: Vec<RequestId> = ids.iter().map(|id| id.unwrap_or(RequestId::DONE)).collect();
    continuation::attach(&call.held, process()?, &ids, owner, (report, callback))
}
