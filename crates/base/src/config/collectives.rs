//! Settings of collectives: memory, choice of algorithms, and paths between hosts.

/// Whether algorithms are tried while the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tune {
    /// The model chooses.
    #[default]
    Off,
    /// Results of earlier runs are used, and nothing is tried.
    Known,
    /// Repeated operations are tuned, and the results are stored for later runs.
    On,
}

impl Tune {
    pub(super) const NAMES: [(&str, Tune); 3] =
        [("off", Tune::Off), ("known", Tune::Known), ("on", Tune::On)];

    /// Returns the value with this name in the notation of the setting.
    pub fn of_name(name: &str) -> Option<Tune> {
        Tune::NAMES.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
    }

    /// Returns the value in the notation of the setting.
    pub fn name(self) -> &'static str {
        Tune::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }

    /// Returns true if results of tuning may replace the choice of the model.
    pub fn is_on(self) -> bool {
        self != Tune::Off
    }
}

/// Strategy by which tuning finds the next candidate ([`Tune::On`]; barigou-2016, section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuneSearch {
    /// Successive halving: all candidates are measured, then the better half again.
    Halving,
    /// Brute force: all samples of one candidate, then the next.
    Row,
    /// Optimisation of one attribute after the other.
    Attributes,
    /// Factorial design: the extreme values of all attributes, then the remaining candidates.
    Factorial,
}

impl TuneSearch {
    pub(super) const NAMES: [(&str, TuneSearch); 4] = [
        ("halving", TuneSearch::Halving),
        ("row", TuneSearch::Row),
        ("attributes", TuneSearch::Attributes),
        ("factorial", TuneSearch::Factorial),
    ];

    /// Returns the value in the notation of the setting.
    pub fn name(self) -> &'static str {
        TuneSearch::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Choices of the library that are printed (`TUTTI_EXPLAIN`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Explain {
    /// None.
    #[default]
    Off,
    /// Algorithms of the program's collectives: the choice and the next best.
    Short,
    /// All candidates, and the ways of messages and memory.
    All,
}

impl Explain {
    /// Values and their notation in the setting.
    pub(super) const NAMES: [(&str, Explain); 3] =
        [("0", Explain::Off), ("1", Explain::Short), ("all", Explain::All)];

    /// Returns the value in the notation of the setting.
    pub fn name(self) -> &'static str {
        Explain::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }

    /// Returns true if algorithms are printed.
    pub fn is_on(self) -> bool {
        self != Explain::Off
    }

    /// Returns true if everything is printed.
    pub fn is_all(self) -> bool {
        self == Explain::All
    }
}

/// Whether the kernel's packet program does small collectives between hosts (S9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Offload if `tutti netd` runs on the hosts.
    Auto,
    /// Offload is required: operations fail without it.
    On,
    /// Never.
    Off,
}

impl Offload {
    pub(super) const NAMES: [(&str, Offload); 3] =
        [("auto", Offload::Auto), ("on", Offload::On), ("off", Offload::Off)];

    pub(super) fn name(self) -> &'static str {
        Offload::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Whether broadcasts between hosts are multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multicast {
    /// Never.
    Off,
    /// Multicast where it works and is faster. A communicator tests this as soon as multicast could have
    /// saved as much time as the test takes.
    Auto,
    /// Multicast where it works and is faster, tested at the first broadcast.
    On,
}

impl Multicast {
    pub(super) const NAMES: [(&str, Multicast); 3] =
        [("auto", Multicast::Auto), ("on", Multicast::On), ("off", Multicast::Off)];

    pub(super) fn name(self) -> &'static str {
        Multicast::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Settings of collectives: memory, choice of algorithms, and paths between hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collectives {
    /// Room for the banks of all communicators of a node (`None`: by the number of ranks).
    pub collective_bytes: Option<u64>,
    /// Payload of a large slot of a bank (`None`: by the number of members).
    pub bank_bytes: Option<u64>,
    /// Payload of a small slot of a bank.
    pub bank_small_bytes: u64,
    /// Small slots of a bank.
    pub bank_small_slots: u64,
    /// Force the algorithm of collectives: `bcast=knomial:radix=4,allreduce=ring`.
    pub algorithm: String,
    /// File with the costs of this machine; empty: see [`Config::model_path`].
    pub model_file: String,
    /// Whether the first job on a kind of machine measures its costs.
    pub calibrate: bool,
    /// Reductions give the same bits whatever the machine, the binding and the algorithm.
    pub deterministic: bool,
    /// Sums and products are rounded once, so that their bits do not depend on the order of operands.
    pub reproducible: bool,
    /// Choices of the library that are printed.
    pub explain: Explain,
    /// Whether algorithms are tried while the program runs.
    pub tune: Tune,
    /// Strategy by which tuning finds the next candidate.
    pub tune_search: TuneSearch,
    /// Whether tuning may choose reductions that give other bits.
    pub tune_any_order: bool,
    /// Part of a program's time that tuning may lose, in percent.
    pub tune_budget: u64,
    /// Whether the kernel's packet program does small collectives.
    pub offload: Offload,
    /// Whether broadcasts between hosts are multicast.
    pub multicast: Multicast,
    /// Datagrams of a multicast stream that are under way at a time.
    pub multicast_window: u64,
}

impl Default for Collectives {
    fn default() -> Collectives {
        Collectives {
            collective_bytes: None,
            bank_bytes: None,
            bank_small_bytes: 4096,
            bank_small_slots: 128,
            algorithm: String::new(),
            model_file: String::new(),
            calibrate: false,
            deterministic: false,
            reproducible: false,
            explain: Explain::Off,
            tune: Tune::Off,
            tune_search: TuneSearch::Halving,
            tune_any_order: false,
            tune_budget: 1,
            offload: Offload::Auto,
            multicast: Multicast::Auto,
            multicast_window: 256,
        }
    }
}
