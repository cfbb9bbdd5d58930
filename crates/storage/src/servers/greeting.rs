//! Both ends prove that they know the key of the mount, without saying it: tags (SipHash-2-4 with 128 bits)
//! of all that both said, one for each direction. What follows is sealed with keys that are derived from the
//! same ([`Greeting::keys`]).

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use tutti_base::{Error, ErrorClass, Result};
use tutti_seal::{Cover, Root, SALT_BYTES, Salt, Salts, StreamKeys};

use super::wire::Token;

/// The key of a mount.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(Token);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Who proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server.
    Server = 1,
    /// The client.
    Client = 2,
}

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// What the system reports.
    pub fn random() -> Result<Key> {
        token().map(Key)
    }

    /// The key of the servers of a job.
    pub fn of_secret(secret: &[u8; 32]) -> Key {
        let (first, second) = secret.split_at(16);
        let mut hasher = SipHasher24::new_with_key(first.try_into().expect("half of 32 bytes"));
        hasher.write(b"tutti io-servers of a job");
        hasher.write(second);
        Key(hasher.finish128().as_bytes())
    }

    /// From 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Key> {
        (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| u128::from_str_radix(text, 16).ok().map(|number| Key(number.to_be_bytes())))?
    }

    /// As text.
    pub fn text(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// All that both ends have said in a greeting.
#[derive(Clone, Copy, Debug)]
pub struct Greeting<'a> {
    /// Random number of the client.
    pub client: Token,
    /// Random number of the server.
    pub server: Token,
    /// Number of the least cover that the client accepts.
    pub asked: u8,
    /// Number of the cover of all that follows.
    pub cover: u8,
    /// Name of the socket at which the server lends files. A stranger in between cannot put another one in
    /// its place.
    pub local: &'a [u8],
}

impl Greeting<'_> {
    /// The proof of one end.
    pub fn proof(&self, key: &Key, end: End) -> Token {
        let mut hasher = SipHasher24::new_with_key(&key.0);
        hasher.write(b"tutti io-server 3");
        hasher.write(&[end as u8, self.asked, self.cover]);
        hasher.write(&self.client);
        hasher.write(&self.server);
        hasher.write(self.local);
        hasher.finish128().as_bytes()
    }

    /// Whether `proof` is that of `end`; takes the same time wherever it differs.
    pub fn verifies(&self, key: &Key, end: End, proof: &Token) -> bool {
        let expected = self.proof(key, end);
        expected.iter().zip(proof).fold(0, |all, (one, other)| all | (one ^ other)) == 0
    }

    /// Keys of all that follows, at one end; `None` if it is not sealed.
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

/// A cover on the wire.
pub fn number(cover: Option<Cover>) -> u8 {
    cover.map_or(0, |cover| cover as u8)
}

/// A number that cannot be guessed.
///
/// # Errors
/// What the system reports.
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
