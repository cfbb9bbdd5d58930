//! Parsers and formats for values of settings.

pub(super) fn size(text: &str) -> std::result::Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let wrong = || "a size such as 65536, 64K or 1M".to_string();
    let value: u64 = digits.parse().map_err(|_| wrong())?;
    value.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Reads a number or size from `least` to `most`.
pub(super) fn within(text: &str, least: u64, most: u64) -> std::result::Result<u64, String> {
    size(text).ok().filter(|number| (least..=most).contains(number)).ok_or_else(|| {
        if most == u64::MAX {
            format!("a number from {least} on")
        } else {
            format!("a number from {least} to {most}")
        }
    })
}

/// Longest time that a setting takes, in milliseconds: a year, so that no sum of times overflows.
const MOST_MS: u64 = 365 * 24 * 3600 * 1000;

/// Reads a time above 0, in milliseconds.
pub(super) fn milliseconds(text: &str) -> std::result::Result<u64, String> {
    within(text, 1, MOST_MS)
}

/// Reads a size up to `most`, or `auto`. Sizes from 1 to `least` - 1 are refused; 0 stands for itself.
pub(super) fn size_or_auto(text: &str, least: u64, most: u64) -> std::result::Result<Option<u64>, String> {
    match text {
        "auto" => Ok(None),
        _ => size_or_zero(text, least, most).map(Some).map_err(|expected| format!("{expected}, or auto")),
    }
}

/// Reads 0 or a size from `least` to `most`.
pub(super) fn size_or_zero(text: &str, least: u64, most: u64) -> std::result::Result<u64, String> {
    let bytes = size(text)?;
    if bytes == 0 || (least..=most).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("a size such as 65536, 64K or 1M; 0, or from {least} to {most}"))
}

pub(super) fn shown_or_auto(value: Option<u64>) -> String {
    value.map_or("auto".to_string(), |bytes| bytes.to_string())
}

/// Reads microseconds up to a minute; -1 leaves the choice to the library.
pub(super) fn microseconds(text: &str) -> std::result::Result<i64, String> {
    const MOST: i64 = 60_000_000;
    let number = text.parse().ok().filter(|number| (-1..=MOST).contains(number));
    number.ok_or_else(|| format!("a whole number from -1 to {MOST}"))
}

pub(super) fn flag(text: &str) -> std::result::Result<bool, String> {
    match text {
        "0" | "no" | "off" | "false" => Ok(false),
        "1" | "yes" | "on" | "true" => Ok(true),
        _ => Err("0 or 1".to_string()),
    }
}

/// Returns the value with this name, or a list of all names as the error.
pub(super) fn one_of<T: Copy>(names: &[(&str, T)], text: &str) -> std::result::Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().expect("a setting has values");
        format!("{} or {last}", others.join(", "))
    })
}
