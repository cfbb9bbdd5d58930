//! MPI library that a program needs, determined before the start from the libraries that it and they are
//! linked to.
//!
//! A program that was compiled for another MPI library starts under any launcher. Each of its processes is
//! then a job of one rank, without a message. The dynamic loader decides by names
//! ([`tutti_base::mpi_libraries`]). This module searches for the same names, breadth first like the loader,
//! in the folders that the loader searches ([`search`]). [`elf`] reads one file.
//!
//! Not found are libraries that a program loads while it runs (dlopen: interpreters and their modules), and
//! programs that a script starts. [`crate::loaded_libraries`] looks for these in running ranks. An MPI
//! library inside a static program is not found either.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use tutti_base::mpi_libraries::Abi;

mod elf;
mod search;

use elf::Linkage;
use search::Search;

/// Maximum number of files that are read for one program.
const FILES: usize = 512;

/// MPI library that a program needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Interface (ABI) of the library.
    pub abi: Abi,
    /// Name of the library in the file that needs it.
    pub library: OsString,
    /// File of the library that needs it; None if the program itself does.
    pub through: Option<PathBuf>,
    /// File that the loader would take, if it is found. It is not looked for if the name is the standard's.
    pub file: Option<PathBuf>,
}

impl Needed {
    /// Returns a remark on the library that serves a program of another ABI. None if there is none, or if the
    /// program has the standard ABI.
    pub fn served(&self) -> Option<String> {
        let file = self.file.as_ref().filter(|_| self.abi == Abi::Standard)?;
        Some(format!(", whose {} is {}", self.library.display(), file.display()))
    }
}

impl fmt::Display for Needed {
    /// Writes the reason why several ranks of such a program cannot run under this launcher.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is linked to {}", self.library.display())?;
        if let Some(through) = &self.through {
            write!(f, " (by its library {})", through.display())?;
        }
        write!(
            f,
            ", which is of {}, not of the standard ABI that Tutti has: each rank would be alone; compile it with Tutti's mpicc, or \
             start it with the launcher of that library (TUTTI_FOREIGN_MPI=start starts it here all the same)",
            self.abi.owner()
        )
    }
}

/// Returns true if a program itself needs a library whose name begins with `name`.
pub fn is_linked_to(program: &Path, name: &str) -> bool {
    let linkage = Linkage::read(program);
    linkage.is_some_and(|linkage| linkage.needed.iter().any(|needed| needed.starts_with(name.as_bytes())))
}

/// Returns the MPI library that a program needs. `library_path` is LD_LIBRARY_PATH of the program. None if no
/// MPI library is found, or if `program` is not an ELF file (a script).
pub fn by_program(program: &Path, library_path: &OsStr) -> Option<Needed> {
    let first = Linkage::read(program)?;
    let search = Search::new(library_path, &first);
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let mut waiting: VecDeque<(Option<PathBuf>, Linkage)> = VecDeque::from([(None, first)]);
    while let Some((file, linkage)) = waiting.pop_front() {
        let mut others = Vec::new();
        for name in &linkage.needed {
            if let Some(abi) = Abi::from_name(name) {
                return Some(settle(abi, name, file, &search, &linkage));
            }
            if !search::is_of_system(name) && seen.len() < FILES && seen.insert(name.clone()) {
                others.push(name);
            }
        }
        waiting.extend(others.into_iter().filter_map(|name| {
            let (file, found) = search.find(name, &linkage)?;
            Some((Some(file), found))
        }));
    }
    None
}

/// Name of an MPI library without a version. Programs and wheels that accept any MPI library use it.
const UNVERSIONED: &[u8] = b"libmpi.so";

/// Returns the interface of the `libmpi.so` that a program would get without Tutti's folders. None if there
/// is none, or if its interface is unknown. `program` is any program of this machine.
pub fn unversioned(program: &Path, library_path: &OsStr) -> Option<Abi> {
    let linkage = Linkage::read(program)?;
    let search = Search::new(library_path, &linkage);
    let (_, found) = search.all(UNVERSIONED, &linkage).find(|(_, found)| !is_standard(found))?;
    let abi = Abi::from_name(found.name.as_ref()?)?;
    Some(abi).filter(|abi| *abi != Abi::Other)
}

/// Returns true if a file is a library of Tutti, or a library that calls it.
pub fn is_own(file: &Path) -> bool {
    Linkage::read(file)
        .is_some_and(|linkage| leads_to_standard(&linkage, &Search::new(OsStr::new(""), &linkage)))
}

/// Returns true if a library has the standard ABI, or calls such a library, directly or through another one.
/// A wheel contains empty libraries in place of links; they need the real library.
fn leads_to_standard(linkage: &Linkage, search: &Search) -> bool {
    let stands_for = || linkage.needed.iter().find_map(|name| search.find(name, linkage));
    is_standard(linkage) || stands_for().is_some_and(|(_, other)| is_standard(&other))
}

fn is_standard(linkage: &Linkage) -> bool {
    let names = linkage.needed.iter().chain(&linkage.name);
    names.into_iter().any(|name| Abi::from_name(name) == Some(Abi::Standard))
}

