//! Encoding of PMI messages as bytes.
//!
//! | version | form |
//! |---|---|
//! | 1 | `cmd=NAME key=value key=value` and a line feed; values have no blanks |
//! | 2 | length in six digits, then `cmd=NAME;key=value;key=value;`; semicolons in values are doubled |

use std::fmt;

/// Version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// PMI-1: each message is a line.
    One,
    /// PMI-2: each message begins with its length.
    Two,
}

/// Maximum size of a message, in bytes; version 2 cannot encode a longer one.
pub const MESSAGE_BYTES: usize = 999_999;
/// Number of digits of the length in version 2.
const LENGTH_DIGITS: usize = 6;

/// A command or an answer with its keys and values in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmiMessage {
    /// Value of the key `cmd`.
    pub command: String,
    /// Further keys with their values.
    pub pairs: Vec<(String, String)>,
}

/// Reason why a message cannot be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Longer than [`MESSAGE_BYTES`].
    TooLong,
    /// The length contains no digits.
    Length,
    /// Not text, or without a command.
    Malformed,
    /// A key or value that this version cannot carry.
    Unspeakable,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WireError::TooLong => "a message is too long",
            WireError::Length => "a message without its length",
            WireError::Malformed => "a message that is none",
            WireError::Unspeakable => "a value that cannot be sent",
        })
    }
}

impl PmiMessage {
    /// Makes a message with these keys and values.
    pub fn new(command: &str, pairs: &[(&str, &str)]) -> PmiMessage {
        let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        PmiMessage { command: command.to_string(), pairs }
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Encodes the message as bytes.
    ///
    /// # Errors
    /// Returns `Unspeakable` or `TooLong`.
    pub fn encode(&self, version: Version) -> Result<Vec<u8>, WireError> {
        let mut text = String::new();
        let all = std::iter::once(("cmd", self.command.as_str()))
            .chain(self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        for (key, value) in all {
            if key.is_empty() || key.contains(['=', ';', ' ', '\n', '\0']) || value.contains('\0') {
                return Err(WireError::Unspeakable);
            }
            match version {
                Version::One if value.contains([' ', '\n']) => return Err(WireError::Unspeakable),
                Version::One => {
                    let blank = if text.is_empty() { "" } else { " " };
                    text.extend([blank, key, "=", value]);
                }
                Version::Two => text.extend([key, "=", &value.replace(';', ";;"), ";"]),
            }
        }
        if text.len() >= MESSAGE_BYTES {
            return Err(WireError::TooLong);
        }
        Ok(match version {
            Version::One => format!("{text}\n"),
            Version::Two => format!("{:>LENGTH_DIGITS$}{text}", text.len()),
        }
        .into_bytes())
    }
}

/// Splits arriving bytes into messages.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Bytes that have arrived and belong to no complete message.
    buffer: Vec<u8>,
}

impl Decoder {
    /// Appends bytes as they arrive.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next message, if all of it has arrived.
    ///
    /// # Errors
    /// Returns an error after which the connection cannot be used.
    pub fn next(&mut self, version: Version) -> Result<Option<PmiMessage>, WireError> {
        let (start, end, next) = match version {
            Version::One => match self.buffer.iter().position(|byte| *byte == b'\n') {
                Some(end) => (0, end, end + 1),
                None if self.buffer.len() > MESSAGE_BYTES => return Err(WireError::TooLong),
                None => return Ok(None),
            },
            Version::Two => {
                let Some(digits) = self.buffer.get(..LENGTH_DIGITS) else { return Ok(None) };
                let end = LENGTH_DIGITS + length(digits)?;
                if self.buffer.len() < end {
                    return Ok(None);
                }
                (LENGTH_DIGITS, end, end)
            }
        };
        let text = std::str::from_utf8(&self.buffer[start..end]).map_err(|_| WireError::Malformed)?;
        let pairs = match version {
            Version::One => pairs_of_line(text)?,
            Version::Two => pairs_of_body(text)?,
        };
        self.buffer.drain(..next);
        message(pairs).map(Some)
    }
}

/// Decodes the length at the start of a message of version 2.
fn length(digits: &[u8]) -> Result<usize, WireError> {
    let text = std::str::from_utf8(digits).map_err(|_| WireError::Length)?;
    let text = text.trim_matches(' ');
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(WireError::Length);
    }
    text.parse().map_err(|_| WireError::Length)
}

