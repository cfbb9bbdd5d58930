//! Greeting: both ends prove that they know the key of the mount, without sending it. Each sends a tag
//! (SipHash-2-4 with 128 bits) of all data exchanged; the tags of the two directions differ. Later messages
//! are sealed with keys that are derived from the same data ([`Greeting::keys`]).

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use tutti_base::{Error, ErrorClass, Result};
use tutti_seal::{Cover, Root, SALT_BYTES, Salt, Salts, StreamKeys};

use super::wire::Token;

/// Secret key of a mount.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(Token);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// End of a connection that gives a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server's end of a connection.
    Server = 1,
    /// The client's end of a connection.
    Client = 2,
}

impl Key {
    /// Returns a new random key.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn random() -> Result<Key> {
        token().map(Key)
    }

    /// Derives the key of a job's servers from its secret.
    pub fn of_secret(secret: &[u8; 32]) -> Key {
        let (first, second) = secret.split_at(16);
        let mut hasher = SipHasher24::new_with_key(first.try_into().expect("half of 32 bytes"));
        hasher.write(b"tutti io-servers of a job");
        hasher.write(second);
        Key(hasher.finish128().as_bytes())
    }

    /// Parses 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Key> {
        (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| u128::from_str_radix(text, 16).ok().map(|number| Key(number.to_be_bytes())))?
    }

    /// Returns the key as hexadecimal digits.
    pub fn text(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Data that both ends have exchanged in a greeting.
#[derive(Clone, Copy, Debug)]
pub struct Greeting<'a> {
    /// Random number of the client.
    pub client: Token,
    /// Random number of the server.
    pub server: Token,
    /// Number of the weakest protection that the client accepts.
    pub asked: u8,
    /// Number of the protection of all later messages.
    pub cover: u8,
    /// Name of the socket at which the server lends files. It is part of the proof, so that an intermediary
    /// cannot replace it.
    pub local: &'a [u8],
}

impl Greeting<'_> {
    /// Returns the proof of one end.
    pub fn proof(&self, key: &Key, end: End) -> Token {
        let mut hasher = SipHasher24::new_with_key(&key.0);
        hasher.write(b"tutti io-server 3");
        hasher.write(&[end as u8, self.asked, self.cover]);
        hasher.write(&self.client);
        hasher.write(&self.server);
        hasher.write(self.local);
        hasher.finish128().as_bytes()
    }

    /// Returns true if `proof` is that of `end`. The time does not depend on the position of a difference.
    pub fn verifies(&self, key: &Key, end: End, proof: &Token) -> bool {
        let expected = self.proof(key, end);
        expected.iter().zip(proof).fold(0, |all, (one, other)| all | (one ^ other)) == 0
    }

    /// Returns the keys for all later messages, at one end; `None` if they are not sealed.
    pub fn keys(&self, key: &Key, end: End) -> Option<StreamKeys> {
        let salt = |token: &Token| {
            let mut salt: Salt = [0; SALT_BYTES];
            salt[..token.len()].copy_from_slice(token);
            salt
        };
        let salts = Salts { connecting: salt(&self.client), accepting: salt(&self.server) };
        let end = match end {
            End::Client => tutti_seal::End::Connecting,
            End::Server => tutti_seal::End::Accepting,
        };
        let cover = Cover::from_number(self.cover)?;
        Some(Root::new(&key.0, "io-servers").connection(cover, end, &salts, self.local))
    }
}

/// Returns the number of a protection on the wire; 0 for none.
pub fn number(cover: Option<Cover>) -> u8 {
    cover.map_or(0, |cover| cover as u8)
}

/// Returns a random number that cannot be guessed.
///
/// # Errors
/// Errors of the system.
pub fn token() -> Result<Token> {
    let half = || {
        let drawn = tutti_sys::process::random();
        drawn.map_err(|error| Error::new(ErrorClass::Other, format!("no random number: {error}")))
    };
    Ok((u128::from(half()?) << 64 | u128::from(half()?)).to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_end_one_key_and_all_that_was_said() {
        let key = Key::parse("000102030405060708090a0b0c0d0e0f").unwrap();
        let said = Greeting { client: [1; 16], server: [2; 16], asked: 0, cover: 2, local: b"here" };
        let proof = said.proof(&key, End::Server);
        let check = |key: &Key, end, said: Greeting<'_>, expected| {
            assert_eq!(said.verifies(key, end, &proof), expected, "{said:?}");
        };
        check(&key, End::Server, said, true);
        check(&key, End::Client, said, false);
        check(&key, End::Server, Greeting { local: b"there", ..said }, false);
        check(&key, End::Server, Greeting { client: [3; 16], ..said }, false);
        check(&key, End::Server, Greeting { server: [3; 16], ..said }, false);
        check(&key, End::Server, Greeting { asked: 1, ..said }, false);
        check(&key, End::Server, Greeting { cover: 0, ..said }, false);
        check(&Key::random().unwrap(), End::Server, said, false);
    }

    #[test]
    fn keys_are_text() {
        let key = Key::random().unwrap();
        assert_eq!(Key::parse(&key.text()), Some(key));
        assert_eq!(Key::parse("12"), None);
        assert_eq!(Key::parse(&"x".repeat(32)), None);
    }
}
