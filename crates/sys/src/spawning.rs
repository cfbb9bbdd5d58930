//! Requests of a rank to its launcher: starting further processes (MPI-5 section 11.8), and checkpoints.
//!
//! The daemon of the rank's host listens under a name that is derived from the job's number, so no rank
//! needs a descriptor. It starts a further `mpirun` and passes the connection to it. That process reads the
//! [`Order`] and replies with the reason if it refuses. Otherwise it keeps the connection open as long as
//! it runs.

use std::io;

use crate::kept;
use crate::letter::{self, Fields};
use crate::local_socket::Connection;

/// Environment variable: port at which the parents of this process wait for it.
pub const ENV_PARENT: &str = "TUTTI_PARENT_PORT";
/// Environment variable: initial error handler that the parents requested.
pub const ENV_ERROR_HANDLER: &str = "TUTTI_INITIAL_ERROR_HANDLER";
/// Environment variable: kinds of memory that the launcher or the parents requested (MPI-5 section 11.4.3).
pub const ENV_MEMORY_KINDS: &str = "TUTTI_MEMORY_KINDS";
/// Option of the further `mpirun`; the descriptor number of the connection follows.
pub const OPTION: &str = "--spawned";

/// Order to start processes as a new job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Number of the new job.
    pub job_id: u64,
    /// Number of processes of the ordering job.
    pub parents: u32,
    /// Working directory where a program names none.
    pub directory: Vec<u8>,
    /// Environment of the new processes.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Programs in the order of their ranks.
    pub programs: Vec<Program>,
}

/// One program of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Number of processes to start.
    pub count: u32,
    /// Program and its arguments.
    pub command: Vec<Vec<u8>>,
    /// Working directory, if it is another one.
    pub directory: Option<Vec<u8>>,
    /// Folders to search for the program before PATH.
    pub search: Option<Vec<u8>>,
    /// Additional variables in the form `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// Requested hosts, if any.
    pub hosts: Option<Vec<u8>>,
    /// Requested file of hosts, if any.
    pub host_file: Option<Vec<u8>>,
}

/// Returns the socket name of the daemon on host `host` of a job.
pub fn name(job_id: u64, host: u32) -> Vec<u8> {
    format!("mpirun-{job_id:016x}-{host}").into_bytes()
}

/// Connects to the daemon and announces an order. `new_job_id` is the job for which the daemon must answer.
///
/// # Errors
/// The system's error, for example that there is no such daemon; PermissionDenied when it belongs to
/// another user.
pub fn call(job_id: u64, host: u32, new_job_id: u64) -> io::Result<Connection> {
    let connection = Connection::connect(&name(job_id, host))?;
    connection.send(&new_job_id.to_le_bytes(), &[])?;
    Ok(connection)
}

/// Purpose of a rank's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// An order follows, for the job with this number.
    Job(u64),
    /// Request for a checkpoint of the rank's job.
    Checkpoint {
        /// True if the job ends with the checkpoint.
        stops: bool,
    },
}

const CHECKPOINT: [&[u8]; 2] = [b"c", b"s"];

impl Called {
    /// Decodes the first bytes of a connection.
    pub fn decode(bytes: &[u8]) -> Option<Called> {
        let number = bytes.try_into().map(u64::from_le_bytes).map(Called::Job);
        let wanted = CHECKPOINT.iter().position(|known| *known == bytes);
        number.ok().or(wanted.map(|place| Called::Checkpoint { stops: place == 1 }))
    }
}

/// Requests a checkpoint of the job, without waiting for it.
///
/// # Errors
/// The system's error, for example that there is no such daemon; PermissionDenied when it belongs to
/// another user.
pub fn ask_for_checkpoint(job_id: u64, host: u32, stops: bool) -> io::Result<()> {
    // A checkpoint could not save this socket.
    let _critical = kept::Critical::enter();
    let connection = Connection::connect(&name(job_id, host))?;
    connection.send(CHECKPOINT[usize::from(stops)], &[])
}

impl Order {
    /// Encodes the order as a letter.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        letter::put_number(&mut bytes, self.job_id);
        letter::put_number(&mut bytes, self.parents.into());
        letter::put(&mut bytes, &self.directory);
        letter::put_number(&mut bytes, self.variables.len() as u64);
        for (name, value) in &self.variables {
            letter::put(&mut bytes, name);
            letter::put(&mut bytes, value);
        }
        letter::put_number(&mut bytes, self.programs.len() as u64);
        self.programs.iter().for_each(|program| program.encode(&mut bytes));
        bytes
    }

    /// Decodes a letter; returns `None` if it is no order.
    pub fn decode(bytes: &[u8]) -> Option<Order> {
        let mut fields = Fields::new(bytes);
        let (job_id, parents) = (fields.number()?, u32::try_from(fields.number()?).ok()?);
        let directory = fields.field()?.to_vec();
        let count = fields.count()?;
        let variables = (0..count)
            .map(|_| Some((fields.field()?.to_vec(), fields.field()?.to_vec())))
            .collect::<Option<_>>()?;
        let count = fields.count()?;
        let programs = (0..count).map(|_| Program::decode(&mut fields)).collect::<Option<_>>()?;
        Some(Order { job_id, parents, directory, variables, programs })
    }
}

impl Program {
    fn encode(&self, bytes: &mut Vec<u8>) {
        letter::put_number(bytes, self.count.into());
        for list in [&self.command, &self.environment] {
            letter::put_number(bytes, list.len() as u64);
            list.iter().for_each(|item| letter::put(bytes, item));
        }
        for option in [&self.directory, &self.search, &self.hosts, &self.host_file] {
            letter::put_number(bytes, option.is_some().into());
            option.iter().for_each(|value| letter::put(bytes, value));
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Option<Program> {
        let list = |fields: &mut Fields<'_>| {
            let count = fields.count()?;
            (0..count).map(|_| Some(fields.field()?.to_vec())).collect::<Option<Vec<_>>>()
        };
        let option = |fields: &mut Fields<'_>| {
            Some(match fields.number()? {
                0 => None,
                _ => Some(fields.field()?.to_vec()),
            })
        };
        Some(Program {
            count: u32::try_from(fields.number()?).ok()?,
            command: list(fields)?,
            environment: list(fields)?,
            directory: option(fields)?,
            search: option(fields)?,
            hosts: option(fields)?,
            host_file: option(fields)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(order: &Order) {
        let bytes = order.encode();
        assert_eq!(Order::decode(&bytes).as_ref(), Some(order));
        assert_eq!(Order::decode(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn orders_survive_the_wire() {
        let text = |text: &str| text.as_bytes().to_vec();
        check(&Order::default());
        check(&Order {
            job_id: u64::MAX,
            parents: 3,
            directory: text("/somewhere"),
            variables: vec![(text("A"), text("1")), (text("EMPTY"), Vec::new())],
            programs: vec![
                Program {
                    count: 3,
                    command: vec![text("./a.out"), text(":"), Vec::new()],
                    directory: Some(Vec::new()),
                    environment: vec![text("B=2")],
                    ..Program::default()
                },
                Program { search: Some(text("/bin")), hosts: Some(text("a,b")), ..Program::default() },
            ],
        });
    }
}
