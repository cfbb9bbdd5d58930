//! Imports between the files of a crate, read from the source by `syn`, so that comments, strings and tests
//! do not count. A path is followed through re-exports to the file that defines its target. A re-export by
//! itself is no import, and neither is a module that is only named. Methods do not count, as no path names
//! their type.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::Visit;

use super::scan::{Module, Scan, Use};

/// Maximum number of re-exports that are followed before a path counts as unresolved.
const MOST_REEXPORTS: usize = 16;

/// Use of one file by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// File that uses the other, relative to the crate's `src`.
    pub from: String,
    /// Line of the first use.
    pub line: usize,
    /// File that defines the used item.
    pub to: String,
}

/// Public type that a crate defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeName {
    /// Name of the type.
    pub name: String,
    /// File of the definition, relative to the crate's `src`.
    pub file: String,
}

/// Facts about a crate that are read from its source.
#[derive(Debug, Default)]
pub struct Crate {
    /// All files that are no tests, relative to `src`.
    pub files: BTreeSet<String>,
    /// Imports between files, each pair once.
    pub imports: Vec<Import>,
    /// Public types, except those of tests.
    pub types: Vec<TypeName>,
}

impl Crate {
    /// Reads the files of a crate, given relative to its `src`.
    pub fn read(src: &Path, files: &[String]) -> Result<Crate, String> {
        let read = |file: &String| {
            let text = std::fs::read_to_string(src.join(file)).map_err(|error| format!("{file}: {error}"))?;
            Ok((file.clone(), text))
        };
        Crate::parse(&files.iter().map(read).collect::<Result<Vec<_>, String>>()?)
    }

    /// Parses files that are given with their text.
    pub fn parse(files: &[(String, String)]) -> Result<Crate, String> {
        let mut modules: BTreeMap<Vec<String>, Module> = BTreeMap::new();
        let mut tests: BTreeSet<Vec<String>> = BTreeSet::new();
        for (file, text) in files {
            let syntax = syn::parse_file(text).map_err(|error| format!("{file}: {error}"))?;
            let mut scan = Scan::new(file, module_of(file));
            scan.visit_file(&syntax);
            modules.extend(scan.modules);
            tests.extend(scan.tests);
        }
        modules.retain(|path, _| !(0..=path.len()).any(|end| tests.contains(&path[..end])));
        Ok(Crate::from_modules(&modules))
    }

    fn from_modules(modules: &BTreeMap<Vec<String>, Module>) -> Crate {
        let mut first: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut known = Crate::default();
        for (at, module) in modules {
            known.files.insert(module.file.clone());
            let types =
                module.types.iter().map(|name| TypeName { name: name.clone(), file: module.file.clone() });
            known.types.extend(types);
            let named = module.uses.values().flatten().filter(|named| !named.exported);
            for used in named.filter(|named| !names_a_module(modules, at, &named.path)).chain(&module.paths) {
                let Some(target) = resolve(modules, at, &used.path, MOST_REEXPORTS) else { continue };
                let to = &modules[&target].file;
                if *to != module.file {
                    let line = first.entry((module.file.clone(), to.clone())).or_insert(used.line);
                    *line = used.line.min(*line);
                }
            }
        }
        known.imports = first.into_iter().map(|((from, to), line)| Import { from, line, to }).collect();
        known
    }
}

/// Returns the path of the module in a file, as in `use crate::...`.
fn module_of(file: &str) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut words: Vec<String> = stem.split('/').map(str::to_string).collect();
    let root = words.len() == 1 && (words[0] == "lib" || words[0] == "main");
    if root || words.last().is_some_and(|word| word == "mod") {
        words.pop();
    }
    words
}

/// Returns the start of a path written in the module `at`: a module, and the remaining words.
fn start<'a>(
    modules: &BTreeMap<Vec<String>, Module>,
    at: &[String],
    path: &'a [String],
) -> Option<(Vec<String>, &'a [String])> {
    let mut module = at.to_vec();
    match path.first()?.as_str() {
        "crate" => return Some((Vec::new(), &path[1..])),
        "self" => return Some((module, &path[1..])),
        "super" => {}
        word => {
            module.push(word.to_string());
            let here = modules.contains_key(&module) || modules[at].uses.contains_key(word);
            return here.then(|| (at.to_vec(), path));
        }
    }
    let ups = path.iter().take_while(|word| *word == "super").count();
    module.truncate(module.len().checked_sub(ups)?);
    Some((module, &path[ups..]))
}

