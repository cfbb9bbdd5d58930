//! Parser of the loops, blocks and statements of a region.

use std::collections::{BTreeMap, BTreeSet};

use super::types::{Access, Array, File, Fit, Loop, Parameter, Statement};
use crate::affine::{Affine, TermMeaning};
use crate::clang::{Kind, Node, Shape, Variable};
use crate::integers;
use crate::refusal::Unsupported;

/// Parser of one region.
pub struct Reader<'f, 's> {
    pub(super) file: &'f File<'s>,
    /// Node of the whole region.
    pub(super) region: &'s Node,
    /// Loops around the current position, beginning with the loop over time.
    pub(super) loops: Vec<Loop>,
    /// Variables that the nest being read has declared: where, and in how many loops.
    pub(super) locals: BTreeMap<usize, usize>,
    pub(super) arrays: BTreeMap<String, Array>,
    pub(super) parameters: BTreeMap<String, Parameter>,
    pub(super) fits: Vec<Fit>,
    /// Variables of loops of the region that are declared outside of it.
    pub(super) shared: BTreeSet<Variable>,
    /// Names for isl, which must not be words of its language.
    own_names: BTreeMap<Variable, String>,
    position: Vec<String>,
    nest: usize,
    statements: Vec<Statement>,
}

impl<'f, 's> Reader<'f, 's> {
    pub fn new(file: &'f File<'s>, region: &'s Node) -> Reader<'f, 's> {
        Reader {
            file,
            region,
            loops: Vec::new(),
            locals: BTreeMap::new(),
            arrays: BTreeMap::new(),
            parameters: BTreeMap::new(),
            fits: Vec::new(),
            shared: shared_counters(region),
            own_names: BTreeMap::new(),
            position: Vec::new(),
            nest: 0,
            statements: Vec::new(),
        }
    }

    /// Returns all statements, in order.
    pub fn take_statements(&mut self) -> Vec<Statement> {
        std::mem::take(&mut self.statements)
    }

    /// Returns the name of a variable in isl: `prefix` and a number.
    pub(super) fn own_name(&mut self, prefix: char, key: &Variable) -> String {
        let count = self.own_names.len();
        self.own_names.entry(key.clone()).or_insert_with(|| format!("{prefix}{count}")).clone()
    }

    /// Parses the loop over time.
    pub fn time_loop(&mut self, node: &Node) -> Result<Loop, Unsupported> {
        let time = self.header(node)?;
        self.loops.push(time.clone());
        Ok(time)
    }

