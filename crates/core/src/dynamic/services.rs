//! Published names (MPI-5 section 11.9.3). The process that has published a name returns the port to each
//! process that looks it up, until it ends.
//!
//! A name is a local socket whose name is a hash of the service. So all jobs of a user on a host see it,
//! and it disappears with its process, however that ends. Sockets of other users are neither queried nor
//! answered ([`tutti_sys::local_socket`]).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tutti_base::{Error, ErrorClass, Result};
use tutti_sys::letter::{self, Fields};
use tutti_sys::local_socket::{Carries, Connection, Listener};
use tutti_sys::own_thread;

use super::background::wait_for;
use super::ports;
use crate::lanes::LaneGuard;
use crate::process::Process;

/// A name that this process has published.
#[derive(Debug)]
pub struct Service {
    /// Name of the published port.
    port: Vec<u8>,
    /// Name of the local socket.
    socket: Vec<u8>,
    /// Flag that makes the thread end.
    is_over: Arc<AtomicBool>,
}

impl Service {
    /// Opens the socket of a name, and starts the thread that answers there.
    fn publish(name: &[u8], port: &[u8]) -> io::Result<Service> {
        let socket = socket_name(name);
        let listener = Listener::bind(&socket, Carries::Bytes)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut answer = Vec::new();
        letter::put(&mut answer, name);
        letter::put(&mut answer, port);
        let stop = Arc::clone(&is_over);
        let started = own_thread::spawn("tutti-service", move || {
            while !stop.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok(Some(caller)) => drop(letter::send(&caller, &answer, &[])),
                    Ok(None) => ports::wait_at(&listener),
                    Err(_) => return,
                }
            }
        });
        started.map(|_| Service { port: port.to_vec(), socket, is_over })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Wakes the thread, which then ends. Until the socket is closed, no process can publish the name
        // again.
        if let Ok(connection) = Connection::connect(&self.socket) {
            let _ = letter::receive(&connection);
        }
    }
}

/// Returns the name of a service's local socket, a hash of 128 bits (FNV-1a).
fn socket_name(service: &[u8]) -> Vec<u8> {
    let mix = |hash: u128, byte: &u8| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    let hash = service.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, mix);
    format!("service-{hash:032x}").into_bytes()
}

/// Requests the port of a service from the process that has published it.
fn ask(service: &[u8]) -> io::Result<Vec<u8>> {
    let connection = ports::connect_to(&socket_name(service))?;
    let answer = letter::receive(&connection)?.bytes;
    let mut fields = Fields::new(&answer);
    let is_meant = fields.field() == Some(service);
    fields.field().filter(|_| is_meant).map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Publishes a name (MPI_Publish_name).
///
/// # Errors
/// Returns `Service` if a process of this user on this host has published the name already.
pub fn publish(held: &LaneGuard, process: &Process, name: &[u8], port: &[u8]) -> Result<()> {
    let service = Service::publish(name, port).map_err(|error| {
        let shown = name.escape_ascii();
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => format!("argument service_name: {shown} is published already"),
            _ => format!("service {shown} cannot be published: {error}"),
        };
        Error::new(ErrorClass::Service, reason)
    })?;
    super::known(process).borrow_mut(held).services.insert(name.to_vec(), service);
    Ok(())
}

/// Withdraws a published name (MPI_Unpublish_name).
///
/// # Errors
/// Returns `Service` if this process has not published it, or with another port.
pub fn unpublish(held: &LaneGuard, process: &Process, name: &[u8], port: &[u8]) -> Result<()> {
    let services = &mut super::known(process).borrow_mut(held).services;
    if services.get(name).is_some_and(|service| service.port == port) {
        services.remove(name);
        return Ok(());
    }
    let reason = format!(
        "argument service_name: this process has not published {} for that port",
        name.escape_ascii()
    );
    Err(Error::new(ErrorClass::Service, reason))
}

/// Looks up the port of a published name (MPI_Lookup_name).
///
/// # Errors
/// Returns `Name` if it is not published.
pub fn look_up(held: &mut LaneGuard, process: &Process, name: &[u8]) -> Result<Vec<u8>> {
    let service = name.to_vec();
    let found = wait_for(held, process, "MPI_Lookup_name", move || ask(&service)).and_then(|found| found);
    found.map_err(|error| {
        let shown = name.escape_ascii();
        let reason = match error.kind() {
            io::ErrorKind::PermissionDenied => format!("service {shown} is another user's"),
            _ => format!("argument service_name: nobody has published {shown} on this host"),
        };
        Error::new(ErrorClass::Name, reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: std::result::Result<&str, io::ErrorKind>) {
        let found = ask(name.as_bytes()).map_err(|error| error.kind());
        assert_eq!(found, expected.map(|port| port.as_bytes().to_vec()), "{name}");
    }

    #[test]
    fn a_name_is_found_as_long_as_it_is_published() {
        let name = format!("a service of {}", std::process::id());
        check(&name, Err(io::ErrorKind::ConnectionRefused));
        let service = Service::publish(name.as_bytes(), b"port").unwrap();
        check(&name, Ok("port"));
        check(&name, Ok("port"));
        let again = Service::publish(name.as_bytes(), b"other").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        drop(service);
        check(&name, Err(io::ErrorKind::ConnectionRefused));
    }
}
