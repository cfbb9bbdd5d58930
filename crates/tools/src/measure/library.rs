//! MPI libraries that can be measured: how each compiles and starts a program, and its settings for yielding
//! processors.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries of `tutti compare`, in the order of the tables.
pub const NAMES: [&str; 5] = ["tutti", "mpich", "mpich-p2p", "openmpi", "impi"];

/// The name of another build of Tutti, for how much a change to it helps.
const BEFORE: &str = "before";

/// An installed MPI library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Short name of the library or variant.
    pub name: String,
    /// Name of the library whose launcher it uses: variants have names of their own.
    family: String,
    /// Name and version for the report.
    pub version: String,
    /// The start of its launcher's command line, up to the number of ranks.
    launcher: Vec<String>,
    /// More words of its command line.
    words: Vec<String>,
    /// Whether it is set to yield even if each rank has a processor of its own.
    always_yields: bool,
    environment: Vec<(String, String)>,
    compiler: Vec<String>,
    /// Whether it runs programs built against the standard ABI.
    pub standard_abi: bool,
    /// The hosts it runs on, if not on this machine alone.
    place: Option<HostSet>,
}

/// Hosts that jobs run on, and how they are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSet {
    /// The words before a command that runs it on the first host.
    pub enter: Vec<String>,
    /// The program in the place of ssh.
    pub agent: String,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Number of ranks on each host.
    pub per_host: u32,
    /// Ranks are dealt out like cards, so that neighbours are on different hosts.
    pub by_node: bool,
}

impl HostSet {
    /// Returns the number of ranks on all hosts.
    pub fn ranks(&self) -> u32 {
        self.hosts.len() as u32 * self.per_host
    }

    /// Options of the launcher of `library`. Ranks are not bound: all hosts have the same few cores.
    fn options(&self, library: &str) -> Vec<String> {
        let slots: Vec<_> = self.hosts.iter().map(|host| format!("{host}:{}", self.per_host)).collect();
        let (slots, names) = (slots.join(","), self.hosts.join(","));
        // Hydra goes around the hosts until all ranks have a place.
        let in_a_row = if self.by_node { 1 } else { self.per_host }.to_string();
        let words: &[&str] = match library {
            "tutti" => &["--agent", &self.agent, "--bind-to", "none", "--host", &slots],
            "openmpi" => &["--prtemca", "plm_ssh_agent", &self.agent, "--bind-to", "none", "--host", &slots],
            "impi" => {
                &["-bootstrap", "ssh", "-bootstrap-exec", &self.agent, "-hosts", &names, "-ppn", &in_a_row]
            }
            _ => &["-launcher", "ssh", "-launcher-exec", &self.agent, "-hosts", &names, "-ppn", &in_a_row],
        };
        let dealt: &[&str] = match library {
            "tutti" | "openmpi" if self.by_node => &["--map-by", "node"],
            _ => &[],
        };
        let network: &[&str] = match library {
            "openmpi" => &["--mca", "pml", "ob1", "--mca", "btl_tcp_if_include", "eth0"],
            _ => &[],
        };
        words.iter().chain(dealt).chain(network).map(ToString::to_string).collect()
    }
}

/// Words of the launcher, and settings.
type Courtesy = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// Returns the settings by which a library yields its processor while it waits. Reasonable users set them
/// where ranks outnumber processors or hosts share them. Libraries that spin are up to thirty times slower
/// there, which is no property of theirs. Tests have the same settings in `tests/support/hosts.py`.
fn yielding(library: &str, between_hosts: bool) -> Courtesy {
    match (library, between_hosts) {
        // Collectives in shared memory never yield.
        ("mpich", _) => {
            (&[], &[("MPIR_CVAR_DEVICE_COLLECTIVES", "none"), ("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")])
        }
        ("openmpi", false) => (&["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"], &[]),
        // Between hosts ranks are never bound.
        ("openmpi", true) => (&["--mca", "mpi_yield_when_idle", "1"], &[]),
        // Each host would pin its ranks to the first processors, which all hosts share.
        ("impi", true) => (&[], &[("I_MPI_THREAD_YIELD", "2"), ("I_MPI_PIN", "0")]),
        ("impi", false) => (&[], &[("I_MPI_THREAD_YIELD", "2")]),
        _ => (&[], &[]),
    }
}

