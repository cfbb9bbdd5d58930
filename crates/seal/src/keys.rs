//! Keys of connections: derived by HKDF-SHA256 from a secret, one for each connection, direction and
//! protection.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt as Extraction};

use crate::{Cover, Forged, Salt, TAG_BYTES};

/// Length of a nonce of AES-GCM in bytes.
pub(crate) const NONCE_BYTES: usize = 12;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// End of the connection that connects.
    Connecting = 1,
    /// End of the connection that accepts.
    Accepting = 2,
}

impl End {
    pub(crate) fn other(self) -> End {
        match self {
            End::Connecting => End::Accepting,
            End::Accepting => End::Connecting,
        }
    }
}

/// Salts that both ends have contributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salts {
    /// Salt of the end that connects.
    pub connecting: Salt,
    /// Salt of the end that accepts.
    pub accepting: Salt,
}

impl Salts {
    pub(crate) fn new(end: End, own: Salt, other: Salt) -> Salts {
        match end {
            End::Connecting => Salts { connecting: own, accepting: other },
            End::Accepting => Salts { connecting: other, accepting: own },
        }
    }
}

/// Key from which the keys of connections are derived. It is never printed.
#[derive(Clone)]
pub struct Root(Prk);

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Root")
    }
}

impl Root {
    /// Derives the root key for connections of one `purpose` between holders of `secret`.
    pub fn new(secret: &[u8], purpose: &str) -> Root {
        let extraction = format!("tutti seal 1 {purpose}");
        Root(Extraction::new(HKDF_SHA256, extraction.as_bytes()).extract(secret))
    }

    /// Derives the key for the context `info`. All its parts but the last have a fixed length.
    pub(crate) fn key(&self, info: &[&[u8]]) -> Key {
        let output = self.0.expand(info, &AES_256_GCM).expect("a key is shorter than HKDF's limit");
        Key(LessSafeKey::new(UnboundKey::from(output)))
    }

    /// Returns the keys of one connection for its end `end`. `context` is the data that both ends exchanged
    /// in the greeting. If it differs between them, neither can open records of the other.
    pub fn connection(&self, cover: Cover, end: End, salts: &Salts, context: &[u8]) -> StreamKeys {
        let info = [&b"connection"[..], &[cover as u8], &salts.connecting, &salts.accepting, context];
        let root = self.0.expand(&info, HKDF_SHA256).expect("a key is shorter than HKDF's limit");
        StreamKeys { root: Root(Prk::from(root)), cover, end }
    }
}

/// Keys of one connection. They change with each pair of [`Salts`].
#[derive(Clone, Debug)]
pub struct StreamKeys {
    root: Root,
    /// Protection of the records of the connection.
    pub cover: Cover,
    /// End of the connection that this process holds.
    pub end: End,
}

impl StreamKeys {
    /// Returns the key for data that `from` sends after a renewal with these salts; `None` before the first
    /// renewal.
    pub(crate) fn direction(&self, from: End, renewed: Option<&Salts>) -> Key {
        match renewed {
            None => self.root.key(&[b"direction", &[from as u8]]),
            Some(Salts { connecting, accepting }) => {
                self.root.key(&[b"renewed", &[from as u8], connecting, accepting])
            }
        }
    }
}

/// Key of one direction. The caller must never seal twice under one number.
#[derive(Clone)]
pub(crate) struct Key(LessSafeKey);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Returns the nonce of a numbered record.
fn counted(number: u64) -> [u8; NONCE_BYTES] {
    let mut bytes = [0; NONCE_BYTES];
    bytes[NONCE_BYTES - 8..].copy_from_slice(&number.to_be_bytes());
    bytes
}

impl Key {
    /// Seals `bytes[front..]` and leaves the front in the clear. Returns the tag over all bytes.
    pub(crate) fn seal(&self, cover: Cover, number: u64, bytes: &mut [u8], front: usize) -> [u8; TAG_BYTES] {
        self.seal_with(cover, &counted(number), bytes, front)
    }

    /// Seals as [`Key::seal`] does, under a given nonce, which must be unique for these bytes.
    pub(crate) fn seal_with(
        &self,
        cover: Cover,
        nonce: &[u8; NONCE_BYTES],
        bytes: &mut [u8],
        front: usize,
    ) -> [u8; TAG_BYTES] {
        let (clear, secret) = match cover {
            Cover::Authenticated => (&bytes[..], &mut [][..]),
            Cover::Encrypted => {
                let (clear, secret) = bytes.split_at_mut(front);
                (&*clear, secret)
            }
        };
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(clear), secret);
        let tag = tag.expect("a record is shorter than AES-GCM's limit");
        tag.as_ref().try_into().expect("a tag of AES-GCM has 16 bytes")
    }

    /// Opens `bytes`, which consist of a front, content and a tag. The content is decrypted in place.
    ///
    /// # Errors
    /// If the bytes were not sealed under this number.
    pub(crate) fn open(
        &self,
        cover: Cover,
        number: u64,
        bytes: &mut [u8],
        front: usize,
    ) -> Result<(), Forged> {
        self.open_with(cover, &counted(number), bytes, front)
    }

    /// Opens bytes that [`Key::seal_with`] has sealed under this nonce.
    pub(crate) fn open_with(
        &self,
        cover: Cover,
        nonce: &[u8; NONCE_BYTES],
        bytes: &mut [u8],
        front: usize,
    ) -> Result<(), Forged> {
        let tag = bytes.len().checked_sub(TAG_BYTES).filter(|tag| *tag >= front).ok_or(Forged)?;
        let clear = match cover {
            Cover::Authenticated => tag,
            Cover::Encrypted => front,
        };
        let (clear, secret) = bytes.split_at_mut(clear);
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0.open_in_place(nonce, Aad::from(&*clear), secret).map(|_| ()).map_err(|_| Forged)
    }
}
