//! Error handlers, codes and classes (MPI-5 chapter 9).

use std::ffi::c_int;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::error_codes::CODES;
use tutti_core::error_handler::{ErrorHandler, HandlerKind, OF_FILES, Outcome};
use tutti_core::lanes::FirstLaneCell;

use crate::dialect;
use crate::entry::Call;
use crate::errors;
use crate::generated::callbacks::{
    MPI_Comm_errhandler_function, MPI_File_errhandler_function, MPI_Session_errhandler_function,
    MPI_Win_errhandler_function,
};
use crate::generated::constants::{
    MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_MAX_ERROR_STRING,
};
use crate::handles;
use crate::handles::kind::{Comm, Errhandler, File};
use crate::scope::{HandleOut, In, Out, Text, TextOut};

/// Returns the predefined error handler with this number.
pub fn predefined(number: usize) -> Option<ErrorHandler> {
    let all = [
        (MPI_ERRORS_ARE_FATAL, ErrorHandler::Fatal),
        (MPI_ERRORS_ABORT, ErrorHandler::Abort),
        (MPI_ERRORS_RETURN, ErrorHandler::Return),
    ];
    all.into_iter().find(|(raw, _)| raw.bits() == number).map(|(_, handler)| handler)
}

/// Returns a handle for a handler that an object has (MPI_Comm_get_errhandler): the one that the user has
/// already, which he then frees once more.
pub fn return_handle(handler: &ErrorHandler, errhandler: HandleOut<Errhandler>) -> Result<()> {
    match handler {
        ErrorHandler::Fatal => errhandler.set(MPI_ERRORS_ARE_FATAL),
        ErrorHandler::Abort => errhandler.set(MPI_ERRORS_ABORT),
        ErrorHandler::Return => errhandler.set(MPI_ERRORS_RETURN),
        ErrorHandler::User(_) => {
            // SAFETY: the references are dropped at once.
            let known = unsafe { handles::all::<Errhandler>() };
            match known.iter().find(|(_, known)| *known == handler) {
                Some(&(raw, known)) => {
                    errhandler.set(raw)?;
                    known.give_again();
                    Ok(())
                }
                None => errhandler.create(handler.clone()).map(drop),
            }
        }
    }
}

/// Makes an error handler from the address of a C function.
///
/// # Safety
/// `callback` is zero or the address of an error handler for objects of `kind`.
unsafe fn create(kind: HandlerKind, callback: usize, errhandler: HandleOut<Errhandler>) -> Result<()> {
    if callback == 0 {
        return Err(Error::new(ErrorClass::Arg, "argument errhandler_fn is a null pointer"));
    }
    let dialect = dialect::spoken();
    let function = move |mut handle: usize, mut code: i32| {
        let (handle, code) = (&raw mut handle, &raw mut code);
        // SAFETY: the user's function, with the arguments that MPI-5 section 9.3 gives it. Handles are
        // numbers.
        unsafe {
            match kind {
                HandlerKind::Communicator => {
                    (dialect.MPI_Comm_errhandler_function)(callback, handle.cast(), code)
                }
                HandlerKind::Window => (dialect.MPI_Win_errhandler_function)(callback, handle.cast(), code),
                HandlerKind::File => (dialect.MPI_File_errhandler_function)(callback, handle.cast(), code),
                HandlerKind::Session => {
                    (dialect.MPI_Session_errhandler_function)(callback, handle.cast(), code)
                }
            }
        }
    };
    errhandler.create(ErrorHandler::user(kind, Arc::new(function))).map(drop)
}

/// Creates an error handler for communicators (MPI_Comm_create_errhandler).
///
/// # Safety
/// The callback is a function of the type that it has.
pub unsafe fn create_comm(
    _call: &mut Call,
    function: Option<MPI_Comm_errhandler_function>,
    errhandler: HandleOut<Errhandler>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { create(HandlerKind::Communicator, function.map_or(0, |function| function as usize), errhandler) }
}

/// Creates an error handler for windows (MPI_Win_create_errhandler).
///
/// # Safety
/// As [`create_comm`].
pub unsafe fn create_win(
    _call: &mut Call,
    function: Option<MPI_Win_errhandler_function>,
    errhandler: HandleOut<Errhandler>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { create(HandlerKind::Window, function.map_or(0, |function| function as usize), errhandler) }
}

/// Creates an error handler for files (MPI_File_create_errhandler).
///
/// # Safety
/// As [`create_comm`].
pub unsafe fn create_file(
    _call: &mut Call,
    function: Option<MPI_File_errhandler_function>,
    errhandler: HandleOut<Errhandler>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { create(HandlerKind::File, function.map_or(0, |function| function as usize), errhandler) }
}

/// Creates an error handler for sessions (MPI_Session_create_errhandler).
///
/// # Safety
/// As [`create_comm`].
pub unsafe fn create_session(
    _call: &mut Call,
    function: Option<MPI_Session_errhandler_function>,
    errhandler: HandleOut<Errhandler>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { create(HandlerKind::Session, function.map_or(0, |function| function as usize), errhandler) }
}

/// Frees an error handler (MPI_Errhandler_free). For predefined ones, only the handle becomes null.
pub fn free(_call: &mut Call, errhandler: HandleOut<Errhandler>) -> Result<()> {
    if predefined(errhandler.input()?.raw().bits()).is_some() {
        return errhandler.set_null();
    }
    if errhandler.input()?.get()?.take_back() {
        return errhandler.set_null();
    }
    errhandler.remove().map(drop)
}

