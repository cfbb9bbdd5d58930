//! Mutual proof of the shared secret, before any other message. The state machine is pure; the caller
//! provides the nonces.
//!
//! | step | bytes |
//! |---|---|
//! | child: hello | magic, its number, a nonce |
//! | parent: challenge | a nonce, proof over both nonces and the number |
//! | child: proof | proof over the same, with another key |
//!
//! A proof is a keyed hash (BLAKE3). Its key is derived from the secret for this purpose and direction, so
//! that a proof cannot be returned as one's own. Without the secret, a proof reveals nothing. A peer without
//! a valid proof is disconnected.

use tutti_seal::{Cover, End, Incoming, Outgoing, Root, Salts};

/// Secret of a job: random bytes, which daemons get over the standard input of the agents.
pub type Secret = [u8; 32];
/// Random number that is used once.
pub type Nonce = [u8; 32];

const MAGIC: [u8; 8] = *b"tutti-d2";
/// Bytes of the child's first message, the hello.
pub const HELLO_BYTES: usize = 8 + 4 + 32;
/// Bytes of the parent's reply, the challenge.
pub const CHALLENGE_BYTES: usize = 32 + 32;
/// Bytes of the child's proof.
pub const PROOF_BYTES: usize = 32;

/// Error: the other end does not know the secret, or uses another protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// Keys of a connection whose ends have proved the secret.
#[derive(Debug)]
pub struct Agreed {
    /// Seal for the records that this end sends.
    pub outgoing: Outgoing,
    /// Opener for the records that this end receives.
    pub incoming: Incoming,
}

/// Derives a key for one purpose from the secret.
pub fn derive(secret: &Secret, purpose: &str) -> [u8; 32] {
    blake3::derive_key(&format!("tutti launch 2026 {purpose}"), secret)
}

fn transcript(number: u32, child: &Nonce, parent: &Nonce) -> Vec<u8> {
    [&number.to_le_bytes()[..], child, parent].concat()
}

fn agree(secret: &Secret, number: u32, child: &Nonce, parent: &Nonce, end: End) -> Agreed {
    let salts = Salts { connecting: *child, accepting: *parent };
    let root = Root::new(secret, "daemons");
    let keys = root.connection(Cover::Encrypted, end, &salts, &number.to_le_bytes());
    Agreed { outgoing: Outgoing::new(&keys), incoming: Incoming::new(&keys) }
}

/// Child's side of the handshake.
#[derive(Debug)]
pub struct Joining {
    secret: Secret,
    number: u32,
    nonce: Nonce,
}

impl Joining {
    /// Begins the handshake, and returns the hello to send.
    pub fn new(secret: Secret, number: u32, nonce: Nonce) -> (Joining, [u8; HELLO_BYTES]) {
        let mut hello = [0; HELLO_BYTES];
        hello[..8].copy_from_slice(&MAGIC);
        hello[8..12].copy_from_slice(&number.to_le_bytes());
        hello[12..].copy_from_slice(&nonce);
        (Joining { secret, number, nonce }, hello)
    }

    /// Checks the parent's challenge, and returns the proof to send.
    ///
    /// # Errors
    /// Fails if the parent does not know the secret.
    pub fn prove(self, challenge: &[u8; CHALLENGE_BYTES]) -> Result<([u8; PROOF_BYTES], Agreed), Foreign> {
        let (nonce, proof) = challenge.split_first_chunk::<32>().ok_or(Foreign)?;
        let text = transcript(self.number, &self.nonce, nonce);
        let expected = blake3::keyed_hash(&derive(&self.secret, "proof of the parent"), &text);
        let proof: [u8; 32] = proof.try_into().map_err(|_| Foreign)?;
        // The hash type compares in constant time.
        if expected != blake3::Hash::from_bytes(proof) {
            return Err(Foreign);
        }
        let own = blake3::keyed_hash(&derive(&self.secret, "proof of the child"), &text);
        Ok((*own.as_bytes(), agree(&self.secret, self.number, &self.nonce, nonce, End::Connecting)))
    }
}

/// Parent's side of the handshake, after the hello.
#[derive(Debug)]
pub struct Admitting {
    secret: Secret,
    /// Number that the child claims.
    pub number: u32,
    child: Nonce,
    nonce: Nonce,
}

