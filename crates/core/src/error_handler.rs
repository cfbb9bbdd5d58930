//! Error handlers (MPI-5 section 9.3).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tutti_base::config::InitialErrorHandler;
use tutti_base::{Error, ErrorClass, Result};

use crate::lanes::FirstLaneCell;

/// Error handler of MPI_FILE_NULL. It is the handler of newly opened files, and for errors that belong to no
/// file (MPI-5 section 14.7).
pub static OF_FILES: FirstLaneCell<ErrorHandler> = FirstLaneCell::new(ErrorHandler::Return);

/// Kind of object for which a user's error handler was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerKind {
    /// Handler for communicators only.
    Communicator,
    /// Handler for windows only.
    Window,
    /// Handler for files only.
    File,
    /// Handler for sessions only.
    Session,
}

/// User's function, which takes the handle of the object and the error code. It may call MPI.
pub type HandlerFunction = dyn Fn(usize, i32) + Send + Sync;

/// Action to take when an MPI function fails. Clones share the user's function.
#[derive(Clone, Debug)]
pub enum ErrorHandler {
    /// `MPI_ERRORS_ARE_FATAL`: ends all connected processes.
    Fatal,
    /// `MPI_ERRORS_ABORT`: ends the processes of the object.
    Abort,
    /// `MPI_ERRORS_RETURN`: returns the error code to the caller.
    Return,
    /// Call of a user's function.
    User(UserHandler),
}

/// User's function, and the kind of objects to which it can be attached.
#[derive(Clone)]
pub struct UserHandler {
    kind: HandlerKind,
    function: Arc<HandlerFunction>,
    /// Number of additional handles that the user has received and not freed.
    given_again: Arc<AtomicU32>,
}

/// Action that the caller of [`ErrorHandler::call`] must take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Return this error code to the program.
    Return(i32),
    /// End the processes of the object.
    Abort,
    /// End all connected processes.
    Fatal,
}

impl fmt::Debug for UserHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserHandler").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl PartialEq for ErrorHandler {
    /// Returns true for the same predefined handler, or the same user's function.
    fn eq(&self, other: &ErrorHandler) -> bool {
        match (self, other) {
            (ErrorHandler::User(mine), ErrorHandler::User(theirs)) => {
                Arc::ptr_eq(&mine.function, &theirs.function)
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl From<InitialErrorHandler> for ErrorHandler {
    fn from(handler: InitialErrorHandler) -> ErrorHandler {
        match handler {
            InitialErrorHandler::Fatal => ErrorHandler::Fatal,
            InitialErrorHandler::Abort => ErrorHandler::Abort,
            InitialErrorHandler::Return => ErrorHandler::Return,
        }
    }
}

impl ErrorHandler {
    /// Returns a handler with a user's function.
    pub fn user(kind: HandlerKind, function: Arc<HandlerFunction>) -> ErrorHandler {
        ErrorHandler::User(UserHandler { kind, function, given_again: Arc::default() })
    }

    /// Notes that the user receives an additional handle, which will be freed separately.
    pub fn give_again(&self) {
        if let ErrorHandler::User(user) = self {
            user.given_again.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that the user has freed a handle. Returns true if other handles of the user remain valid.
    pub fn take_back(&self) -> bool {
        let ErrorHandler::User(user) = self else { return true };
        let less = |given: u32| given.checked_sub(1);
        user.given_again.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Checks that this handler can be attached to an object of `kind`.
    ///
    /// # Errors
    /// `Errhandler` if a user made it for another kind.
    pub fn check_kind(&self, kind: HandlerKind) -> Result<()> {
        match self {
            ErrorHandler::User(user) if user.kind != kind => {
                let reason =
                    format!("argument errhandler: it was created for a {:?}, this is a {kind:?}", user.kind);
                Err(Error::new(ErrorClass::Errhandler, reason))
            }
            _ => Ok(()),
        }
    }

    /// Handles the error `code` of the object with the user's handle `handle`. It may call a user's function,
    /// so no state may be borrowed.
    pub fn call(&self, handle: usize, code: i32) -> Outcome {
        match self {
            ErrorHandler::Fatal => Outcome::Fatal,
            ErrorHandler::Abort => Outcome::Abort,
            ErrorHandler::Return => Outcome::Return(code),
            ErrorHandler::User(user) => {
                (user.function)(handle, code);
                Outcome::Return(code)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn check(handler: &ErrorHandler, expected: Outcome) {
        assert_eq!(handler.call(7, 15), expected);
    }

    #[test]
    fn handlers_say_what_to_do() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let record = move |handle, code| log.lock().unwrap().push((handle, code));
        let user = ErrorHandler::user(HandlerKind::Communicator, Arc::new(record));
        check(&ErrorHandler::Fatal, Outcome::Fatal);
        check(&ErrorHandler::Abort, Outcome::Abort);
        check(&ErrorHandler::Return, Outcome::Return(15));
        check(&user, Outcome::Return(15));
        assert_eq!(*seen.lock().unwrap(), [(7, 15)]);
    }

    #[test]
    fn a_handler_fits_its_kind() {
        let user = ErrorHandler::user(HandlerKind::File, Arc::new(|_, _| ()));
        assert!(user.check_kind(HandlerKind::File).is_ok());
        assert_eq!(user.check_kind(HandlerKind::Window).unwrap_err().class, ErrorClass::Errhandler);
        assert!(ErrorHandler::Abort.check_kind(HandlerKind::Window).is_ok());
        assert_eq!(user, user.clone());
        assert_ne!(user, ErrorHandler::user(HandlerKind::File, Arc::new(|_, _| ())));
        assert_ne!(ErrorHandler::Abort, ErrorHandler::Fatal);
    }
}
