//! The functions that a front exports, and the callers of its programs' callbacks.

use super::tables::Tables;
use crate::generate::entries::{file_of, rust_name, rust_type};
use crate::generate::fronts::interface::standard_type;
use crate::generate::header::HANDLES;
use crate::generate::spec::{Function, Param, Spec};

const HEAD: &str = "#![allow(missing_docs, non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments, \
                    reason = \"the C interface of the standard, documented there\")]\n\
                    #![allow(unused_imports, reason = \"what some of the files need\")]\n\n\
                    use std::ffi::{c_char, c_double, c_int, c_void};\n\nuse crate::abi::*;\nuse crate::constants::*;\n\
                    use crate::shared::library::{Speaking, library};\n\
                    use crate::shared::places::*;\nuse crate::shared::standard::{self, MPI_Aint, MPI_Count, MPI_Offset};\n\
                    use crate::shared::{others, special};\n\n";

/// Code of an entry point for one parameter: statements before and after the call, and the argument in the
/// standard ABI.
#[derive(Default)]
struct Passed {
    before: Option<String>,
    argument: String,
    after: Option<String>,
}

/// Returns names and texts of the files of entry points.
pub fn files(spec: &Spec, tables: &Tables) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    let replaced = |function: &&Function| !tables.others.iter().any(|other| other.name == function.name);
    for function in spec.functions.iter().filter(replaced) {
        let name = file_of(&function.name);
        let text = match tables.says(&function.name, "*", "hand") {
            true => by_hand(function, "special"),
            false => entry(function, &function.name, tables),
        };
        match files.iter_mut().find(|(other, _)| *other == name) {
            Some((_, all)) => all.push_str(&text),
            None => files.push((name, format!("{HEAD}{text}"))),
        }
    }
    let mut own = HEAD.to_string();
    for function in &tables.others {
        own.push_str(&match function.deprecated.as_str() {
            "" => by_hand(function, "others"),
            same => entry(function, same, tables),
        });
    }
    files.push(("more".to_string(), own));
    files
}

/// Returns the conversions between handles and integers: the functions of Fortran, and those of the
/// standard that do the same.
pub fn fortran() -> String {
    let mut out = format!("{HEAD}use crate::shared::kind::Handle;\n\n");
    for handle in HANDLES {
        let kind = if *handle == "Datatype" { "Type" } else { handle };
        for (there, here) in [("c2f", "f2c"), ("toint", "fromint")] {
            let safety = "\n    // SAFETY: the same function under its other name.\n    unsafe";
            out.push_str(&format!(
                "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn PMPI_{kind}_{there}(handle: MPI_{handle}) -> c_int {{\n    handle.fortran()\n}}\n\n\
                 #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn MPI_{kind}_{there}(handle: MPI_{handle}) -> c_int {{{safety} {{ PMPI_{kind}_{there}(handle) }}\n}}\n\n\
                 #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn PMPI_{kind}_{here}(number: c_int) -> MPI_{handle} {{\n    MPI_{handle}::from_fortran(number)\n}}\n\n\
                 #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn MPI_{kind}_{here}(number: c_int) -> MPI_{handle} {{{safety} {{ PMPI_{kind}_{here}(number) }}\n}}\n\n"
            ));
        }
    }
    out
}

/// Returns the callers of a front, which pass arguments to callbacks in the program's ABI.
pub fn callbacks(spec: &Spec, tables: &Tables) -> String {
    let mut out = format!(
        "{HEAD}use crate::shared::generated::interface::Dialect;\nuse crate::shared::standard::Status;\nuse crate::shared::kind::Handle;\n\n"
    );
    let mut fields = String::new();
    for callback in &spec.callbacks {
        let name = &callback.name;
        fields.push_str(&format!("    {name}: call_{name},\n"));
        let types: Vec<String> = callback.params.iter().map(foreign_type).collect();
        let declared: Vec<String> =
            callback.params.iter().map(|param| format!("{}: {}", param.name, standard_type(param))).collect();
        let passed: Vec<Passed> =
            callback.params.iter().map(|param| heard(callback, param, tables)).collect();
        let (returns, result) =
            if callback.returns == "int" { (" -> c_int", "error_in(result)") } else { ("", "result") };
        out.push_str(&format!(
            "unsafe extern \"C\" fn call_{name}(function: usize, {}){returns} {{\n    \
             // SAFETY: the program's function, which has this type, and what the library gives it.\n    unsafe {{\n        \
             let function: unsafe extern \"C\" fn({}){returns} = std::mem::transmute(function);\n{}}}\n}}\n\n",
            declared.join(", "),
            types.join(", "),
            body(&passed, "function", "result", result)
        ));
    }
    out.push_str(&format!(
        "/// How programs of this ABI are called.\npub static DIALECT: Dialect = Dialect {{\n{fields}}};\n"
    ));
    out
}

