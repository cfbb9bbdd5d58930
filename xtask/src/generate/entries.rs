//! The entry points: `MPI_X` and `PMPI_X` for every function. Each converts its arguments to the typed
//! views of the abi crate's `scope` and calls the implementation of its family.

use super::family::{Families, Membership, Variant};
use super::header::{HANDLES, TOOL_ENUMS, TOOL_HANDLES};
use super::spec::{Function, Param, Spec};

const HEAD: &str = "#![allow(missing_docs, non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments, clippy::unnecessary_cast, \
                    reason = \"the C interface of the standard, documented there\")]\n\
                    #![allow(unused_imports, unused_variables, unused_unsafe, reason = \"functions without pointers or not implemented yet\")]\n\n\
                    use std::ffi::{c_char, c_double, c_int, c_void};\n\n\
                    use crate::entry::{At, Function, bare, entry, entry_in, unsupported};\n\
                    use crate::function::Parameter::*;\n\
                    use crate::form::Form;\nuse crate::generated::callbacks::*;\nuse crate::generated::constants::*;\n\
                    use crate::imp::{self, *};\nuse crate::lane;\nuse crate::status::StatusOut;\nuse crate::types::*;\n\n";

/// Files of entry points: prefix of the functions, and name of the file.
const FILES: &[(&str, &str)] = &[
    ("MPI_Comm_", "communicator"),
    ("MPI_File_", "file"),
    ("MPI_Group_", "group"),
    ("MPI_Info_", "info"),
    ("MPI_Session_", "session"),
    ("MPI_T_", "tool"),
    ("MPI_Type_", "datatype"),
    ("MPI_Win_", "window"),
];

const NUMBERS: &[&str] = &["int", "MPI_Aint", "MPI_Count", "MPI_Offset"];

/// Returns name and text of each file of entry points.
pub fn files(spec: &Spec) -> Result<Vec<(String, String)>, Vec<String>> {
    let mut files: Vec<(String, String)> = Vec::new();
    for (function, place) in Families::new(spec).places() {
        let name = file_of(&function.name);
        let text = entry_pair(spec, function, &place);
        match files.iter_mut().find(|(other, _)| *other == name) {
            Some((_, all)) => all.push_str(&text),
            None => files.push((name, format!("{HEAD}{text}"))),
        }
    }
    files.sort();
    files.push(("functions".to_string(), names(spec)));
    Ok(files)
}

/// Returns the text of the entry points beyond the standard.
pub fn extensions(spec: &Spec) -> String {
    let pairs: String =
        Families::new(spec).places().map(|(function, place)| entry_pair(spec, function, &place)).collect();
    format!("{HEAD}{pairs}")
}

/// Returns the name of the file that contains a function.
pub fn file_of(name: &str) -> String {
    if let Some((_, file)) = FILES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return (*file).to_string();
    }
    let letter = name.as_bytes()["MPI_".len()];
    match letter {
        b'A'..=b'G' => "a_to_g",
        b'H'..=b'I' => "h_to_i",
        b'J'..=b'Q' => "j_to_q",
        _ => "r_to_z",
    }
    .to_string()
}

/// Returns a table of all function names, each with a flag that tells if it is implemented.
fn names(spec: &Spec) -> String {
    let rows: String = Families::new(spec)
        .places()
        .map(|(function, place)| format!("    ({:?}, {}),\n", function.name, place.implementation.is_some()))
        .collect();
    format!(
        "\n/// Every function of the standard, and whether it is implemented.\n\
         pub static FUNCTIONS: &[(&str, bool)] = &[\n{rows}];\n"
    )
}

fn entry_pair(spec: &Spec, function: &Function, place: &Membership) -> String {
    let name = &function.name;
    let declared: Vec<String> =
        function.params.iter().map(|param| format!("{}: {}", rust_name(param), rust_type(param))).collect();
    let declared = declared.join(", ");
    let passed: Vec<String> = function.params.iter().map(rust_name).collect();
    let passed = passed.join(", ");
    let returns = match function.returns.as_str() {
        "int" => "c_int",
        "double" => "c_double",
        other => other,
    };
    let body = body(spec, function, place);
    format!(
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn P{name}({declared}) -> {returns} {{\n{body}\n}}\n\n\
         #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({declared}) -> {returns} {{\n    \
         // SAFETY: the same function under its other name.\n    unsafe {{ P{name}({passed}) }}\n}}\n\n"
    )
}

