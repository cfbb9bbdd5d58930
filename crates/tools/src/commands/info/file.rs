//! `tutti info FILE`: file system, stripes and servers of a file, and the way in which ranks access it, each
//! with the reason. The output follows the rules that accesses follow (`tutti_storage::together`).

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tutti_base::config::Config;
use tutti_storage::hints::{Choice, HINTS_FILE, Hints, ignored_of_environment, without_prefix};
use tutti_storage::servers::client::{Client, Source};
use tutti_storage::servers::errands::{self, Described, PREFIX, Way};
use tutti_storage::servers::greeting::Key;
use tutti_storage::servers::mount::{self, Mode};
use tutti_storage::servers::sealed_socket::cover;
use tutti_storage::together::{Wish, aggregators};
use tutti_sys::file::FileSystem;

use super::job::OwnJob;

/// Describes the storage of a file, and the resulting accesses.
///
/// # Errors
/// Fails if neither the file nor its directory exists, or if servers do not answer.
pub fn describe(path: &Path, job: Option<&OwnJob>, config: &Config) -> Result<String, String> {
    let hints = Hints::of_environment();
    let ranks = job.map(|job| job.job.header().world_size);
    let name = without_prefix(path.as_os_str().as_bytes());
    let (lies, is_remote) = match std::str::from_utf8(name).ok().and_then(|name| name.strip_prefix(PREFIX)) {
        Some(name) => {
            let described = errands::describe(&client(job, config)?, name);
            (of_servers(&described), described.is_remote())
        }
        None => of_system(Path::new(OsStr::from_bytes(name)))?,
    };
    Ok(format!("{}\n{lies}{}", path.display(), together(&hints, is_remote, ranks)))
}

/// Connects to the servers of the job, or to those of the mount file, like programs do.
fn client(job: Option<&OwnJob>, config: &Config) -> Result<Arc<Client>, String> {
    let source = match (job, std::env::var(tutti_sys::job::ENV_IO)) {
        _ if !config.files.io_mount.is_empty() => Source::File(PathBuf::from(&config.files.io_mount)),
        (Some(job), Ok(servers)) => {
            Source::Text(mount::with_key(&servers, &Key::of_secret(&job.job.header().secret.0)))
        }
        _ => {
            return Err("names that begin with tutti: are files of io-servers: TUTTI_IO_MOUNT names their \
                        mount file, and mpirun --io-servers N ... tutti info FILE asks those of a job"
                .to_string());
        }
    };
    let cover = cover(config.network.protection);
    Client::new(source, config.files.io_near, cover).map(Arc::new).map_err(|error| error.to_string())
}

/// Describes the file system of a file. The flag is true if accesses go over a network.
fn of_system(path: &Path) -> Result<(String, bool), String> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (what, opened) = match File::open(path) {
        Ok(file) => (path, Ok(file)),
        Err(_) if !path.exists() => (directory, File::open(directory)),
        Err(error) => (path, Err(error)),
    };
    let failed = |error: std::io::Error| format!("{}: {error}", what.display());
    let opened = opened.map_err(failed)?;
    let bytes = opened.metadata().map_err(failed)?;
    let bytes = bytes.is_file().then_some(bytes.len());
    let system = FileSystem::of_file(opened.as_fd()).map_err(failed)?;
    Ok((system_text(bytes, system), !matches!(system, FileSystem::Local(_))))
}

fn system_text(bytes: Option<u64>, system: FileSystem) -> String {
    let number;
    let (kind, small) = match system {
        FileSystem::Local(_) => (
            "of this host alone, so one page cache is that of all ranks",
            "through a mapping, exact to the byte; one by one where the file is not opened to be read",
        ),
        FileSystem::Shared(_) => ("shared by hosts", "one by one"),
        FileSystem::Unknown(code) => {
            number = format!("number {code:#x}, taken to be shared by hosts");
            (number.as_str(), "one by one")
        }
    };
    format!(
        "  bytes: {}\n  file system: {} ({kind})\n  stripes: left to the file system; the hints striping_unit and \
         striping_factor are of files of io-servers\n  servers: none; ranks call the system themselves\n  \
         small pieces are read by sieving: what lies between is read too, never written\n  \
         small pieces are written {small}\n",
        shown(bytes),
        system.name()
    )
}

fn shown(bytes: Option<u64>) -> String {
    bytes.map_or("none yet, it will be made".to_string(), |bytes| bytes.to_string())
}

