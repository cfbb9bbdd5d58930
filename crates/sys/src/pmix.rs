//! A client of PMIx (Process Management Interface for Exascale, standard version 4), which Slurm, PRRTE and
//! Open MPI's launcher support. It offers the rank, the placement, a store of keys and values, a barrier,
//! and abort.
//!
//! Results are typed: [`Value`], [`Failure`]. A process may become a client once ([`Client::join`]).
//! Callbacks run in the library's own thread.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::sync::mpsc;
use std::time::Duration;

mod library;

use library::{
    KEY_BYTES, NAMESPACE_BYTES, NOT_FOUND, OPERATION_SUCCEEDED, PmixLibrary, RANK_WILDCARD, RawBytes,
    RawData, RawInfo, RawProcess, RawValue, SUCCESS, data_type,
};

/// Set of processes that may read a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// Processes on this host.
    Local = 1,
    /// Processes on other hosts.
    Remote = 2,
    /// All processes of the job.
    Global = 3,
}

/// Subject of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Process of this job.
    Rank(u32),
    /// The job as a whole.
    Job,
}

/// Value in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Number of any type that is not negative.
    Number(u64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Value of another type, given by its number.
    Other(u16),
}

/// Failed call of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Name of the function.
    pub call: &'static str,
    /// Status that the function returned.
    pub status: i32,
    /// Meaning of the status, as text.
    pub text: String,
}

impl Failure {
    /// Returns true if there is no value under the key.
    pub fn is_not_found(&self) -> bool {
        self.status == NOT_FOUND
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.call, self.text, self.status)
    }
}

impl std::error::Error for Failure {}

type Result<T> = std::result::Result<T, Failure>;
type OnValue = Box<dyn FnOnce(Result<Value>) + Send>;
type OnFence = Box<dyn FnOnce(Result<()>) + Send>;

/// Client of the PMIx server of this process.
pub struct Client {
    library: &'static PmixLibrary,
    myself: RawProcess,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({:?}, rank {})", self.namespace(), self.rank())
    }
}

impl Client {
    /// Connects to the server given by the environment. `path` is the library's file; if empty, it is
    /// searched.
    ///
    /// # Errors
    /// If there is no library, or no server.
    pub fn join(path: &str) -> Result<Client> {
        let library = PmixLibrary::open(path).map_err(|error| Failure {
            call: "dlopen",
            status: 0,
            text: format!("no library of PMIx (libpmix.so.2, package libpmix2): {error}"),
        })?;
        let library: &'static PmixLibrary = Box::leak(Box::new(library));
        let mut myself = RawProcess { namespace: [0; NAMESPACE_BYTES], rank: 0 };
        // SAFETY: myself is writable; no infos are passed.
        let status = unsafe { (library.init)(&mut myself, std::ptr::null(), 0) };
        check(library, "PMIx_Init", status)?;
        Ok(Client { library, myself })
    }

    /// Returns the name of the job, unique among those of this starter and host.
    pub fn namespace(&self) -> String {
        text_of(&self.myself.namespace)
    }

    /// Returns the rank of this process in the job.
    pub fn rank(&self) -> u32 {
        self.myself.rank
    }

    /// Returns a value that is known locally: data of the server from the start, and those received since.
    /// No other process is asked.
    ///
    /// # Errors
    /// [`Failure::is_not_found`] if the server has not provided the value.
    pub fn get(&self, subject: Subject, key: &CStr) -> Result<Value> {
        let directive = info(c"pmix.optional", data_type::BOOL, RawData { flag: true });
        let process = self.process(subject);
        let mut value: *mut RawValue = std::ptr::null_mut();
        // SAFETY: all structures live through the call, which waits.
        let status = unsafe { (self.library.get)(&process, key.as_ptr(), &directive, 1, &mut value) };
        check(self.library, "PMIx_Get", status)?;
        // SAFETY: a value that the library has allocated for us.
        Ok(unsafe { take_value(value) })
    }

