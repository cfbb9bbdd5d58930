//! Constants, translations of integers, and objects of the fronts.

use super::tables::{Abi, Constant, Tables};
use crate::generate::header::HANDLES;
use crate::generate::spec::Spec;

/// Domains whose values are combinations of bits.
const FLAGS: &[&str] = &["assertion", "access"];

/// Returns the text of a front's `constants.rs`.
pub fn constants(spec: &Spec, tables: &Tables, abi: Abi) -> String {
    let mut out = "#![allow(missing_docs, dead_code, reason = \"the names are those of the standard\")]\n#![allow(clippy::manual_range_patterns, clippy::match_single_binding, reason = \"generated\")]\n\n\
                   use std::ffi::c_int;\n\nuse crate::shared::kind;\nuse crate::shared::standard::MPI_Offset;\n\n"
        .to_string();
    if abi == Abi::Mpich {
        out = out.replace("use crate::shared::kind;", "use crate::shared::kind::{self, Kind};");
    }
    let has = |constant: &&Constant| constant.value(abi).is_some();
    for constant in tables.constants.iter().filter(has) {
        let Constant { name, domain, .. } = constant;
        let value = constant.value(abi).expect("it was filtered");
        match domain.as_str() {
            "handle" => {}
            "limit" => out.push_str(&format!("pub const {name}: usize = {value};\n")),
            "position" => out.push_str(&format!("pub const {name}: MPI_Offset = {value};\n")),
            "buffer" => out.push_str(&format!("pub const {name}: isize = {value};\n")),
            _ => out.push_str(&format!("pub const {name}: c_int = {value};\n")),
        }
    }
    let mut domains: Vec<&str> = tables.constants.iter().map(|constant| constant.domain.as_str()).collect();
    domains.sort_unstable();
    domains.dedup();
    for domain in domains {
        if !["handle", "limit", "buffer", "version", "last_code"].contains(&domain) {
            out.push_str(&translation(spec, tables, abi, domain));
        }
    }
    if abi == Abi::Mpich {
        HANDLES.iter().for_each(|handle| out.push_str(&numbers(spec, tables, handle)));
    }
    out
}

/// Returns the two translation functions of a domain.
fn translation(spec: &Spec, tables: &Tables, abi: Abi, domain: &str) -> String {
    let (ctype, constants): (&str, Vec<&Constant>) = (
        if domain == "position" { "MPI_Offset" } else { "c_int" },
        tables.constants.iter().filter(|constant| constant.domain == domain).collect(),
    );
    let here: Vec<(&str, String)> = constants
        .iter()
        .filter(|constant| constant.value(abi).is_some())
        .map(|constant| (constant.name.as_str(), standard_value(spec, &constant.name)))
        .collect();
    if FLAGS.contains(&domain) {
        let pairs: String = here.iter().map(|(name, standard)| format!("({name}, {standard}), ")).collect();
        return format!(
            "\nconst {}: &[(c_int, c_int)] = &[{pairs}];\n\n\
             pub fn {domain}_in(flags: c_int) -> c_int {{\n    kind::flags_in({0}, flags)\n}}\n\n\
             pub fn {domain}_out(flags: c_int) -> c_int {{\n    kind::flags_out({0}, flags)\n}}\n",
            domain.to_uppercase()
        );
    }
    let others = |all: Vec<String>| {
        let list = all.join(" | ");
        let refused =
            format!("        {list} => kind::NOTHING{},\n", if ctype == "c_int" { "" } else { "_FAR" });
        if all.is_empty() { String::new() } else { refused }
    };
    let function = |name: &str, arms: String, refused: String| {
        let rest = if domain == "error" { format!("kind::other_{name}(value)") } else { "value".to_string() };
        format!(
            "\npub fn {name}(value: {ctype}) -> {ctype} {{\n    match value {{\n{arms}{refused}        _ => {rest},\n    }}\n}}\n"
        )
    };
    let arms_in: String =
        here.iter().map(|(name, standard)| format!("        {name} => {standard},\n")).collect();
    let arms_out: String =
        here.iter().map(|(name, standard)| format!("        {standard} => {name},\n")).collect();
    if domain == "error" {
        let success = |arms: String| format!("        0 => 0,\n{arms}");
        return function("error_in", success(arms_in), String::new())
            + &function("error_out", success(arms_out), String::new());
    }
    // A value of the standard without meaning here must not be interpreted as another constant of the
    // standard.
    let values: Vec<i64> = here
        .iter()
        .map(|(name, _)| {
            number(
                constants
                    .iter()
                    .find(|one| one.name == *name)
                    .and_then(|one| one.value(abi))
                    .expect("it has one"),
            )
        })
        .collect();
    let misread: Vec<String> = constants
        .iter()
        .map(|constant| standard_value(spec, &constant.name))
        .filter(|standard| !values.contains(&number(standard)))
        .collect();
    function(&format!("{domain}_in"), arms_in, others(misread))
        + &function(&format!("{domain}_out"), arms_out, String::new())
}

