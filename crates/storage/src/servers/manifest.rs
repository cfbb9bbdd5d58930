//! How a file of servers is striped, as text: the manifest, which one of the servers has.

use tutti_base::{Error, ErrorClass, Result};

use super::greeting::token;
use super::stripes::Stripes;

/// How a file that is made is to be striped; 0 leaves it to the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Bytes of a stripe.
    pub bytes: u64,
    /// How many servers.
    pub count: u32,
}

impl Wish {
    /// As far as the mount has it.
    pub fn of(self, mount: Stripes) -> Stripes {
        let bytes = if self.bytes == 0 { mount.bytes() } else { self.bytes };
        let count = if self.count == 0 { mount.count() } else { self.count.min(mount.count()) };
        Stripes::new(bytes, count).unwrap_or(mount)
    }
}

/// What the manifest of a file says.
///
/// # Errors
/// `Other` where the system has no random numbers.
pub fn manifest(name: &str, stripes: Stripes) -> Result<String> {
    let id = u128::from_ne_bytes(token()?);
    let (bytes, count) = (stripes.bytes(), stripes.count());
    Ok(format!("tutti file 1\nname {name:?}\nid {id:032x}\nstripe {bytes}\nservers {count}\n"))
}

/// The stripes of a manifest.
///
/// # Errors
/// `Io` for a text that is none.
pub fn stripes_of(manifest: &str) -> Result<Stripes> {
    let number = |key: &str| {
        manifest.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let is_one = manifest.starts_with("tutti file 1\n");
    let count = u32::try_from(number("servers ")).unwrap_or(0);
    let stripes = Stripes::new(number("stripe "), count).filter(|_| is_one);
    stripes.ok_or_else(|| Error::new(ErrorClass::Io, "the manifest of the file makes no sense"))
}

/// The server that has the manifest of a file.
pub fn home(name: &str, servers: usize) -> usize {
    name.bytes().fold(0usize, |number, byte| number.wrapping_mul(31).wrapping_add(byte.into())) % servers
}