    /// Returns the nests in the body of the loop over time.
    pub fn nests<'n>(&mut self, body: &'n Node) -> Result<Vec<&'n Node>, Unsupported> {
        let list: Vec<&Node> =
            if body.kind == Kind::Compound { body.children.iter().collect() } else { vec![body] };
        let list: Vec<&Node> = list.into_iter().filter(|node| node.kind != Kind::Empty).collect();
        for (at, node) in list.iter().enumerate() {
            self.nest = at;
            self.locals.clear();
            if node.kind == Kind::Declaration {
                return self.file.refuse(
                    node,
                    "is declared in the loop over time",
                    "declare it in the nest that uses it, or before the region",
                );
            }
            self.statement(node)?;
        }
        match list.is_empty() {
            true => self.file.refuse(body, "has nothing in it", "take the pragma away"),
            false => Ok(list),
        }
    }

    fn statement(&mut self, node: &Node) -> Result<(), Unsupported> {
        let file = self.file;
        match node.kind {
            Kind::Compound => self.block(&node.children),
            Kind::Empty => Ok(()),
            Kind::For => {
                let one = self.header(node)?;
                self.position.push(one.variable.clone());
                self.loops.push(one);
                let body = node.children.last().expect("four children");
                if body.kind == Kind::Compound {
                    self.block(&body.children)?
                } else {
                    self.block(std::slice::from_ref(body))?
                }
                self.loops.pop();
                self.position.pop();
                Ok(())
            }
            Kind::Declaration => {
                let first = file.text(node).split_whitespace().next().unwrap_or_default();
                if ["static", "extern", "_Thread_local", "thread_local"].contains(&first) {
                    return file.refuse(
                        node,
                        "is declared in the region and lives on after it",
                        "declare it without that word, or make it an array before the region",
                    );
                }
                node.children.iter().try_for_each(|variable| self.declaration(variable))
            }
            Kind::If => file.refuse(node, "is a condition", "split the loop where the condition changes"),
            Kind::While => {
                file.refuse(node, "is not a counted loop", "write it as `for (i = ...; i < ...; i++)`")
            }
            Kind::Jump => file.refuse(node, "leaves the loop early", "let the loop run to its end"),
            _ => self.assignment(node.bare()),
        }
    }

    fn block(&mut self, nodes: &[Node]) -> Result<(), Unsupported> {
        for (at, node) in nodes.iter().enumerate() {
            self.position.push(at.to_string());
            self.statement(node)?;
            self.position.pop();
        }
        Ok(())
    }

    fn declaration(&mut self, variable: &Node) -> Result<(), Unsupported> {
        if variable.kind != Kind::Variable || variable.shape.is_address() || variable.shape == Shape::Other {
            return self.file.refuse(
                variable,
                "is declared in the region and is no number",
                "declare it before the region",
            );
        }
        self.locals.insert(variable.name_at, self.loops.len());
        let mut reads = Vec::new();
        if let Some(value) = variable.children.last() {
            self.reads(value, &mut reads)?;
        }
        self.push(variable, None, reads);
        Ok(())
    }

    fn assignment(&mut self, node: &Node) -> Result<(), Unsupported> {
        let file = self.file;
        let mut reads = Vec::new();
        let target = match (node.kind, node.operator) {
            (Kind::Binary, "=") => {
                self.reads(&node.children[1], &mut reads)?;
                &node.children[0]
            }
            (Kind::CompoundAssignment, _) => {
                self.reads(&node.children[1], &mut reads)?;
                self.reads(&node.children[0], &mut reads)?;
                &node.children[0]
            }
            (Kind::Unary, "++" | "--") => {
                self.reads(&node.children[0], &mut reads)?;
                &node.children[0]
            }
            (Kind::Call, _) => {
                return file.refuse(
                    node,
                    "calls a function for its effects",
                    "write what it does into the loop",
                );
            }
            _ => {
                return file.refuse(
                    node,
                    "is not an assignment",
                    "let the region assign to elements of arrays only",
                );
            }
        };
        let target = target.bare();
        let write = match target.kind {
            Kind::Subscript => Some(self.access(target, true)?),
            Kind::Name => {
                self.local_variable(target)?;
                None
            }
            Kind::Unary => {
                return file.refuse(
                    target,
                    "writes through a pointer",
                    "name the array and the element: a[i]",
                );
            }
            _ => {
                return file.refuse(
                    target,
                    "is not an element of an array",
                    "assign to elements of arrays only",
                );
            }
        };
        self.push(node, write, reads);
        Ok(())
    }

    /// Checks that a variable which is assigned to is local to the nest.
    fn local_variable(&self, target: &Node) -> Result<(), Unsupported> {
        let offset = target.declaration.as_ref().and_then(|d| d.offset);
        match offset.is_some_and(|offset| self.locals.contains_key(&offset)) {
            true => Ok(()),
            false => self.file.refuse(
                target,
                "is a variable that the region changes",
                "declare it inside of the loop, or make it an array",
            ),
        }
    }

    fn push(&mut self, node: &Node, write: Option<Access>, reads: Vec<Access>) {
        self.statements.push(Statement {
            nest: self.nest,
            loops: self.loops[1..].to_vec(),
            position: self.position.clone(),
            write,
            reads,
            place: node.place,
            text: self.file.text(node).to_string(),
        });
    }

    fn header(&mut self, node: &Node) -> Result<Loop, Unsupported> {
        const FORM: &str = "write it as `for (i = LOW; i < HIGH; i++)`";
        let file = self.file;
        let whole = file.text(node);
        if !whole.starts_with("for") {
            return file.refuse(node, "makes a loop by a macro", "write the `for` itself into the region");
        }
        if node.children.len() != 4 {
            return file.refuse(node, "leaves out a part of its header", FORM);
        }
        let (target, declared, low) = self.first_value(&node.children[0])?;
        let key = target.variable();
        self.check_variable(&node.children[0], target)?;
        let own = integers::range(&target.types[1], target.shape);
        let Some(own) = own else {
            return file.refuse(
                &node.children[0],
                "counts in a type above 64 bits",
                "let an int or a long count",
            );
        };
        self.counts_by_one(&node.children[2], &key)?;
        let condition = node.children[1].bare();
        let is_bound = condition.kind == Kind::Binary && condition.children[0].bare().variable() == key;
        if !is_bound || !["<", "<="].contains(&condition.operator) {
            return file.refuse(&node.children[1], "is no upper bound of the loop", FORM);
        }
        let limit = &condition.children[1];
        let (low_value, high_value) = (self.affine(low)?, self.affine(limit)?);
        let inclusive = condition.operator == "<=";
        let high_text = match (self.signed_text(limit), inclusive) {
            (text, false) => text,
            (text, true) if text.starts_with("(long)") => format!("{text} + 1"),
            (text, true) => format!("({text}) + 1"),
        };
        let high = high_value.clone().plus(i64::from(inclusive), &Affine::constant(1));
        let natural = [natural_range(low), natural_range(limit)];
        self.fit(&low_value, natural[0], own, "");
        // Beyond the greatest int there is no defined behaviour.
        let more = i64::from(inclusive && (own.0 == 0 || own.1 < i64::from(i32::MAX)));
        let past = (natural[1].0, natural[1].1.saturating_add(more));
        self.fit(&high, past, own, &format!("{low_value} < {high}"));
        self.fit(&high_value, natural[1], held_by(limit), "");
        for held in conversions(&condition.children[0]).chain(conversions(&node.children[2])) {
            self.fit(&low_value, own, held, "");
            self.fit(&high, own, held, &format!("{low_value} < {high}"));
        }
        let body = node.children.last().expect("four children");
        Ok(Loop {
            variable: self.own_name('L', &key),
            name: target.name.clone(),
            key,
            type_name: unqualified(&target.types[1]),
            is_unsigned: own.0 == 0,
            declared: declared.then(|| target.types[0].clone()),
            low: low_value,
            high,
            texts: [self.signed_text(low), high_text],
            header: node.span.start..body.span.start,
            place: node.place,
        })
    }

    /// Notes that C computes `value` in a type that holds `held`, where `possible` are the values that are no
    /// undefined behaviour before; `and` is a further condition.
    fn fit(&mut self, value: &Affine, possible: (i64, i64), held: (i64, i64), and: &str) {
        let is_constant = value.terms.is_empty() && (held.0..=held.1).contains(&value.constant);
        if !is_constant && (possible.0 < held.0 || possible.1 > held.1) {
            let (value, and, loops) = (value.clone(), and.to_string(), self.loops.clone());
            self.fits.push(Fit { value, loops, and, possible, held });
        }
    }

    /// Returns the text of an expression, converted to a signed number.
    fn signed_text(&self, node: &Node) -> String {
        let text = self.file.text(node);
        let is_converted = text.contains('(') && node.shape == Shape::Unsigned;
        match node.bare().shape == Shape::Unsigned || is_converted {
            true if words(text).nth(1).is_none() => format!("(long){text}"),
            true => format!("(long)({text})"),
            false => text.to_string(),
        }
    }

    fn first_value<'n>(&self, node: &'n Node) -> Result<(&'n Node, bool, &'n Node), Unsupported> {
        let (target, declared) = match (node.kind, node.operator) {
            (Kind::Declaration, _) if node.children.len() == 1 => (&node.children[0], true),
            (Kind::Binary, "=") => (node.children[0].bare(), false),
            _ => {
                return self.file.refuse(
                    node,
                    "does not give one loop variable its first value",
                    "write `i = LOW`",
                );
            }
        };
        let value = if declared { target.children.last() } else { node.children.get(1) };
        let is_variable = matches!(target.kind, Kind::Variable | Kind::Name);
        match value {
            Some(value) if is_variable && matches!(target.shape, Shape::Signed | Shape::Unsigned) => {
                Ok((target, declared, value))
            }
            _ => self.file.refuse(node, "does not count by a whole number", "let an int or a long count"),
        }
    }

    /// Refuses a loop variable that a loop around it has too, or that is volatile.
    fn check_variable(&self, node: &Node, target: &Node) -> Result<(), Unsupported> {
        if self.loops.iter().any(|around| around.name == target.name) {
            return self.file.refuse(
                node,
                "counts with the name of a loop around it",
                "give each of the loops a variable of its own",
            );
        }
        if target.types[1].contains("volatile") || target.declaration.as_ref().is_some_and(|d| d.is_volatile)
        {
            return self.file.refuse(node, "counts with a volatile variable", "take the word away");
        }
        Ok(())
    }

    fn counts_by_one(&self, node: &Node, variable: &Variable) -> Result<(), Unsupported> {
        let bare = node.bare();
        let is_variable = |node: &Node| node.bare().kind == Kind::Name && node.bare().variable() == *variable;
        let is_one = |node: &Node| node.bare().value == Some(1);
        let upwards = match (bare.kind, bare.operator) {
            (Kind::Unary, "++") => is_variable(&bare.children[0]),
            (Kind::CompoundAssignment, "+=") => is_variable(&bare.children[0]) && is_one(&bare.children[1]),
            (Kind::Binary, "=") if bare.children[1].bare().operator == "+" => {
                let sum = bare.children[1].bare();
                is_variable(&bare.children[0])
                    && (is_variable(&sum.children[0]) && is_one(&sum.children[1])
                        || is_variable(&sum.children[1]) && is_one(&sum.children[0]))
            }
            _ => false,
        };
        if upwards {
            return Ok(());
        }
        if ["--", "-="].contains(&bare.operator) {
            return self.file.refuse(
                node,
                "runs backward, which would need the array to be redistributed",
                "reverse the loop if the order does not matter, or leave the sweep out of the region",
            );
        }
        self.file.refuse(node, "does not step by one", "write it as `i++`, with the step in the subscripts")
    }

    /// Parses an affine expression of loop variables and sizes.
    pub(super) fn affine(&mut self, node: &Node) -> Result<Affine, Unsupported> {
        let source = self.file.source;
        Affine::parse(node, source, self)
    }
}

