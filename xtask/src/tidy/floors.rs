//! The floors of each crate: a file or folder may use those on its floor or below, never those above
//! (`xtask/floors.txt`). The size of circles of files, and the number of public type names with several
//! meanings, may only fall.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::imports::{Crate, TypeName};
use super::table::{Section, Table};
use super::{circles, columns};

/// Crates that are part of an MPI program: in each, a public name must have one meaning.
const RUN_TIME: &[&str] = &["base", "sys", "data", "topo", "transport", "coll", "core", "io", "abi"];

/// State of a crate, or of all files outside of crates (`rest`).
#[derive(Debug, Default)]
struct Found {
    circle: Vec<String>,
    wide: usize,
    twice: BTreeMap<String, Vec<String>>,
}

/// Returns all complaints about floors. With `lower`, improvements are recorded in the table.
pub fn check(root: &Path, files: &[String], lower: bool) -> Result<Vec<String>, Vec<String>> {
    let mut table = Table::read(root)?;
    let mut complaints = Vec::new();
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for name in crates(files) {
        let known = read(root, files, &name)?;
        complaints.extend(stale(&table, &name, &known));
        complaints.extend(upward(&table, &name, &known));
        complaints.extend(leaving(&table, &name, &known));
        let own = found.entry(name.clone()).or_default();
        own.circle = circles::largest(&known.imports);
        if RUN_TIME.contains(&name.as_str()) {
            own.twice = twice(&known.types);
        }
    }
    for path in files {
        found.entry(room(path).unwrap_or("rest").to_string()).or_default().wide += columns::wide(root, path);
    }
    for (name, found) in &found {
        let Some(section) = table.section(name) else {
            complaints.push(format!("xtask/floors.txt: no section [{name}]"));
            continue;
        };
        println!("{name}: {}", summary(found));
        complaints.extend(grown(section, found));
        if lower {
            record(section, found);
        }
    }
    if lower && complaints.is_empty() {
        table.write(root)?;
    }
    Ok(complaints)
}

/// Returns the imports of a crate, one on each line, to help sort its files into floors.
pub fn imports(root: &Path, files: &[String], name: &str) -> Result<String, Vec<String>> {
    let known = read(root, files, name)?;
    Ok(known.imports.iter().map(|import| format!("{} {}\n", import.from, import.to)).collect())
}

/// Returns the names of all crates with a `src` below `crates`.
fn crates(files: &[String]) -> BTreeSet<String> {
    let root = |path: &&String| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    files.iter().filter(root).filter_map(|path| room(path)).map(str::to_string).collect()
}

/// Returns the crate of a file.
fn room(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split('/').next()
}

fn read(root: &Path, files: &[String], name: &str) -> Result<Crate, Vec<String>> {
    let src = format!("crates/{name}/src/");
    let own = files.iter().filter_map(|path| path.strip_prefix(&src)).filter(|path| path.ends_with(".rs"));
    // Each program in `bin` is a crate by itself.
    let own: Vec<String> = own.filter(|path| !path.starts_with("bin/")).map(str::to_string).collect();
    Crate::read(&root.join(&src), &own).map_err(|error| vec![format!("{src}{error}")])
}

/// Returns the sections of a crate, each with its folder as a prefix of its files.
fn sections<'a>(table: &'a Table, name: &str) -> Vec<(&'a Section, String)> {
    let folder = |section: &'a Section| match section.name.strip_prefix(name)? {
        "" => Some((section, String::new())),
        folder => Some((section, format!("{}/", folder.strip_prefix('/')?))),
    };
    let floored = table.sections.iter().filter(|section| !section.floors.is_empty());
    floored.filter_map(folder).collect()
}

/// Returns the entry of a file in the floors of a folder: the file or folder directly in it.
fn part<'a>(file: &'a str, folder: &str) -> Option<&'a str> {
    let own = file.strip_prefix(folder)?;
    own.split('/').next().map(|part| part.strip_suffix(".rs").unwrap_or(part))
}

fn floor(section: &Section, part: &str) -> Option<usize> {
    section.floors.iter().position(|names| names.iter().any(|name| name == part))
}

