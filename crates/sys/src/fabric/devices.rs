//! Devices that a libfabric provider serves, found in /sys without loading the library.

use std::path::Path;

/// Kind of network: its provider, and the sign of its presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricKind {
    /// Name of the libfabric provider.
    pub provider: &'static str,
    /// System folder with an entry for each device.
    pub folder: &'static str,
    /// Prefix of the names of its entries.
    pub prefix: &'static str,
    /// True if the provider reaches every peer without connections.
    pub reliable: bool,
}

const INFINIBAND: &str = "sys/class/infiniband";

/// Known kinds of networks, fastest first.
pub const KINDS: [FabricKind; 6] = [
    FabricKind { provider: "cxi", folder: "sys/class/cxi", prefix: "cxi", reliable: true },
    FabricKind { provider: "efa", folder: INFINIBAND, prefix: "efa", reliable: true },
    FabricKind { provider: "opx", folder: INFINIBAND, prefix: "hfi1", reliable: true },
    FabricKind { provider: "psm2", folder: INFINIBAND, prefix: "hfi1", reliable: true },
    FabricKind { provider: "psm", folder: INFINIBAND, prefix: "qib", reliable: true },
    FabricKind { provider: "verbs", folder: INFINIBAND, prefix: "", reliable: false },
];

impl FabricKind {
    /// Returns the first device of this kind. `root` is the parent of the system's folders: `/`, except in
    /// tests.
    pub fn device(&self, root: &Path) -> Option<String> {
        let entries = std::fs::read_dir(root.join(self.folder)).ok()?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(self.prefix)).min()
    }
}
