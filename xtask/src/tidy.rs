//! The tidy test.

use std::path::Path;

/// Runs all checks.
pub fn run(root: &Path) -> Result<(), Vec<String>> {
    crate::generate::check(root)
}