fn by_hand(function: &Function, module: &str) -> String {
    let passed: Vec<String> = function.params.iter().map(rust_name).collect();
    let path = function.name.trim_start_matches("MPIX_").trim_start_matches("MPI_").to_lowercase();
    if path.ends_with("_toint") || path.ends_with("_fromint") {
        // These functions are generated together with those of Fortran.
        return String::new();
    }
    let body = format!(
        "    // SAFETY: the caller vouches for its arguments.\n    unsafe {{ {module}::{path}({}) }}\n",
        passed.join(", ")
    );
    pair(function, &body)
}

/// Returns an entry point that passes its arguments on to `target`.
fn entry(function: &Function, target: &str, tables: &Tables) -> String {
    let passed: Vec<Passed> =
        function.params.iter().map(|param| pass(function, target, param, tables)).collect();
    let speaks = function.params.iter().any(|param| param.base.contains("_function"));
    let speaking = if speaks { "        let _speaking = Speaking::begin();\n" } else { "" };
    let result = if function.returns == "int" { "answer(code)" } else { "code" };
    let body = format!(
        "    // SAFETY: the caller vouches for its arguments; what is passed on is theirs in the standard ABI.\n    unsafe {{\n{speaking}{}    }}\n",
        body(&passed, &format!("(library().{target})"), "code", result)
    );
    pair(function, &body)
}

fn body(passed: &[Passed], function: &str, code: &str, result: &str) -> String {
    let line = |text: &String| format!("        {text}\n");
    let before: String = passed.iter().filter_map(|one| one.before.as_ref()).map(line).collect();
    let after: String = passed.iter().filter_map(|one| one.after.as_ref()).map(line).collect();
    let arguments: Vec<&str> = passed.iter().map(|one| one.argument.as_str()).collect();
    let call = format!("{function}({})", arguments.join(", "));
    if after.is_empty() {
        let whole = if result == code { call } else { result.replace(code, &call) };
        return format!("{before}        {whole}\n");
    }
    let end = if code == result && code == "result" { String::new() } else { format!("        {result}\n") };
    let bound = if end.is_empty() { format!("{call};") } else { format!("let {code} = {call};") };
    format!("{before}        {bound}\n{after}{end}")
}

fn pair(function: &Function, body: &str) -> String {
    let name = &function.name;
    let declared: Vec<String> = function
        .params
        .iter()
        .map(|param| format!("{}: {}", rust_name(param), foreign_type(param)))
        .collect();
    let (declared, passed): (String, Vec<String>) =
        (declared.join(", "), function.params.iter().map(rust_name).collect());
    let returns = match function.returns.as_str() {
        "int" => "c_int",
        "double" => "c_double",
        other => other,
    };
    format!(
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn P{name}({declared}) -> {returns} {{\n{body}}}\n\n\
         #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({declared}) -> {returns} {{\n    \
         // SAFETY: the same function under its other name.\n    unsafe {{ P{name}({}) }}\n}}\n\n",
        passed.join(", ")
    )
}

fn is_handle(param: &Param) -> bool {
    param.base.strip_prefix("MPI_").is_some_and(|rest| HANDLES.contains(&rest))
}

/// Returns the type of a parameter in the front's own ABI.
fn foreign_type(param: &Param) -> String {
    if is_handle(param) || param.base == "MPI_Status" { rust_type(param) } else { standard_type(param) }
}

