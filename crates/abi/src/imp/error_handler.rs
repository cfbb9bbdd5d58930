//! Error handlers, codes and classes (MPI-5 chapter 9).

use tutti_base::Result;
use tutti_core::error_handler::ErrorHandler;

use crate::entry::Call;
use crate::generated::constants::{MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN};
use crate::kind::Errhandler;
use crate::scope::HandleOut;

/// The predefined error handlers.
pub fn predefined(number: usize) -> Option<ErrorHandler> {
    let all = [
        (MPI_ERRORS_ARE_FATAL, ErrorHandler::Fatal),
        (MPI_ERRORS_ABORT, ErrorHandler::Abort),
        (MPI_ERRORS_RETURN, ErrorHandler::Return),
    ];
    all.into_iter().find(|(raw, _)| raw.bits() == number).map(|(_, handler)| handler)
}

/// MPI_Errhandler_free. The predefined ones may be freed too: their handle becomes null, nothing else happens.
pub fn free(_call: &mut Call, errhandler: HandleOut<Errhandler>) -> Result<()> {
    if predefined(errhandler.input()?.raw().bits()).is_some() {
        return errhandler.set_null();
    }
    errhandler.remove().map(drop)
}