fn body(spec: &Spec, function: &Function, place: &Membership) -> String {
    let name = &function.name;
    let bare = spec.has(name, "bare");
    let always = bare || spec.has(name, "always");
    let parameters: Vec<String> =
        function.params.iter().map(|param| format!("({:?}, {})", param.name, kind(param))).collect();
    let parameters = parameters.join(", ");
    let record = format!("&Function {{ name: {name:?}, always: {always}, parameters: &[{parameters}] }}");
    let values: Vec<String> = function.params.iter().map(value).collect();
    let values = format!("|| [{}]", values.join(", "));
    let at = error_object(spec, function);
    let Some(implementation) = place.implementation else {
        return match function.returns.as_str() {
            "int" => format!("unsupported({record}, {at}, {values})"),
            "MPI_Aint" | "double" => panic!("{name} returns a value and has to be implemented"),
            _ => "Raw::predefined(0)".to_string(),
        };
    };
    let path = &implementation.path;
    let safety = "// SAFETY: the caller vouches for its arguments (MPI-5 section 2.5); see `crate::scope`.";
    if spec.has(name, "value") {
        let passed: Vec<String> = function.params.iter().map(rust_name).collect();
        return format!("imp::{path}({})", passed.join(", "));
    }
    let mut arguments = if bare { Vec::new() } else { vec!["call".to_string()] };
    if !implementation.extra.is_empty() {
        arguments.push(implementation.extra.clone());
    }
    let (plain, form) = split_form(function, place);
    arguments.extend(plain.iter().map(|param| argument(param, place)));
    arguments.extend(form);
    let arguments = arguments.join(", ");
    if bare {
        return format!("{safety}\nbare({record}, {values}, |scope| unsafe {{ imp::{path}({arguments}) }})");
    }
    let begin =
        lane(spec, function).map_or_else(|| "entry(".to_string(), |lane| format!("entry_in({lane}, "));
    format!("{safety}\n{begin}{record}, {at}, {values}, |call, scope| unsafe {{ imp::{path}({arguments}) }})")
}

/// Returns the lane that a function enters if it needs only messages: that of its requests or of its
/// communicator.
fn lane(spec: &Spec, function: &Function) -> Option<String> {
    if !spec.has(&function.name, "lane") {
        return None;
    }
    let of = |base: &str| function.params.iter().find(|param| param.base == base);
    if let Some(comm) = of("MPI_Comm") {
        return Some(format!("lane::of_comm({})", rust_name(comm)));
    }
    let requests = of("MPI_Request").unwrap_or_else(|| panic!("{} has no lane", function.name));
    let name = rust_name(requests);
    let count = function.params.iter().find(|param| ["count", "incount"].contains(&param.name.as_str()));
    Some(match count {
        Some(count) => format!("unsafe {{ lane::of_requests({}, {name}) }}", rust_name(count)),
        None => format!("unsafe {{ lane::of_request({name}) }}"),
    })
}

/// Returns the object whose error handler is called for errors.
fn error_object(spec: &Spec, function: &Function) -> String {
    if function.name.starts_with("MPI_T_") {
        return "At::Tool".to_string();
    }
    if spec.has(&function.name, "file") {
        return "At::File(MPI_FILE_NULL)".to_string();
    }
    let kinds = [("MPI_Comm", "Comm"), ("MPI_Win", "Win"), ("MPI_File", "File"), ("MPI_Session", "Session")];
    let handles = || function.params.iter().filter(|param| param.depth() == 0);
    let object = handles().find_map(|param| {
        let (_, kind) = kinds.iter().find(|(base, _)| *base == param.base)?;
        Some(format!("At::{kind}({})", rust_name(param)))
    });
    // A group has no error handler of its own.
    let group = || handles().find(|param| param.base == "MPI_Group");
    let of_group = || group().map(|param| format!("At::Group({})", rust_name(param)));
    object.or_else(of_group).unwrap_or_else(|| "At::World".to_string())
}

/// Splits off the parameters that determine how completion is reported.
fn split_form<'a>(function: &'a Function, place: &Membership) -> (&'a [Param], Option<String>) {
    let params = &function.params[..];
    if !place.implementation.is_some_and(|implementation| implementation.form) {
        return (params, None);
    }
    let (last, rest) = params.split_last().expect("a function with a form has parameters");
    let form = match place.variant {
        Variant::Blocking if last.base == "MPI_Status" => {
            return (rest, Some("Form::Blocking(scope.status_out(status))".to_string()));
        }
        Variant::Blocking => return (params, Some("Form::Blocking(StatusOut::IGNORE)".to_string())),
        Variant::Nonblocking => "Form::Nonblocking(scope.handle_out(request, \"request\"))",
        Variant::Persistent => match rest.split_last() {
            Some((info, before)) if info.base == "MPI_Info" => {
                let form =
                    "Form::Persistent(scope.handle(info, \"info\"), scope.handle_out(request, \"request\"))";
                return (before, Some(form.to_string()));
            }
            _ => {
                "Form::Persistent(scope.handle(MPI_INFO_NULL, \"info\"), scope.handle_out(request, \"request\"))"
            }
        },
    };
    (rest, Some(form.to_string()))
}

