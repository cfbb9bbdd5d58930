//! Messages of two processes about their connection: records of the streams, and proofs in the connection
//! manager's private data. All are parsed here, once.

use super::packet::{ADDRESS_BYTES, Kind};
use super::tag::{Key, TAG_BYTES, Use};

/// Bytes of private data.
pub(super) const PRIVATE_BYTES: usize = 32 + TAG_BYTES;

/// First word of private data for connections of records, and of datagrams.
const MAGIC: u32 = 0x7475_0001;
const CONTACT_MAGIC: u32 = 0x7475_0002;

/// A record about connections. Whoever requests makes a nonce; all that follows names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Request { nonce: u64 },
    Reply { nonce: u64, own: u64, address: Vec<u8> },
    Refuse { nonce: u64 },
    Confirm { nonce: u64 },
    Abandon { nonce: u64 },
}

impl Word {
    pub(super) fn parse(kind: Kind, text: &[u8]) -> Option<Word> {
        let (nonce, rest) = text.split_first_chunk()?;
        let nonce = u64::from_le_bytes(*nonce);
        if kind == Kind::Reply {
            let (own, address) = rest.split_first_chunk()?;
            let own = u64::from_le_bytes(*own);
            return (address.len() <= ADDRESS_BYTES).then(|| Word::Reply {
                nonce,
                own,
                address: address.into(),
            });
        }
        if !rest.is_empty() {
            return None;
        }
        match kind {
            Kind::Request => Some(Word::Request { nonce }),
            Kind::Refuse => Some(Word::Refuse { nonce }),
            Kind::Confirm => Some(Word::Confirm { nonce }),
            Kind::Abandon => Some(Word::Abandon { nonce }),
            Kind::Data | Kind::Reply | Kind::Bye => None,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Word::Request { .. } => Kind::Request,
            Word::Reply { .. } => Kind::Reply,
            Word::Refuse { .. } => Kind::Refuse,
            Word::Confirm { .. } => Kind::Confirm,
            Word::Abandon { .. } => Kind::Abandon,
        }
    }

    pub(super) fn text(&self) -> Vec<u8> {
        match self {
            Word::Reply { nonce, own, address } => {
                let mut text = nonce.to_le_bytes().to_vec();
                text.extend_from_slice(&own.to_le_bytes());
                text.extend_from_slice(address);
                text
            }
            Word::Request { nonce }
            | Word::Refuse { nonce }
            | Word::Confirm { nonce }
            | Word::Abandon { nonce } => nonce.to_le_bytes().to_vec(),
        }
    }
}

/// The nonces of who connects and of who accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonces {
    pub connecting: u64,
    pub accepting: u64,
}

/// Identity claim in private data: the two ranks of the connection and the nonces of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub job: u32,
    pub from: u32,
    pub to: u32,
    /// The connection is to carry datagrams.
    pub is_contact: bool,
    pub nonces: Nonces,
}

/// Maker and verifier of proofs.
#[derive(Debug)]
pub(super) struct Prover {
    connect: Key,
    accept: Key,
}

impl Prover {
    pub(super) fn new(secret: &[u8; 32]) -> Prover {
        Prover { connect: Key::new(secret, Use::Connect), accept: Key::new(secret, Use::Accept) }
    }

    /// Returns the private data of a connecting process, or of an accepting one.
    pub(super) fn write(&self, claim: &Claim, connects: bool) -> Vec<u8> {
        let Claim { job, from, to, is_contact, nonces } = claim;
        let magic = if *is_contact { CONTACT_MAGIC } else { MAGIC };
        let mut data = Vec::with_capacity(PRIVATE_BYTES);
        for word in [&magic, job, from, to] {
            data.extend_from_slice(&word.to_le_bytes());
        }
        data.extend_from_slice(&nonces.connecting.to_le_bytes());
        data.extend_from_slice(&nonces.accepting.to_le_bytes());
        let tag = self.key(connects).tag(&[&data]);
        data.extend_from_slice(&tag);
        data
    }

    /// Returns the claim in private data if its tag is right. Bytes after the claim are ignored, as providers
    /// pad.
    pub(super) fn read(&self, data: &[u8], connects: bool) -> Option<Claim> {
        let (content, rest) = data.split_at_checked(PRIVATE_BYTES - TAG_BYTES)?;
        if !self.key(connects).verifies(content, rest.get(..TAG_BYTES)?) {
            return None;
        }
        let word =
            |at| content.get(at..at + 4).map(|four| u32::from_le_bytes(four.try_into().expect("four")));
        let long =
            |at| content.get(at..at + 8).map(|eight| u64::from_le_bytes(eight.try_into().expect("eight")));
        let nonces = Nonces { connecting: long(16)?, accepting: long(24)? };
        let is_contact = match word(0)? {
            MAGIC => false,
            CONTACT_MAGIC => true,
            _ => return None,
        };
        Some(Claim { job: word(4)?, from: word(8)?, to: word(12)?, is_contact, nonces })
    }

    fn key(&self, connects: bool) -> &Key {
        if connects { &self.connect } else { &self.accept }
    }
}