/// Complains about files without a floor, and names in the table without a file.
fn stale(table: &Table, name: &str, known: &Crate) -> Vec<String> {
    let mut complaints = Vec::new();
    for (section, folder) in sections(table, name) {
        let parts: BTreeSet<&str> = known.files.iter().filter_map(|file| part(file, &folder)).collect();
        let homeless = parts.iter().filter(|part| floor(section, part).is_none());
        complaints.extend(homeless.map(|part| {
            format!(
                "crates/{name}/src/{folder}{part}: has no floor: give it one in xtask/floors.txt, [{}]",
                section.name
            )
        }));
        let gone = section.floors.iter().flatten().filter(|part| !parts.contains(part.as_str()));
        complaints
            .extend(gone.map(|part| format!("xtask/floors.txt: [{}]: there is no {part}", section.name)));
    }
    complaints
}

/// Complains about imports that point upward.
fn upward(table: &Table, name: &str, known: &Crate) -> Vec<String> {
    let mut complaints = Vec::new();
    for (section, folder) in sections(table, name) {
        for import in &known.imports {
            let (Some(from), Some(to)) = (part(&import.from, &folder), part(&import.to, &folder)) else {
                continue;
            };
            let (Some(low), Some(high)) = (floor(section, from), floor(section, to)) else { continue };
            if low < high {
                complaints.push(format!(
                    "crates/{name}/src/{}:{}: uses {}, but {from} is on floor {} of {} and {to} above it, on floor {}: \
                     move what both need below (xtask/floors.txt)",
                    import.from, import.line, import.to, low + 1, section.name, high + 1
                ));
            }
        }
    }
    complaints
}

/// Complains about circles that leave a file or folder of a closed section.
fn leaving(table: &Table, name: &str, known: &Crate) -> Vec<String> {
    let closed = sections(table, name).into_iter().filter(|(section, _)| section.closed);
    let complaints = closed.filter_map(|(section, folder)| {
        let parts = known.imports.iter().filter_map(|import| {
            let both = (part(&import.from, &folder)?, part(&import.to, &folder)?);
            (both.0 != both.1).then_some(both)
        });
        let circle = circles::largest_of(parts);
        (circle.len() > 1).then(|| {
            let parts = circle.join(" ");
            format!("{}: a circle leaves its folder: {parts} use each other (xtask/floors.txt)", section.name)
        })
    });
    complaints.collect()
}

/// Returns names of several public types, with their files.
fn twice(types: &[TypeName]) -> BTreeMap<String, Vec<String>> {
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for TypeName { name, file } in types {
        by_name.entry(name.clone()).or_default().push(file.clone());
    }
    by_name.retain(|_, files| files.len() > 1);
    by_name
}

/// Complains about values that are worse than recorded.
fn grown(section: &Section, found: &Found) -> Vec<String> {
    let name = &section.name;
    let mut complaints = Vec::new();
    if found.circle.len() > section.circle.unwrap_or(0).max(1) {
        let known = section.circle.unwrap_or(0);
        let files = found.circle.join(" ");
        complaints.push(format!(
            "{name}: {} files use each other in a circle (at most {known}): {files}",
            found.circle.len()
        ));
    }
    if found.wide > section.wide.unwrap_or(0) {
        complaints.push(format!(
            "{name}: {} lines of comment or prose are longer than {} columns (at most {} were): see git diff",
            found.wide,
            columns::COLUMNS,
            section.wide.unwrap_or(0)
        ));
    }
    let new = found.twice.iter().filter(|(name, _)| !section.twice.contains(name));
    complaints.extend(new.map(|(word, files)| {
        format!("{name}: {word} is a public type in {}: a name means one thing", files.join(" and "))
    }));
    complaints
}

/// Records the present values where they are better than before.
fn record(section: &mut Section, found: &Found) {
    section.circle = Some(found.circle.len()).filter(|files| *files > 1);
    section.wide = Some(found.wide).filter(|lines| *lines > 0);
    section.twice.retain(|name| found.twice.contains_key(name));
}

