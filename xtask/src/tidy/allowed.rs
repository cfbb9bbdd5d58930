//! `xtask/tidy.allow`: files and functions that are known to be too long. The list may only shrink: an
//! entry that is not needed any more is a complaint.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

/// Entries of the list, with a flag for each that was needed.
pub struct Allowed(RefCell<BTreeMap<String, bool>>);

impl Allowed {
    /// Reads the list from its file.
    pub fn read(root: &Path) -> Result<Allowed, Vec<String>> {
        let text = super::read(root, "xtask/tidy.allow")?;
        let entries = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(Allowed(RefCell::new(entries.map(|entry| (entry.to_string(), false)).collect())))
    }

    /// Returns true if `what` (a path, or `path::function`) may be too long.
    pub fn permits(&self, what: &str) -> bool {
        self.0.borrow_mut().get_mut(what).map(|used| *used = true).is_some()
    }

    /// Returns complaints about entries that were not needed.
    pub fn leftovers(&self) -> Vec<String> {
        let complaint =
            |entry: &String| format!("xtask/tidy.allow: {entry} is not too long: remove the line");
        self.0.borrow().iter().filter(|(_, used)| !**used).map(|(entry, _)| complaint(entry)).collect()
    }
}
