//! Check whose checkpoints a restart may trust.
//!
//! An image is a program: anyone who can write it decides what the restarted ranks do, with the rights of the
//! user who restarts them. Therefore the directories and files of a set must belong to this user or to root.
//! No other user may be able to write them, unless the user allows it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tutti_sys::user;

use crate::sets::{Directory, Manifest};

/// Bits of a mode with which others can write.
const OTHERS_WRITE: u32 = 0o022;
/// Mode bit of a directory in which users can remove only their own files.
const STICKY: u32 = 0o1000;
/// Maximum number of files of a set that are checked.
const MOST_FILES: usize = 1 << 22;

impl Directory {
    /// Reads the manifest of a set for a restart. With `allows_others`, other users may have written the set.
    ///
    /// # Errors
    /// Fails like [`Directory::manifest`]. PermissionDenied, naming the file, if other users could have
    /// written the set.
    pub fn manifest_to_restart(&self, set: u64, allows_others: bool) -> io::Result<Manifest> {
        if allows_others {
            return self.manifest(set);
        }
        let path = self.path();
        check(path, &path.metadata()?, user::own())?;
        self.check_files(set)?;
        let manifest = self.manifest(set)?;
        manifest.older().into_iter().try_for_each(|older| self.check_files(older))?;
        Ok(manifest)
    }

    /// Checks owner and mode of the folder of a set and of its files.
    fn check_files(&self, set: u64) -> io::Result<()> {
        let folder = self.folder(set);
        // Links are not followed, as they lead to files that are not checked.
        check(&folder, &folder.symlink_metadata()?, user::own())?;
        for entry in folder.read_dir()?.take(MOST_FILES) {
            let path = entry?.path();
            check(&path, &path.symlink_metadata()?, user::own())?;
        }
        Ok(())
    }
}

/// Checks a file or directory of a set for the user `own`.
fn check(path: &Path, found: &Metadata, own: u32) -> io::Result<()> {
    refusal(found.uid(), found.mode(), own).map_or(Ok(()), |why| {
        let text = format!("{} {why} (--restart-untrusted allows it)", path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    })
}

/// Returns the reason why user `own` must not trust a file or directory of this owner and mode, if there is
/// one.
fn refusal(owner: u32, mode: u32, own: u32) -> Option<String> {
    let kind = mode & kinds::ALL;
    if kind != kinds::FILE && kind != kinds::DIRECTORY {
        return Some("is neither a file nor a directory".to_string());
    }
    if owner != own && owner != 0 {
        return Some(format!("belongs to user {owner}, not to user {own} or root"));
    }
    let is_shared_directory = kind == kinds::DIRECTORY && mode & STICKY != 0;
    let can_others_write = mode & OTHERS_WRITE != 0 && !is_shared_directory;
    can_others_write
        .then(|| format!("can be written by others (mode {:o}); chmod go-w mends that", mode & 0o7777))
}

/// Kinds of files in a mode (inode(7)).
mod kinds {
    pub(super) const ALL: u32 = 0o170_000;
    pub(super) const FILE: u32 = 0o100_000;
    pub(super) const DIRECTORY: u32 = 0o040_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_could_have_written_is_refused() {
        let check = |owner: u32, mode: u32, expected: Option<&str>| {
            let why = refusal(owner, mode, 1000);
            match (why, expected) {
                (None, None) => {}
                (Some(why), Some(expected)) => assert!(why.contains(expected), "{why}"),
                (why, expected) => panic!("{owner} {mode:o}: {why:?} is not {expected:?}"),
            }
        };
        check(1000, 0o100_600, None);
        check(0, 0o100_644, None);
        check(1001, 0o100_600, Some("belongs to user 1001"));
        check(1000, 0o100_622, Some("can be written by others"));
        check(1000, 0o100_660, Some("can be written by others"));
        check(0, 0o041_777, None);
        check(1000, 0o040_777, Some("can be written by others"));
        check(1000, 0o120_777, Some("neither"));
    }
}
