//! Measured operations on files, with their bytes and the number of bytes that all ranks move.

use crate::measure::options::bytes;
use crate::measure::session::Ask;

/// Kinds of storage for files.
pub const PLACES: [&str; 3] = ["memory", "disk", "servers"];

/// Kinds of access to files.
pub const MODES: [&str; 4] = ["independent", "collective", "nonblocking", "split"];

/// Patterns and their default numbers of bytes (see `bench/files-bench.c`).
const PATTERNS: [(&str, &[u64]); 5] = [
    ("contiguous", &[4 << 10, 16 << 20]),
    ("strided", &[64, 1 << 10, 16 << 10]),
    ("list", &[256]),
    ("tile", &[32]),
    ("bt", &[0]),
];
/// Measured operations that are not an access.
const OTHERS: [(&str, &[u64]); 2] = [("create", &[0]), ("overlap", &[64 << 20])];

/// An operation, or the beginning of the names of some, with its bytes if they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Name, or the beginning of some.
    pub name: String,
    /// Bytes, if not the usual ones.
    pub bytes: Option<u64>,
}

impl std::str::FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let (name, number) = text.split_once('@').map_or((text, None), |(name, number)| (name, Some(number)));
        if !all().iter().any(|(op, _)| op.starts_with(name)) {
            let names: Vec<String> = all().into_iter().map(|(op, _)| op).collect();
            return Err(format!("{name}: no such operation; these are: {}", names.join(", ")));
        }
        Ok(Wanted { name: name.to_string(), bytes: number.map(bytes).transpose()? })
    }
}

/// Returns all operations with their usual bytes.
fn all() -> Vec<(String, &'static [u64])> {
    let accesses = PATTERNS
        .iter()
        .flat_map(|(name, bytes)| ["write", "read"].map(|way| (format!("{way}_{name}"), *bytes)));
    accesses.chain(OTHERS.iter().map(|(name, bytes)| (name.to_string(), *bytes))).collect()
}

/// Returns the cells in the order of the measurement.
pub fn asks(wanted: &[Wanted], modes: &[String]) -> Vec<Ask> {
    let mut asks = Vec::new();
    for (op, usual) in all() {
        let of_op: Vec<u64> = match wanted {
            [] => usual.to_vec(),
            some => {
                let mine = some.iter().filter(|one| op.starts_with(&one.name));
                mine.flat_map(|one| one.bytes.map_or(usual.to_vec(), |bytes| vec![bytes])).collect()
            }
        };
        let is_other = OTHERS.iter().any(|(name, _)| *name == op);
        for bytes in of_op {
            let modes = if is_other { &["all".to_string()][..] } else { modes };
            asks.extend(modes.iter().map(|mode| Ask { op: op.clone(), mode: mode.clone(), bytes }));
        }
    }
    asks
}

/// Returns the bytes that all ranks move in one operation, or `None` if only its time matters.
pub fn moved(op: &str, bytes: u64, ranks: u32) -> Option<u64> {
    let each = match op.split_once('_')?.1 {
        "contiguous" => bytes,
        "strided" => 4 << 20,
        "list" => 2 << 20,
        "tile" => 1024 * 768 * bytes,
        "bt" => return Some(64 * 64 * 64 * 40),
        _ => return None,
    };
    Some(each * u64::from(ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ops: &str, expected: &[&str]) {
        let wanted: Vec<Wanted> =
            ops.split(',').filter(|op| !op.is_empty()).map(|op| op.parse().unwrap()).collect();
        let asks = asks(&wanted, &["collective".to_string()]);
        let shown: Vec<String> =
            asks.iter().map(|ask| format!("{} {} {}", ask.op, ask.mode, ask.bytes)).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn operations_are_chosen_by_name_and_bytes() {
        check("write_tile", &["write_tile collective 32"]);
        check("read_strided@64,create", &["read_strided collective 64", "create all 0"]);
        check("write_l", &["write_list collective 256"]);
        assert_eq!(asks(&[], &["a".to_string(), "b".to_string()]).len(), 2 * 2 * 8 + 2);
        assert!("nothing".parse::<Wanted>().unwrap_err().contains("no such"));
    }

    #[test]
    fn what_all_ranks_move() {
        assert_eq!(moved("read_tile", 32, 4), Some(4 * 1024 * 768 * 32));
        assert_eq!(moved("write_bt", 0, 4), Some(64 * 64 * 64 * 40));
        assert_eq!(moved("create", 0, 4), None);
        assert_eq!(moved("overlap", 64, 4), None);
    }
}
