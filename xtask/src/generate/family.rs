//! Families: the functions of MPI that one hand-written function implements.
//!
//! `MPI_Bcast`, `MPI_Bcast_c`, `MPI_Ibcast`, `MPI_Ibcast_c`, `MPI_Bcast_init` and `MPI_Bcast_init_c` are one
//! family; its base is `MPI_Bcast`. Members differ in the width of their integers and in how they report
//! completion ([`Variant`]).

use super::spec::{Function, Implementation, Param, Spec};

/// How a member of a family reports completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// When it returns.
    Blocking,
    /// By a request: `MPI_I...`.
    Nonblocking,
    /// By a request that is started later: `MPI_..._init`.
    Persistent,
}

/// Where a function belongs.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// Its line in `implemented.tsv`, if there is one.
    pub implementation: Option<&'a Implementation>,
    /// Which variant it is; `Blocking` where its implementation takes no form.
    pub variant: Variant,
    /// The parameter types that occur under each name in the members that share the implementation.
    pub siblings: Vec<&'a Function>,
}

/// The name without the suffix of large counts, if what is left is a function too.
fn narrow<'a>(spec: &'a Spec, name: &str) -> Option<&'a Function> {
    let base = name.strip_suffix("_c").or_else(|| name.strip_suffix("_x"))?;
    spec.function(base)
}

/// The blocking function that `name` (without large counts) is a variant of.
fn blocking<'a>(spec: &'a Spec, name: &str) -> Option<(&'a Function, Variant)> {
    if let Some(base) = name.strip_suffix("_init").and_then(|base| spec.function(base)) {
        return Some((base, Variant::Persistent));
    }
    // MPI_Ibcast -> MPI_Bcast, MPI_File_iread -> MPI_File_read, MPI_Comm_idup_with_info -> MPI_Comm_dup_with_info
    let marks = name.match_indices("_i").chain(name.match_indices("_I"));
    let base = marks.filter_map(|(at, mark)| {
        let (before, after) = (&name[..=at], &name[at + mark.len()..]);
        let after = if mark == "_I" { capitalised(after) } else { after.to_string() };
        spec.function(&format!("{before}{after}"))
    });
    base.map(|base| (base, Variant::Nonblocking)).next()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// The base name that `function` is implemented under, and its variant.
fn resolve<'a>(spec: &'a Spec, function: &'a Function) -> (Option<&'a Implementation>, Variant) {
    let line = |name: &str| spec.implemented.iter().find(|entry| entry.name == name);
    let narrow = narrow(spec, &function.name).unwrap_or(function);
    if let Some(entry) = line(&function.name).or_else(|| line(&narrow.name)) {
        return (Some(entry), Variant::Blocking);
    }
    if let Some((base, variant)) = blocking(spec, &narrow.name)
        && let Some(entry) = line(&base.name).filter(|entry| entry.form)
    {
        return (Some(entry), variant);
    }
    (None, Variant::Blocking)
}

/// The places of all functions.
#[derive(Debug)]
pub struct Families<'a> {
    spec: &'a Spec,
    resolved: Vec<(Option<&'a Implementation>, Variant)>,
}

impl<'a> Families<'a> {
    /// Sorts the functions of `spec` into families.
    pub fn new(spec: &'a Spec) -> Families<'a> {
        let resolved = spec.functions.iter().map(|function| resolve(spec, function)).collect();
        Families { spec, resolved }
    }

    /// All functions with their places.
    pub fn places(&self) -> impl Iterator<Item = (&'a Function, Place<'a>)> {
        self.spec.functions.iter().zip(&self.resolved).map(|(function, (implementation, variant))| {
            let siblings = self.siblings(*implementation);
            (function, Place { implementation: *implementation, variant: *variant, siblings })
        })
    }

    fn siblings(&self, implementation: Option<&Implementation>) -> Vec<&'a Function> {
        let Some(mine) = implementation else { return Vec::new() };
        let shares = |other: &Option<&Implementation>| other.is_some_and(|other| other.path == mine.path);
        let all = self.spec.functions.iter().zip(&self.resolved);
        all.filter(|(_, (other, _))| shares(other)).map(|(function, _)| function).collect()
    }
}

impl Place<'_> {
    /// Whether the integers of `param` are of different width in different members of the family.
    pub fn is_mixed(&self, param: &Param) -> bool {
        let namesake = |function: &&Function| {
            function.params.iter().find(|other| other.name == param.name).map(|other| other.base.clone())
        };
        self.siblings.iter().filter_map(namesake).any(|base| base != param.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<(&str, Variant)>) {
        // The manifest directory is <root>/xtask.
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let spec = Spec::read(root).unwrap();
        let narrow = narrow(&spec, name).map_or(name, |function| &function.name);
        let got = blocking(&spec, narrow).map(|(function, variant)| (function.name.as_str(), variant));
        assert_eq!(got, expected, "{name}");
    }

    #[test]
    fn variants_find_their_base() {
        check("MPI_Ibcast_c", Some(("MPI_Bcast", Variant::Nonblocking)));
        check("MPI_Bcast_init_c", Some(("MPI_Bcast", Variant::Persistent)));
        check("MPI_File_iread_at_all", Some(("MPI_File_read_at_all", Variant::Nonblocking)));
        check("MPI_Comm_idup", Some(("MPI_Comm_dup", Variant::Nonblocking)));
        check("MPI_Comm_idup_with_info", Some(("MPI_Comm_dup_with_info", Variant::Nonblocking)));
        check("MPI_Session_init", None);
        check("MPI_Info_create", None);
        check("MPI_Bcast", None);
    }
}
