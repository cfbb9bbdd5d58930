//! Drivers by file name: a file of the system, a stream, or a file of io-servers, whose names begin with
//! `tutti:`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::process::Process;
use tutti_storage::hints::Hints;
use tutti_storage::servers::Striped;
use tutti_storage::servers::client::{Client, Source};
use tutti_storage::servers::greeting::Key;
use tutti_storage::servers::manifest::Wish;
use tutti_storage::servers::mount;
use tutti_storage::servers::sealed_socket::cover;
use tutti_storage::{Amode, Driver, Posix, Stream};

/// Prefix of the names of files on io-servers.
const SERVERS: &[u8] = b"tutti:";

/// Connection to the io-servers, once the process has used a file on them.
static CLIENT: Mutex<Option<Arc<Client>>> = Mutex::new(None);

/// Returns the connection to the io-servers: those that mpirun has started, or those of the mount file.
fn client(process: &Process) -> Result<Arc<Client>> {
    let mut client = CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = &*client {
        return Ok(Arc::clone(client));
    }
    let path = &process.config.files.io_mount;
    let source = match std::env::var(tutti_sys::job::ENV_IO) {
        _ if !path.is_empty() => Source::File(PathBuf::from(path)),
        Ok(servers) => {
            Source::Text(mount::with_key(&servers, &Key::of_secret(&process.job.header().secret.0)))
        }
        Err(_) => {
            let why = "names that begin with tutti: are files of io-servers; start the job with mpirun --io-servers N, \
                       or name the mount file of servers that run (TUTTI_IO_MOUNT)";
            return Err(Error::new(ErrorClass::BadFile, why));
        }
    };
    let fresh = Arc::new(Client::new(
        source,
        process.config.files.io_near,
        cover(process.config.network.protection),
    )?);
    *client = Some(Arc::clone(&fresh));
    Ok(fresh)
}

fn text(name: &[u8]) -> Result<&str> {
    let why = "names of files of io-servers are in UTF-8";
    std::str::from_utf8(name).map_err(|_| Error::new(ErrorClass::BadFile, why))
}

/// Opens a file with the driver that its name selects.
///
/// # Errors
/// Fails with the error that the system or a server reports.
pub fn open(process: &Process, name: &[u8], amode: Amode, hints: &Hints) -> Result<Arc<dyn Driver>> {
    if let Some(name) = name.strip_prefix(SERVERS) {
        let wish = Wish { bytes: hints.stripe_bytes, count: hints.stripes };
        return Ok(Arc::new(Striped::open(&client(process)?, text(name)?, amode, wish)?));
    }
    if amode.is_sequential() && Stream::is_at(name) {
        return Ok(Arc::new(Stream::open(name, amode)?));
    }
    Ok(Arc::new(Posix::open(name, amode)?))
}

/// Removes a file of the system or of io-servers.
///
/// # Errors
/// Fails like [`open`].
pub fn delete(process: &Process, name: &[u8]) -> Result<()> {
    match name.strip_prefix(SERVERS) {
        Some(name) => Striped::delete(&client(process)?, text(name)?),
        None => Posix::delete(name),
    }
}
