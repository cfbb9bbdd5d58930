//! Connection to a PMI starter: a socket handed down (`PMI_FD`), or one to connect to (`PMI_PORT`).

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tutti_sys::this_process;

use super::mapping::{self, RankRun};
use super::protocol::{Answer, Identity, PmiRequest, Protocol};
use super::wire::Version;

/// Description of a PMI starter in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Address at which the starter listens.
    pub address: Address,
    /// Rank of this process in the job.
    pub rank: u32,
    /// Number of ranks of the job.
    pub size: u32,
    /// Name of the job, empty if the environment has none.
    pub job: String,
    /// Version to request first. Slurm announces version 2 by naming the job; Hydra ends the job if version
    /// 2 is requested.
    pub version: Version,
}

/// Way to reach the starter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An inherited descriptor.
    Descriptor(i32),
    /// TCP: `host:port`, and the number by which this process identifies itself.
    Port(String, String),
}

impl Environment {
    /// Reads the variables; `None` if there is no PMI starter.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Environment> {
        let number = |name| variable(name).and_then(|text| text.parse().ok());
        let address = match number("PMI_FD") {
            Some(descriptor) => Address::Descriptor(descriptor),
            None => {
                Address::Port(variable("PMI_PORT")?, variable("PMI_ID").or_else(|| variable("PMI_RANK"))?)
            }
        };
        let rank = u32::try_from(number("PMI_RANK").or_else(|| number("PMI_ID"))?).ok()?;
        let size = number("PMI_SIZE").and_then(|size| u32::try_from(size).ok()).unwrap_or(0);
        let named = variable("PMI_JOBID");
        let version = if named.is_some() { Version::Two } else { Version::One };
        let job = named.or_else(|| slurm_step(&variable)).unwrap_or_default();
        Some(Environment { address, rank, size, job, version })
    }

    /// Returns true if the descriptor is a connected socket. A variable alone may be left over from
    /// elsewhere.
    pub fn is_live(&self) -> bool {
        matches!(self.address, Address::Descriptor(number) if this_process::is_socket(number))
    }
}

/// Returns Slurm's name of the job step, from its own variables.
fn slurm_step(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    Some(format!("{}.{}", variable("SLURM_JOB_ID")?, variable("SLURM_STEP_ID")?))
}

/// A client of a PMI starter.
#[derive(Debug)]
pub struct Client {
    /// Stream over a descriptor of any family: it is only read and written.
    stream: UnixStream,
    protocol: Protocol,
    /// Rank and program of this process.
    pub identity: Identity,
}

impl Client {
    /// Connects and identifies this process. `limit` bounds the wait for each answer.
    ///
    /// # Errors
    /// Returns an error if no PMI starter answers.
    pub fn join(environment: &Environment, limit: Duration) -> io::Result<Client> {
        let stream = match &environment.address {
            Address::Descriptor(number) => UnixStream::from(this_process::adopt_descriptor(*number)?),
            Address::Port(address, _) => UnixStream::from(OwnedFd::from(TcpStream::connect(address)?)),
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(limit))?;
        let identity = Identity { rank: environment.rank, size: environment.size, program: 0 };
        let mut client = Client { stream, protocol: Protocol::default(), identity };
        if let Address::Port(_, id) = &environment.address {
            client.introduce(id)?;
        }
        match (client.greet(environment.version)?, environment.version) {
            (true, Version::Two) => client.present_2(environment)?,
            (true, Version::One) => client.present_1()?,
            (false, Version::Two) if client.greet(Version::One)? => client.present_1()?,
            (false, Version::One) if client.greet(Version::Two)? => client.present_2(environment)?,
            _ => return Err(invalid("it speaks neither version of PMI")),
        }
        if client.identity.rank >= client.identity.size {
            return Err(invalid("the rank is beyond the size of the job"));
        }
        Ok(client)
    }

    /// Returns the name of the job.
    pub fn job(&self) -> &str {
        self.protocol.job()
    }

    /// Returns the protocol version in use.
    pub fn version(&self) -> Version {
        self.protocol.version()
    }

    /// Returns the hosts of all ranks, as runs.
    ///
    /// # Errors
    /// Returns an error of the connection, or if the starter does not provide it.
    pub fn mapping(&mut self) -> io::Result<Vec<RankRun>> {
        const KEY: &str = "PMI_process_mapping";
        let text = self.value(PmiRequest::JobAttribute(KEY.into()))?;
        let runs = text.as_deref().and_then(|text| mapping::parse(text, self.identity.size));
        match runs {
            Some(runs) => Ok(runs),
            None if self.identity.size == 1 => Ok(vec![(0, 1)]),
            None => Err(invalid(&format!("it does not say where ranks run: {KEY} is {text:?}"))),
        }
    }

