//! Parser of the tables in `spec/`.

use std::fs;
use std::path::Path;

/// Function of the standard.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name with its prefix: `MPI_Send_c`.
    pub name: String,
    /// C type of the result.
    pub returns: String,
    /// Parameters in order; empty for `void`.
    pub params: Vec<Param>,
    /// True if the parameter list ends in `...`.
    pub variadic: bool,
    /// Version of the standard that deprecated the function, or empty.
    pub deprecated: String,
    /// Parameter list as written in the table.
    pub text: String,
}

/// Parameter of a function or callback.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name of the parameter.
    pub name: String,
    /// Type without qualifiers: `int`, `MPI_Comm`.
    pub base: String,
    /// True if the innermost type is `const`.
    pub constant: bool,
    /// Number of `*` in the type.
    pub stars: usize,
    /// Array suffix: `[]`, `[][3]` or empty.
    pub array: String,
}

/// Constant of the standard.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Name of the constant.
    pub name: String,
    /// C type, or `alias` for another name of a constant.
    pub ctype: String,
    /// C literal, or the name of the constant that an alias denotes.
    pub value: String,
}

/// Implementation, from a row of `implemented.tsv`.
#[derive(Clone, Debug)]
pub struct Implementation {
    /// Base name of a family, or the exact name of a function.
    pub name: String,
    /// Path below `imp` in the abi crate.
    pub path: String,
    /// True if the non-blocking and persistent variants use this implementation too, with a `Form`.
    pub form: bool,
    /// Constant arguments that are inserted after the call token.
    pub extra: String,
}

/// Annotation, from a row of `annotations.tsv`.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Name of a function; `*` at either end matches anything.
    pub pattern: String,
    /// Property of the matching functions: see the head of the table.
    pub property: String,
}

/// Contents of all tables from which code is generated.
#[derive(Debug)]
pub struct Spec {
    /// Functions of the standard, in the order of their names.
    pub functions: Vec<Function>,
    /// Callback types, in the format of functions.
    pub callbacks: Vec<Function>,
    /// Constants in the order of the standard.
    pub constants: Vec<Constant>,
    /// Implemented families and functions, with the paths of their implementations.
    pub implemented: Vec<Implementation>,
    /// Properties of functions, by name patterns.
    pub annotations: Vec<Annotation>,
}

impl Param {
    fn parse(text: &str) -> Param {
        let (declared, array) = match text.find('[') {
            Some(at) => (&text[..at], text[at..].to_string()),
            None => (text, String::new()),
        };
        let name_at = declared.rfind([' ', '*']).map_or(0, |at| at + 1);
        let (ctype, name) = declared.split_at(name_at);
        let stars = ctype.matches('*').count();
        let base = ctype.replace('*', " ").replace("const ", " ").trim().to_string();
        Param { name: name.to_string(), base, constant: ctype.starts_with("const "), stars, array }
    }

    /// Returns the number of indirections, written as pointers or as an array.
    pub fn depth(&self) -> usize {
        self.stars + usize::from(!self.array.is_empty())
    }
}

impl Function {
    /// Parses a row of a table: name, result, parameters, and optional fields.
    pub fn parse(row: &[String]) -> Function {
        let text = row[2].clone();
        let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| *word != "void").collect();
        Function {
            name: row[0].clone(),
            returns: row[1].clone(),
            variadic: words.contains(&"..."),
            params: words.into_iter().filter(|word| *word != "...").map(Param::parse).collect(),
            deprecated: row.get(3).cloned().unwrap_or_default(),
            text,
        }
    }
}

impl Annotation {
    fn covers(&self, name: &str) -> bool {
        covers(&self.pattern, name)
    }
}

/// Returns true if a pattern, in which `*` at either end matches anything, matches a name.
pub fn covers(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some("") | None, Some("")) => true,
        (Some(end), Some(_)) => name.contains(end.trim_end_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => pattern == name,
    }
}

impl Spec {
    /// Returns the constant that an alias denotes, or the constant itself.
    pub fn target<'a>(&'a self, constant: &'a Constant) -> &'a Constant {
        let meant = || self.constants.iter().find(|other| other.name == constant.value);
        if constant.ctype == "alias" { meant().expect("an alias names another constant") } else { constant }
    }

