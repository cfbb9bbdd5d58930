//! Loops, blocks and statements of a region.

use std::collections::BTreeMap;

use super::types::{Access, Array, File, Loop, Parameter, Statement};
use crate::affine::Affine;
use crate::clang::{Kind, Node, Shape};
use crate::refusal::Refusal;

/// Reads one region.
pub struct Reader<'f, 's> {
    pub(super) file: &'f File<'s>,
    /// Everything of the region.
    pub(super) region: &'s Node,
    /// The loops around what is being read, that over time first.
    pub(super) loops: Vec<Loop>,
    /// Variables that the nest being read has declared: where, and in how many loops.
    pub(super) locals: BTreeMap<usize, usize>,
    pub(super) arrays: BTreeMap<String, Array>,
    pub(super) parameters: BTreeMap<String, Parameter>,
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
            position: Vec::new(),
            nest: 0,
            statements: Vec::new(),
        }
    }

    /// What was found.
    pub fn finish(self) -> (BTreeMap<String, Array>, BTreeMap<String, Parameter>, Vec<Statement>) {
        (self.arrays, self.parameters, self.statements)
    }

    /// The loop over time.
    pub fn time_loop(&mut self, node: &Node) -> Result<Loop, Refusal> {
        let time = self.header(node)?;
        self.loops.push(time.clone());
        Ok(time)
    }

    /// What stands in the body of the loop over time.
    pub fn nests<'n>(&mut self, body: &'n Node) -> Result<Vec<&'n Node>, Refusal> {
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

    fn statement(&mut self, node: &Node) -> Result<(), Refusal> {
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
            Kind::Declaration => node.children.iter().try_for_each(|variable| self.declaration(variable)),
            Kind::If => file.refuse(node, "is a condition", "split the loop where the condition changes"),
            Kind::While => {
                file.refuse(node, "is not a counted loop", "write it as `for (i = ...; i < ...; i++)`")
            }
            Kind::Jump => file.refuse(node, "leaves the loop early", "let the loop run to its end"),
            _ => self.assignment(node.bare()),
        }
    }

    fn block(&mut self, nodes: &[Node]) -> Result<(), Refusal> {
        for (at, node) in nodes.iter().enumerate() {
            self.position.push(at.to_string());
            self.statement(node)?;
            self.position.pop();
        }
        Ok(())
    }

    fn declaration(&mut self, variable: &Node) -> Result<(), Refusal> {
        if variable.kind != Kind::Variable || matches!(variable.shape, Shape::Address | Shape::Other) {
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

    fn assignment(&mut self, node: &Node) -> Result<(), Refusal> {
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

    /// That a variable which is assigned to is one of the nest's own.
    fn local_variable(&self, target: &Node) -> Result<(), Refusal> {
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

    fn header(&mut self, node: &Node) -> Result<Loop, Refusal> {
        const FORM: &str = "write it as `for (i = LOW; i < HIGH; i++)`";
        let file = self.file;
        let whole = file.text(node);
        if !whole.starts_with("for") {
            return file.refuse(node, "makes a loop by a macro", "write the `for` itself into the region");
        }
        if node.children.len() != 4 {
            return file.refuse(node, "leaves out a part of its header", FORM);
        }
        let (variable, declared, low) = self.first_value(&node.children[0])?;
        self.counts_by_one(&node.children[2], &variable)?;
        let condition = node.children[1].bare();
        let is_bound = condition.kind == Kind::Binary && condition.children[0].bare().name == variable;
        if !is_bound || !["<", "<="].contains(&condition.operator) {
            return file.refuse(&node.children[1], "is no upper bound of the loop", FORM);
        }
        let limit = &condition.children[1];
        let (low_value, high_value) = (self.affine(low)?, self.affine(limit)?);
        let inclusive = condition.operator == "<=";
        let high_text =
            if inclusive { format!("({}) + 1", file.text(limit)) } else { file.text(limit).to_string() };
        let body = node.children.last().expect("four children");
        Ok(Loop {
            variable,
            declared,
            low: low_value,
            high: high_value.plus(i64::from(inclusive), &Affine::constant(1)),
            texts: [file.text(low).to_string(), high_text],
            header: node.span.start..body.span.start,
            place: node.place,
        })
    }

    fn first_value<'n>(&self, node: &'n Node) -> Result<(String, Option<String>, &'n Node), Refusal> {
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
        match value {
            Some(value) if matches!(target.shape, Shape::Signed | Shape::Unsigned) => {
                Ok((target.name.clone(), declared.then(|| target.types[0].clone()), value))
            }
            _ => self.file.refuse(node, "does not count by a whole number", "let an int or a long count"),
        }
    }

    fn counts_by_one(&self, node: &Node, variable: &str) -> Result<(), Refusal> {
        let bare = node.bare();
        let is_variable = |node: &Node| node.bare().name == variable;
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

    /// An affine expression of loop variables and sizes.
    pub(super) fn affine(&mut self, node: &Node) -> Result<Affine, Refusal> {
        let (file, source) = (self.file, self.file.source);
        Affine::parse(node, source, &mut |name| {
            if self.loops.iter().any(|one| one.variable == name.name) {
                return Ok(Affine::variable(&name.name));
            }
            let declared = name.declaration.as_ref();
            if declared.and_then(|d| d.offset).is_some_and(|offset| self.region.span.contains(&offset)) {
                return file.refuse(
                    name,
                    "changes in the region",
                    "write bounds and subscripts with loop variables and sizes",
                );
            }
            let is_unsigned = name.shape == Shape::Unsigned;
            self.parameters.insert(name.name.clone(), Parameter { is_unsigned });
            Ok(Affine::variable(&name.name))
        })
    }
}
