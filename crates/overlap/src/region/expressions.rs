//! What expressions of a region read.

use super::loops::Reader;
use super::types::{Access, Array};
use crate::clang::{Kind, Node, Shape};
use crate::refusal::Refusal;

/// Functions of math.h and stdlib.h whose value depends on their arguments alone (but for errno, which no
/// program of loops looks at).
const PURE: &[&str] = &[
    "abs", "labs", "fabs", "fmax", "fmin", "fma", "fmod", "fdim", "sqrt", "cbrt", "hypot", "exp", "exp2",
    "expm1", "log", "log2", "log10", "log1p", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "round", "trunc", "copysign", "erf",
    "erfc",
];

impl Reader<'_, '_> {
    /// Adds what the expression reads of arrays.
    pub(super) fn reads(&mut self, node: &Node, found: &mut Vec<Access>) -> Result<(), Refusal> {
        let file = self.file;
        match node.kind {
            Kind::Integer | Kind::Floating => Ok(()),
            Kind::Transparent => node.children.last().map_or(Ok(()), |inner| self.reads(inner, found)),
            Kind::Subscript => {
                found.push(self.access(node, false)?);
                Ok(())
            }
            Kind::Name => self.scalar(node),
            Kind::Call => self.call(node, found),
            Kind::Conditional => node.children.iter().try_for_each(|child| self.reads(child, found)),
            Kind::Unary => match node.operator {
                "*" => file.refuse(node, "follows a pointer", "name the array and the element: a[i]"),
                "&" => file.refuse(node, "takes an address", "name the array and the element: a[i]"),
                "++" | "--" => file.refuse(
                    node,
                    "changes a variable inside of an expression",
                    "make it a statement of its own",
                ),
                _ => node.children.iter().try_for_each(|child| self.reads(child, found)),
            },
            Kind::Binary if node.operator == "=" || node.operator == "," => {
                file.refuse(node, "does two things in one expression", "make them statements of their own")
            }
            Kind::CompoundAssignment => {
                file.refuse(node, "does two things in one expression", "make them statements of their own")
            }
            Kind::Binary => node.children.iter().try_for_each(|child| self.reads(child, found)),
            Kind::Member => {
                file.refuse(node, "is a member of a structure", "copy it to a variable before the region")
            }
            _ => file.refuse(
                node,
                "is not understood here",
                "use numbers, variables, elements of arrays and functions of math.h",
            ),
        }
    }

    fn scalar(&mut self, node: &Node) -> Result<(), Refusal> {
        if node.shape == Shape::Address {
            return self.file.refuse(node, "is a whole array in an expression", "name the element: a[i]");
        }
        if node.declaration.as_ref().is_some_and(|d| d.is_volatile) {
            return self.file.refuse(node, "is volatile", "copy it to a variable before the region");
        }
        Ok(())
    }

    fn call(&mut self, node: &Node, found: &mut Vec<Access>) -> Result<(), Refusal> {
        let name =
            node.name.strip_suffix(['f', 'l']).filter(|base| PURE.contains(base)).unwrap_or(&node.name);
        if !PURE.contains(&name) {
            return self.file.refuse(
                node,
                "calls a function that is not known to depend on its arguments alone",
                "write what it computes into the loop, or use a function of math.h",
            );
        }
        node.children[1..].iter().try_for_each(|argument| self.reads(argument, found))
    }

    /// The element of an array that a subscript names.
    pub(super) fn access(&mut self, node: &Node, is_written: bool) -> Result<Access, Refusal> {
        let file = self.file;
        let (mut base, mut subscripts) = (node, Vec::new());
        while base.kind == Kind::Subscript {
            subscripts.push(&base.children[1]);
            base = base.children[0].bare();
        }
        subscripts.reverse();
        let is_array = base.kind == Kind::Name && base.declaration.as_ref().is_some_and(|d| d.is_variable);
        if !is_array {
            return file.refuse(base, "is no array with a name", "give the array a name before the region");
        }
        if base.declaration.as_ref().is_some_and(|d| d.is_volatile) || base.types[1].contains("volatile") {
            return file.refuse(base, "is volatile", "take the word away: other ranks have copies");
        }
        if node.shape == Shape::Address {
            return file.refuse(node, "is a part of an array", "give all subscripts");
        }
        let subscripts = subscripts.into_iter().map(|one| self.affine(one)).collect::<Result<Vec<_>, _>>()?;
        let entry = self.arrays.entry(base.name.clone()).or_insert_with(|| Array {
            element: node.types.clone().map(|name| name.trim_start_matches("const ").to_string()),
            dimensions: subscripts.len(),
            is_written: false,
            distributed: 0,
        });
        entry.is_written |= is_written;
        Ok(Access { array: base.name.clone(), subscripts })
    }
}
