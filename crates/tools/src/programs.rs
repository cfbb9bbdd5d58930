//! The C programs that are measured: compiled once for all libraries of the standard ABI, once for each other.

use crate::library::Library;
use crate::run::{self, End};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PROGRAMS: [(&str, &str); 6] = [
    ("asp", include_str!("../../../examples/asp/asp.c")),
    ("tutti-bench", include_str!("../bench/tutti-bench.c")),
    ("rate-bench", include_str!("../bench/rate-bench.c")),
    ("start", include_str!("../bench/start.c")),
    ("victim", include_str!("../bench/victim.c")),
    ("patterns", include_str!("../bench/patterns.c")),
];

/// Programs without MPI.
const PLAIN: [(&str, &str); 1] = [("wire", include_str!("../bench/wire.c"))];

const HEADERS: [(&str, &str); 4] = [
    ("threads.h", include_str!("../bench/threads.h")),
    ("one_sided.h", include_str!("../bench/one_sided.h")),
    ("operations.h", include_str!("../bench/operations.h")),
    ("reference.h", include_str!("../bench/reference.h")),
];

/// The compiled programs.
pub struct Programs {
    /// Where they are.
    pub directory: PathBuf,
}

impl Programs {
    /// Compiles all of them into `programs` under `out`.
    ///
    /// # Errors
    /// A file cannot be written, or a compiler refuses.
    pub fn build(out: &Path, libraries: &[Library]) -> Result<Programs, String> {
        let directory = out.join("programs");
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
        let programs = Programs { directory };
        for (name, text) in HEADERS {
            programs.write(name, text)?;
        }
        let standard = libraries.iter().find(|library| library.standard_abi && library.can_compile());
        for (name, text) in PROGRAMS {
            let source = programs.write(&format!("{name}.c"), text)?;
            for compiler in standard.into_iter().chain(libraries.iter().filter(|own| !own.standard_abi)) {
                let program = programs.of(name, compiler);
                let outcome = run::run(&mut compiler.compile(&source, &program), Duration::from_secs(300))?;
                if outcome.end != End::Exit(0) {
                    let why = outcome.errors.join("\n");
                    return Err(format!("{} does not compile {name}.c:\n{why}", compiler.name));
                }
            }
        }
        Ok(programs)
    }

    /// Compiles a program that uses no MPI.
    ///
    /// # Errors
    /// As [`Programs::build`].
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

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.directory.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// The program `name` for `library`.
    pub fn of(&self, name: &str, library: &Library) -> PathBuf {
        let kind = if library.standard_abi { "standard" } else { &library.name };
        self.directory.join(format!("{name}-{kind}"))
    }
}