/// Returns the expression that converts a C argument to the implementation's argument.
fn argument(param: &Param, place: &Membership) -> String {
    let name = rust_name(param);
    let base = param.base.as_str();
    let number = NUMBERS.contains(&base);
    let view = |method: &str| format!("scope.{method}({name}, {:?})", param.name);
    let is_handle = is_handle(base);
    if param.array == "[][3]" {
        return view("array");
    }
    match param.depth() {
        0 if number && (base != "int" || place.is_mixed(param)) => format!("{name} as i64"),
        0 if is_handle => view("handle"),
        1 if base == "void" => format!("scope.address({name}.cast_mut())")
            .replace(".cast_mut()", if param.constant { ".cast_mut()" } else { "" }),
        1 if base == "char" && param.constant => view("text"),
        1 if base == "char" => view("text_out"),
        1 if base == "MPI_Status" && param.constant => view("status"),
        1 if base == "MPI_Status" && param.name.starts_with("array_of") => format!("scope.statuses({name})"),
        1 if base == "MPI_Status" => format!("scope.status_out({name})"),
        1 if param.name == "argc" => name,
        1 if number && place.is_mixed(param) && param.constant => view("counts"),
        1 if number && place.is_mixed(param) => view("count_out"),
        1 if is_handle && param.array.is_empty() => view("handle_out"),
        1 if (number || is_handle) && param.constant => view("array"),
        1 if (number || is_handle) && !param.array.is_empty() => view("array_out"),
        1 if number || is_tool(base) => view("out"),
        _ => name,
    }
}

/// Returns the variant of the abi crate's `Parameter` that determines how error reports show an argument.
fn kind(param: &Param) -> &'static str {
    let (name, base) = (param.name.as_str(), param.base.as_str());
    let ranks = ["dest", "source", "root", "rank", "target_rank", "rank_source", "rank_dest"];
    match param.depth() {
        0 if base == "int" && ranks.contains(&name) => "Rank",
        0 if base == "int" && (name == "tag" || name.ends_with("tag")) => "Tag",
        0 if base == "MPI_Comm" => "Comm",
        0 if is_handle(base) => "Handle",
        0 if is_tool(base) && !TOOL_ENUMS.contains(&base) => "Pointer",
        0 => "Number",
        1 if base == "void" => "Buffer",
        1 if base == "char" && param.constant => "Text",
        1 if base == "MPI_Status" && name.starts_with("array_of") => "Statuses",
        1 if base == "MPI_Status" => "Status",
        1 if name.ends_with("weights") => "Weights",
        _ => "Pointer",
    }
}

/// Returns the expression of the argument as a number, for error reports ([`kind`]).
fn value(param: &Param) -> String {
    let name = rust_name(param);
    match param.depth() {
        _ if is_callback(&param.base) => format!("{name}.map_or(0, |function| function as usize)"),
        0 if is_handle(&param.base) => format!("{name}.bits()"),
        _ => format!("{name} as usize"),
    }
}

fn is_handle(base: &str) -> bool {
    base.strip_prefix("MPI_").is_some_and(|rest| HANDLES.contains(&rest))
}

fn is_callback(base: &str) -> bool {
    base.ends_with("_function") || base.ends_with("_function_c")
}

fn is_tool(base: &str) -> bool {
    TOOL_ENUMS.contains(&base) || base.strip_prefix("MPI_T_").is_some_and(|rest| TOOL_HANDLES.contains(&rest))
}

/// Returns the name of a parameter in Rust.
pub fn rust_name(param: &Param) -> String {
    match param.name.as_str() {
        // Keywords of Rust, and the names of the closures' own arguments.
        "type" | "in" | "ref" | "call" | "scope" => format!("{}_", param.name),
        name => name.to_string(),
    }
}

/// Returns the type of a parameter of the C interface, in Rust.
pub fn rust_type(param: &Param) -> String {
    let base = match param.base.as_str() {
        "int" => "c_int",
        "char" => "c_char",
        "void" => "c_void",
        base if is_callback(base) => return format!("Option<{base}>"),
        base if TOOL_ENUMS.contains(&base) => "c_int",
        base => base,
    };
    let base = if param.array == "[][3]" { "[c_int; 3]" } else { base };
    // `const` qualifies the innermost type; outer pointers are never const in MPI.
    let outer = "*mut ".repeat(param.depth().saturating_sub(1));
    match param.depth() {
        0 => base.to_string(),
        _ if param.constant => format!("{outer}*const {base}"),
        _ => format!("{outer}*mut {base}"),
    }
}
