//! Interface between `libmpi_abi.so.1` and the fronts, for both sides: its functions, and the callers of a
//! dialect.

use crate::generate::entries::rust_type;
use crate::generate::header::{HANDLES, TOOL_ENUMS, TOOL_HANDLES};
use crate::generate::spec::{Function, Param, Spec};

/// Function that returns the type of a parameter as one side writes it.
type TypeOf = fn(&Param) -> String;

const NAMES: &str = "#![allow(missing_docs, non_snake_case, clippy::type_complexity, reason = \"the names are those of the standard\")]\n\n";

/// Returns the abi's side of dialects: the structure, and the standard dialect.
pub fn dialect(spec: &Spec) -> String {
    let mut out = format!(
        "{NAMES}use std::ffi::{{c_int, c_void}};\n\nuse crate::generated::callbacks::*;\nuse crate::types::*;\n\n{}",
        dialect_structure(spec, rust_type)
    );
    let mut fields = String::new();
    for callback in &spec.callbacks {
        let name = &callback.name;
        fields.push_str(&format!("    {name}: call_{name},\n"));
        let passed: Vec<&str> = callback.params.iter().map(|param| param.name.as_str()).collect();
        out.push_str(&format!(
            "unsafe extern \"C\" fn call_{name}{} {{\n    // SAFETY: the program's function, which has this type.\n    \
             unsafe {{ std::mem::transmute::<usize, {name}>(function)({}) }}\n}}\n\n",
            caller(callback, rust_type),
            passed.join(", ")
        ));
    }
    out.push_str(&format!(
        "/// Programs of the standard ABI are called as they are.\npub static STANDARD: Dialect = Dialect {{\n{fields}}};\n"
    ));
    out
}

/// Returns the abi's side of the functions: one structure that a front finds by its name.
pub fn given(spec: &Spec) -> String {
    let fields: String = spec
        .functions
        .iter()
        .map(|one| format!("    {}: generated::{}::P{},\n", one.name, file(one), one.name))
        .collect();
    format!(
        "{NAMES}use std::ffi::{{c_char, c_double, c_int, c_void}};\n\nuse crate::dialect::{{Dialect, speak}};\n\
         use crate::generated::{{self, callbacks::*}};\nuse crate::types::*;\n\n{}\
         /// Functions for fronts.\n#[unsafe(no_mangle)]\npub static tutti_interface: Interface = Interface {{\n    \
         version: {:#x},\n    speak,\n{fields}}};\n",
        interface_structure(spec, rust_type),
        version(spec)
    )
    .replace("pub static tutti_interface", "#[allow(non_upper_case_globals, reason = \"a name in C\")]\npub static tutti_interface")
}

/// Returns the fronts' side of functions and dialects.
pub fn taken(spec: &Spec) -> String {
    format!(
        "{NAMES}use std::ffi::{{c_char, c_double, c_int, c_void}};\n\nuse crate::shared::standard::*;\n\n\
         /// Required [`Interface::version`]: both sides are of the same build.\npub const VERSION: u64 = {:#x};\n\n{}{}",
        version(spec),
        dialect_structure(spec, standard_type),
        interface_structure(spec, standard_type)
    )
}

fn dialect_structure(spec: &Spec, type_of: TypeOf) -> String {
    let fields: String = spec
        .callbacks
        .iter()
        .map(|one| format!("    pub {}: unsafe extern \"C\" fn{},\n", one.name, caller(one, type_of)))
        .collect();
    format!(
        "/// Callers of the program's functions, by the type of the function: its address and its arguments in the standard ABI.\n\
         #[repr(C)]\n#[derive(Clone, Copy, Debug)]\npub struct Dialect {{\n{fields}}}\n\n"
    )
}

fn interface_structure(spec: &Spec, type_of: TypeOf) -> String {
    let mut fields = String::new();
    for function in &spec.functions {
        let params: Vec<String> = function.params.iter().map(type_of).collect();
        let params = params.join(", ");
        fields.push_str(&format!(
            "    pub {}: unsafe extern \"C\" fn({params}) -> {},\n",
            function.name,
            type_of(&result(function))
        ));
    }
    format!(
        "/// The library's functions, as they are below any tool that wraps them.\n#[repr(C)]\n#[derive(Debug)]\npub struct Interface {{\n    \
         /// Changes with every function and callback.\n    pub version: u64,\n    \
         /// See [`crate::dialect`] of the abi.\n    pub speak: unsafe extern \"C\" fn(*const Dialect),\n{fields}}}\n\n"
    )
}

/// Returns parameters and result of a caller.
fn caller(callback: &Function, type_of: TypeOf) -> String {
    let params: Vec<String> =
        callback.params.iter().map(|param| format!("{}: {}", param.name, type_of(param))).collect();
    let returns = if callback.returns == "int" { " -> c_int" } else { "" };
    format!("(function: usize, {}){returns}", params.join(", "))
}

fn result(function: &Function) -> Param {
    let (name, array) = (String::new(), String::new());
    let base = if function.returns == "double" { "c_double".to_string() } else { function.returns.clone() };
    Param { name, base, constant: false, stars: 0, array }
}

/// Returns the type of a parameter in the standard ABI, with handles as numbers and callbacks as addresses.
pub fn standard_type(param: &Param) -> String {
    let base = param.base.as_str();
    let is =
        |names: &[&str], prefix: &str| base.strip_prefix(prefix).is_some_and(|rest| names.contains(&rest));
    if base.contains("_function") {
        return "*const c_void".to_string();
    }
    let mut plain = param.clone();
    if is(HANDLES, "MPI_") || is(TOOL_HANDLES, "MPI_T_") {
        plain.base = "usize".to_string();
    } else if TOOL_ENUMS.contains(&base) {
        plain.base = "int".to_string();
    } else if base == "MPI_Status" {
        plain.base = "Status".to_string();
    }
    rust_type(&plain)
}

fn file(function: &Function) -> String {
    crate::generate::entries::file_of(&function.name)
}

/// Returns a number that changes with every function and callback (FNV-1a).
fn version(spec: &Spec) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for function in spec.functions.iter().chain(&spec.callbacks) {
        for byte in
            [&function.name, &function.returns, &function.text].into_iter().flat_map(|text| text.bytes())
        {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}