fn summary(found: &Found) -> String {
    let circle = match found.circle.len() {
        0 | 1 => "no circle of files".to_string(),
        files => format!("largest circle of {files} files"),
    };
    let wide = if found.wide == 0 { String::new() } else { format!(", {} long lines", found.wide) };
    let names: Vec<&str> = found.twice.keys().map(String::as_str).collect();
    let twice =
        if names.is_empty() { String::new() } else { format!(", several meanings of {}", names.join(" ")) };
    format!("{circle}{wide}{twice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(floors: &[&[&str]]) -> Section {
        let floors = floors.iter().map(|names| names.iter().map(ToString::to_string).collect()).collect();
        Section { name: "core".to_string(), floors, ..Section::default() }
    }

    /// Checks the complaints about a crate of two floors, one file of which has the content `text`.
    fn check(file: &str, text: &str, expected: &[&str]) {
        let table = Table { sections: vec![section(&[&["wire", "flow"], &["p2p"]])], ..Table::default() };
        let others = [("wire.rs", "pub struct Packet;"), ("flow.rs", ""), ("p2p/mod.rs", "pub fn send() {}")];
        let own = others.into_iter().filter(|(name, _)| *name != file).chain([(file, text)]);
        let files: Vec<(String, String)> =
            own.map(|(name, text)| (name.to_string(), text.to_string())).collect();
        let known = Crate::parse(&files).expect("it is Rust");
        assert_eq!(upward(&table, "core", &known), expected);
    }

    #[test]
    fn a_wrong_import_is_found() {
        check("p2p/mod.rs", "use crate::wire::Packet;", &[]);
        check("flow.rs", "use crate::wire::Packet;", &[]);
        check(
            "flow.rs",
            "// why\nuse crate::p2p;\nfn f() { p2p::send() }",
            &[
                "crates/core/src/flow.rs:3: uses p2p/mod.rs, but flow is on floor 1 of core and p2p above it, on floor 2: \
               move what both need below (xtask/floors.txt)",
            ],
        );
    }

    #[test]
    fn no_circle_leaves_a_folder_of_what_is_closed() {
        let files = |inner: &str, outer: &str| {
            let named = [
                ("wire.rs", outer),
                ("flow.rs", "pub struct Credit;"),
                ("p2p/mod.rs", "mod a;\npub struct P;"),
            ];
            let own = named.into_iter().chain([("p2p/a.rs", inner)]);
            let own: Vec<(String, String)> =
                own.map(|(name, text)| (name.to_string(), text.to_string())).collect();
            Crate::parse(&own).expect("it is Rust")
        };
        let complaints = |closed, known: &Crate| {
            let own = Section { closed, ..section(&[&["wire", "flow", "p2p"]]) };
            leaving(&Table { sections: vec![own], ..Table::default() }, "core", known)
        };
        let within = files("use super::P;\nuse crate::flow::Credit;", "");
        assert_eq!(complaints(true, &within), Vec::<String>::new());
        let beyond = files("use crate::wire::W;", "use crate::p2p::P;\npub struct W;");
        let expected = "core: a circle leaves its folder: p2p wire use each other (xtask/floors.txt)";
        assert_eq!(complaints(true, &beyond), [expected]);
        assert_eq!(complaints(false, &beyond), Vec::<String>::new());
    }

    #[test]
    fn files_and_floors_belong_together() {
        let table = Table { sections: vec![section(&[&["gone"]])], ..Table::default() };
        let known = Crate { files: BTreeSet::from(["new.rs".to_string()]), ..Crate::default() };
        assert_eq!(stale(&table, "core", &known).len(), 2);
    }

    #[test]
    fn what_is_wrong_may_only_get_less() {
        let circle = vec!["a.rs".to_string(), "b.rs".to_string()];
        let types =
            ["a.rs", "b.rs"].map(|file| TypeName { name: "Kind".to_string(), file: file.to_string() });
        let found = Found { circle, wide: 1, twice: twice(&types) };
        let mut own = section(&[]);
        assert_eq!(grown(&own, &found).len(), 3);
        own = Section { circle: Some(2), wide: Some(1), twice: vec!["Kind".to_string()], ..own };
        assert_eq!(grown(&own, &found), Vec::<String>::new());
        record(&mut own, &Found::default());
        assert_eq!(own, section(&[]));
    }
}
