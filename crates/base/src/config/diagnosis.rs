//! Settings for checks of programs and for reports about them.

/// The error handler of MPI_COMM_WORLD and MPI_COMM_SELF, and of errors without an object, from the start
/// (MPI-5 section 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialErrorHandler {
    /// MPI_ERRORS_ARE_FATAL.
    Fatal,
    /// MPI_ERRORS_ABORT.
    Abort,
    /// MPI_ERRORS_RETURN.
    Return,
}

impl InitialErrorHandler {
    /// Names of the info key `mpi_initial_errhandler` (MPI-5 section 11.8.4).
    pub const NAMES: [(&str, InitialErrorHandler); 3] = [
        ("mpi_errors_are_fatal", InitialErrorHandler::Fatal),
        ("mpi_errors_abort", InitialErrorHandler::Abort),
        ("mpi_errors_return", InitialErrorHandler::Return),
    ];

    pub(super) fn name(self) -> &'static str {
        InitialErrorHandler::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Settings for checks of programs and for reports about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// Compare the datatypes of sender and receiver (debugging).
    pub check_types: bool,
    /// Check also what takes time in proportion to the length of lists: whether received blocks overlap. What
    /// handles, pointers, counts, ranks, roots, tags, graphs are worth is always checked.
    pub check_arguments: bool,
    /// Whether a crashing rank prints its backtrace.
    pub backtrace: bool,
    /// Whether MPI_Finalize reports objects that were not freed.
    pub report_leaks: bool,
    /// The error handler that communicators have from the start.
    pub initial_error_handler: InitialErrorHandler,
    /// Whether the job prints counters of the traffic with other hosts.
    pub counters: bool,
    /// The file for the trace of all ranks; empty: none.
    pub trace: String,
    /// Most events of a rank in a trace.
    pub trace_events: u64,
    /// Range of counters that wrap around, for tests; 0: the full range.
    pub wrap_after: u64,
}

impl Default for Diagnosis {
    fn default() -> Diagnosis {
        Diagnosis {
            check_types: false,
            check_arguments: false,
            backtrace: true,
            report_leaks: false,
            initial_error_handler: InitialErrorHandler::Fatal,
            counters: false,
            trace: String::new(),
            trace_events: 100_000,
            wrap_after: 0,
        }
    }
}