/// Returns the code that passes a parameter on to `target`.
fn pass(function: &Function, target: &str, param: &Param, tables: &Tables) -> Passed {
    let name = rust_name(param);
    let plain = Passed { argument: name.clone(), ..Passed::default() };
    let given_back = tables.says(target, &param.name, "inout");
    let how = if given_back { "inout" } else { "out" };
    let place = |before: String, after: String| Passed {
        before: Some(format!("let mut at_{name} = {before};")),
        argument: format!("at_{name}.place()"),
        after: Some(format!("at_{name}.{after};")),
    };
    if is_handle(param) {
        return match (param.depth(), tables.length(target, param)) {
            (0, _) => Passed { argument: format!("{name}.standard()"), ..plain },
            (1, None) => place(format!("HandlePlace::{how}({name})"), "finish()".to_string()),
            (1, Some(length)) => array(function, param, length),
            _ => panic!("{}: nobody says how long {} is", function.name, param.name),
        };
    }
    if param.base == "MPI_Status" {
        return status(target, param, tables, place);
    }
    if param.base == "void" && param.depth() == 1 && is_buffer(&param.name) {
        let cast = if param.constant {
            format!("buffer_in({name}.cast_mut())")
        } else {
            format!("buffer_in({name})")
        };
        return Passed { argument: cast, ..plain };
    }
    if param.name == "buffer_addr" {
        return Passed { after: Some(format!("buffer_out({name}.cast());")), ..plain };
    }
    if param.base == "MPI_T_pvar_handle" && param.depth() == 0 {
        return Passed { argument: format!("pvar_handle_in({name})"), ..plain };
    }
    if param.name.ends_with("weights") && param.depth() == 1 {
        let cast = if param.constant {
            format!("weights_in({name}.cast_mut())")
        } else {
            format!("weights_in({name})")
        };
        return Passed { argument: cast, ..plain };
    }
    match tables.domain(target, param).filter(|domain| *domain != "plain") {
        None => plain,
        Some(limit) if limit.starts_with("MPI_MAX") => {
            let length = function.params.iter().find(|other| other.name == "resultlen");
            let length = length.map_or("std::ptr::null_mut()".to_string(), rust_name);
            place(
                format!("TextPlace::<{{ standard::{limit} }}>::new({name}, {limit})"),
                format!("finish({length})"),
            )
        }
        Some(domain) if param.depth() == 0 => Passed { argument: format!("{domain}_in({name})"), ..plain },
        Some(domain) if given_back => {
            place(format!("IntPlace::inout({name}, {domain}_in, {domain}_out)"), "finish()".to_string())
        }
        Some(domain) => place(format!("IntPlace::out({name}, {domain}_out)"), "finish()".to_string()),
    }
}

/// Returns the code that passes on one status or several. `place` creates the code for one that is
/// returned.
fn status(target: &str, param: &Param, tables: &Tables, place: impl Fn(String, String) -> Passed) -> Passed {
    let name = rust_name(param);
    let finish = "finish()".to_string();
    match tables.length(target, param) {
        Some(length) => place(format!("StatusPlaces::new({name}, {length} as isize)"), finish),
        None if param.constant => Passed {
            before: Some(format!("let given_{name} = StatusGiven::new({name});")),
            argument: format!("given_{name}.pointer()"),
            after: None,
        },
        None if target.starts_with("MPI_Status_set") => place(format!("StatusPlace::inout({name})"), finish),
        None => place(format!("StatusPlace::out({name})"), finish),
    }
}

fn array(function: &Function, param: &Param, length: &str) -> Passed {
    let name = rust_name(param);
    let length = match (param.name.as_str(), function.params.iter().any(|other| other.name == "sendbuf")) {
        // The types are not read if the data are in place.
        ("sendtypes", true) => format!("if is_in_place(sendbuf) {{ 0 }} else {{ {length} as isize }}"),
        _ => format!("{length} as isize"),
    };
    if param.constant {
        return Passed {
            before: Some(format!("let given_{name} = Handles::new({name}, {length});")),
            argument: format!("given_{name}.pointer()"),
            after: None,
        };
    }
    Passed {
        before: Some(format!("let mut given_{name} = Handles::new({name}, {length});")),
        argument: format!("given_{name}.place()"),
        after: Some(format!("given_{name}.give_back({name});")),
    }
}

/// Returns true for a buffer in whose place a constant is allowed (MPI_BOTTOM, MPI_IN_PLACE,
/// MPI_BUFFER_AUTOMATIC).
fn is_buffer(name: &str) -> bool {
    (name.contains("buf") || name.ends_with("_addr")) && name != "buffer_addr"
}

/// Returns the code that passes a parameter to a callback of the program.
fn heard(callback: &Function, param: &Param, tables: &Tables) -> Passed {
    let name = &param.name;
    let plain = Passed { argument: name.clone(), ..Passed::default() };
    if is_handle(param) && param.depth() == 0 {
        return Passed { argument: format!("MPI_{}::foreign({name})", &param.base["MPI_".len()..]), ..plain };
    }
    if is_handle(param) {
        return Passed {
            before: Some(format!("let mut own_{name} = {}::foreign(*{name});", param.base)),
            argument: format!("&raw mut own_{name}"),
            after: None,
        };
    }
    if param.base == "MPI_Status" {
        return Passed {
            before: Some(format!("let mut own_{name} = MPI_Status::from_standard(&*{name});")),
            argument: format!("&raw mut own_{name}"),
            after: Some(format!("own_{name}.tell(&mut *{name});")),
        };
    }
    match tables.domain(&callback.name, param) {
        Some(domain) if param.depth() == 0 => Passed { argument: format!("{domain}_out({name})"), ..plain },
        Some(domain) => Passed {
            before: Some(format!("let mut own_{name} = {domain}_out(*{name});")),
            argument: format!("&raw mut own_{name}"),
            after: Some(format!("*{name} = {domain}_in(own_{name});")),
        },
        None => plain,
    }
}