fn of_servers(described: &Described) -> String {
    let how = match described.mode {
        Mode::Forward => "forward: all write into one file of a file system that they share",
        Mode::Scratch => "scratch: each has its stripes in a file of its own",
    };
    let mut text = match &described.bytes {
        Ok(bytes) => format!("  bytes: {}\n", shown(*bytes)),
        Err(error) => format!("  cannot be opened: {error}\n"),
    };
    let (bytes, count) = (described.stripes.bytes(), described.stripes.count());
    let why = match described.bytes {
        Ok(Some(_)) if described.mode == Mode::Scratch => "as its manifest says",
        _ => "as the mount says, unless the hints striping_unit and striping_factor do",
    };
    let _ = writeln!(text, "  file system: io-servers ({how})");
    let _ = writeln!(text, "  stripes: of {bytes} bytes, in turn on {count} servers, {why}");
    for (number, (server, way)) in described.servers.iter().enumerate() {
        let way = match way {
            Way::Near => "near: it lends the open file, and ranks of its host copy by themselves".to_string(),
            Way::Far => "far: by TCP; of views their description is sent once, no lists".to_string(),
            Way::Up => "it answers".to_string(),
            Way::Gone(error) => format!("GONE: {error}"),
        };
        let _ = writeln!(text, "  server {number}: {} at {}: {way}", server.name, server.address);
    }
    text
}

/// Describes the collective accesses of ranks to the file.
fn together(hints: &Hints, is_remote: bool, ranks: Option<u32>) -> String {
    let mut text = String::new();
    for (what, key, choice, write) in [
        ("reads", "romio_cb_read", hints.exchange_reads, false),
        ("writes", "romio_cb_write", hints.exchange_writes, true),
    ] {
        let how = match Wish::from_hint(choice, write, is_remote) {
            Wish::Never => "each rank by itself".to_string(),
            Wish::Always => "ranks exchange data first, always".to_string(),
            Wish::Below(bytes) => {
                format!("ranks exchange data first where runs are shorter than {bytes} bytes on average")
            }
        };
        let why = match (choice, is_remote, write) {
            (Choice::Automatic, true, _) => "few long accesses cross a network faster than many short ones",
            (Choice::Automatic, false, true) => "a mapping costs a fault a page",
            (Choice::Automatic, false, false) => "what one has read is in the page cache for all",
            _ => "as the hint says",
        };
        let _ = writeln!(text, "  collective {what}: {how} ({key}={}: {why})", choice.name());
    }
    let (why, buffer) = match hints.aggregators {
        0 => ("cb_nodes is not set: as many as there are ranks, at most 16".to_string(), hints.buffer_bytes),
        wanted => (format!("cb_nodes={wanted}"), hints.buffer_bytes),
    };
    let who = match ranks {
        Some(ranks) => format!("ranks {:?} of {ranks}", aggregators(hints.aggregators, ranks)),
        None => "spread evenly over the ranks".to_string(),
    };
    let _ =
        writeln!(text, "  aggregators: {who} ({why}), each with {buffer} bytes for windows (cb_buffer_size)");
    if let Some(path) = std::env::var_os(HINTS_FILE) {
        let _ = writeln!(text, "  hints of the environment: {HINTS_FILE}={}", Path::new(&path).display());
        for (key, why) in ignored_of_environment() {
            let _ = writeln!(text, "  hint that is ignored: {key} ({why})");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        for expected in expected {
            assert!(text.contains(expected), "{expected:?} is not in {text}");
        }
    }

    #[test]
    fn what_follows_from_the_file_system() {
        check(
            &system_text(Some(5), FileSystem::Local("tmpfs")),
            &["bytes: 5\n", "tmpfs (of this host alone"],
        );
        check(&system_text(None, FileSystem::Shared("nfs")), &["none yet", "nfs (shared by hosts)"]);
        check(&system_text(None, FileSystem::Unknown(7)), &["number 0x7, taken to be shared"]);
    }

    #[test]
    fn what_ranks_do_together() {
        let hints = Hints::default();
        let local = together(&hints, false, Some(4));
        check(
            &local,
            &["reads: each rank by itself", "writes: ranks exchange data first where runs are shorter"],
        );
        check(&local, &["ranks [0, 1, 2, 3] of 4"]);
        check(&together(&hints, true, None), &["reads: ranks exchange data first where", "at most 16"]);
        let told = Hints { exchange_reads: Choice::Enable, aggregators: 2, ..hints };
        check(
            &together(&told, false, Some(5)),
            &["always (romio_cb_read=enable", "[0, 2] of 5 (cb_nodes=2)"],
        );
    }

    #[test]
    fn what_servers_have() {
        let server = mount::Server { address: ([127, 0, 0, 1], 5).into(), name: "a:/x".to_string() };
        let stripes = tutti_storage::servers::stripes::Stripes::new(4096, 2).expect("they make sense");
        let servers = vec![(server.clone(), Way::Near), (server, Way::Gone("killed".to_string()))];
        let described = Described { mode: Mode::Scratch, bytes: Ok(Some(9)), stripes, servers };
        check(
            &of_servers(&described),
            &["4096 bytes, in turn on 2 servers, as its manifest", "server 0: a:/x", "GONE: killed"],
        );
    }
}
