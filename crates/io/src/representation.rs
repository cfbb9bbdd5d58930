//! Data representations of files (MPI-5 section 14.5).
//!
//! "native" and "internal" have the same bytes as memory. "external32" is big-endian, with lengths that the
//! standard fixes. Programs register further representations: two functions that convert, and one that
//! returns the length of each basic type in the file.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::Datatype;

use crate::memory::Items;

/// Longest name of a representation, with its zero byte (MPI_MAX_DATAREP_STRING).
const MOST_NAME_BYTES: usize = 128;

/// A representation of data.
#[derive(Clone, Debug)]
pub enum Representation {
    /// The bytes of memory, without conversion.
    Native,
    /// A format that all Tutti programs read: the bytes of memory.
    Internal,
    /// The portable format of the standard.
    External32,
    /// A representation that the program has registered.
    User(Arc<UserRepresentation>),
}

/// Converts items in the user's memory to or from bytes as they are in the file.
pub type Convert = Box<dyn Fn(&Items, &mut [u8]) -> Result<()> + Send + Sync>;
/// Bytes of a basic type in the file.
pub type FileExtent = Box<dyn Fn(&Datatype) -> Result<i64> + Send + Sync>;

/// Representation that a program has registered (MPI_Register_datarep).
pub struct UserRepresentation {
    /// Name under which the program registered the representation.
    pub name: Vec<u8>,
    /// Conversion after a read; `None` if reads need none.
    pub read: Option<Convert>,
    /// Conversion before a write; `None` if writes need none.
    pub write: Option<Convert>,
    /// Length of each basic type in the file.
    pub extent: FileExtent,
}

impl fmt::Debug for UserRepresentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserRepresentation({:?})", String::from_utf8_lossy(&self.name))
    }
}

static REGISTERED: Mutex<Vec<Arc<UserRepresentation>>> = Mutex::new(Vec::new());

/// Registers a representation until the process ends (MPI_Register_datarep).
///
/// # Errors
/// Fails with `Arg` for a name that is empty or too long, `DupDatarep` for one that is known.
pub fn register(representation: UserRepresentation) -> Result<()> {
    let name = &representation.name;
    if name.is_empty() || name.len() >= MOST_NAME_BYTES {
        let why =
            format!("argument datarep has {} bytes; a name has 1 to {}", name.len(), MOST_NAME_BYTES - 1);
        return Err(Error::new(ErrorClass::Arg, why));
    }
    if Representation::named(name).is_ok() {
        let why = format!("argument datarep: {:?} is defined already", String::from_utf8_lossy(name));
        return Err(Error::new(ErrorClass::DupDatarep, why));
    }
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(representation));
    Ok(())
}

impl Representation {
    /// Returns the representation with this name.
    ///
    /// # Errors
    /// Fails with `UnsupportedDatarep` for an unknown name.
    pub fn named(name: &[u8]) -> Result<Representation> {
        match name {
            b"native" => return Ok(Representation::Native),
            b"internal" => return Ok(Representation::Internal),
            b"external32" => return Ok(Representation::External32),
            _ => {}
        }
        let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        let found = registered.iter().find(|one| one.name == name).map(Arc::clone);
        found.map(Representation::User).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let why = format!(
                "argument datarep is {name:?}; it must be native, internal, external32 or one that was registered"
            );
            Error::new(ErrorClass::UnsupportedDatarep, why)
        })
    }

    /// Returns the name of the representation.
    pub fn name(&self) -> &[u8] {
        match self {
            Representation::Native => b"native",
            Representation::Internal => b"internal",
            Representation::External32 => b"external32",
            Representation::User(user) => &user.name,
        }
    }

    /// Returns true if accesses in this direction need no conversion.
    pub fn is_plain(&self, write: bool) -> bool {
        match self {
            Representation::Native | Representation::Internal => true,
            Representation::External32 => false,
            Representation::User(user) => if write { &user.write } else { &user.read }.is_none(),
        }
    }

    /// Returns true if the representation calls functions of the program.
    pub fn calls_user(&self) -> bool {
        matches!(self, Representation::User(_))
    }

    /// Returns the layout of a datatype in the file.
    ///
    /// # Errors
    /// Fails with the error that the program's function for lengths returns.
    pub fn layout(&self, datatype: &Datatype) -> Result<Datatype> {
        match self {
            Representation::Native | Representation::Internal => Ok(datatype.clone()),
            Representation::External32 => datatype.represented(&mut |leaf| leaf.pack_external_size(1)),
            Representation::User(user) => datatype.represented(&mut |leaf| (user.extent)(leaf)),
        }
    }

    /// Bytes that items have in the file.
    ///
    /// # Errors
    /// Fails like [`Representation::layout`]; `Count` for too many.
    pub fn file_bytes(&self, datatype: &Datatype, count: u64) -> Result<u64> {
        let bytes = match self {
            Representation::Native | Representation::Internal => datatype.size(),
            _ => self.layout(datatype)?.size(),
        };
        let all = (bytes as u64).checked_mul(count).filter(|all| *all <= i64::MAX as u64);
        all.ok_or_else(|| {
            Error::new(ErrorClass::Count, format!("{count} items of {bytes} bytes are too many"))
        })
    }

    /// Items of memory as they are in the file.
    ///
    /// # Errors
    /// Fails with `Conversion`, or with the error of the program's function.
    pub fn encode(&self, items: &Items) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.file_bytes(items.datatype(), items.count())? as usize];
        match self {
            Representation::User(user) => {
                let convert =
                    user.write.as_ref().expect("a representation without a function needs no conversion");
                convert(items, &mut bytes)?;
            }
            _ => items.to_external(&mut bytes)?,
        }
        Ok(bytes)
    }

    /// Fills items of memory from data of the file, as many as `bytes` contains. Returns the number of their
    /// bytes in memory.
    ///
    /// # Errors
    /// Fails like [`Representation::encode`].
    pub fn decode(&self, items: &Items, bytes: &mut [u8]) -> Result<u64> {
        let each = self.file_bytes(items.datatype(), 1)?.max(1);
        let whole = items.first(bytes.len() as u64 / each);
        let used = (whole.count() * each) as usize;
        match self {
            Representation::User(user) => {
                let convert =
                    user.read.as_ref().expect("a representation without a function needs no conversion");
                convert(&whole, &mut bytes[..used])?;
            }
            _ => whole.from_external(&bytes[..used])?,
        }
        Ok(whole.datatype().packed_bytes(whole.count()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &[u8], expected: std::result::Result<(), ErrorClass>) {
        let user = UserRepresentation {
            name: name.to_vec(),
            read: None,
            write: None,
            extent: Box::new(|datatype| Ok(datatype.size())),
        };
        assert_eq!(register(user).map_err(|error| error.class), expected);
    }

    #[test]
    fn names_are_taken_once() {
        check(b"external32", Err(ErrorClass::DupDatarep));
        check(b"", Err(ErrorClass::Arg));
        check(&[b'x'; 128], Err(ErrorClass::Arg));
        check(b"mine", Ok(()));
        check(b"mine", Err(ErrorClass::DupDatarep));
        assert!(Representation::named(b"mine").unwrap().is_plain(true));
        assert!(Representation::named(b"theirs").is_err());
    }

    #[test]
    fn lengths_in_the_file() {
        let long = Datatype::predefined(0x20b).unwrap();
        let bytes = |representation: Representation| representation.file_bytes(long, 3).unwrap();
        assert_eq!(bytes(Representation::Native), 24);
        assert_eq!(bytes(Representation::External32), 3 * long.pack_external_size(1).unwrap() as u64);
    }
}