/// Returns true if `ranks` ranks on this machine share processors.
pub fn share_processors(ranks: u32) -> bool {
    std::thread::available_parallelism().is_ok_and(|processors| ranks as usize > processors.get())
}

/// Returns the libraries that differ from each other. Where ranks share processors, MPICH has the settings
/// that `mpich-p2p` always has, so one of them is enough.
pub fn distinct(libraries: &[Library], shared: bool) -> impl Iterator<Item = &Library> {
    let both = libraries.iter().any(|library| library.name == "mpich-p2p");
    libraries.iter().filter(move |library| !(shared && both && library.name == "mpich"))
}

impl Library {
    /// Finds the library `name`: Tutti below `home`, all others below `peers`. `before` is another build of
    /// Tutti, to show the effect of a change.
    ///
    /// # Errors
    /// Fails if there is no such library, or if it is not installed.
    pub fn find(name: &str, home: &Path, peers: &Path) -> Result<Library, String> {
        let place = |peer: &str| std::path::absolute(peers.join(peer)).unwrap_or_else(|_| peers.join(peer));
        let library = match name {
            "tutti" => tutti(home),
            BEFORE => tutti(&place(name)).variant(name, &[]),
            "mpich" => mpich(&place("mpich"), name, &[]),
            "mpich-p2p" => mpich(&place("mpich"), name, &[("MPIR_CVAR_DEVICE_COLLECTIVES", "none")]),
            "openmpi" => openmpi(&place("openmpi")),
            "openmpi-yield" => {
                Library { name: name.to_string(), always_yields: true, ..openmpi(&place("openmpi")) }
            }
            "impi" => impi(&place("impi")),
            _ => {
                return Err(format!(
                    "{name}: no such library (tutti, before, mpich, mpich-p2p, openmpi, openmpi-yield, impi)"
                ));
            }
        };
        if Path::new(&library.launcher[0]).exists() {
            return Ok(library);
        }
        let how = match name {
            "tutti" => "make stage",
            BEFORE => "a link to the stage of another build",
            _ => "make peers",
        };
        Err(format!("{name} is not installed: {} is missing; {how} installs it", library.launcher[0]))
    }

    /// Finds a build of Tutti that is installed at `prefix`, and names it `name`.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn build(name: &str, prefix: &Path) -> Result<Library, String> {
        let prefix =
            std::fs::canonicalize(prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
        let library = tutti(&prefix).variant(name, &[]);
        match Path::new(&library.launcher[0]).exists() {
            true => Ok(library),
            false => Err(format!("no Tutti is installed at {}: no bin/mpirun", prefix.display())),
        }
    }

    /// Returns the command that compiles `source` to `program`.
    pub fn compile(&self, source: &Path, program: &Path) -> Command {
        let mut command = Command::new(&self.compiler[0]);
        command.args(&self.compiler[1..]).args(["-std=gnu11", "-O3", "-o"]).arg(program).arg(source);
        command.envs(self.environment.iter().cloned());
        command
    }

    /// Returns the command that runs `program` on `ranks` ranks.
    pub fn command(&self, ranks: u32, program: &Path) -> Command {
        self.command_where(share_processors(ranks), ranks, program)
    }

