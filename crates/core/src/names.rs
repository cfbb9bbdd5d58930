//! Names that users give to communicators, datatypes and windows (MPI-5 section 7.8).

/// Maximum length of a name in bytes: `MPI_MAX_OBJECT_NAME` minus the terminator.
pub const MAX_NAME_BYTES: usize = 127;

/// Name of an object: at most [`MAX_NAME_BYTES`] bytes, none of them zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectName(Vec<u8>);

impl ObjectName {
    /// Empty name, of an object without a name.
    pub const EMPTY: ObjectName = ObjectName(Vec::new());

    /// Returns a name up to its first zero byte. A longer one is truncated, as the standard requires.
    pub fn new(name: &[u8]) -> ObjectName {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        ObjectName(name[..end.min(MAX_NAME_BYTES)].to_vec())
    }

    /// Returns the bytes without terminator.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &[u8], expected: &[u8]) {
        assert_eq!(ObjectName::new(name).as_bytes(), expected);
    }

    #[test]
    fn names_are_cut() {
        check(b"", b"");
        check(b"world", b"world");
        check(b"wor\0ld", b"wor");
        check(&[b'x'; 200], &[b'x'; 127]);
    }
}
