//! Both ends prove that they know the key of the mount, without saying it: tags (SipHash-2-4 with 128 bits)
//! of both ends' random numbers, one for each direction. Nothing is encrypted.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use tutti_base::{Error, ErrorClass, Result};

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

    /// The proof of one end. `local` is the name of the socket at which the server lends files: a stranger in
    /// between cannot put another one in its place.
    pub fn proof(&self, end: End, client: &Token, server: &Token, local: &[u8]) -> Token {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(b"tutti io-server 2");
        hasher.write(&[end as u8]);
        hasher.write(client);
        hasher.write(server);
        hasher.write(local);
        hasher.finish128().as_bytes()
    }

    /// Whether `proof` is that of `end`; takes the same time wherever it differs.
    pub fn verifies(
        &self,
        end: End,
        (client, server): (&Token, &Token),
        local: &[u8],
        proof: &Token,
    ) -> bool {
        let expected = self.proof(end, client, server, local);
        expected.iter().zip(proof).fold(0, |all, (one, other)| all | (one ^ other)) == 0
    }
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
    fn a_proof_is_of_one_end_one_key_both_numbers_and_a_name() {
        let key = Key::parse("000102030405060708090a0b0c0d0e0f").unwrap();
        let proof = key.proof(End::Server, &[1; 16], &[2; 16], b"here");
        let check_name = |key: Key, end, client, server, local: &str, expected| {
            let tokens = (&[client; 16], &[server; 16]);
            assert_eq!(key.verifies(end, tokens, local.as_bytes(), &proof), expected);
        };
        let check =
            |key, end, client, server, expected| check_name(key, end, client, server, "here", expected);
        check_name(key, End::Server, 1, 2, "there", false);
        check(key, End::Server, 1, 2, true);
        check(key, End::Client, 1, 2, false);
        check(key, End::Server, 3, 2, false);
        check(key, End::Server, 1, 3, false);
        check(Key::random().unwrap(), End::Server, 1, 2, false);
    }

    #[test]
    fn keys_are_text() {
        let key = Key::random().unwrap();
        assert_eq!(Key::parse(&key.text()), Some(key));
        assert_eq!(Key::parse("12"), None);
        assert_eq!(Key::parse(&"x".repeat(32)), None);
    }
}
