//! Parser of the expressions of a region: the elements and variables that they read.

use super::loops::{Reader, unqualified};
use super::types::{Access, Array};
use crate::clang::{Kind, Node, Shape};
use crate::refusal::Unsupported;

/// Functions of math.h and stdlib.h whose value depends on their arguments alone (but for errno, which no
/// program of loops looks at).
const PURE: &[&str] = &[
    "abs", "labs", "fabs", "fmax", "fmin", "fma", "fmod", "fdim", "sqrt", "cbrt", "hypot", "exp", "exp2",
    "expm1", "log", "log2", "log10", "log1p", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "round", "trunc", "copysign", "erf",
    "erfc",
];

impl Reader<'_, '_> {
    /// Adds the elements of arrays that the expression reads.
    pub(super) fn reads(&mut self, node: &Node, found: &mut Vec<Access>) -> Result<(), Unsupported> {
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

    fn scalar(&mut self, node: &Node) -> Result<(), Unsupported> {
        if node.shape.is_address() {
            return self.file.refuse(node, "is a whole array in an expression", "name the element: a[i]");
        }
        if node.declaration.as_ref().is_some_and(|d| d.is_volatile) {
            return self.file.refuse(node, "is volatile", "copy it to a variable before the region");
        }
        let key = node.variable();
        let is_around = self.loops.iter().any(|one| one.key == key);
        if self.shared.contains(&key) && !is_around {
            return self.file.refuse(
                node,
                "counts a loop of the region and is read outside of that loop",
                "give the loop a variable of its own",
            );
        }
        if node.types[1].contains("_Atomic") {
            return self.file.refuse(node, "is atomic", "copy it to a variable before the region");
        }
        Ok(())
    }

    fn call(&mut self, node: &Node, found: &mut Vec<Access>) -> Result<(), Unsupported> {
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

    /// Parses a subscript expression as an element of an array.
    pub(super) fn access(&mut self, node: &Node, is_written: bool) -> Result<Access, Unsupported> {
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
        if node.shape.is_address() {
            return file.refuse(node, "is a part of an array", "give all subscripts");
        }
        let element = unqualified(&node.types[1]);
        if element.contains("_Atomic") || element.contains('(') {
            return file.refuse(node, "has no type with a name", "use arrays of numbers");
        }
        let Some(rows) = rows(base, subscripts.len()) else {
            return file.refuse(
                base,
                "has its rows wherever pointers lead",
                "make it one block of memory, as in `double (*a)[n] = malloc(sizeof(double[n][n]))`",
            );
        };
        let subscripts = subscripts.into_iter().map(|one| self.affine(one)).collect::<Result<Vec<_>, _>>()?;
        let own = self.own_name('A', &base.variable());
        let entry = self.arrays.entry(own.clone()).or_insert_with(|| Array {
            name: base.name.clone(),
            key: base.variable(),
            is_array: base.shape == Shape::Array,
            element,
            is_constant: node.types[1].split_whitespace().any(|word| word == "const"),
            dimensions: subscripts.len(),
            rows,
            is_written: false,
            distributed: 0,
        });
        entry.is_written |= is_written;
        Ok(Access { array: own, subscripts })
    }
}

/// Returns the extents of all dimensions of an array but the first, from its type: `double[3][4]`, `double
/// (*)[n]`. Returns `None` if it is not one block of memory with `dimensions` dimensions.
fn rows(base: &Node, dimensions: usize) -> Option<Vec<Option<u64>>> {
    let (mut depth, mut stars, mut extents) = (0, 0, Vec::<String>::new());
    for letter in base.types[1].chars() {
        match letter {
            '[' if depth == 0 => {
                depth = 1;
                extents.push(String::new());
            }
            '[' => depth += 1,
            ']' => depth -= 1,
            '*' if depth == 0 => stars += 1,
            _ if depth > 0 => extents.last_mut()?.push(letter),
            _ => {}
        }
    }
    let is_array = base.shape == Shape::Array;
    let rows = if is_array { extents.get(1..)? } else { &extents };
    let is_block = stars == usize::from(!is_array) && rows.len() + 1 == dimensions;
    is_block.then(|| rows.iter().map(|extent| extent.trim().parse().ok()).collect())
}
