//! Hints about a file (MPI-5 section 14.2.8, and names that other libraries have established), and the
//! values in force.
//!
//! MPI_File_get_info returns each supported hint with the value in force. A hint without meaning here is
//! not returned, which is how MPI reports that it is ignored.

use std::collections::BTreeMap;

/// Setting of an optional optimisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The optimisation is always used.
    Enable,
    /// The optimisation is never used.
    Disable,
    /// The optimisation is used where it is cheaper.
    #[default]
    Automatic,
}

impl Choice {
    fn parse(text: &str) -> Option<Choice> {
        match text {
            "enable" => Some(Choice::Enable),
            "disable" => Some(Choice::Disable),
            "automatic" => Some(Choice::Automatic),
            _ => None,
        }
    }

    /// Returns the value of the hint as text.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Enable => "enable",
            Choice::Disable => "disable",
            Choice::Automatic => "automatic",
        }
    }
}

/// Hints that are in force for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// `romio_cb_read`: members exchange data before they read together.
    pub exchange_reads: Choice,
    /// `romio_cb_write`: members exchange data before they write together.
    pub exchange_writes: Choice,
    /// `cb_nodes`: number of members that access the file in a collective operation; 0: the best number.
    pub aggregators: u32,
    /// `cb_buffer_size`: length in bytes of each such member's window of the file.
    pub buffer_bytes: u64,
    /// `striping_unit`: stripe length in bytes; 0: unknown.
    pub stripe_bytes: u64,
    /// `striping_factor`: number of devices of a file; 0: unknown.
    pub stripes: u32,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints {
            exchange_reads: Choice::Automatic,
            exchange_writes: Choice::Automatic,
            aggregators: 0,
            buffer_bytes: 4 << 20,
            stripe_bytes: 0,
            stripes: 0,
        }
    }
}

/// Environment variable with the path of a file of hints, as in other libraries. Each line has a key and a
/// value; `#` starts a comment.
pub const HINTS_FILE: &str = "ROMIO_HINTS";

/// Hints that are supported, or have a fixed value.
const HONOURED: [&str; 9] = [
    "romio_cb_read",
    "romio_cb_write",
    "collective_buffering",
    "cb_nodes",
    "cb_buffer_size",
    "striping_unit",
    "striping_factor",
    "romio_ds_read",
    "romio_ds_write",
];
/// Hints that programs use but that have no meaning here, with the reason.
const IGNORED: [(&str, &str); 12] = [
    ("cb_config_list", "ranks in charge are spread evenly over all hosts; cb_nodes says how many"),
    ("romio_no_indep_rw", "all ranks open the file, which costs no messages"),
    ("ind_rd_buffer_size", "what lies between pieces is read up to a bound of the library's own"),
    ("ind_wr_buffer_size", "what lies between pieces is never written"),
    ("romio_cb_fr_alignment", "windows lie at multiples of their length"),
    ("romio_cb_fr_types", "windows lie at multiples of their length"),
    ("romio_cb_ds_threshold", "what lies between pieces is never written"),
    ("romio_cb_alltoall", "every rank knows how long all messages are and sends those that are not empty"),
    ("romio_cb_pfr", "a window of a file has the same rank in charge for all accesses of the same length"),
    ("direct_read", "files are read through the system's cache"),
    ("direct_write", "files are written through the system's cache; MPI_File_sync waits for the device"),
    ("start_iodevice", "left to the file system"),
];

/// Permitted values of `cb_buffer_size`.
const WINDOW_BYTES: std::ops::RangeInclusive<u64> = 4096..=(1 << 30);

impl Hints {
    /// Returns the initial hints: the defaults, changed by the file that the environment names, if it can
    /// be read.
    pub fn of_environment() -> Hints {
        let text = tutti_sys::user::variable(HINTS_FILE).and_then(|path| std::fs::read_to_string(path).ok());
        let text = text.unwrap_or_default();
        let pairs: BTreeMap<&str, &str> = parse(&text).collect();
        Hints::default().with_values(|key| pairs.get(key).copied())
    }

