//! `tutti io-server`: a server for files (S10), and `tutti io`: commands for its files.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use tutti_base::PortRange;
use tutti_base::config::{Config, Protection};
use tutti_storage::servers::client::{Client, Source};
use tutti_storage::servers::errands;
use tutti_storage::servers::greeting::Key;
use tutti_storage::servers::mount::{Mode, Mount, Server};
use tutti_storage::servers::process::Process;
use tutti_storage::servers::root::Root;
use tutti_storage::servers::sealed_socket::cover;

/// Options of `tutti io-server`.
#[derive(clap::Args)]
pub struct IoServerOptions {
    /// Directory for the files of the server.
    #[arg(long)]
    root: PathBuf,
    /// scratch: a file a server, with its stripes; forward: all servers write into the same files, of a file
    /// system that they share.
    #[arg(long, default_value = "scratch", value_parser = ["scratch", "forward"])]
    mode: String,
    /// Mount file, which lists the servers for clients; the first server creates it
    #[arg(long)]
    mount: Option<PathBuf>,
    /// Number of servers in the mount file
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    servers: u32,
    /// Bytes of a stripe of files that are made.
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    stripe: u64,
    /// Listen at this interface, address or network.
    #[arg(long, default_value = "")]
    interface: String,
    /// Listen on a port of this range.
    #[arg(long)]
    ports: Option<String>,
    /// Listen where this host reaches another one.
    #[arg(long)]
    towards: Option<String>,
    /// Started with a job: reads the job's secret from standard input, writes where it listens, and ends with
    /// its input.
    #[arg(long, hide = true)]
    job: bool,
}

/// Commands for files on io-servers.
#[derive(clap::Subcommand)]
pub enum IoServerCommand {
    /// List the files: bytes, servers, bytes of a stripe, name.
    Ls(Of),
    /// Copy a file; names that begin with tutti: are of the servers.
    Cp {
        /// From.
        from: String,
        /// To.
        to: String,
        #[command(flatten)]
        of: Of,
    },
    /// Report files that are damaged.
    Check(Of),
}

/// Selection of the servers for a command.
#[derive(clap::Args)]
pub struct Of {
    /// The mount file (default: TUTTI_IO_MOUNT).
    #[arg(long)]
    mount: Option<PathBuf>,
}

/// Serves requests until the process is killed, or with `--job` until its input ends.
pub fn serve(options: &IoServerOptions) -> Result<(), String> {
    let mode = Mode::parse(&options.mode).expect("the option takes these words");
    if options.job {
        std::fs::create_dir_all(&options.root)
            .map_err(|error| format!("{}: {error}", options.root.display()))?;
    }
    let root = Root::new(&options.root, mode).map_err(|error| error.to_string())?;
    let interface = match options.interface.as_str() {
        "" if options.mount.is_none() && options.towards.is_none() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        interface => tutti_sys::interface::of_this_host(interface, options.towards.as_deref())
            .map_err(|error| error.to_string())?,
    };
    let ports = options.ports.as_deref().map(str::parse::<PortRange>).transpose();
    let ports = ports.map_err(|_| "--ports takes a range such as 40000-40100")?;
    let key = if options.job { job_key()? } else { Key::random().map_err(|error| error.to_string())? };
    let failed = |error: io::Error| format!("cannot serve: {error}");
    // The clients of a job's servers are its ranks, all with the setting of the job.
    let protection = if options.job { Protection::Greeting } else { protection()? };
    let mut process = Process::new(root, key, cover(protection), interface, ports).map_err(failed)?;
    let address = process.address().map_err(failed)?;
    let path = std::path::absolute(&options.root).map_err(failed)?;
    let name = format!("{}:{}", tutti_sys::process::host_name(), path.display());
    if options.job {
        let mut out = io::stdout();
        writeln!(out, "{address} {name}").and_then(|()| out.flush()).map_err(failed)?;
        let lifeline: OwnedFd = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        return process.serve(Some(&lifeline)).map_err(failed);
    }
    let Some(mount) = &options.mount else {
        return Err("--mount FILE is missing: the file in which clients find the server".into());
    };
    let fresh = || Mount::new(mode, options.stripe, options.servers);
    let entered = Mount::enter_file(mount, fresh, Server { address, name: name.clone() });
    let (entered, number) = entered.map_err(|error| error.to_string())?;
    if entered.mode != mode {
        return Err(format!("{} is of servers in mode {}", mount.display(), entered.mode.name()));
    }
    process.set_key(entered.key);
    show(&format!("server {number} of {}: {name} at {address}\n", entered.servers.len()));
    process.serve(None).map_err(failed)
}

/// Returns the protection that this process's settings request.
fn protection() -> Result<Protection, String> {
    Ok(Config::from_env().map_err(|error| error.to_string())?.network.protection)
}

/// Prints text; a closed output is no error.
fn show(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Reads the key of a job's servers from standard input: mpirun writes its greeting, then the secret.
fn job_key() -> Result<Key, String> {
    let mut said = [0; tutti_launch::agent::GREETING.len() + 32];
    let read = io::stdin().lock().read_exact(&mut said);
    let (greeting, secret) = said.split_at(tutti_launch::agent::GREETING.len());
    if read.is_err() || greeting != tutti_launch::agent::GREETING {
        return Err("--job is for mpirun only, which also passes a secret on standard input".to_string());
    }
    Ok(Key::of_secret(secret.try_into().expect("32 bytes")))
}

fn client(of: &Of) -> Result<Arc<Client>, String> {
    let named = of.mount.clone().or_else(|| std::env::var_os("TUTTI_IO_MOUNT").map(PathBuf::from));
    let mount =
        named.ok_or("the mount file of the servers is missing: pass --mount FILE or set TUTTI_IO_MOUNT")?;
    let client = Client::new(Source::File(mount), true, cover(protection()?));
    client.map(Arc::new).map_err(|error| error.to_string())
}

/// Runs a command for files on io-servers.
pub fn run(errand: &IoServerCommand) -> Result<(), String> {
    let text = |error: tutti_base::Error| error.to_string();
    match errand {
        IoServerCommand::Ls(of) => {
            let files = errands::list(&*client(of)?).map_err(text)?;
            for (name, file) in files {
                let stripes = file
                    .manifest
                    .as_deref()
                    .and_then(|text| tutti_storage::servers::manifest::stripes_of(text).ok());
                let how = stripes
                    .map_or("- -".to_string(), |stripes| format!("{} {}", stripes.count(), stripes.bytes()));
                show(&format!("{} {how} {}\n", file.bytes, name.escape_debug()));
            }
            Ok(())
        }
        IoServerCommand::Cp { from, to, of } => {
            let bytes = errands::copy(&client(of)?, from, to).map_err(text)?;
            show(&format!("{bytes} bytes\n"));
            Ok(())
        }
        IoServerCommand::Check(of) => {
            let faults = errands::check(&*client(of)?).map_err(text)?;
            for (name, fault) in &faults {
                show(&format!("{}: {fault}\n", name.escape_debug()));
            }
            if faults.is_empty() {
                Ok(())
            } else {
                Err(format!("{} files are damaged or incomplete", faults.len()))
            }
        }
    }
}
