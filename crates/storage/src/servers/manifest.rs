//! The manifest: a text with the striping of a file, which one of the servers stores.

use tutti_base::{Error, ErrorClass, Result};

use super::greeting::token;
use super::stripes::Stripes;

/// Requested striping of a new file; 0 leaves a value to the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Requested stripe length in bytes.
    pub bytes: u64,
    /// Requested number of servers.
    pub count: u32,
}

impl Wish {
    /// Returns the striping for a mount, which supplies missing values and limits the number of servers.
    pub fn for_mount(self, mount: Stripes) -> Stripes {
        let bytes = if self.bytes == 0 { mount.bytes() } else { self.bytes };
        let count = if self.count == 0 { mount.count() } else { self.count.min(mount.count()) };
        Stripes::new(bytes, count).unwrap_or(mount)
    }
}

/// Returns a new manifest for a file.
///
/// # Errors
/// `Other` if the system has no random numbers.
pub fn manifest(name: &str, stripes: Stripes) -> Result<String> {
    let id = u128::from_ne_bytes(token()?);
    let (bytes, count) = (stripes.bytes(), stripes.count());
    Ok(format!("tutti file 1\nname {name:?}\nid {id:032x}\nstripe {bytes}\nservers {count}\n"))
}

/// Returns the striping in a manifest.
///
/// # Errors
/// `Io` for an invalid text.
pub fn stripes_of(manifest: &str) -> Result<Stripes> {
    let number = |key: &str| {
        manifest.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let is_one = manifest.starts_with("tutti file 1\n");
    let count = u32::try_from(number("servers ")).unwrap_or(0);
    let stripes = Stripes::new(number("stripe "), count).filter(|_| is_one);
    stripes.ok_or_else(|| Error::new(ErrorClass::Io, "the manifest of the file makes no sense"))
}

/// Returns the number of the server that stores the manifest of a file.
pub fn home(name: &str, servers: usize) -> usize {
    name.bytes().fold(0usize, |number, byte| number.wrapping_mul(31).wrapping_add(byte.into())) % servers
}
