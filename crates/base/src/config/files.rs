//! Settings of the files of io-servers (S10).

/// Settings of the files of io-servers (S10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The mount file of io-servers.
    pub io_mount: String,
    /// Whether ranks access files of io-servers on the same host directly.
    pub io_near: bool,
}

impl Default for Files {
    fn default() -> Files {
        Files { io_mount: String::new(), io_near: true }
    }
}