/// Returns the class of an error code (MPI_Error_class).
pub fn error_class(call: &mut Call, errorcode: c_int, errorclass: Out<c_int>) -> Result<()> {
    errorclass.set(CODES.borrow(&call.held).class_of(errorcode)?)
}

/// Returns the meaning of an error code (MPI_Error_string). For a class of the standard, the message of this
/// thread's last error of the class follows.
pub fn error_string(call: &mut Call, errorcode: c_int, string: TextOut, resultlen: Out<c_int>) -> Result<()> {
    resultlen.check()?;
    let codes = CODES.borrow(&call.held);
    let mut text = codes.string_of(errorcode)?;
    if let Some(last) = ErrorClass::from_code(errorcode).and_then(errors::last_error) {
        text.to_mut().extend_from_slice(format!("; the last one: {}", last.sentence).as_bytes());
        let call = format!(", called as {}", last.call);
        // Whole, or not at all.
        if text.len() + call.len() < MPI_MAX_ERROR_STRING as usize {
            text.to_mut().extend_from_slice(call.as_bytes());
        }
    }
    resultlen.set(string.set(&text, MPI_MAX_ERROR_STRING as usize)? as c_int)
}

/// Adds an error class of the program (MPI_Add_error_class).
pub fn add_class(call: &mut Call, errorclass: Out<c_int>) -> Result<()> {
    errorclass.check()?;
    errorclass.set(CODES.borrow_mut(&call.held).add_class()?)
}

/// Adds an error code to a class (MPI_Add_error_code).
pub fn add_code(call: &mut Call, errorclass: c_int, errorcode: Out<c_int>) -> Result<()> {
    errorcode.check()?;
    errorcode.set(CODES.borrow_mut(&call.held).add_code(errorclass)?)
}

/// Sets the message of an added code or class (MPI_Add_error_string).
pub fn add_string(call: &mut Call, errorcode: c_int, string: Text) -> Result<()> {
    CODES.borrow_mut(&call.held).set_string(errorcode, string.bytes()?)
}

/// Removes an error class that the program has added (MPI_Remove_error_class).
pub fn remove_class(call: &mut Call, errorclass: c_int) -> Result<()> {
    CODES.borrow_mut(&call.held).remove_class(errorclass)
}

/// Removes an error code that the program has added (MPI_Remove_error_code).
pub fn remove_code(call: &mut Call, errorcode: c_int) -> Result<()> {
    CODES.borrow_mut(&call.held).remove_code(errorcode)
}

/// Removes the message of an added code or class (MPI_Remove_error_string).
pub fn remove_string(call: &mut Call, errorcode: c_int) -> Result<()> {
    CODES.borrow_mut(&call.held).remove_string(errorcode)
}

/// Sets the error handler of a communicator (MPI_Comm_set_errhandler).
pub fn set_comm(call: &mut Call, comm: In<Comm>, errhandler: In<Errhandler>) -> Result<()> {
    let (comm, handler) = (comm.get()?, errhandler.get()?);
    handler.check_kind(HandlerKind::Communicator)?;
    *comm.error_handler.borrow_mut(&call.held) = handler.clone();
    Ok(())
}

/// Returns the error handler of a communicator (MPI_Comm_get_errhandler).
pub fn get_comm(call: &mut Call, comm: In<Comm>, errhandler: HandleOut<Errhandler>) -> Result<()> {
    let handler = comm.get()?.error_handler.borrow(&call.held).clone();
    return_handle(&handler, errhandler)
}

/// Calls the error handler of a communicator (MPI_Comm_call_errhandler).
pub fn call_comm(call: &mut Call, comm: In<Comm>, errorcode: c_int) -> Result<()> {
    let handler = comm.get()?.error_handler.borrow(&call.held).clone();
    call_handler(call, &handler, comm.raw().bits(), errorcode)
}

/// Returns the handler of a file, or the default one, for which the handle MPI_FILE_NULL stands (MPI-5
/// section 14.7).
fn of_file<'s>(file: In<'s, File>) -> Result<&'s FirstLaneCell<ErrorHandler>> {
    Ok(file.optional()?.map_or(&OF_FILES, |file| &file.error_handler))
}

/// Sets the error handler of a file, or of files that are opened later (MPI_File_set_errhandler).
pub fn set_file(call: &mut Call, file: In<File>, errhandler: In<Errhandler>) -> Result<()> {
    let place = of_file(file)?;
    let handler = errhandler.get()?;
    handler.check_kind(HandlerKind::File)?;
    *place.borrow_mut(&call.held) = handler.clone();
    Ok(())
}

/// Returns the error handler of a file (MPI_File_get_errhandler).
pub fn get_file(call: &mut Call, file: In<File>, errhandler: HandleOut<Errhandler>) -> Result<()> {
    let handler = of_file(file)?.borrow(&call.held).clone();
    return_handle(&handler, errhandler)
}

/// Calls the error handler of a file (MPI_File_call_errhandler).
pub fn call_file(call: &mut Call, fh: In<File>, errorcode: c_int) -> Result<()> {
    let handler = of_file(fh)?.borrow(&call.held).clone();
    call_handler(call, &handler, fh.raw().bits(), errorcode)
}

/// Calls the handler of an object that the program knows by `handle`. A handler that ends the job does so
/// when the error that this returns is raised.
pub fn call_handler(call: &Call, handler: &ErrorHandler, handle: usize, errorcode: c_int) -> Result<()> {
    CODES.borrow(&call.held).class_of(errorcode)?;
    match handler.call(handle, errorcode) {
        Outcome::Return(_) => Ok(()),
        Outcome::Abort | Outcome::Fatal => {
            Err(Error::with_code(errorcode, format!("the program raised error {errorcode}")))
        }
    }
}