    /// Returns the command that runs `program` on `ranks` ranks. `shared` is true if ranks of a host share
    /// processors.
    fn command_where(&self, shared: bool, ranks: u32, program: &Path) -> Command {
        let yields = self.always_yields || shared || self.place.is_some();
        let courtesy = yields.then(|| yielding(&self.family, self.place.is_some()));
        let (yield_words, yield_settings) = courtesy.unwrap_or((&[], &[]));
        let mut words = self.place.as_ref().map_or_else(Vec::new, |place| place.enter.clone());
        words.push(self.launcher[0].clone());
        match &self.place {
            None => words.extend_from_slice(&self.launcher[1..]),
            Some(place) => words.extend(place.options(&self.family)),
        }
        words.extend(yield_words.iter().map(ToString::to_string));
        words.extend_from_slice(&self.words);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["-n", &ranks.to_string()]).arg(program);
        command.envs(yield_settings.iter().copied());
        command.envs(self.environment.iter().cloned());
        command
    }

    /// Returns the same library on these hosts.
    pub fn on_hosts(&self, place: &HostSet) -> Library {
        Library { place: Some(place.clone()), ..self.clone() }
    }

    /// Returns the same library under another name, with settings.
    pub fn variant(&self, name: &str, settings: &[(String, String)]) -> Library {
        let mut variant = Library { name: name.to_string(), ..self.clone() };
        variant.environment.extend(settings.iter().cloned());
        variant
    }

    /// Returns the same library under another name, with settings and further arguments for its launcher.
    pub fn variant_with(&self, name: &str, words: &[String], settings: &[(String, String)]) -> Library {
        let mut variant = self.variant(name, settings);
        variant.words.extend_from_slice(words);
        variant
    }

    /// Returns the folder in which it is installed.
    pub fn prefix(&self) -> &Path {
        Path::new(&self.launcher[0]).ancestors().nth(2).unwrap_or(Path::new("/"))
    }

    /// Returns true if the library is a build of Tutti.
    pub fn is_tutti(&self) -> bool {
        self.family == "tutti"
    }

    /// Returns the path of the library's compiler.
    pub fn compiler(&self) -> &Path {
        Path::new(&self.compiler[0])
    }

    /// Returns true if the library's compiler exists.
    pub fn can_compile(&self) -> bool {
        self.compiler().exists()
    }
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the version that is installed there: packages, or the commit of a build of Tutti.
pub fn installed(home: &Path) -> Option<String> {
    std::fs::read_to_string(home.join(".installed")).ok().map(|text| text.trim().to_string())
}

fn version(home: &Path, name: &str) -> String {
    installed(home).map_or_else(|| name.to_string(), |packages| packages.replace("==", " "))
}

/// Returns the directory in which Tutti is installed: the parent of the directory of this program.
pub fn home() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    Ok(own.ancestors().nth(2).unwrap_or(Path::new("/")).to_path_buf())
}

#[cfg(test)]
impl Library {
    /// Returns a library for tests of reports.
    pub fn nameless(home: &Path) -> Library {
        tutti(home)
    }
}

fn tutti(home: &Path) -> Library {
    Library {
        name: "tutti".to_string(),
        family: "tutti".to_string(),
        version: installed(home)
            .map_or(format!("tutti {}", env!("CARGO_PKG_VERSION")), |commit| format!("tutti {commit}")),
        launcher: vec![text(home.join("bin/mpirun"))],
        environment: vec![("LD_LIBRARY_PATH".to_string(), text(home.join("lib")))],
        compiler: vec![text(home.join("bin/mpicc"))],
        standard_abi: true,
        words: Vec::new(),
        always_yields: false,
        place: None,
    }
}

fn mpich(home: &Path, name: &str, settings: &[(&str, &str)]) -> Library {
    let mut environment = vec![("LD_LIBRARY_PATH".to_string(), text(home.join("lib")))];
    environment.extend(settings.iter().map(|(key, value)| (key.to_string(), value.to_string())));
    Library {
        name: name.to_string(),
        family: "mpich".to_string(),
        version: version(home, name),
        launcher: vec![text(home.join("bin/mpiexec"))],
        environment,
        compiler: vec![text(home.join("bin/mpicc_abi"))],
        standard_abi: true,
        words: Vec::new(),
        always_yields: false,
        place: None,
    }
}

fn openmpi(home: &Path) -> Library {
    let yes = "1".to_string();
    Library {
        name: "openmpi".to_string(),
        family: "openmpi".to_string(),
        version: version(home, "openmpi"),
        launcher: vec![text(home.join("bin/mpiexec")), "--oversubscribe".to_string()],
        environment: vec![
            ("OMPI_ALLOW_RUN_AS_ROOT".to_string(), yes.clone()),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM".to_string(), yes),
            ("LD_LIBRARY_PATH".to_string(), text(home.join("lib"))),
        ],
        compiler: vec![text(home.join("bin/mpicc"))],
        standard_abi: false,
        words: Vec::new(),
        always_yields: false,
        place: None,
    }
}