    /// Reads the tables under `root/spec`.
    pub fn read(root: &Path) -> Result<Spec, Vec<String>> {
        let table = |name: &str| rows(&root.join("spec").join(name));
        let field = |row: &[String], index: usize| row.get(index).cloned().unwrap_or_default();
        let spec = Spec {
            functions: table("functions.tsv")?.iter().map(|row| Function::parse(row)).collect(),
            callbacks: table("callbacks.tsv")?.iter().map(|row| Function::parse(row)).collect(),
            constants: table("constants.tsv")?
                .iter()
                .map(|row| Constant { name: row[0].clone(), ctype: row[1].clone(), value: row[2].clone() })
                .collect(),
            implemented: table("implemented.tsv")?
                .iter()
                .map(|row| Implementation {
                    name: row[0].clone(),
                    path: row[1].clone(),
                    form: field(row, 2) == "form",
                    extra: field(row, 3),
                })
                .collect(),
            annotations: table("annotations.tsv")?
                .iter()
                .map(|row| Annotation { pattern: row[0].clone(), property: row[1].clone() })
                .collect(),
        };
        spec.complain_about_names()?;
        Ok(spec)
    }

    /// Returns the function with this name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        let at = self.functions.binary_search_by(|function| function.name.as_str().cmp(name)).ok()?;
        Some(&self.functions[at])
    }

    /// Returns true if `annotations.tsv` gives `property` to the function.
    pub fn has(&self, name: &str, property: &str) -> bool {
        self.annotations.iter().any(|entry| entry.property == property && entry.covers(name))
    }

    fn complain_about_names(&self) -> Result<(), Vec<String>> {
        let mut complaints = Vec::new();
        if !self.functions.is_sorted_by(|one, two| one.name < two.name) {
            complaints.push("spec/functions.tsv: not in the order of the names".to_string());
        }
        if !self.implemented.is_sorted_by(|one, two| one.name < two.name) {
            complaints.push("spec/implemented.tsv: sort it by name (LC_ALL=C), each name once".to_string());
        }
        for entry in self.implemented.iter().filter(|entry| self.function(&entry.name).is_none()) {
            complaints.push(format!("spec/implemented.tsv: {} is not a function of MPI", entry.name));
        }
        for entry in &self.annotations {
            if !self.functions.iter().any(|function| entry.covers(&function.name)) {
                complaints.push(format!("spec/annotations.tsv: {} covers no function", entry.pattern));
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }
}

/// Prefix of names that are not the standard's.
pub const EXTENSION: &str = "MPIX_";

/// Returns the functions beyond the standard as tables of their own, with the constants of `spec`.
pub fn extensions(root: &Path, spec: &Spec) -> Result<Spec, Vec<String>> {
    let rows = rows(&root.join("spec").join("extensions.tsv"))?;
    let implemented = rows.iter().map(|row| Implementation {
        name: row[0].clone(),
        path: row[3].clone(),
        form: false,
        extra: String::new(),
    });
    let beyond = |constant: &&Constant| constant.name.starts_with(EXTENSION);
    Ok(Spec {
        functions: rows.iter().map(|row| Function::parse(&row[..3])).collect(),
        callbacks: Vec::new(),
        constants: spec.constants.iter().filter(beyond).cloned().collect(),
        implemented: implemented.collect(),
        annotations: Vec::new(),
    })
}

/// Reads the rows of a table, without its head and its comments.
pub fn rows(path: &Path) -> Result<Vec<Vec<String>>, Vec<String>> {
    let text = fs::read_to_string(path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    let lines = text.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(|line| line.split('\t').map(str::to_string).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, name: &str, base: &str, constant: bool, stars: usize, array: &str) {
        let expected = Param { name: name.into(), base: base.into(), constant, stars, array: array.into() };
        assert_eq!(Param::parse(text), expected);
    }

    #[test]
    fn parameters_parse() {
        check("const void *buf", "buf", "void", true, 1, "");
        check("int ranges[][3]", "ranges", "int", false, 0, "[][3]");
        check("char ***argv", "argv", "char", false, 3, "");
        check("const MPI_Datatype sendtypes[]", "sendtypes", "MPI_Datatype", true, 0, "[]");
        check("char **array_of_argv[]", "array_of_argv", "char", false, 2, "[]");
        check("const int level", "level", "int", true, 0, "");
    }
}