    /// Returns these hints, changed by the values that `said` returns for each key. Invalid values change
    /// nothing.
    pub fn with_values<'a>(mut self, said: impl Fn(&str) -> Option<&'a str>) -> Hints {
        let choice = |key| said(key).and_then(Choice::parse);
        let number = |key| said(key).and_then(|text| text.trim().parse::<u64>().ok());
        if let Some(reads) = choice("romio_cb_read") {
            self.exchange_reads = reads;
        }
        if let Some(writes) = choice("romio_cb_write") {
            self.exchange_writes = writes;
        }
        match said("collective_buffering") {
            Some("false") => {
                (self.exchange_reads, self.exchange_writes) = (Choice::Disable, Choice::Disable);
            }
            Some("true") if !self.is_collective() => {
                (self.exchange_reads, self.exchange_writes) = (Choice::Automatic, Choice::Automatic);
            }
            _ => (),
        }
        if let Some(nodes) = number("cb_nodes").and_then(|nodes| u32::try_from(nodes).ok()) {
            self.aggregators = nodes;
        }
        if let Some(bytes) = number("cb_buffer_size").filter(|bytes| WINDOW_BYTES.contains(bytes)) {
            self.buffer_bytes = bytes;
        }
        if let Some(bytes) = number("striping_unit").filter(|bytes| *bytes <= *WINDOW_BYTES.end()) {
            self.stripe_bytes = bytes;
        }
        if let Some(stripes) = number("striping_factor").and_then(|stripes| u32::try_from(stripes).ok()) {
            self.stripes = stripes;
        }
        self
    }

    /// Returns these hints, changed by those that a program sets for an open file. Hints about the creation
    /// of a file stay unchanged.
    pub fn changed_by<'a>(self, said: impl Fn(&str) -> Option<&'a str>) -> Hints {
        Hints { stripe_bytes: self.stripe_bytes, stripes: self.stripes, ..self.with_values(said) }
    }

    /// Returns true if members may exchange data before a collective access.
    fn is_collective(&self) -> bool {
        [self.exchange_reads, self.exchange_writes] != [Choice::Disable; 2]
    }

    /// Returns keys and values for MPI_File_get_info.
    pub fn in_force(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![
            ("romio_cb_read", self.exchange_reads.name().to_string()),
            ("romio_cb_write", self.exchange_writes.name().to_string()),
            ("collective_buffering", self.is_collective().to_string()),
            ("cb_buffer_size", self.buffer_bytes.to_string()),
        ];
        if self.aggregators > 0 {
            pairs.push(("cb_nodes", self.aggregators.to_string()));
        }
        if self.stripe_bytes > 0 {
            pairs.push(("striping_unit", self.stripe_bytes.to_string()));
        }
        if self.stripes > 0 {
            pairs.push(("striping_factor", self.stripes.to_string()));
        }
        // Only bytes that the program has passed are written, whatever the hint.
        pairs.push(("romio_ds_write", "disable".to_string()));
        pairs.push(("romio_ds_read", "automatic".to_string()));
        pairs
    }
}

/// Returns the hints of the environment's file that are ignored, with the reason.
pub fn ignored_of_environment() -> Vec<(String, &'static str)> {
    let text = tutti_sys::user::variable(HINTS_FILE).and_then(|path| std::fs::read_to_string(path).ok());
    ignored(&text.unwrap_or_default())
}

fn ignored(text: &str) -> Vec<(String, &'static str)> {
    let reason = |key: &str| {
        let known = IGNORED.iter().find(|(ignored, _)| *ignored == key);
        known.map_or("no hint that is known here", |(_, why)| *why)
    };
    let others = parse(text).filter(|(key, _)| !HONOURED.contains(key));
    others.map(|(key, _)| (key.to_string(), reason(key))).collect()
}

/// Parses a file of hints into pairs of key and value.
fn parse(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter_map(|line| line.split_once(char::is_whitespace)).map(|(key, value)| (key, value.trim()))
}

/// Names of file systems that other libraries expect before a path (`ufs:/scratch/file`). They are ignored:
/// the kernel knows the file system.
const PREFIXES: [&[u8]; 12] = [
    b"ufs:",
    b"nfs:",
    b"lustre:",
    b"gpfs:",
    b"panfs:",
    b"xfs:",
    b"pvfs2:",
    b"beegfs:",
    b"ceph:",
    b"tmpfs:",
    b"ext4:",
    b"gluster:",
];

/// Returns the path without the prefix of a file system.
pub fn without_prefix(name: &[u8]) -> &[u8] {
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(*prefix)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints_from(pairs: &[(&str, &str)]) -> Hints {
        let said = |key: &str| pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1);
        Hints::default().with_values(said)
    }

    fn check(pairs: &[(&str, &str)], expected: Hints) {
        assert_eq!(hints_from(pairs), expected);
    }

    #[test]
    fn what_makes_no_sense_changes_nothing() {
        check(
            &[("romio_cb_write", "perhaps"), ("cb_buffer_size", "-5"), ("cb_nodes", "x")],
            Hints::default(),
        );
        let wanted = Hints { exchange_writes: Choice::Enable, aggregators: 3, ..Hints::default() };
        check(&[("romio_cb_write", "enable"), ("cb_nodes", " 3 ")], wanted);
        let none =
            Hints { exchange_reads: Choice::Disable, exchange_writes: Choice::Disable, ..Hints::default() };
        check(&[("collective_buffering", "false")], none);
        assert_eq!(
            none.with_values(|key| (key == "collective_buffering").then_some("true")),
            Hints::default()
        );
        assert_eq!(none.changed_by(|key| key.starts_with("striping").then_some("7")), none);
        check(&[("cb_buffer_size", "8192")], Hints { buffer_bytes: 8192, ..Hints::default() });
    }

    #[test]
    fn what_is_in_force_is_told() {
        let hints = Hints { aggregators: 2, stripe_bytes: 65536, ..Hints::default() };
        let pairs = hints.in_force();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
        assert!(pairs.contains(&("cb_nodes", "2")));
        assert!(pairs.iter().all(|(key, _)| *key != "striping_factor"));
        check(&pairs, hints);
    }

    #[test]
    fn files_of_hints_are_read() {
        let text = "# all of it\n\ncb_nodes 3 # some\n romio_cb_write\tenable\nlonely\n";
        let wanted = Hints { exchange_writes: Choice::Enable, aggregators: 3, ..Hints::default() };
        check(&parse(text).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn what_is_ignored_is_told() {
        let told = ignored("cb_nodes 3\ncb_config_list *:1\nromio_ds_write enable\nfastest yes\n");
        let keys: Vec<&str> = told.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["cb_config_list", "fastest"]);
        assert!(told[1].1.contains("no hint"), "{told:?}");
    }

    #[test]
    fn prefixes_go() {
        assert_eq!(without_prefix(b"ufs:/tmp/a"), b"/tmp/a");
        assert_eq!(without_prefix(b"other:b"), b"other:b");
    }
}
