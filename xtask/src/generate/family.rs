//! Families: the MPI functions that one hand-written function implements.
//!
//! `MPI_Bcast`, `MPI_Bcast_c`, `MPI_Ibcast`, `MPI_Ibcast_c`, `MPI_Bcast_init` and `MPI_Bcast_init_c` are
//! one family; its base is `MPI_Bcast`. Members differ in the width of their integers and in the way in
//! which they report completion ([`Variant`]).

use super::spec::{Function, Implementation, Param, Spec};

/// Means by which a member of a family reports completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Completion when the function returns.
    Blocking,
    /// Completion of a request: `MPI_I...`.
    Nonblocking,
    /// Completion of a request that is started later: `MPI_..._init`.
    Persistent,
}

/// Family and variant of a function.
#[derive(Clone, Debug)]
pub struct Membership<'a> {
    /// Line of the function in `implemented.tsv`, if there is one.
    pub implementation: Option<&'a Implementation>,
    /// Variant of the function; `Blocking` if its implementation has no form parameter.
    pub variant: Variant,
    /// All members that share the implementation.
    pub siblings: Vec<&'a Function>,
}

/// Returns the function whose name lacks the suffix of large counts, if there is one.
fn narrow<'a>(spec: &'a Spec, name: &str) -> Option<&'a Function> {
    let base = name.strip_suffix("_c").or_else(|| name.strip_suffix("_x"))?;
    spec.function(base)
}

/// Returns the blocking function of which `name` (without large counts) is a variant.
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

/// Returns the implementation of `function`, and its variant.
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

/// Families and variants of all functions.
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

    /// Returns all functions with their families and variants.
    pub fn places(&self) -> impl Iterator<Item = (&'a Function, Membership<'a>)> {
        self.spec.functions.iter().zip(&self.resolved).map(|(function, (implementation, variant))| {
            let siblings = self.siblings(*implementation);
            (function, Membership { implementation: *implementation, variant: *variant, siblings })
        })
    }

    fn siblings(&self, implementation: Option<&Implementation>) -> Vec<&'a Function> {
        let Some(mine) = implementation else { return Vec::new() };
        let shares = |other: &Option<&Implementation>| other.is_some_and(|other| other.path == mine.path);
        let all = self.spec.functions.iter().zip(&self.resolved);
        all.filter(|(_, (other, _))| shares(other)).map(|(function, _)| function).collect()
    }
}

impl Membership<'_> {
    /// Returns true if the integers of `param` have different widths in members of the family.
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
