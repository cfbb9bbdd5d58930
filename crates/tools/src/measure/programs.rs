//! Measured C programs. They are compiled once for all libraries of the standard ABI, and once for each other
//! library.

use crate::measure::library::Library;
use crate::measure::run::{self, End};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const PROGRAMS: [(&str, &str); 9] = [
    ("asp", include_str!("../../../../examples/asp/asp.c")),
    ("tutti-bench", include_str!("../../bench/tutti-bench.c")),
    ("rate-bench", include_str!("../../bench/rate-bench.c")),
    ("start", include_str!("../../bench/start.c")),
    ("victim", include_str!("../../bench/victim.c")),
    ("files-bench", include_str!("../../bench/files-bench.c")),
    ("patterns", include_str!("../../bench/patterns.c")),
    ("waits", include_str!("../../bench/waits.c")),
    ("waits-threads", include_str!("../../bench/waits-threads.c")),
];

/// Programs without MPI.
const PLAIN: [(&str, &str); 1] = [("wire", include_str!("../../bench/wire.c"))];

const HEADERS: [(&str, &str); 11] = [
    ("threads.h", include_str!("../../bench/threads.h")),
    ("one_sided.h", include_str!("../../bench/one_sided.h")),
    ("operations.h", include_str!("../../bench/operations.h")),
    ("reference.h", include_str!("../../bench/reference.h")),
    ("serve.h", include_str!("../../bench/serve.h")),
    ("waits.h", include_str!("../../bench/waits.h")),
    ("waits_collectives.h", include_str!("../../bench/waits_collectives.h")),
    ("waits_messages.h", include_str!("../../bench/waits_messages.h")),
    ("waits_objects.h", include_str!("../../bench/waits_objects.h")),
    ("waits_one_sided.h", include_str!("../../bench/waits_one_sided.h")),
    ("waits_threads.h", include_str!("../../bench/waits_threads.h")),
];

/// Directory of the compiled programs.
pub struct Programs {
    /// Path of the directory.
    pub directory: PathBuf,
}

impl Programs {
    /// Compiles all of them into `programs` under `out`.
    ///
    /// # Errors
    /// Fails if a file cannot be written, or a compiler refuses.
    pub fn build(out: &Path, libraries: &[Library]) -> Result<Programs, String> {
        Programs::some(out, libraries, &PROGRAMS.map(|(name, _)| name))
    }

    /// Compiles those called `names`, unless they are there already.
    ///
    /// # Errors
    /// Fails like [`Programs::build`].
    pub fn some(out: &Path, libraries: &[Library], names: &[&str]) -> Result<Programs, String> {
        let directory = out.join("programs");
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
        let programs = Programs { directory };
        let mut sources = Vec::new();
        for (name, text) in HEADERS {
            sources.push(programs.write(name, text)?);
        }
        // One may include another.
        for (name, text) in PROGRAMS {
            sources.push(programs.write(&format!("{name}.c"), text)?);
        }
        let newest = sources.iter().filter_map(|path| changed(path)).max();
        let standard = libraries.iter().find(|library| library.standard_abi && library.can_compile());
        for name in PROGRAMS.map(|(name, _)| name).iter().filter(|name| names.contains(name)) {
            for compiler in standard.into_iter().chain(libraries.iter().filter(|own| !own.standard_abi)) {
                programs.compile(name, compiler, newest)?;
            }
        }
        Ok(programs)
    }

    /// Compiles one, unless it is younger than the sources, `newest`, and its compiler.
    fn compile(&self, name: &str, compiler: &Library, newest: Option<SystemTime>) -> Result<(), String> {
        let program = self.path_of(name, compiler);
        let inputs = newest.max(changed(compiler.compiler()));
        if changed(&program).is_some_and(|made| Some(made) > inputs) {
            return Ok(());
        }
        let source = self.directory.join(format!("{name}.c"));
        let outcome = run::run(&mut compiler.compile(&source, &program), Duration::from_secs(300))?;
        if outcome.end == End::Exit(0) {
            return Ok(());
        }
        Err(format!("{} does not compile {name}.c:\n{}", compiler.name, outcome.errors.join("\n")))
    }

    /// Compiles a program that uses no MPI.
    ///
    /// # Errors
    /// Fails like [`Programs::build`].
    pub fn compile_plain(&self, name: &str) -> Result<PathBuf, String> {
        let text = PLAIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).unwrap_or_default();
        let source = self.write(&format!("{name}.c"), text)?;
        let program = self.directory.join(name);
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-O2", "-o"]).arg(&program).arg(&source);
        let outcome = run::run(&mut command, Duration::from_secs(60))?;
        if outcome.end == End::Exit(0) {
            return Ok(program);
        }
        Err(format!("cc does not compile {name}.c:\n{}", outcome.errors.join("\n")))
    }

    /// Writes a source; one that is there as it should be keeps its age.
    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.directory.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(path);
        }
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Returns the path of the program `name` for `library`.
    pub fn path_of(&self, name: &str, library: &Library) -> PathBuf {
        let kind = if library.standard_abi { "standard" } else { &library.name };
        self.directory.join(format!("{name}-{kind}"))
    }
}

/// Returns the time of the last change of a file, if it exists.
fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|data| data.modified()).ok()
}
