//! `tutti info --file PATH`: on what a file lies, and how accesses go there.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use tutti_sys::file::FileSystem;

/// What is there, and what follows from it.
///
/// # Errors
/// Where there is neither a file nor a directory to make it in.
pub fn describe(path: &Path) -> Result<String, String> {
    let directory = || match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (what, opened) = match File::open(path) {
        Ok(file) => (path, Ok(file)),
        Err(_) => (directory(), File::open(directory())),
    };
    let opened = opened.map_err(|error| format!("{}: {error}", what.display()))?;
    let system = FileSystem::of(opened.as_fd()).map_err(|error| format!("{}: {error}", what.display()))?;
    Ok(text(path, system))
}

fn text(path: &Path, system: FileSystem) -> String {
    let (kind, small, together) = match system {
        FileSystem::Local(_) => (
            "of this host alone",
            "through a mapping, exact to the byte; where the file may not be read, one by one",
            "each rank by itself: its page cache is all ranks' already (romio_cb_write=enable exchanges all the same)",
        ),
        FileSystem::Shared(_) => (
            "shared by hosts",
            "one by one",
            "where runs are short, ranks exchange data and access windows of up to cb_buffer_size bytes",
        ),
        FileSystem::Unknown(_) => (
            "not known, taken to be shared by hosts",
            "one by one",
            "where runs are short, ranks exchange data and access windows of up to cb_buffer_size bytes",
        ),
    };
    format!(
        "{}\n  file system: {} ({kind})\n  small pieces are read by sieving: what lies between is read too, never written\n  \
         small pieces are written {small}\n  collective access: {together}\n",
        path.display(),
        system.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(system: FileSystem, expected: &str) {
        let text = text(Path::new("/a"), system);
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn what_follows_from_the_file_system() {
        check(FileSystem::Local("tmpfs"), "tmpfs (of this host alone)");
        check(FileSystem::Shared("nfs"), "ranks exchange data");
        check(FileSystem::Unknown(7), "not known");
    }
}