/// Returns true if a path ends at a module, and not at an item.
fn names_a_module(modules: &BTreeMap<Vec<String>, Module>, at: &[String], path: &[String]) -> bool {
    let Some((mut module, words)) = start(modules, at, path) else { return false };
    module.extend(words.iter().cloned());
    modules.contains_key(&module) && path.last().is_some_and(|word| word != "*")
}

/// Returns the module that defines the target of `path` in the module `at`; `None` for targets outside of
/// this crate.
fn resolve(
    modules: &BTreeMap<Vec<String>, Module>,
    at: &[String],
    path: &[String],
    bound: usize,
) -> Option<Vec<String>> {
    let (mut module, words) = start(modules, at, path)?;
    for (place, word) in words.iter().enumerate() {
        let mut inner = module.clone();
        inner.push(word.clone());
        if modules.contains_key(&inner) {
            module = inner;
            continue;
        }
        let known = modules.get(&module)?;
        // A function may have the name of a module that is bound beside it; only the module contains items.
        let is_prefix = place + 1 < words.len() && known.uses.contains_key(word);
        if word == "*" || known.items.contains(word) && !is_prefix {
            return Some(module);
        }
        let bound = bound.checked_sub(1)?;
        let follow = |used: &Use| {
            let whole: Vec<String> = used.path.iter().chain(&words[place + 1..]).cloned().collect();
            resolve(modules, &module, &whole, bound)
        };
        if let Some(used) = known.uses.get(word).and_then(|all| all.first()) {
            // The bound stops a name that refers to itself (`use tools::tools`).
            return follow(used);
        }
        for glob in known.uses.get("*").into_iter().flatten() {
            let base = &glob.path[..glob.path.len() - 1];
            let whole: Vec<String> = base.iter().chain(&words[place..]).cloned().collect();
            let found = resolve(modules, &module, &whole, bound);
            if found.as_ref().is_some_and(|found| modules[found].items.contains(word)) {
                return found;
            }
        }
        // A macro of the crate is found at the root. In other modules, the item was created by a macro.
        return (!module.is_empty()).then_some(module);
    }
    modules.contains_key(&module).then_some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files as `name: text`, imports as `from:line to`.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<(String, String)> =
            files.iter().map(|(file, text)| (file.to_string(), text.to_string())).collect();
        let known = Crate::parse(&files).expect("it is Rust");
        let got: Vec<String> =
            known.imports.iter().map(|i| format!("{}:{} {}", i.from, i.line, i.to)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn imports_are_found_wherever_a_path_may_stand() {
        let lib = ("lib.rs", "mod a;\nmod b;\nmod c;");
        let b = ("b.rs", "pub struct B;\npub fn f() {}");
        check(&[lib, b, ("a.rs", "use crate::b::B;\nfn g(_: B) {}")], &["a.rs:1 b.rs"]);
        check(&[lib, b, ("a.rs", "fn g(\n    _: super::b::B) {}")], &["a.rs:2 b.rs"]);
        check(&[lib, b, ("a.rs", "fn g() {\n  assert!(crate::b::f());\n}")], &["a.rs:2 b.rs"]);
        check(&[lib, b, ("a.rs", "use crate::b;\nfn g() {\n  b::f();\n}")], &["a.rs:3 b.rs"]);
        check(&[lib, b, ("a.rs", "use crate::b;\nfn b() {\n  b::f();\n}")], &["a.rs:3 b.rs"]);
        check(&[lib, b, ("a.rs", "use crate::b;")], &[]);
        check(&[lib, b, ("a.rs", "// crate::b::f\nconst S: &str = \"crate::b::f\";")], &[]);
        check(&[lib, b, ("a.rs", "use std::fmt;\nfn g(_: fmt::Error) {}")], &[]);
    }

    #[test]
    fn reexports_lead_to_who_defines() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use b::{B as Named, C};"),
            ("b/mod.rs", "mod c;\npub use c::*;\npub struct B;"),
            ("b/c.rs", "pub struct C;"),
            ("a.rs", "use crate::{\n  C,\n  Named};"),
        ];
        check(&files, &["a.rs:2 b/c.rs", "a.rs:3 b/mod.rs"]);
    }

    #[test]
    fn tests_do_not_count() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod t;"),
            ("t.rs", "use crate::a::A;"),
            ("a.rs", "pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }"),
            ("b.rs", "pub struct B;\n#[cfg(all(test, not(loom)))]\nfn f(_: crate::a::A) {}"),
        ];
        check(&files, &[]);
    }
}