/// Completes a result. A library under another name may belong to Tutti: a link to it, or a library that
/// calls it.
fn settle(abi: Abi, name: &[u8], through: Option<PathBuf>, search: &Search, by: &Linkage) -> Needed {
    let is_looked_for = abi != Abi::Standard;
    let found = is_looked_for.then(|| search.find(name, by)).flatten();
    let is_standard = found.as_ref().is_some_and(|(_, linkage)| leads_to_standard(linkage, search));
    Needed {
        abi: if is_standard { Abi::Standard } else { abi },
        library: OsStr::from_bytes(name).to_os_string(),
        through,
        file: found.map(|(file, _)| file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Builds libraries and programs in a folder with `cc`. Each entry has the file, its libraries, and
    /// further arguments.
    fn folder(name: &str, files: &[(&str, &[&str], &[&str])]) -> Option<PathBuf> {
        let folder = std::env::temp_dir().join(format!("tutti-needed-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        std::fs::write(folder.join("empty.c"), "int main(void) { return 0; }\n").unwrap();
        for (file, linked, words) in files {
            let mut command = Command::new("cc");
            command.current_dir(&folder).args(["-o", file, "empty.c", "-Wl,--no-as-needed"]).args(*words);
            if file.contains(".so") {
                let name = Path::new(file).file_name().unwrap().to_string_lossy();
                command.args(["-shared", "-fPIC", &format!("-Wl,-soname,{name}")]);
            }
            // The linker need not find the libraries that a library needs in turn.
            command.arg("-Wl,--allow-shlib-undefined").args(*linked);
            if !command.status().is_ok_and(|status| status.success()) {
                return None;
            }
        }
        Some(folder)
    }

    fn check(folder: &Path, program: &str, library_path: &str, expected: Option<(Abi, &str, Option<&str>)>) {
        let library_path = library_path.replace('.', &folder.to_string_lossy());
        let got = by_program(&folder.join(program), OsStr::new(&library_path));
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        let got = got.map(|needed| (needed.abi, needed.library, needed.through.as_ref().map(name)));
        let expected =
            expected.map(|(abi, library, by)| (abi, OsString::from(library), by.map(str::to_string)));
        assert_eq!(got, expected, "{program} with {library_path}");
    }

    #[test]
    fn what_a_program_needs_is_found_through_its_libraries() {
        const ORIGIN: &[&str] = &["-Wl,--enable-new-dtags,-rpath,$ORIGIN"];
        const OLD: &[&str] = &["-Wl,--disable-new-dtags,-rpath,$ORIGIN/deep"];
        let made = folder(
            "linked",
            &[
                ("libmpi.so.40", &[], &[]),
                ("libmpi_abi.so.1", &[], &[]),
                ("libmpi.so.12", &["libmpi_abi.so.1"], &[]),
                ("deep/libsolver.so.3", &["libmpi.so.40"], &[]),
                ("plain", &["-lm"], &[]),
                ("direct", &["libmpi.so.40"], &[]),
                ("standard", &["libmpi_abi.so.1"], &[]),
                ("front", &["libmpi.so.12"], ORIGIN),
                ("nowhere", &["libmpi.so.12"], &[]),
                ("indirect", &["deep/libsolver.so.3"], &[]),
                ("inherited", &["deep/libsolver.so.3"], OLD),
            ],
        );
        let Some(folder) = made else { return };
        check(&folder, "plain", "", None);
        check(&folder, "empty.c", "", None);
        check(&folder, "direct", "", Some((Abi::OpenMpi, "libmpi.so.40", None)));
        check(&folder, "standard", "", Some((Abi::Standard, "libmpi_abi.so.1", None)));
        // A library of Tutti has the other name, and the loader finds it.
        check(&folder, "front", "", Some((Abi::Standard, "libmpi.so.12", None)));
        check(&folder, "nowhere", "", Some((Abi::Mpich, "libmpi.so.12", None)));
        check(&folder, "nowhere", ".", Some((Abi::Standard, "libmpi.so.12", None)));
        check(&folder, "indirect", "", None);
        check(
            &folder,
            "indirect",
            "/none:./deep",
            Some((Abi::OpenMpi, "libmpi.so.40", Some("libsolver.so.3"))),
        );
        check(&folder, "inherited", "", Some((Abi::OpenMpi, "libmpi.so.40", Some("libsolver.so.3"))));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn foreign_bytes_are_no_program() {
        let file = std::env::temp_dir().join(format!("tutti-needed-bytes-{}", std::process::id()));
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [0, 3, 16, 64, 200, 4096] {
            std::fs::write(&file, &own[..length]).unwrap();
            assert_eq!(by_program(&file, OsStr::new("")), None, "{length} bytes");
        }
        // With any wrong byte in the headers the function must return, with whatever result.
        let mut bytes = own[..own.len().min(1 << 16)].to_vec();
        for place in (0..1024).step_by(7) {
            let right = std::mem::replace(&mut bytes[place], 0xff);
            std::fs::write(&file, &bytes).unwrap();
            by_program(&file, OsStr::new(""));
            bytes[place] = right;
        }
        std::fs::remove_file(file).unwrap();
    }
}
