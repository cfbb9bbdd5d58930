//! Raising an error: find the error handler of the right object, do what it says. And remembering it in
//! words.
//!
//! The code that a function returns is the class itself, so that programs may compare it. MPI_Error_string
//! tells more than the class means: what the calling thread's last error of the class was ([`said`]).

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
use tutti_core::tool::settings;
use tutti_io::file::handle_of_context;

use crate::function::{At, Function};
use crate::generated::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_T_ERR_INVALID};
use crate::handles;
use crate::handles::kind::{Group, Session};
use crate::phase;
use crate::types::{MPI_Group, MPI_Session, Raw};

thread_local! {
    /// The last error of each class that this thread was told of, in words.
    static SAID: RefCell<BTreeMap<ErrorClass, String>> = const { RefCell::new(BTreeMap::new()) };
}

/// The last error of a class that this thread was told of, in words: rank, function, argument, what to do.
pub fn said(class: ErrorClass) -> Option<String> {
    SAID.try_with(|said| said.borrow().get(&class).cloned()).ok().flatten()
}

/// Remembers an error of `function`: one that is raised, or one that is told in a status.
#[cold]
pub fn remember(function: &'static Function, at: At, error: &Error) {
    if error.code.is_some() {
        // A code that the program's own callback chose, with a string of its own.
        return;
    }
    let words = sentence(function.name, at, error);
    // A thread that ends has no memory any more.
    let _ = SAID.try_with(|said| said.borrow_mut().insert(error.class, words));
}

/// Handles an error of `function` and gives the code it returns, if it returns.
#[cold]
pub fn raise(function: &'static Function, at: At, error: &Error) -> c_int {
    if let At::Tool = at {
        // Where it has no code of its own, a wrong argument is invalid use of the interface (MPI-5 section
        // 15.3.10).
        return error.code.unwrap_or(MPI_T_ERR_INVALID);
    }
    let at = known(at);
    let (handler, handle) = handler_of(at);
    remember(function, at, error);
    match handler.call(handle, error.code()) {
        Outcome::Return(code) => code,
        Outcome::Abort | Outcome::Fatal => die(function, at, error),
    }
}

/// The file or the communicator that a request names by its context, and the session of a group, if the
/// program still has it.
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

/// The open session from which a group comes (MPI-5 section 9.3).
fn session_of(raw: MPI_Group) -> Option<MPI_Session> {
    let _held = lanes::enter();
    // SAFETY: used only below, under the lock.
    let (group, sessions) =
        unsafe { (handles::resolve::<Group>(raw, "group").ok()?, handles::all::<Session>()) };
    sessions.into_iter().find(|(_, session)| session.origin == group.origin()).map(|(raw, _)| raw)
}

/// The handler that is responsible, and the handle that a user's function gets.
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

/// What holds before there is a communicator.
fn initial() -> ErrorHandler {
    settings::at_start().map_or(ErrorHandler::Fatal, |config| config.diagnosis.initial_error_handler.into())
}

/// Who made which error in which function on what.
fn sentence(function: &str, at: At, error: &Error) -> String {
    let rank = phase::world_rank().map_or_else(rank_to_be, |rank| format!("rank {rank}: "));
    let object = name_of(at).map_or(String::new(), |name| format!(" on {name}"));
    format!("{rank}error in {function}{object}: {}", error.message)
}

/// What MPI_ERRORS_ARE_FATAL prints.
pub fn describe(function: &str, at: At, error: &Error) -> String {
    format!(
        "tutti: {}\n  class: {} ({})\n  this is fatal; to handle it in the \
         program, set MPI_ERRORS_RETURN or an error handler of its own",
        sentence(function, at, error),
        error.class.name(),
        error.class.meaning(),
    )
}

/// The rank that a process will have which has not called MPI_Init, if a launcher started it.
fn rank_to_be() -> String {
    std::env::var("TUTTI_JOB_RANK").map_or(String::new(), |rank| format!("rank {rank}: "))
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

fn die(function: &'static Function, at: At, error: &Error) -> ! {
    end_job(error.class as i32, &describe(function.name, at, error))
}

/// Ends this process and all it is connected with; `why` is said first.
pub fn end_job(code: c_int, why: &str) -> ! {
    // SAFETY: a null pointer means all streams. What the program printed should not be lost.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    if let Some(process) = process() {
        process.abort(code, why);
    }
    if !why.is_empty() {
        eprintln!("{why}");
    }
    std::process::exit(host::exit_status(code))
}

/// Makes a panic say that it is a bug of Tutti. The release profile aborts on panic, so nothing unwinds into
/// C.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let rank = phase::world_rank().map_or(String::new(), |rank| format!("rank {rank}: "));
        let why =
            format!("tutti: {rank}this is a bug of Tutti, not of your program; please report it: {panic}");
        end_job(ErrorClass::Intern as i32, &why)
    }));
}
