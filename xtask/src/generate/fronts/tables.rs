//! Parser of the tables in `spec/fronts/`.

use std::path::Path;

use crate::generate::spec::{Function, Param, Spec, covers, rows};

/// ABI that a front implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// ABI of MPICH: libmpi.so.12.
    Mpich,
    /// ABI of Open MPI: libmpi.so.40.
    OpenMpi,
}

/// Constant in all ABIs.
#[derive(Debug)]
pub struct Constant {
    /// Name of the constant in the standard.
    pub name: String,
    /// Domain of values that the constant belongs to, as a word of the table.
    pub domain: String,
    values: [String; 2],
}

/// Object whose address is a handle in Open MPI's ABI.
#[derive(Debug)]
pub struct Object {
    /// Symbol of the object.
    pub symbol: String,
    /// Size of the object in bytes.
    pub bytes: usize,
    /// Name of the handle's constant; empty if the standard has none.
    pub constant: String,
    /// Number of the handle in Fortran, or empty.
    pub fortran: String,
}

/// Property of a parameter or of a function, from the table of arguments.
#[derive(Debug)]
struct Meaning {
    function: String,
    parameter: String,
    meaning: String,
}

/// Contents of all tables of the fronts.
#[derive(Debug)]
pub struct Tables {
    /// Constants, from the rows of `constants.tsv`.
    pub constants: Vec<Constant>,
    /// Objects, from the rows of `objects.tsv`.
    pub objects: Vec<Object>,
    /// Rows of `others.tsv`: functions that only these ABIs have. The field of the deprecation has the
    /// standard function that does the same.
    pub others: Vec<Function>,
    meanings: Vec<Meaning>,
}

impl Abi {
    /// Both ABIs of fronts.
    pub const ALL: [Abi; 2] = [Abi::Mpich, Abi::OpenMpi];

    /// Returns the name of the ABI's folder.
    pub fn name(self) -> &'static str {
        match self {
            Abi::Mpich => "mpich",
            Abi::OpenMpi => "openmpi",
        }
    }
}

impl Constant {
    /// Returns the value in an ABI, if the ABI has the constant.
    pub fn value(&self, abi: Abi) -> Option<&str> {
        let value = &self.values[abi as usize];
        (!value.is_empty()).then_some(value.as_str())
    }
}

impl Tables {
    /// Reads the tables, and reports names that do not exist.
    pub fn read(root: &Path, spec: &Spec) -> Result<Tables, Vec<String>> {
        let table = |name: &str| rows(&root.join("spec/fronts").join(name));
        let field = |row: &[String], index: usize| row.get(index).cloned().unwrap_or_default();
        let tables = Tables {
            constants: table("constants.tsv")?
                .iter()
                .map(|row| Constant {
                    name: row[0].clone(),
                    domain: row[1].clone(),
                    values: [field(row, 2), field(row, 3)],
                })
                .collect(),
            objects: table("objects.tsv")?
                .iter()
                .map(|row| Object {
                    symbol: row[0].clone(),
                    bytes: row[1].parse().expect("a number of bytes"),
                    constant: field(row, 2),
                    fortran: field(row, 3),
                })
                .collect(),
            others: table("others.tsv")?.iter().map(|row| Function::parse(row)).collect(),
            meanings: table("arguments.tsv")?
                .iter()
                .map(|row| Meaning {
                    function: row[0].clone(),
                    parameter: row[1].clone(),
                    meaning: row[2].clone(),
                })
                .collect(),
        };
        tables.complain(spec)?;
        Ok(tables)
    }

    /// Returns true if the tables state `meaning` for a function, or for this parameter of it.
    pub fn says(&self, function: &str, parameter: &str, meaning: &str) -> bool {
        let all = |one: &&Meaning| parameter != "*" || one.parameter == "*";
        let said = |one: &&Meaning| {
            covers(&one.function, function) && (parameter == "*" || covers(&one.parameter, parameter))
        };
        self.meanings.iter().filter(all).filter(said).any(|one| one.meaning == meaning)
    }

    /// Returns the domain or limit of a parameter, if the tables state one.
    pub fn domain(&self, function: &str, param: &Param) -> Option<&str> {
        let mut all = self.about(function, &param.name);
        all.find(|said| !said.contains('(') && !["inout", "hand"].contains(said))
    }

    /// Returns the length of an array as an expression, if the tables state one.
    pub fn length(&self, function: &str, param: &Param) -> Option<&str> {
        self.about(function, &param.name).find_map(|said| said.strip_prefix("length(")?.strip_suffix(')'))
    }

    fn about(&self, function: &str, parameter: &str) -> std::vec::IntoIter<&str> {
        let said = |one: &&Meaning| covers(&one.function, function) && covers(&one.parameter, parameter);
        let all: Vec<&str> = self.meanings.iter().filter(said).map(|one| one.meaning.as_str()).collect();
        all.into_iter()
    }

    fn complain(&self, spec: &Spec) -> Result<(), Vec<String>> {
        let mut complaints = Vec::new();
        let known = |name: &str| spec.constants.iter().any(|constant| constant.name == name);
        for constant in self.constants.iter().filter(|constant| !known(&constant.name)) {
            complaints.push(format!("spec/fronts/constants.tsv: {} is not a constant of MPI", constant.name));
        }
        let functions = || spec.functions.iter().chain(&spec.callbacks);
        for one in &self.meanings {
            let applies = |function: &Function| {
                let parameters = || function.params.iter().any(|param| covers(&one.parameter, &param.name));
                covers(&one.function, &function.name) && (one.parameter == "*" || parameters())
            };
            if !functions().any(applies) {
                let Meaning { function, parameter, .. } = one;
                complaints.push(format!("spec/fronts/arguments.tsv: {function} {parameter} covers nothing"));
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }
}
