//! The MPI libraries that can be measured: how each compiles and starts a program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries of `tutti compare`, in the order of the tables.
pub const NAMES: [&str; 5] = ["tutti", "mpich", "mpich-p2p", "openmpi", "impi"];

/// An installed MPI library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its short name.
    pub name: String,
    /// Name and version for the report.
    pub version: String,
    /// The start of its launcher's command line, up to the number of ranks.
    launcher: Vec<String>,
    environment: Vec<(String, String)>,
    compiler: Vec<String>,
    /// Whether it runs programs built against the standard ABI.
    pub standard_abi: bool,
}

impl Library {
    /// The library `name`: Tutti installed under `home`, others under `peers`.
    ///
    /// # Errors
    /// No such library, or it is not installed.
    pub fn find(name: &str, home: &Path, peers: &Path) -> Result<Library, String> {
        let place = |peer: &str| std::path::absolute(peers.join(peer)).unwrap_or_else(|_| peers.join(peer));
        let library = match name {
            "tutti" => tutti(home),
            "mpich" => mpich(&place("mpich"), name, &[]),
            "mpich-p2p" => mpich(&place("mpich"), name, &[("MPIR_CVAR_DEVICE_COLLECTIVES", "none")]),
            "openmpi" => openmpi(&place("openmpi")),
            "impi" => impi(&place("impi")),
            _ => return Err(format!("{name}: no such library (tutti, mpich, mpich-p2p, openmpi, impi)")),
        };
        if Path::new(&library.launcher[0]).exists() {
            return Ok(library);
        }
        let how = if name == "tutti" { "make stage" } else { "make peers" };
        Err(format!("{name} is not installed: {} is missing; {how} installs it", library.launcher[0]))
    }

    /// The command that compiles `source` to `program`.
    pub fn compile(&self, source: &Path, program: &Path) -> Command {
        let mut command = Command::new(&self.compiler[0]);
        command.args(&self.compiler[1..]).args(["-std=gnu11", "-O3", "-o"]).arg(program).arg(source);
        command.envs(self.environment.iter().cloned());
        command
    }

    /// The command that runs `program` on `ranks` ranks.
    pub fn command(&self, ranks: u32, program: &Path) -> Command {
        let mut command = Command::new(&self.launcher[0]);
        command.args(&self.launcher[1..]).args(["-n", &ranks.to_string()]).arg(program);
        command.envs(self.environment.iter().cloned());
        command
    }

    /// The same library under another name, with settings.
    pub fn variant(&self, name: &str, settings: &[(String, String)]) -> Library {
        let mut variant = Library { name: name.to_string(), ..self.clone() };
        variant.environment.extend(settings.iter().cloned());
        variant
    }

    /// Whether its compiler is there.
    pub fn can_compile(&self) -> bool {
        Path::new(&self.compiler[0]).exists()
    }
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

fn version(home: &Path, name: &str) -> String {
    std::fs::read_to_string(home.join(".installed"))
        .map_or_else(|_| name.to_string(), |packages| packages.trim().replace("==", " "))
}

#[cfg(test)]
impl Library {
    /// Any library, for tests of what comes after measuring.
    pub fn nameless(home: &Path) -> Library {
        tutti(home)
    }
}

fn tutti(home: &Path) -> Library {
    Library {
        name: "tutti".to_string(),
        version: format!("tutti {}", env!("CARGO_PKG_VERSION")),
        launcher: vec![text(home.join("bin/mpirun"))],
        environment: vec![("LD_LIBRARY_PATH".to_string(), text(home.join("lib")))],
        compiler: vec![text(home.join("bin/mpicc"))],
        standard_abi: true,
    }
}

fn mpich(home: &Path, name: &str, settings: &[(&str, &str)]) -> Library {
    let mut environment = vec![("LD_LIBRARY_PATH".to_string(), text(home.join("lib")))];
    environment.extend(settings.iter().map(|(key, value)| (key.to_string(), value.to_string())));
    Library {
        name: name.to_string(),
        version: version(home, name),
        launcher: vec![text(home.join("bin/mpiexec"))],
        environment,
        compiler: vec![text(home.join("bin/mpicc_abi"))],
        standard_abi: true,
    }
}

fn openmpi(home: &Path) -> Library {
    let yes = "1".to_string();
    Library {
        name: "openmpi".to_string(),
        version: version(home, "openmpi"),
        launcher: vec![text(home.join("bin/mpiexec")), "--oversubscribe".to_string()],
        environment: vec![
            ("OMPI_ALLOW_RUN_AS_ROOT".to_string(), yes.clone()),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM".to_string(), yes),
            ("LD_LIBRARY_PATH".to_string(), text(home.join("lib"))),
        ],
        compiler: vec![text(home.join("bin/mpicc"))],
        standard_abi: false,
    }
}

fn impi(home: &Path) -> Library {
    let libraries = format!("{0}/lib:{0}/opt/mpi/libfabric/lib", home.display());
    Library {
        name: "impi".to_string(),
        version: version(home, "impi"),
        launcher: vec![text(home.join("bin/mpiexec"))],
        environment: vec![
            ("I_MPI_ROOT".to_string(), text(home.to_path_buf())),
            ("LD_LIBRARY_PATH".to_string(), libraries),
        ],
        compiler: vec![text(home.join("bin/mpicc")), "-mpi-abi".to_string()],
        standard_abi: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn each_library_has_its_own_launcher() {
        let program = Path::new("/x/bench");
        assert_eq!(
            words(&tutti(Path::new("/opt/tutti")).command(4, program)),
            ["/opt/tutti/bin/mpirun", "-n", "4", "/x/bench"]
        );
        assert_eq!(
            words(&openmpi(Path::new("/p/openmpi")).command(2, program)),
            ["/p/openmpi/bin/mpiexec", "--oversubscribe", "-n", "2", "/x/bench"]
        );
        assert_eq!(
            words(&impi(Path::new("/p")).compile(Path::new("a.c"), program)),
            ["/p/bin/mpicc", "-mpi-abi", "-std=gnu11", "-O3", "-o", "/x/bench", "a.c"]
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let nowhere = Path::new("/nowhere");
        let find = |name| Library::find(name, nowhere, nowhere).unwrap_err();
        assert!(find("tutti").contains("make stage"));
        assert!(find("mpich").contains("make peers"));
        assert!(find("lam").contains("no such library"));
    }
}
