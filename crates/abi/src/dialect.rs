//! Calling conventions for a program's callbacks. Programs of the standard ABI are called with its handles. A
//! front (`crates/fronts`), which translates another ABI to this one, calls with the handles of that ABI.
//!
//! A [`Dialect`] has one caller for each type of callback. The caller receives the program's function, and
//! arguments in the standard ABI. Objects with callbacks (operators, keys, error handlers) store the dialect
//! that was in force when they were created. So programs of several ABIs may share a process. A front sets
//! the dialect of its thread by [`speak`] around functions that take callbacks; its other calls do not need
//! that.

use std::cell::Cell;

pub use crate::generated::dialect::{Dialect, STANDARD};

thread_local! {
    static SPOKEN: Cell<&'static Dialect> = const { Cell::new(&STANDARD) };
}

/// Returns the dialect of the call under way on this thread.
pub fn spoken() -> &'static Dialect {
    SPOKEN.try_with(Cell::get).unwrap_or(&STANDARD)
}

/// Sets the dialect of this thread, or the standard one for null. A dialect that is set already stays in
/// force: Fortran's layer sets its own around a front's function, which then tries to set the front's.
///
/// # Safety
/// `dialect` is null or lives as long as the process.
pub unsafe extern "C" fn speak(dialect: *const Dialect) {
    // SAFETY: the caller's promise.
    let dialect = unsafe { dialect.as_ref() }.unwrap_or(&STANDARD);
    // A thread that ends makes no objects any more.
    let _ = SPOKEN.try_with(|spoken| {
        let is_free = std::ptr::eq(spoken.get(), &raw const STANDARD);
        if is_free || std::ptr::eq(dialect, &raw const STANDARD) {
            spoken.set(dialect);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_speaks_its_own() {
        static OTHER: Dialect = Dialect { ..STANDARD };
        assert!(std::ptr::eq(spoken(), &raw const STANDARD));
        // SAFETY: a static.
        unsafe { speak(&raw const OTHER) };
        assert!(std::ptr::eq(spoken(), &raw const OTHER));
        static FURTHER: Dialect = Dialect { ..STANDARD };
        // SAFETY: a static.
        unsafe { speak(&raw const FURTHER) };
        assert!(std::ptr::eq(spoken(), &raw const OTHER));
        std::thread::spawn(|| assert!(std::ptr::eq(spoken(), &raw const STANDARD))).join().unwrap();
        // SAFETY: null.
        unsafe { speak(std::ptr::null()) };
        assert!(std::ptr::eq(spoken(), &raw const STANDARD));
    }
}
