//! Keys: derived by HKDF-SHA256 from a secret, one for each connection, direction and cover.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt as Extraction};

use crate::{Cover, Forged, Salt, TAG_BYTES};

/// Bytes of a nonce of AES-GCM.
pub(crate) const NONCE_BYTES: usize = 12;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that connects.
    Connecting = 1,
    /// The end that accepts.
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

/// Salts of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salts {
    /// Salt of the end that connects.
    pub connecting: Salt,
    /// Salt of the end that accepts.
    pub accepting: Salt,
}

impl Salts {
    pub(crate) fn of(end: End, own: Salt, other: Salt) -> Salts {
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
    /// The root of the connections of one `purpose` among those that know `secret`.
    pub fn new(secret: &[u8], purpose: &str) -> Root {
        let extraction = format!("tutti seal 1 {purpose}");
        Root(Extraction::new(HKDF_SHA256, extraction.as_bytes()).extract(secret))
    }

    /// Derives the key for what `info` describes. All its parts but the last have a fixed length.
    pub(crate) fn key(&self, info: &[&[u8]]) -> Key {
        let output = self.0.expand(info, &AES_256_GCM).expect("a key is shorter than HKDF's limit");
        Key(LessSafeKey::new(UnboundKey::from(output)))
    }

    /// Returns the keys of one connection for its end `end`. `context` is what both ends said in the
    /// greeting. If it differs between them, nothing that one seals is opened by the other.
    pub fn connection(&self, cover: Cover, end: End, salts: &Salts, context: &[u8]) -> StreamKeys {
        let info = [&b"connection"[..], &[cover as u8], &salts.connecting, &salts.accepting, context];
        let root = self.0.expand(&info, HKDF_SHA256).expect("a key is shorter than HKDF's limit");
        StreamKeys { root: Root(Prk::from(root)), cover, end }
    }
}

/// Keys of one connection. Each [`Salts`] gives others.
#[derive(Clone, Debug)]
pub struct StreamKeys {
    root: Root,
    /// Protection of the records.
    pub cover: Cover,
    /// End at which this process is.
    pub end: End,
}

impl StreamKeys {
    /// The key of what `from` sends after a renewal with these salts; `None`: before the first.
    pub(crate) fn direction(&self, from: End, renewed: Option<&Salts>) -> Key {
        match renewed {
            None => self.root.key(&[b"direction", &[from as u8]]),
            Some(Salts { connecting, accepting }) => {
                self.root.key(&[b"renewed", &[from as u8], connecting, accepting])
            }
        }
    }
}

/// Key of one direction. The caller never seals twice under one number.
#[derive(Clone)]
pub(crate) struct Key(LessSafeKey);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// The nonce of a numbered record.
fn counted(number: u64) -> [u8; NONCE_BYTES] {
    let mut bytes = [0; NONCE_BYTES];
    bytes[NONCE_BYTES - 8..].copy_from_slice(&number.to_be_bytes());
    bytes
}

impl Key {
    /// Seals `bytes[front..]` with the front in the clear; returns the tag over all.
    pub(crate) fn seal(&self, cover: Cover, number: u64, bytes: &mut [u8], front: usize) -> [u8; TAG_BYTES] {
        self.seal_with(cover, &counted(number), bytes, front)
    }

    /// Seals as [`Key::seal`] does, under a nonce that no other bytes are sealed under.
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

    /// Opens `bytes`: a front, content, a tag. The content is in its place then.
    ///
    /// # Errors
    /// If they are not what was sealed under this number.
    pub(crate) fn open(
        &self,
        cover: Cover,
        number: u64,
        bytes: &mut [u8],
        front: usize,
    ) -> Result<(), Forged> {
        self.open_with(cover, &counted(number), bytes, front)
    }

    /// Opens as [`Key::open`] does, what [`Key::seal_with`] has sealed.
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
