//! Search for libraries in the order of the dynamic loader (ld.so(8)): folders that files name,
//! LD_LIBRARY_PATH, the loader's cache, the system's folders.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::elf::Linkage;

/// File of the cache that ldconfig(8) writes.
const CACHE: &str = "/etc/ld.so.cache";
/// Maximum bytes of a cache that is read.
const CACHE_BYTES: u64 = 64 << 20;
/// Folders of the system, which are searched last.
const FOLDERS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Search for the libraries of one program.
#[derive(Debug)]
pub struct Search {
    library_path: Vec<PathBuf>,
    machine: (bool, u16),
    cache: OnceCell<Vec<u8>>,
}

impl Search {
    /// Creates the search for a program that is started with this LD_LIBRARY_PATH.
    pub fn new(library_path: &OsStr, program: &Linkage) -> Search {
        // The loader accepts both separators, and takes an empty name for the working directory.
        let folders = library_path.as_bytes().split(|byte| b":;".contains(byte));
        let library_path =
            folders.filter(|folder| !folder.is_empty()).map(|folder| expand(folder, &program.origin));
        Search { library_path: library_path.collect(), machine: program.machine, cache: OnceCell::new() }
    }

    /// Returns the library `name` that a file needs, with the folders that it inherits.
    pub fn find(&self, name: &[u8], by: &Linkage) -> Option<(PathBuf, Linkage)> {
        self.all(name, by).next()
    }

    /// Returns all libraries with that name in the order of the loader, which takes the first.
    pub fn all<'a>(&'a self, name: &'a [u8], by: &Linkage) -> impl Iterator<Item = (PathBuf, Linkage)> + 'a {
        let name = OsStr::from_bytes(name);
        let own = |paths: &Option<Vec<u8>>| folders(paths.as_deref().unwrap_or_default(), &by.origin);
        // DT_RUNPATH disables DT_RPATH, in the file that has both and for the folders that it inherits.
        let inherited =
            if by.after.is_some() { Vec::new() } else { [own(&by.before), by.inherited.clone()].concat() };
        let is_path = name.as_bytes().contains(&b'/');
        let mut named: Vec<PathBuf> = if is_path { vec![PathBuf::from(name)] } else { Vec::new() };
        if !is_path {
            let folders = inherited.iter().chain(&self.library_path).cloned().chain(own(&by.after));
            named.extend(folders.map(|folder| folder.join(name)));
        }
        let of_system = std::iter::once(()).filter(move |()| !is_path).flat_map(move |()| {
            let cached = cached(self.cache.get_or_init(read_cache), name.as_bytes());
            cached.into_iter().chain(FOLDERS.iter().map(move |folder| Path::new(folder).join(name)))
        });
        named.into_iter().chain(of_system).filter_map(move |file| self.open(file, &inherited))
    }

    /// Reads a file, if it is a library for the program's processor.
    fn open(&self, file: PathBuf, inherited: &[PathBuf]) -> Option<(PathBuf, Linkage)> {
        let linkage = Linkage::read(&file).filter(|linkage| linkage.machine == self.machine)?;
        Some((file, Linkage { inherited: inherited.to_vec(), ..linkage }))
    }
}

/// Returns true if a library belongs to the compiler or the C library, which need no MPI.
pub fn is_of_system(name: &[u8]) -> bool {
    const STEMS: [&str; 16] = [
        "libc",
        "libm",
        "libpthread",
        "libdl",
        "librt",
        "libgcc_s",
        "libstdc++",
        "libgfortran",
        "libquadmath",
        "libgomp",
        "libutil",
        "libresolv",
        "libz",
        "libmvec",
        "libatomic",
        "ld-linux-x86-64",
    ];
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    STEMS.iter().any(|system| system.as_bytes() == stem) || stem.starts_with(b"ld-linux")
}

fn folders(paths: &[u8], origin: &Path) -> Vec<PathBuf> {
    let folders = paths.split(|byte| *byte == b':').filter(|folder| !folder.is_empty());
    folders.map(|folder| expand(folder, origin)).collect()
}

/// Replaces `$ORIGIN` at the beginning. A path with other variables is not found.
fn expand(folder: &[u8], origin: &Path) -> PathBuf {
    let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"].into_iter().find_map(|word| folder.strip_prefix(word));
    match rest {
        Some(rest) => PathBuf::from(OsStr::from_bytes(&[origin.as_os_str().as_bytes(), rest].concat())),
        None => PathBuf::from(OsStr::from_bytes(folder)),
    }
}

/// Reads the cache; empty if there is none or it is too long.
fn read_cache() -> Vec<u8> {
    let length = std::fs::metadata(CACHE).map_or(0, |data| if data.is_file() { data.len() } else { 0 });
    if length == 0 || length > CACHE_BYTES { Vec::new() } else { std::fs::read(CACHE).unwrap_or_default() }
}

/// Returns the files that the cache lists for a library. The format, in use since glibc 2.2, has a header of
/// 48 bytes, entries of 24 bytes, and strings. Offsets of strings count from the header.
fn cached(bytes: &[u8], name: &[u8]) -> Vec<PathBuf> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    // A cache in the older format may precede it.
    let Some(start) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) else {
        return Vec::new();
    };
    let bytes = &bytes[start..];
    let number = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let text = |at: usize| bytes.get(at..)?.split(|byte| *byte == 0).next();
    let count = number(MAGIC.len()).unwrap_or(0).min(bytes.len() / ENTRY);
    let entries = (0..count).map(|index| HEADER + index * ENTRY);
    let of_name = entries.filter(|entry| {
        let at = number(entry + 4).and_then(|at| bytes.get(at..at.checked_add(name.len() + 1)?));
        at.is_some_and(|found| found.starts_with(name) && found.ends_with(&[0]))
    });
    let files = of_name.filter_map(|entry| text(number(entry + 8)?));
    files.map(|file| PathBuf::from(OsStr::from_bytes(file))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_relative_to_the_file_that_names_them() {
        let got = folders(b"$ORIGIN/../lib::${ORIGIN}:/x", Path::new("/a/bin"));
        assert_eq!(got, ["/a/bin/../lib", "/a/bin", "/x"].map(PathBuf::from));
    }

    fn check(bytes: &[u8], name: &str, expected: &[&str]) {
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(cached(bytes, name.as_bytes()), expected, "{name}");
    }

    #[test]
    fn the_cache_is_read_and_a_damaged_one_is_none() {
        const STRINGS: &[u8] = b"liba.so.1\0/x/liba.so.1\0/y/liba.so.1\0";
        let first = 48 + 2 * 24u32;
        let mut bytes = b"older form, glibc-ld.so.cache1.1".to_vec();
        bytes.extend(2u32.to_ne_bytes());
        bytes.extend([0; 24]);
        for file in [first + 10, first + 23] {
            bytes.extend([3u32, first, file, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()));
        }
        bytes.extend(STRINGS);
        check(&bytes, "liba.so.1", &["/x/liba.so.1", "/y/liba.so.1"]);
        check(&bytes, "liba.so", &[]);
        check(&bytes, "", &[]);
        for length in 0..bytes.len() {
            cached(&bytes[..length], b"liba.so.1");
        }
        bytes[12 + 20..12 + 24].fill(0xff);
        check(&bytes, "liba.so.1", &["/x/liba.so.1", "/y/liba.so.1"]);
        check(b"something else", "liba.so.1", &[]);
    }
}