    /// Requests the value that rank `rank` has stored or will store under `key`. `done` receives it in the
    /// library's thread.
    ///
    /// # Errors
    /// If the request fails at once; `done` is then not called.
    pub fn get_later(&self, rank: u32, key: &CStr, done: OnValue) -> Result<()> {
        let process = self.process(Subject::Rank(rank));
        let request = Box::into_raw(Box::new(Request { library: self.library, done })).cast::<c_void>();
        // SAFETY: the library copies process and key; the request lives until the callback, which is called once.
        let status = unsafe {
            (self.library.get_later)(&process, key.as_ptr(), std::ptr::null(), 0, value_arrived, request)
        };
        if status != SUCCESS {
            // SAFETY: with another status the callback is not called, so the request is ours again.
            drop(unsafe { Box::from_raw(request.cast::<Request<OnValue>>()) });
        }
        check(self.library, "PMIx_Get_nb", status)
    }

    /// Requests a value as [`Client::get_later`] does, and waits for it up to `limit`.
    ///
    /// # Errors
    /// The library's error; status 0 when the time is over.
    pub fn get_waiting(&self, rank: u32, key: &CStr, limit: Duration) -> Result<Value> {
        let (sender, receiver) = mpsc::channel();
        // The receiver may have given up; then the result is discarded.
        self.get_later(rank, key, Box::new(move |value| drop(sender.send(value))))?;
        receiver.recv_timeout(limit).map_err(|_| late("PMIx_Get_nb", limit))?
    }

    /// Stores bytes under a key. Others see them after [`Client::commit`].
    ///
    /// # Errors
    /// Errors of the library.
    pub fn put(&self, scope: Scope, key: &CStr, bytes: &[u8]) -> Result<()> {
        let data = RawData { bytes: RawBytes { bytes: bytes.as_ptr().cast_mut().cast(), size: bytes.len() } };
        let value = RawValue { data_type: data_type::BYTE_OBJECT, data };
        // SAFETY: the library copies key and value, and does not write the bytes.
        check(self.library, "PMIx_Put", unsafe { (self.library.put)(scope as u8, key.as_ptr(), &value) })
    }