impl Admitting {
    /// Reads a hello, and returns the challenge to send.
    ///
    /// # Errors
    /// Fails if the bytes are not a hello.
    pub fn new(
        secret: Secret,
        hello: &[u8; HELLO_BYTES],
        nonce: &Nonce,
    ) -> Result<(Admitting, [u8; CHALLENGE_BYTES]), Foreign> {
        let (magic, rest) = hello.split_first_chunk::<8>().ok_or(Foreign)?;
        let (number, rest) = rest.split_first_chunk::<4>().ok_or(Foreign)?;
        let child: Nonce = rest.try_into().map_err(|_| Foreign)?;
        if *magic != MAGIC {
            return Err(Foreign);
        }
        let number = u32::from_le_bytes(*number);
        let transcript = transcript(number, &child, nonce);
        let proof = blake3::keyed_hash(&derive(&secret, "proof of the parent"), &transcript);
        let mut challenge = [0; CHALLENGE_BYTES];
        challenge[..32].copy_from_slice(nonce);
        challenge[32..].copy_from_slice(proof.as_bytes());
        Ok((Admitting { secret, number, child, nonce: *nonce }, challenge))
    }

    /// Checks the child's proof.
    ///
    /// # Errors
    /// Fails if the child does not know the secret.
    pub fn admit(&self, proof: &[u8; PROOF_BYTES]) -> Result<Agreed, Foreign> {
        let text = transcript(self.number, &self.child, &self.nonce);
        let expected = blake3::keyed_hash(&derive(&self.secret, "proof of the child"), &text);
        if expected != blake3::Hash::from_bytes(*proof) {
            return Err(Foreign);
        }
        Ok(agree(&self.secret, self.number, &self.child, &self.nonce, End::Accepting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs both sides with a change to each message, and checks which message is refused.
    fn check(secrets: [Secret; 2], damage: [Option<usize>; 3], expected: Result<(), &str>) {
        let hurt = |bytes: &mut [u8], at: Option<usize>| at.into_iter().for_each(|at| bytes[at] ^= 1);
        let (joining, mut hello) = Joining::new(secrets[0], 7, [1; 32]);
        hurt(&mut hello, damage[0]);
        let got = (|| {
            let (admitting, mut challenge) =
                Admitting::new(secrets[1], &hello, &[2; 32]).map_err(|_| "hello")?;
            hurt(&mut challenge, damage[1]);
            let (mut proof, mut child) = joining.prove(&challenge).map_err(|_| "challenge")?;
            hurt(&mut proof, damage[2]);
            let mut parent = admitting.admit(&proof).map_err(|_| "proof")?;
            assert_eq!(admitting.number, 7);
            for (from, to) in
                [(&mut child.outgoing, &mut parent.incoming), (&mut parent.outgoing, &mut child.incoming)]
            {
                from.put([&b"word"[..]].into_iter());
                to.append(from.pending());
                assert_eq!(to.take_record(), Ok(&b"word"[..]));
            }
            assert_ne!(child.outgoing.pending(), parent.outgoing.pending());
            Ok(())
        })();
        assert_eq!(got, expected, "{damage:?}");
    }

    #[test]
    fn only_who_knows_the_secret_is_trusted() {
        check([[9; 32], [9; 32]], [None; 3], Ok(()));
        check([[9; 32], [8; 32]], [None; 3], Err("challenge"));
        check([[9; 32]; 2], [Some(0), None, None], Err("hello"));
        // The number or nonce of the child is changed.
        check([[9; 32]; 2], [Some(8), None, None], Err("challenge"));
        check([[9; 32]; 2], [Some(20), None, None], Err("challenge"));
        check([[9; 32]; 2], [None, Some(0), None], Err("challenge"));
        check([[9; 32]; 2], [None, Some(40), None], Err("challenge"));
        check([[9; 32]; 2], [None, None, Some(31)], Err("proof"));
    }

    #[test]
    fn a_proof_of_the_parent_is_none_of_the_child() {
        let (_, hello) = Joining::new([9; 32], 1, [1; 32]);
        let (admitting, challenge) = Admitting::new([9; 32], &hello, &[2; 32]).unwrap();
        let echoed: [u8; 32] = challenge[32..].try_into().unwrap();
        assert_eq!(admitting.admit(&echoed).unwrap_err(), Foreign);
    }
}