fn impi(home: &Path) -> Library {
    let libraries = format!("{0}/lib:{0}/opt/mpi/libfabric/lib", home.display());
    Library {
        name: "impi".to_string(),
        family: "impi".to_string(),
        version: version(home, "impi"),
        launcher: vec![text(home.join("bin/mpiexec"))],
        environment: vec![
            ("I_MPI_ROOT".to_string(), text(home.to_path_buf())),
            ("LD_LIBRARY_PATH".to_string(), libraries),
        ],
        compiler: vec![text(home.join("bin/mpicc")), "-mpi-abi".to_string()],
        standard_abi: true,
        words: Vec::new(),
        always_yields: false,
        place: None,
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
            words(&tutti(Path::new("/opt/tutti")).command_where(true, 4, program)),
            ["/opt/tutti/bin/mpirun", "-n", "4", "/x/bench"]
        );
        assert_eq!(
            words(&openmpi(Path::new("/p/openmpi")).command_where(false, 2, program)),
            ["/p/openmpi/bin/mpiexec", "--oversubscribe", "-n", "2", "/x/bench"]
        );
        assert_eq!(
            words(&impi(Path::new("/p")).compile(Path::new("a.c"), program)),
            ["/p/bin/mpicc", "-mpi-abi", "-std=gnu11", "-O3", "-o", "/x/bench", "a.c"]
        );
    }

    #[test]
    fn libraries_yield_where_ranks_share_processors() {
        let home = Path::new("/p");
        let place = HostSet {
            enter: vec!["enter".to_string()],
            agent: "/a".to_string(),
            hosts: vec!["n0".to_string(), "n1".to_string()],
            per_host: 1,
            by_node: false,
        };
        let yields = |library: &Library, shared: bool| {
            let command = library.command_where(shared, 2, Path::new("/x"));
            let told = ["mpi_yield_when_idle", "MPIR_CVAR_POLLS_BEFORE_YIELD", "I_MPI_THREAD_YIELD"];
            let settings = command.get_envs().map(|(key, _)| key.to_string_lossy().into_owned());
            words(&command).into_iter().chain(settings).any(|word| told.contains(&word.as_str()))
        };
        for library in [mpich(home, "mpich", &[]), openmpi(home), impi(home)] {
            let name = &library.name;
            let found =
                [yields(&library, false), yields(&library, true), yields(&library.on_hosts(&place), false)];
            assert_eq!(found, [false, true, true], "{name}");
            let always = Library { always_yields: true, ..library.clone() };
            assert!(yields(&always, false), "{name}");
        }
        assert!(!yields(&tutti(home), true));
        let both = ["mpich", "mpich-p2p"].map(|name| mpich(home, name, &[]));
        assert_eq!([false, true].map(|shared| distinct(&both, shared).count()), [2, 1]);
        assert_eq!(distinct(&both[..1], true).count(), 1);
    }

    #[test]
    fn each_launcher_is_told_of_hosts_in_its_own_words() {
        let place = HostSet {
            enter: vec!["enter".to_string()],
            agent: "/a".to_string(),
            hosts: vec!["n0".to_string(), "n1".to_string()],
            per_host: 3,
            by_node: false,
        };
        assert_eq!(place.ranks(), 6);
        let dealt = HostSet { by_node: true, ..place.clone() };
        let words_on =
            |library: Library, place| words(&library.on_hosts(place).command(6, Path::new("/x"))).join(" ");
        let line = |library| words_on(library, &place);
        let home = Path::new("/p");
        let slots = "--bind-to none --host n0:3,n1:3";
        let network = "--mca pml ob1 --mca btl_tcp_if_include eth0";
        assert_eq!(line(tutti(home)), format!("enter /p/bin/mpirun --agent /a {slots} -n 6 /x"));
        assert_eq!(
            line(openmpi(home)),
            format!(
                "enter /p/bin/mpiexec --prtemca plm_ssh_agent /a {slots} {network} --mca mpi_yield_when_idle 1 -n 6 /x"
            )
        );
        assert_eq!(
            line(impi(home)),
            "enter /p/bin/mpiexec -bootstrap ssh -bootstrap-exec /a -hosts n0,n1 -ppn 3 -n 6 /x"
        );
        assert_eq!(
            line(mpich(home, "mpich-p2p", &[])),
            "enter /p/bin/mpiexec -launcher ssh -launcher-exec /a -hosts n0,n1 -ppn 3 -n 6 /x"
        );
        assert!(words_on(tutti(home), &dealt).ends_with(" --host n0:3,n1:3 --map-by node -n 6 /x"));
        assert!(words_on(mpich(home, "mpich", &[]), &dealt).ends_with(" -ppn 1 -n 6 /x"));
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
