//! Raising of errors: find the error handler of the right object, call it, and store the message.
//!
//! The code that a function returns is the class itself, so that programs may compare it. MPI_Error_string
//! returns more than the meaning of the class: the message of the calling thread's last error of that class
//! ([`last_error`]).
//!
//! A fatal error is reported with the call, its arguments, and the functions of the program that led to it.
//! Every line begins with the rank: `mpirun` shows equal reports of several ranks once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_int;

use tutti_base::{Error, ErrorClass};
use tutti_core::error_handler::{ErrorHandler, OF_FILES, Outcome};
use tutti_core::host;
use tutti_core::lanes;
use tutti_core::names::ObjectName;
use tutti_core::process::by_context;
use tutti_core::process::process;
use tutti_core::report;
use tutti_core::tool::settings;
use tutti_io::file::handle_of_context;

use crate::arguments;
use crate::function::{At, Function};
use crate::generated::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_FILE_NULL, MPI_T_ERR_INVALID};
use crate::handles;
use crate::handles::kind::{Group, Session};
use crate::phase;
use crate::types::{MPI_Group, MPI_Session, Raw};

/// An error in words.
#[derive(Clone, Debug)]
pub struct ErrorText {
    /// Rank, function, object, argument, what to do.
    pub sentence: String,
    /// The function with its arguments.
    pub call: String,
}

thread_local! {
    /// Message of the last error of each class that was reported to this thread.
    static LAST: RefCell<BTreeMap<ErrorClass, ErrorText>> = const { RefCell::new(BTreeMap::new()) };
}

/// Returns the most recent error of this class on this thread.
pub fn last_error(class: ErrorClass) -> Option<ErrorText> {
    LAST.try_with(|all| all.borrow().get(&class).cloned()).ok().flatten()
}

/// Stores an error of `function`, which is raised or returned in a status.
#[cold]
fn remember(function: &Function, at: At, error: &Error, arguments: &[usize]) {
    if error.code.is_some() {
        // A code that the program's own callback chose, with a string of its own.
        return;
    }
    let sentence = format!("{}{}", report::prefix(), sentence(function.name, at, error));
    let text = ErrorText { sentence, call: arguments::show_call(function, arguments) };
    // A thread that ends has no memory any more.
    let _ = LAST.try_with(|all| all.borrow_mut().insert(error.class, text));
}

/// Handles an error of `function` and gives the code it returns, if it returns.
#[cold]
pub fn raise(function: &'static Function, at: At, error: &Error, arguments: &[usize]) -> c_int {
    if let At::Tool = at {
        // Where it has no code of its own, a wrong argument is invalid use of the interface (MPI-5 section
        // 15.3.10).
        return error.code.unwrap_or(MPI_T_ERR_INVALID);
    }
    let at = known(at);
    let (handler, handle) = handler_of(at);
    remember(function, at, error, arguments);
    match handler.call(handle, error.code()) {
        Outcome::Return(code) => code,
        Outcome::Abort | Outcome::Fatal => die(function, at, error, arguments),
    }
}

/// Returns the file or the communicator that a request names by its context, and the session of a group, if
/// the program still has it.
fn known(at: At) -> At {
    if let At::Group(raw) = at {
        return session_of(raw).map_or(At::World, At::Session);
    }
    let At::Context(context) = at else { return at };
    if let Some(handle) = handle_of_context(&lanes::enter(), context) {
        return At::File(Raw::from_bits(handle));
    }
    let comm = by_context(&lanes::enter(), context).filter(|comm| comm.handle() != 0);
    comm.map_or(At::World, |comm| At::Comm(Raw::from_bits(comm.handle())))
}

/// Returns the open session from which a group comes (MPI-5 section 9.3).
fn session_of(raw: MPI_Group) -> Option<MPI_Session> {
    let _held = lanes::enter();
    // SAFETY: used only below, under the lock.
    let (group, sessions) =
        unsafe { (handles::resolve::<Group>(raw, "group").ok()?, handles::all::<Session>()) };
    sessions.into_iter().find(|(_, session)| session.origin == group.origin()).map(|(raw, _)| raw)
}

