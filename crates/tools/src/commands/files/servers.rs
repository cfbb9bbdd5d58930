//! Jobs with io-servers, for both transports: files that local servers expose, and TCP.

use std::path::{Path, PathBuf};

use crate::measure::library::Library;

/// Returns the library twice, with servers whose files are below `scratch`: with local access, and by TCP
/// (`-tcp`).
pub fn on_servers(
    library: &Library,
    servers: u32,
    scratch: &Path,
    settings: &[(String, String)],
) -> Vec<Library> {
    let variant = |(ending, near): (&str, &str)| {
        let name = format!("{}{ending}", library.name);
        let root = scratch.join(&name).to_string_lossy().into_owned();
        let words = ["--io-servers", &servers.to_string(), "--io-root", &root].map(str::to_string);
        let near = ("TUTTI_IO_NEAR".to_string(), near.to_string());
        library.variant_with(&name, &words, &[settings, &[near]].concat())
    };
    [("", "1"), ("-tcp", "0")].map(variant).into()
}

/// A directory that is gone afterwards.
pub struct Scratch(pub PathBuf);

/// Prefix of a directory's name; the process identifier follows.
const NAME: &str = "tutti-bench-io-";

impl Scratch {
    /// Creates a directory within `within`, and removes those of killed measurements.
    ///
    /// # Errors
    /// Fails with the error that the system reports.
    pub fn new(within: &Path) -> Result<Scratch, String> {
        left_behind(within).for_each(|path| drop(Scratch(path)));
        let path = within.join(format!("{NAME}{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the directories in `within` whose processes have ended.
fn left_behind(within: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(within).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let process = name.strip_prefix(NAME).and_then(|number| number.parse().ok());
        process.is_some_and(|process| process > 1 && !tutti_sys::process::is_alive(process))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether a directory of this name still exists after a measurement.
    fn check(name: &str, expected: bool) {
        let within = std::env::temp_dir().join(format!("tutti-scratch-{}", std::process::id()));
        std::fs::create_dir_all(within.join(name)).unwrap();
        let own = Scratch::new(&within).unwrap();
        assert!(own.0.is_dir());
        drop(own);
        assert_eq!(within.join(name).exists(), expected, "{name}");
        std::fs::remove_dir_all(&within).unwrap();
    }

    #[test]
    fn what_killed_measurements_left_is_removed() {
        check(&format!("{NAME}{}", i32::MAX), false);
        check(&format!("{NAME}1"), true);
        check(&format!("{NAME}notes"), true);
        check("tutti-other", true);
    }
}
