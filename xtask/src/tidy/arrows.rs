//! The test that dependencies between the crates point in one direction.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Crates, each with the crates that it may depend on (ARCHITECTURE.md).
pub const ALLOWED: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("sys", &["base"]),
    ("data", &["base"]),
    // There is no dependency on sys: the caller provides randomness and I/O.
    ("seal", &["base"]),
    ("topo", &["base", "sys"]),
    ("transport", &["base", "sys", "seal"]),
    ("coll", &["base", "data", "topo"]),
    // The part of the kernel's packet program that ranks and `tutti netd` share.
    ("offload", &["sys", "transport", "coll"]),
    // A decision: no I/O, and a part of the lean library.
    ("hang", &[]),
    ("core", &["base", "sys", "data", "topo", "transport", "coll", "offload", "seal", "hang"]),
    ("storage", &["base", "sys", "data", "seal"]),
    ("io", &["base", "sys", "data", "transport", "coll", "core", "storage"]),
    ("abi", &["base", "data", "core", "io"]),
    // For tests of crates with golden files.
    ("golden", &[]),
    // The fronts find the library when they are loaded, by its interface.
    ("fronts", &[]),
    ("fronts-mpich", &[]),
    ("fronts-openmpi", &[]),
    ("checkpoint", &["sys"]),
    ("launch", &["base", "sys", "topo", "checkpoint", "seal", "hang"]),
    // A compiler: its output uses the library like any other program.
    ("overlap", &[]),
    ("testbed", &["base", "sys"]),
    ("netd", &["sys", "offload"]),
    (
        "tools",
        &["base", "sys", "topo", "coll", "checkpoint", "launch", "testbed", "storage", "offload", "netd"],
    ),
];

/// Complains about every dependency that is not allowed.
pub fn check(root: &Path) -> Result<Vec<String>, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|error| vec![format!("cargo metadata: {error}")])?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| vec![format!("cargo metadata: {error}")])?;
    let packages =
        metadata["packages"].as_array().ok_or_else(|| vec!["cargo metadata: no packages".into()])?;
    Ok(packages.iter().flat_map(complaints_about).collect())
}

fn complaints_about(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let room = name.strip_prefix("tutti-");
    let rooms: Vec<&str> = package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
        .filter_map(|dependency| dependency["name"].as_str()?.strip_prefix("tutti-"))
        .collect();
    let allowed = match room.map(|room| ALLOWED.iter().find(|(name, _)| *name == room)) {
        // Development tasks may use the testbed, and of the library only the registry of settings.
        None => ["base", "testbed"].as_slice(),
        Some(Some((_, allowed))) => allowed,
        Some(None) => {
            return vec![format!("{name}: a new room: give it its arrows in xtask/src/tidy/arrows.rs")];
        }
    };
    let wrong = rooms.iter().filter(|other| !allowed.contains(other));
    wrong.map(|other| format!("{name} must not depend on tutti-{other} (ARCHITECTURE.md)")).collect()
}