    /// Returns the size of the universe (attribute MPI_UNIVERSE_SIZE), if the starter provides it.
    ///
    /// # Errors
    /// Returns an error of the connection.
    pub fn universe(&mut self) -> io::Result<Option<u32>> {
        if self.version() == Version::One {
            return Ok(None);
        }
        let text = self.value(PmiRequest::JobAttribute("universeSize".into()))?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// Stores a value under a key. Values of version 1 must not contain blanks or line feeds.
    ///
    /// # Errors
    /// Returns an error of the connection.
    pub fn put(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.call(PmiRequest::Put(key.into(), value.into())).map(drop)
    }

    /// Returns a value that was stored before the last barrier.
    ///
    /// # Errors
    /// Returns an error of the connection.
    pub fn get(&mut self, key: &str) -> io::Result<Option<String>> {
        self.value(PmiRequest::Get(key.into()))
    }

    /// Waits for all ranks of the job.
    ///
    /// # Errors
    /// Returns an error of the connection, or TimedOut.
    pub fn barrier(&mut self) -> io::Result<()> {
        self.call(PmiRequest::Barrier).map(drop)
    }

    /// Leaves the job, as the last request.
    ///
    /// # Errors
    /// Returns an error of the connection.
    pub fn finalize(&mut self) -> io::Result<()> {
        self.call(PmiRequest::Finalize).map(drop)
    }

    /// Makes the starter end the job.
    pub fn abort(&mut self, code: i32, why: &str) {
        // If the starter is gone, it has ended this process already.
        let _ = self.stream.write_all(&self.protocol.abort(code, why));
    }

    /// Returns a second descriptor of the connection, and the message that ends the job when sent over it.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn last_words(&self) -> io::Result<(OwnedFd, Vec<u8>)> {
        Ok((self.stream.try_clone()?.into(), self.protocol.abort(1, "a process ended before MPI_Finalize")))
    }

    /// Requests a version; returns true if the starter supports it.
    fn greet(&mut self, version: Version) -> io::Result<bool> {
        Ok(self.call(PmiRequest::Greet(version))? != Answer::OtherVersion)
    }

    /// Identifies this process in version 2, and takes the identity that the starter answers.
    fn present_2(&mut self, environment: &Environment) -> io::Result<()> {
        let join = PmiRequest::Join { job: environment.job.clone(), rank: self.identity.rank };
        if let Answer::Identity(identity) = self.call(join)? {
            self.identity = identity;
        }
        Ok(())
    }

    /// Requests the job's name and the program's number, in version 1.
    fn present_1(&mut self) -> io::Result<()> {
        let name = self.value(PmiRequest::Name)?;
        if name.is_none_or(|name| name.is_empty()) {
            return Err(invalid("it does not name the job"));
        }
        let program = self.value(PmiRequest::Program)?;
        self.identity.program = program.and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(())
    }

    /// Identifies this process over TCP by a number. The starter answers with rank and size in lines of
    /// text.
    fn introduce(&mut self, id: &str) -> io::Result<()> {
        /// Number of lines in the answer.
        const ANSWERS: usize = 4;
        self.stream.write_all(format!("cmd=initack pmiid={id}\n").as_bytes())?;
        let mut set = HashMap::new();
        for _ in 0..ANSWERS {
            let line = self.line()?;
            for (key, value) in line.split(' ').filter_map(|word| word.split_once('=')) {
                set.insert(key.to_string(), value.to_string());
            }
        }
        let number = |key| set.get(key).and_then(|text: &String| text.parse().ok());
        self.identity.size = number("size").unwrap_or(self.identity.size);
        self.identity.rank = number("rank").unwrap_or(self.identity.rank);
        Ok(())
    }

    /// Reads a line of text, without the line feed.
    fn line(&mut self) -> io::Result<String> {
        /// Maximum length of a line, in bytes.
        const LINE_BYTES: usize = 1024;
        let mut line = Vec::new();
        let mut byte = [0];
        // Byte by byte: the bytes after the line belong to the protocol.
        while line.len() < LINE_BYTES {
            self.stream.read_exact(&mut byte)?;
            match byte[0] {
                b'\n' => return String::from_utf8(line).map_err(|_| invalid("its greeting is no text")),
                byte => line.push(byte),
            }
        }
        Err(invalid("its greeting does not end"))
    }

    /// Sends a request and returns the value in the answer, if there is one.
    fn value(&mut self, request: PmiRequest) -> io::Result<Option<String>> {
        match self.call(request)? {
            Answer::Value(value) => Ok(value),
            _ => Ok(None),
        }
    }

    /// Sends a request and waits for its answer.
    fn call(&mut self, request: PmiRequest) -> io::Result<Answer> {
        let bytes = self.protocol.ask(request).map_err(|error| invalid(&error.to_string()))?;
        self.stream.write_all(&bytes)?;
        let mut arrived = [0; 4096];
        loop {
            let count = match self.stream.read(&mut arrived) {
                Ok(0) => return Err(invalid("the starter has closed the connection")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the starter does not answer"));
                }
                Err(error) => return Err(error),
            };
            let answer = self.protocol.receive(&arrived[..count]);
            if let Some(answer) = answer.map_err(|error| invalid(&error.to_string()))? {
                return Ok(answer);
            }
        }
    }
}

/// Makes an error for data that violates the protocol.
fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