    /// Sends the stored values to the server.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn commit(&self) -> Result<()> {
        // SAFETY: no arguments.
        check(self.library, "PMIx_Commit", unsafe { (self.library.commit)() })
    }

    /// Enters a barrier of the whole job. `done` is called in the library's thread when all processes have
    /// entered.
    ///
    /// # Errors
    /// If the barrier fails at once; `done` is then not called.
    pub fn fence_later(&self, done: OnFence) -> Result<()> {
        let request = Box::into_raw(Box::new(Request { library: self.library, done })).cast::<c_void>();
        // SAFETY: no processes and infos are passed; the request lives until the callback, which is called once.
        let status = unsafe {
            (self.library.fence_later)(std::ptr::null(), 0, std::ptr::null(), 0, fence_done, request)
        };
        if status != SUCCESS {
            // SAFETY: with another status the callback is not called, so the request is ours again.
            let request = unsafe { Box::from_raw(request.cast::<Request<OnFence>>()) };
            if status == OPERATION_SUCCEEDED {
                (request.done)(Ok(()));
                return Ok(());
            }
        }
        check(self.library, "PMIx_Fence_nb", status)
    }

    /// Waits in a barrier for all processes of the job.
    ///
    /// # Errors
    /// The library's error, for example that a process has died.
    pub fn fence(&self) -> Result<()> {
        let (sender, receiver) = mpsc::channel();
        self.fence_later(Box::new(move |result| drop(sender.send(result))))?;
        // The library calls back once, whatever happens, unless its thread has ended.
        receiver.recv().unwrap_or_else(|_| Err(late("PMIx_Fence_nb", Duration::ZERO)))
    }

    /// Returns the names of the job's hosts.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn hosts(&self) -> Result<Vec<String>> {
        let mut list: *mut c_char = std::ptr::null_mut();
        // SAFETY: the namespace is terminated; list is writable.
        let status = unsafe { (self.library.resolve_nodes)(self.myself.namespace.as_ptr(), &mut list) };
        check(self.library, "PMIx_Resolve_nodes", status)?;
        if list.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: a terminated string that the library has allocated for us, freed here once.
        let text = unsafe {
            let text = CStr::from_ptr(list).to_string_lossy().into_owned();
            libc::free(list.cast());
            text
        };
        Ok(text.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect())
    }

    /// Returns the job's ranks on a host that [`Client::hosts`] lists.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn ranks_on(&self, host: &str) -> Result<Vec<u32>> {
        let name = CString::new(host).expect("a name out of a C string");
        let (mut processes, mut count): (*mut RawProcess, usize) = (std::ptr::null_mut(), 0);
        // SAFETY: the strings are terminated, the results writable.
        let status = unsafe {
            let namespace = self.myself.namespace.as_ptr();
            (self.library.resolve_peers)(name.as_ptr(), namespace, &mut processes, &mut count)
        };
        check(self.library, "PMIx_Resolve_peers", status)?;
        if processes.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: an array of that length that the library has allocated for us, freed here once.
        let ranks = unsafe {
            let ranks =
                std::slice::from_raw_parts(processes, count).iter().map(|process| process.rank).collect();
            libc::free(processes.cast());
            ranks
        };
        Ok(ranks)
    }

    /// Asks the starter to end the whole job with this status. Returns when the request has been delivered.
    pub fn abort(&self, status: i32, message: &str) {
        let message = CString::new(message.replace('\0', " ")).expect("zeros were replaced");
        // SAFETY: the message is terminated; no processes means all.
        unsafe { (self.library.abort)(status, message.as_ptr(), std::ptr::null(), 0) };
    }

    /// Leaves the job: the server no longer treats the end of this process as a failure.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn finalize(&self) -> Result<()> {
        // SAFETY: no infos are passed.
        check(self.library, "PMIx_Finalize", unsafe { (self.library.finalize)(std::ptr::null(), 0) })
    }

    fn process(&self, subject: Subject) -> RawProcess {
        let rank = match subject {
            Subject::Rank(rank) => rank,
            Subject::Job => RANK_WILDCARD,
        };
        RawProcess { rank, ..self.myself }
    }
}

/// State that a callback needs.
struct Request<F> {
    library: &'static PmixLibrary,
    done: F,
}

/// # Safety
/// The library calls it once, with what was passed to it and a value that stays its own.
unsafe extern "C" fn value_arrived(status: c_int, value: *mut RawValue, request: *mut c_void) {
    // SAFETY: made by get_later for this call alone.
    let request = unsafe { Box::from_raw(request.cast::<Request<OnValue>>()) };
    // SAFETY: the value, if there is one, is valid during the call.
    let value =
        check(request.library, "PMIx_Get_nb", status).map(|()| unsafe { value.as_ref().map(read_value) });
    (request.done)(value.map(|value| value.unwrap_or(Value::Other(0))));
}

/// # Safety
/// The library calls it once, with what was passed to it.
unsafe extern "C" fn fence_done(status: c_int, request: *mut c_void) {
    // SAFETY: made by fence_later for this call alone.
    let request = unsafe { Box::from_raw(request.cast::<Request<OnFence>>()) };
    (request.done)(check(request.library, "PMIx_Fence_nb", status));
}

/// # Safety
/// The value is null or allocated by the library for us; it is freed here.
unsafe fn take_value(value: *mut RawValue) -> Value {
    // SAFETY: by the caller.
    let Some(raw) = (unsafe { value.as_ref() }) else { return Value::Other(0) };
    let read = read_value(raw);
    // SAFETY: the target of the value is freed with it. Other types than these are leaked; no caller
    // requests them.
    unsafe {
        match raw.data_type {
            data_type::STRING => libc::free(raw.data.string.cast()),
            data_type::BYTE_OBJECT => libc::free(raw.data.bytes.bytes.cast()),
            _ => {}
        }
        libc::free(value.cast());
    }
    read
}

