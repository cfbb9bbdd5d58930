//! The fronts (`crates/fronts`): libraries with the ABIs of MPICH and of Open MPI, which translate calls to
//! the standard one.
//!
//! Their common part (`shared`) is generated once and compiled with the types of each; constants, objects
//! and the names of handles are separate. The library `libmpi_abi.so.1` offers its functions to fronts as
//! one structure ([`interface`]). The functions cannot be found by name, because a front exports the same
//! names.

mod constants;
mod entries;
pub mod interface;
mod tables;

use super::spec::Spec;
use std::path::Path;

pub use tables::Tables;

/// Reads the tables of `spec/fronts/`.
pub fn tables(root: &Path, spec: &Spec) -> Result<Tables, Vec<String>> {
    Tables::read(root, spec)
}

/// Returns names and texts of the files of the fronts and of the abi's side of the interface.
pub fn files(root: &Path, spec: &Spec) -> Result<Vec<(String, String)>, Vec<String>> {
    let tables = Tables::read(root, spec)?;
    let abi = "crates/abi/src/generated";
    let shared = "crates/fronts/shared/generated";
    let mut files = vec![
        (format!("{abi}/dialect.rs"), interface::dialect(spec)),
        (format!("{abi}/interface.rs"), interface::given(spec)),
        (format!("{shared}/interface.rs"), interface::taken(spec)),
        (format!("{shared}/callbacks.rs"), entries::callbacks(spec, &tables)),
        (format!("{shared}/fortran.rs"), entries::fortran()),
    ];
    let parts = entries::files(spec, &tables);
    let mut modules: Vec<String> = parts
        .iter()
        .map(|(name, _)| name.clone())
        .chain(["callbacks", "fortran", "interface"].map(String::from))
        .collect();
    modules.sort();
    let list = modules.iter().map(|name| format!("pub mod {name};\n")).collect();
    files.extend(parts.into_iter().map(|(name, text)| (format!("{shared}/{name}.rs"), text)));
    files.push((format!("{shared}/mod.rs"), list));
    for abi in tables::Abi::ALL {
        files.push((
            format!("crates/fronts/{}/src/generated/constants.rs", abi.name()),
            constants::constants(spec, &tables, abi),
        ));
    }
    files.push((
        "crates/fronts/openmpi/src/generated/objects.rs".to_string(),
        constants::objects(spec, &tables),
    ));
    Ok(files)
}