fn number(text: &str) -> i64 {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .expect("constants are numbers")
}

fn standard_value(spec: &Spec, name: &str) -> String {
    let constant = spec.constants.iter().find(|constant| constant.name == name);
    constant.expect("the tables were checked").value.clone()
}

/// Returns the predefined handles of a kind as pairs of numbers: MPICH's and the standard's.
fn numbers(spec: &Spec, tables: &Tables, handle: &str) -> String {
    let ctype = format!("MPI_{handle}");
    let mut pairs = String::new();
    for constant in spec.constants.iter().filter(|constant| constant.ctype == ctype) {
        let row = tables.constants.iter().find(|row| row.name == constant.name);
        // If several numbers have one meaning, the library's handle becomes the last one of the list.
        for value in row.and_then(|row| row.value(Abi::Mpich)).unwrap_or("").split_whitespace().rev() {
            pairs.push_str(&format!("({value}_u32 as c_int, {}), ", constant.value));
        }
    }
    if handle == "Datatype" {
        pairs.push_str("(0x4c000010, kind::LOWER_BOUND), (0x4c000011, kind::UPPER_BOUND), ");
    }
    let kind = handle;
    format!(
        "\nimpl Kind for kind::{kind} {{\n    const NULL: usize = {};\n    const NAME: &'static str = {handle:?};\n}}\n\n\
         pub const {}: &[(c_int, usize)] = &[{pairs}];\n",
        standard_value(spec, &format!("MPI_{}_NULL", handle.to_uppercase())),
        handle.to_uppercase()
    )
}

/// Returns the text of `objects.rs` of Open MPI's front.
pub fn objects(spec: &Spec, tables: &Tables) -> String {
    let mut out =
        "#![allow(missing_docs, non_upper_case_globals, reason = \"the names are those of Open MPI\")]\n\n\
                   use crate::handles::{Object, Predefined};\nuse crate::shared::kind::{self, Kind};\n\n"
            .to_string();
    let value = |name: &str| match name {
        "" => "kind::INVALID".to_string(),
        "MPI_LB" => "kind::LOWER_BOUND".to_string(),
        "MPI_UB" => "kind::UPPER_BOUND".to_string(),
        name => standard_value(spec, name),
    };
    for object in &tables.objects {
        out.push_str(&format!(
            "#[unsafe(no_mangle)]\npub static {}: Object<{}> = Object::new({});\n",
            object.symbol,
            object.bytes / 8 - 1,
            value(&object.constant)
        ));
    }
    for handle in HANDLES {
        let ctype = format!("MPI_{handle}");
        let of_kind = |name: &str| match name {
            "MPI_LB" | "MPI_UB" => *handle == "Datatype",
            name => spec.constants.iter().any(|constant| constant.name == name && constant.ctype == ctype),
        };
        let rows: String = tables
            .objects
            .iter()
            .filter(|object| of_kind(&object.constant))
            .map(|object| {
                let fortran = if object.fortran.is_empty() { "-1" } else { object.fortran.as_str() };
                format!(
                    "    Predefined::new({}, &raw const {}, {fortran}),\n",
                    value(&object.constant),
                    object.symbol
                )
            })
            .collect();
        out.push_str(&format!(
            "\nimpl Kind for kind::{handle} {{\n    const NULL: usize = {};\n    const NAME: &'static str = {handle:?};\n}}\n\n\
             pub static {}: &[Predefined] = &[\n{rows}];\n",
            standard_value(spec, &format!("MPI_{}_NULL", handle.to_uppercase())),
            handle.to_uppercase()
        ));
    }
    out
}