fn read_value(raw: &RawValue) -> Value {
    // SAFETY: the type tells which member of the union is set; strings are terminated, byte objects have
    // their stated length.
    unsafe {
        match raw.data_type {
            data_type::BOOL => Value::Number(u64::from(raw.data.longest[0] as u8 != 0)),
            data_type::UINT16 => Value::Number(raw.data.uint16.into()),
            data_type::UINT | data_type::UINT32 | data_type::PROC_RANK => {
                Value::Number(raw.data.uint32.into())
            }
            data_type::SIZE | data_type::UINT64 => Value::Number(raw.data.uint64),
            data_type::INT | data_type::INT32 => {
                u64::try_from(raw.data.int32).map_or(Value::Other(raw.data_type), Value::Number)
            }
            data_type::STRING if !raw.data.string.is_null() => {
                Value::Text(CStr::from_ptr(raw.data.string).to_string_lossy().into_owned())
            }
            data_type::BYTE_OBJECT if !raw.data.bytes.bytes.is_null() => {
                let RawBytes { bytes, size } = raw.data.bytes;
                Value::Bytes(std::slice::from_raw_parts(bytes.cast::<u8>(), size).to_vec())
            }
            other => Value::Other(other),
        }
    }
}

fn info(key: &CStr, data_type: u16, data: RawData) -> RawInfo {
    let mut name = [0 as c_char; KEY_BYTES];
    for (to, from) in name.iter_mut().zip(key.to_bytes()) {
        *to = *from as libc::c_char;
    }
    RawInfo { key: name, flags: 0, value: RawValue { data_type, data } }
}

fn text_of(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().take_while(|byte| **byte != 0).map(|&byte| byte as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn check(library: &PmixLibrary, call: &'static str, status: c_int) -> Result<()> {
    if status == SUCCESS {
        return Ok(());
    }
    // SAFETY: a function without preconditions, whose strings are never freed.
    let text = unsafe {
        let text = (library.error_string)(status);
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    };
    Err(Failure { call, status, text })
}

fn late(call: &'static str, limit: Duration) -> Failure {
    Failure { call, status: SUCCESS, text: format!("no answer within {} s", limit.as_secs()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_by_their_type() {
        let check = |data_type, data, expected: Value| {
            assert_eq!(read_value(&RawValue { data_type, data }), expected);
        };
        let bytes = b"abc\0";
        let object = RawBytes { bytes: bytes.as_ptr().cast_mut().cast(), size: 3 };
        check(data_type::BYTE_OBJECT, RawData { bytes: object }, Value::Bytes(b"abc".to_vec()));
        check(data_type::STRING, RawData { string: object.bytes }, Value::Text("abc".into()));
        check(data_type::STRING, RawData { string: std::ptr::null_mut() }, Value::Other(3));
        check(data_type::UINT16, RawData { longest: [0x1_0002, 0, 0] }, Value::Number(2));
        check(data_type::UINT32, RawData { longest: [0x1_0000_0002, 0, 0] }, Value::Number(2));
        check(data_type::INT, RawData { int32: 7 }, Value::Number(7));
        check(data_type::INT, RawData { int32: -7 }, Value::Other(6));
        check(data_type::BOOL, RawData { longest: [u64::MAX << 8, 0, 0] }, Value::Number(0));
        check(39, RawData { longest: [0; 3] }, Value::Other(39));
    }

    #[test]
    fn an_info_has_its_key_terminated() {
        let made = info(c"pmix.optional", data_type::BOOL, RawData { flag: true });
        assert_eq!((text_of(&made.key), made.flags), ("pmix.optional".into(), 0));
    }
}