impl TermMeaning for Reader<'_, '_> {
    fn variable(&mut self, node: &Node) -> Result<Affine, Unsupported> {
        let (file, key) = (self.file, node.variable());
        if let Some(around) = self.loops.iter().find(|one| one.key == key) {
            return Ok(Affine::variable(&around.variable));
        }
        let declared = node.declaration.as_ref();
        let is_inside = key.0.is_some_and(|offset| self.region.span.contains(&offset));
        if is_inside || self.shared.contains(&key) {
            return file.refuse(
                node,
                "changes in the region",
                "write bounds and subscripts with loop variables and sizes",
            );
        }
        if declared.is_some_and(|d| d.is_volatile) {
            return file.refuse(node, "is volatile", "copy it to a variable before the region");
        }
        let Some(range) = integers::range(&node.types[1], node.shape) else {
            return file.refuse(node, "has more than 64 bits", "copy it to a long before the region");
        };
        let own = self.own_name('N', &key);
        let parameter = Parameter { name: node.name.clone(), range, is_unsigned: range.0 == 0 };
        self.parameters.insert(own.clone(), parameter);
        Ok(Affine::variable(&own))
    }

    /// Checks a sum whose type has 64 bits. Such types compute modulo 2^64, as later terms may be negative.
    /// Only the end of a loop must not wrap around ([`Reader::header`]).
    fn computed(&mut self, node: &Node, value: &Affine) -> Result<(), Unsupported> {
        let Some(held) = integers::range(&node.types[1], node.shape) else {
            return self.file.refuse(node, "has more than 64 bits", "compute it in a long");
        };
        let possible = match node.kind {
            Kind::Transparent => node.children.last().map_or(held, held_by),
            Kind::Unary | Kind::Binary => natural_range(node),
            _ => held,
        };
        if !integers::is_wide(held) {
            self.fit(value, possible, held, "");
        }
        Ok(())
    }
}

