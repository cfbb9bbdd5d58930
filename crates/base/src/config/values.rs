//! How values of settings are read and shown.

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

pub(super) fn size_or_auto(text: &str) -> std::result::Result<Option<u64>, String> {
    if text == "auto" {
        return Ok(None);
    }
    size(text).map(Some).map_err(|expected| format!("{expected}, or auto"))
}

pub(super) fn shown_or_auto(value: Option<u64>) -> String {
    value.map_or("auto".to_string(), |bytes| bytes.to_string())
}

pub(super) fn number(text: &str) -> std::result::Result<i64, String> {
    text.parse().map_err(|_| "a whole number".to_string())
}

pub(super) fn flag(text: &str) -> std::result::Result<bool, String> {
    match text {
        "0" | "no" | "off" | "false" => Ok(false),
        "1" | "yes" | "on" | "true" => Ok(true),
        _ => Err("0 or 1".to_string()),
    }
}

/// The value of this name; else which names there are.
pub(super) fn one_of<T: Copy>(names: &[(&str, T)], text: &str) -> std::result::Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().expect("a setting has values");
        format!("{} or {last}", others.join(", "))
    })
}
