//! Generated Rust constants and callback types.

use super::entries::rust_type;
use super::header::{HANDLES, TOOL_ENUMS, TOOL_HANDLES};
use super::spec::{Constant, Spec};

/// Returns the text of `generated/constants.rs`.
pub fn constants(spec: &Spec) -> String {
    let mut out = "#![allow(missing_docs, reason = \"the names are those of the standard\")]\n\n\
                   use std::ffi::c_int;\n\nuse crate::types::*;\n\n"
        .to_string();
    for constant in &spec.constants {
        out.push_str(&declaration(constant, spec));
    }
    out
}

/// Returns the text of `generated/names.rs`: the names of predefined handles, whose numbers are unique
/// across kinds.
pub fn names(spec: &Spec) -> String {
    let is_handle = |constant: &&Constant| {
        constant.ctype.strip_prefix("MPI_").is_some_and(|rest| HANDLES.contains(&rest))
    };
    let rows: String = spec
        .constants
        .iter()
        .filter(is_handle)
        .map(|constant| format!("    ({}, {:?}),\n", constant.value, constant.name))
        .collect();
    format!(
        "\n/// Predefined handles: number and name.\npub static HANDLE_NAMES: &[(usize, &str)] = &[\n{rows}];\n"
    )
}

fn declaration(constant: &Constant, spec: &Spec) -> String {
    let Constant { name, ctype, value } = constant;
    let is_handle =
        |names: &[&str], prefix: &str| ctype.strip_prefix(prefix).is_some_and(|rest| names.contains(&rest));
    match ctype.as_str() {
        "int" => format!("pub const {name}: c_int = {value};\n"),
        "MPI_Offset" => format!("pub const {name}: i64 = {value};\n"),
        "alias" => {
            let ctype = &spec.target(constant).ctype;
            format!("pub const {name}: {ctype} = {value};\n")
        }
        _ if TOOL_ENUMS.contains(&ctype.as_str()) => format!("pub const {name}: c_int = {value};\n"),
        _ if is_handle(TOOL_HANDLES, "MPI_T_") => format!("pub const {name}: usize = {value};\n"),
        _ if is_handle(HANDLES, "MPI_") => format!("pub const {name}: {ctype} = Raw::predefined({value});\n"),
        // Buffers, ignored arguments and predefined callbacks are addresses that are only compared.
        _ => format!("pub const {name}: usize = {value};\n"),
    }
}

/// Returns the text of `generated/callbacks.rs`.
pub fn callbacks(spec: &Spec) -> String {
    let mut out =
        "#![allow(missing_docs, non_camel_case_types, reason = \"the names are those of the standard\")]\n\n\
                   use std::ffi::{c_int, c_void};\n\nuse crate::types::*;\n\n"
            .to_string();
    for callback in &spec.callbacks {
        let mut params: Vec<String> =
            callback.params.iter().map(|param| format!("{}: {}", param.name, rust_type(param))).collect();
        if callback.variadic {
            params.push("...".to_string());
        }
        let returns = if callback.returns == "int" { " -> c_int" } else { "" };
        out.push_str(&format!(
            "pub type {} = unsafe extern \"C\" fn({}){returns};\n",
            callback.name,
            params.join(", ")
        ));
    }
    out
}