/// Makes a message from its pairs, of which the first must be the command.
fn message(mut pairs: Vec<(String, String)>) -> Result<PmiMessage, WireError> {
    if pairs.first().is_none_or(|(key, _)| key != "cmd") {
        return Err(WireError::Malformed);
    }
    let (_, command) = pairs.remove(0);
    Ok(PmiMessage { command, pairs })
}

/// Splits a line of version 1 into keys and values.
fn pairs_of_line(line: &str) -> Result<Vec<(String, String)>, WireError> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        match (word.split_once('='), pairs.last_mut()) {
            (Some((key, value)), _) => pairs.push((key.to_string(), value.to_string())),
            // Some starters explain errors in several words.
            (None, Some((_, before))) => before.extend([" ", word]),
            (None, None) => return Err(WireError::Malformed),
        }
    }
    Ok(pairs)
}

/// Splits a message of version 2 into keys and values.
fn pairs_of_body(body: &str) -> Result<Vec<(String, String)>, WireError> {
    let mut pairs = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').ok_or(WireError::Malformed)?;
        let mut value = String::new();
        rest = after;
        loop {
            let (piece, after) = rest.split_once(';').unwrap_or((rest, ""));
            value.push_str(piece);
            let Some(more) = after.strip_prefix(';') else {
                rest = after;
                break;
            };
            value.push(';');
            rest = more;
        }
        pairs.push((key.to_string(), value));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(version: Version, bytes: &str, expected: Result<Option<PmiMessage>, WireError>) {
        let mut decoder = Decoder::default();
        decoder.push(bytes.as_bytes());
        assert_eq!(decoder.next(version), expected, "{bytes:?}");
    }

    #[test]
    fn answers_of_starters_are_read() {
        let init = PmiMessage::new("response_to_init", &[("pmi_version", "1"), ("rc", "0")]);
        check(Version::One, "cmd=response_to_init pmi_version=1 rc=0\n", Ok(Some(init.clone())));
        check(Version::One, "cmd=response_to_init pmi_version=1 rc=0", Ok(None));
        let error = PmiMessage::new("get_result", &[("rc", "-1"), ("msg", "key not found")]);
        check(Version::One, "cmd=get_result rc=-1 msg=key not found\n", Ok(Some(error)));
        let body = "    41cmd=kvs-get-response;rc=0;value=a;;b=c;;;";
        let answer = PmiMessage::new("kvs-get-response", &[("rc", "0"), ("value", "a;b=c;")]);
        check(Version::Two, body, Ok(Some(answer)));
        check(Version::Two, &body[..40], Ok(None));
        check(Version::Two, "     0", Err(WireError::Malformed));
        check(Version::Two, "-00007cmd=a;", Err(WireError::Length));
        check(Version::One, "hello\n", Err(WireError::Malformed));
        check(Version::Two, "     5hello", Err(WireError::Malformed));
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        let check = |version, value: &str, expected| {
            let made = PmiMessage::new("put", &[("value", value)]).encode(version).map(|_| ());
            assert_eq!(made, expected, "{value:?}");
        };
        check(Version::One, "a b", Err(WireError::Unspeakable));
        check(Version::Two, "a b;", Ok(()));
        check(Version::Two, "\0", Err(WireError::Unspeakable));
        check(Version::One, &"x".repeat(MESSAGE_BYTES), Err(WireError::TooLong));
    }

    proptest! {
        #[test]
        fn messages_come_back_whatever_the_pieces(
            version in prop_oneof![Just(Version::One), Just(Version::Two)],
            command in "[a-z_-]{1,12}",
            keys in prop::collection::vec("[a-z_]{1,8}", 0..6),
            values in prop::collection::vec("[!-~]{0,40}", 6),
            piece in 1usize..20,
        ) {
            let pairs = keys.into_iter().zip(values).collect();
            let message = PmiMessage { command, pairs };
            let bytes = [message.encode(version).unwrap(), message.encode(version).unwrap()].concat();
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for part in bytes.chunks(piece) {
                decoder.push(part);
                while let Some(message) = decoder.next(version).unwrap() {
                    found.push(message);
                }
            }
            prop_assert_eq!(found, vec![message.clone(), message]);
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            version in prop_oneof![Just(Version::One), Just(Version::Two)],
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'='), Just(b';'), Just(b'1'), Just(b'\n'), Just(b' ')], 0..200),
        ) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            for _ in 0..=bytes.len() {
                match decoder.next(version) {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => break,
                }
            }
        }
    }
}
