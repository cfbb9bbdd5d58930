//! Messages that are encrypted independently, because the network may lose, repeat or reorder them.
//!
//! | part of a message | bytes |
//! |---|---|
//! | front, in the clear | chosen by the caller |
//! | content, encrypted | |
//! | nonce | 12 |
//! | tag over the front and the content | 16 |
//!
//! The caller's nonce is a pseudo-random function of the whole message. Only equal messages have equal
//! nonces, and they are equal when they are sealed. So no counter is needed, even across a restart from a
//! checkpoint. With 2^32 messages under one key, two different ones share a nonce with probability 2^-33.
//! The layer above must recognise repeated messages.

use crate::keys::{Key, NONCE_BYTES, Root};
use crate::{Cover, Forged, TAG_BYTES};

/// Number of bytes that a sealed message has in addition to its front and content.
pub const MESSAGE_OVERHEAD: usize = NONCE_BYTES + TAG_BYTES;

/// Key that seals and opens messages.
#[derive(Debug)]
pub struct Messages(Key);

impl Messages {
    /// Derives the key that all holders of this root share.
    pub fn new(root: &Root) -> Messages {
        Messages(root.key(&[b"messages"]))
    }

    /// Encrypts `message[front..]` in place, and appends the nonce and the tag. For `nonce` see the module.
    pub fn seal(&self, nonce: &[u8; NONCE_BYTES], message: &mut Vec<u8>, front: usize) {
        let tag = self.0.seal_with(Cover::Encrypted, nonce, message, front);
        message.extend_from_slice(nonce);
        message.extend_from_slice(&tag);
    }

    /// Decrypts a message in place. Returns the front and the content.
    ///
    /// # Errors
    /// If no holder of this root has sealed the message.
    pub fn open<'a>(&self, message: &'a mut [u8], front: usize) -> Result<&'a [u8], Forged> {
        let content =
            message.len().checked_sub(MESSAGE_OVERHEAD).filter(|end| *end >= front).ok_or(Forged)?;
        let nonce = *message[content..].first_chunk().ok_or(Forged)?;
        // The tag moves to the place of the nonce, directly after the content.
        message.copy_within(content + NONCE_BYTES.., content);
        let sealed = &mut message[..content + TAG_BYTES];
        self.0.open_with(Cover::Encrypted, &nonce, sealed, front)?;
        Ok(&message[..content])
    }
}
