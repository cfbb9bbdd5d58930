//! Jobs with io-servers, by both transports: the files that near servers lend, and TCP.

use std::path::{Path, PathBuf};

use crate::measure::library::Library;

/// The same library twice, with so many servers whose files are beneath `scratch`: near, and by TCP (`-tcp`).
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

impl Scratch {
    /// Within another one.
    ///
    /// # Errors
    /// What the system reports.
    pub fn new(within: &Path) -> Result<Scratch, String> {
        let path = within.join(format!("tutti-bench-io-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
