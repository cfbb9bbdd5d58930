//! Which devices of the system a provider of libfabric serves, found without loading it.

use std::path::Path;

/// A kind of network: its provider, and what shows that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricKind {
    /// The provider of libfabric.
    pub provider: &'static str,
    /// A folder of the system with an entry a device.
    pub folder: &'static str,
    /// How the names of its entries begin.
    pub prefix: &'static str,
    /// Whether the provider reaches everybody without connections.
    pub reliable: bool,
}

const INFINIBAND: &str = "sys/class/infiniband";

/// The kinds that are known, fastest first.
pub const KINDS: [FabricKind; 6] = [
    FabricKind { provider: "cxi", folder: "sys/class/cxi", prefix: "cxi", reliable: true },
    FabricKind { provider: "efa", folder: INFINIBAND, prefix: "efa", reliable: true },
    FabricKind { provider: "opx", folder: INFINIBAND, prefix: "hfi1", reliable: true },
    FabricKind { provider: "psm2", folder: INFINIBAND, prefix: "hfi1", reliable: true },
    FabricKind { provider: "psm", folder: INFINIBAND, prefix: "qib", reliable: true },
    FabricKind { provider: "verbs", folder: INFINIBAND, prefix: "", reliable: false },
];

impl FabricKind {
    /// The first device of this kind; `root` is where the system's folders are, `/` but in tests.
    pub fn device(&self, root: &Path) -> Option<String> {
        let entries = std::fs::read_dir(root.join(self.folder)).ok()?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(self.prefix)).min()
    }
}