/// Returns the error handler in charge, and the handle to pass to a user's function.
fn handler_of(at: At) -> (ErrorHandler, usize) {
    let held = lanes::enter();
    if let At::Comm(raw) = at {
        // SAFETY: used only below, under the lock.
        if let Ok(comm) = unsafe { handles::resolve(raw, "comm") } {
            return (comm.error_handler.borrow(&held).clone(), raw.bits());
        }
    }
    if let At::Win(raw) = at {
        // SAFETY: used only below, under the lock.
        if let Ok(window) = unsafe { handles::resolve(raw, "win") } {
            return (window.error_handler.borrow(&held).clone(), raw.bits());
        }
    }
    if let At::Session(raw) = at {
        // SAFETY: used only below, under the lock.
        if let Ok(session) = unsafe { handles::resolve(raw, "session") } {
            return (session.error_handler.borrow(&held).clone(), raw.bits());
        }
    }
    if let At::Given(raw) = at {
        // SAFETY: used only below, under the lock.
        if let Ok(handler) = unsafe { handles::resolve(raw, "errhandler") } {
            return (handler.clone(), MPI_COMM_NULL.bits());
        }
    }
    if let At::File(raw) = at {
        // SAFETY: used only below, under the lock.
        if let Ok(file) = unsafe { handles::resolve(raw, "fh") } {
            return (file.error_handler.borrow(&held).clone(), raw.bits());
        }
        return (OF_FILES.borrow(&held).clone(), raw.bits());
    }
    let handler = process().map(|process| process.library.myself.error_handler.borrow(&held).clone());
    (handler.unwrap_or_else(initial), MPI_COMM_SELF.bits())
}

/// Returns the error handler in force before communicators exist.
fn initial() -> ErrorHandler {
    settings::at_start().map_or(ErrorHandler::Fatal, |config| config.diagnosis.initial_error_handler.into())
}

/// Names the function, the object and the reason.
fn sentence(function: &str, at: At, error: &Error) -> String {
    let object = name_of(at).map_or(String::new(), |name| format!(" on {name}"));
    format!("error in {function}{object}: {}", error.message)
}

/// Returns what MPI_ERRORS_ARE_FATAL prints.
fn describe(function: &Function, at: At, error: &Error, arguments: &[usize]) -> String {
    let mut lines =
        vec![sentence(function.name, at, error), format!("  {}", arguments::show_call(function, arguments))];
    let shows_callers = settings::at_start().is_ok_and(|config| config.diagnosis.backtrace);
    let callers = if shows_callers { report::callers() } else { Vec::new() };
    if !callers.is_empty() {
        lines.push(format!("  called from {}", callers.join(", ")));
    }
    let class = match error.class {
        // Adds nothing, as the meaning of the class contains no information.
        ErrorClass::Other => String::new(),
        class => format!("{} ({}): ", class.name(), class.meaning()),
    };
    // No error handler of the program is in force before MPI_Init and after MPI_Finalize.
    if phase::is_running() {
        lines.push(format!(
            "  {class}fatal, as the error handler says; to handle errors in the program, set MPI_ERRORS_RETURN \
             or an error handler of its own"
        ));
    } else if !class.is_empty() {
        lines.push(format!("  {}", class.trim_end_matches(": ")));
    }
    report::join(&lines)
}

fn name_of(at: At) -> Option<String> {
    match at {
        At::World | At::Context(_) | At::Tool | At::Given(_) | At::Group(_) => None,
        At::Comm(raw) => {
            let held = lanes::enter();
            // SAFETY: used only below, under the lock.
            let comm = unsafe { handles::resolve(raw, "comm") }.ok()?;
            Some(named(&comm.name.borrow(&held), "a communicator"))
        }
        At::Win(raw) => {
            let held = lanes::enter();
            // SAFETY: used only below, under the lock.
            let window = unsafe { handles::resolve(raw, "win") }.ok()?;
            Some(named(&window.name.borrow(&held), "a window"))
        }
        At::File(raw) if raw == MPI_FILE_NULL => None,
        At::File(raw) => {
            let _held = lanes::enter();
            // SAFETY: used only below, under the lock.
            let file = unsafe { handles::resolve(raw, "fh") };
            Some(file.map_or_else(|_| "a file".to_string(), |file| file.name()))
        }
        At::Session(_) => Some("a session".to_string()),
    }
}

fn named(name: &ObjectName, what: &str) -> String {
    match name.as_bytes() {
        [] => format!("{what} without a name"),
        name => String::from_utf8_lossy(name).into_owned(),
    }
}

fn die(function: &Function, at: At, error: &Error, arguments: &[usize]) -> ! {
    let status = host::status_of_class(error.class);
    end_job(status, &describe(function, at, error, arguments))
}

/// Ends this process and all connected ones, after a message with the reason `why`.
pub fn end_job(code: c_int, why: &str) -> ! {
    // SAFETY: a null pointer means all streams. What the program printed should not be lost.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    if let Some(process) = process() {
        process.abort(code, why);
    }
    host::say(why);
    std::process::exit(host::exit_status(code))
}

/// Ends the job because the program has called MPI_Abort.
pub fn abort(function: &Function, code: c_int) -> ! {
    end_job(code, &report::join(&[format!("{} with error code {code} ends the job", function.name)]))
}

/// Makes a panic report that it is a bug of Tutti. The release profile aborts on panic, so nothing unwinds
/// into C.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let why = format!("this is a bug of Tutti, not of your program; please report it: {panic}");
        end_job(host::status_of_class(ErrorClass::Intern), &report::join(&[why]))
    }));
}