/// Variables that count loops below `region` and are declared elsewhere.
fn shared_counters(region: &Node) -> BTreeSet<Variable> {
    let mut found = BTreeSet::new();
    region.walk(&mut |node| {
        let first = node.children.first().filter(|first| node.kind == Kind::For && first.operator == "=");
        if let Some(first) = first {
            found.insert(first.children[0].bare().variable());
        }
        true
    });
    found
}

/// Returns the range of the type of an expression.
fn held_by(node: &Node) -> (i64, i64) {
    integers::range(&node.types[1], node.shape).unwrap_or((i64::MIN, i64::MAX))
}

/// Returns the range of an expression before its conversion. A signed sum stays within its type, as overflow
/// is undefined behaviour; an unsigned one wraps around.
fn natural_range(node: &Node) -> (i64, i64) {
    let bare = node.bare();
    match bare.shape {
        Shape::Signed => held_by(bare),
        _ if matches!(bare.kind, Kind::Name | Kind::Integer) => held_by(bare),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Returns the ranges of the types to which a variable is converted in an expression.
fn conversions(node: &Node) -> impl Iterator<Item = (i64, i64)> {
    let mut found = Vec::new();
    node.walk(&mut |node| {
        if node.kind == Kind::Transparent && matches!(node.shape, Shape::Signed | Shape::Unsigned) {
            found.push(held_by(node));
        }
        true
    });
    found.into_iter()
}

/// Returns a type without `const` and `volatile`.
pub(super) fn unqualified(name: &str) -> String {
    let words = name.split_whitespace().filter(|word| !["const", "volatile", "restrict"].contains(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the words of an expression.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}
