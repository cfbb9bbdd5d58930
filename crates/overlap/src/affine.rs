//! Affine expressions: sums of variables with integer factors, and a constant.

use std::collections::BTreeMap;
use std::fmt;

use crate::clang::{Kind, Node, Shape};
use crate::refusal::Unsupported;

/// The largest number of an expression: sums and products of a few of them fit 64 bits.
pub const LARGEST: i64 = 1 << 40;

/// The meaning of the parts of an expression, for [`Affine::parse`].
pub trait TermMeaning {
    /// Returns the value of a variable, or the reason why it must not be used.
    fn variable(&mut self, node: &Node) -> Result<Affine, Unsupported>;

    /// Notes the value of `node`, which C computes in the type of `node`.
    fn computed(&mut self, node: &Node, value: &Affine) -> Result<(), Unsupported>;
}

/// A sum of variables with factors and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affine {
    /// Factors that are not zero.
    pub terms: BTreeMap<String, i64>,
    /// Constant part of the expression.
    pub constant: i64,
}

impl Affine {
    /// Returns an expression that is a number.
    pub fn constant(constant: i64) -> Affine {
        Affine { terms: BTreeMap::new(), constant }
    }

    /// Returns an expression that is a variable.
    pub fn variable(name: &str) -> Affine {
        Affine { terms: BTreeMap::from([(name.to_string(), 1)]), constant: 0 }
    }

    /// Returns the sum of this expression and `factor` times `other`.
    pub fn plus(mut self, factor: i64, other: &Affine) -> Affine {
        for (name, by) in &other.terms {
            let sum = self.terms.entry(name.clone()).or_default();
            *sum = sum.saturating_add(factor.saturating_mul(*by));
        }
        self.terms.retain(|_, by| *by != 0);
        self.constant = self.constant.saturating_add(factor.saturating_mul(other.constant));
        self
    }

    /// Returns this sum with `value` substituted for the variable `name`.
    pub fn substitute(mut self, name: &str, value: &Affine) -> Affine {
        let factor = self.terms.remove(name).unwrap_or(0);
        self.plus(factor, value)
    }

    /// Returns the factor of the variable `name`; 0 if it does not occur.
    pub fn factor(&self, name: &str) -> i64 {
        self.terms.get(name).copied().unwrap_or(0)
    }

    /// Reads an expression of whole numbers.
    ///
    /// # Errors
    /// Fails if the expression is not affine, has numbers beyond [`LARGEST`], or contains a part that `terms`
    /// refuses.
    pub fn parse(node: &Node, source: &str, terms: &mut dyn TermMeaning) -> Result<Affine, Unsupported> {
        let text = source.get(node.span.clone()).unwrap_or_default();
        let refuse = |wrong: &str| {
            Err(Unsupported::at_place(
                node.place,
                text,
                wrong,
                "write it as a sum of loop variables and sizes with constant factors",
            ))
        };
        let sum = match (node.kind, node.operator) {
            _ if node.value.is_some() => Affine::constant(node.value.unwrap_or_default()),
            _ if !matches!(node.shape, Shape::Signed | Shape::Unsigned) => return refuse("is not affine"),
            (Kind::Transparent, _) if !node.children.is_empty() => {
                Affine::parse(&node.children[node.children.len() - 1], source, terms)?
            }
            (Kind::Name, _) => terms.variable(node)?,
            (Kind::Unary, "-") => {
                Affine::default().plus(-1, &Affine::parse(&node.children[0], source, terms)?)
            }
            (Kind::Unary, "+") => Affine::parse(&node.children[0], source, terms)?,
            (Kind::Binary, "+" | "-" | "*") => {
                let left = Affine::parse(&node.children[0], source, terms)?;
                let right = Affine::parse(&node.children[1], source, terms)?;
                match node.operator {
                    "+" => left.plus(1, &right),
                    "-" => left.plus(-1, &right),
                    _ if left.terms.is_empty() => Affine::default().plus(left.constant, &right),
                    _ if right.terms.is_empty() => Affine::default().plus(right.constant, &left),
                    _ => return refuse("multiplies variables"),
                }
            }
            (Kind::Subscript, _) => return refuse("takes a bound or a subscript from data"),
            _ => return refuse("is not affine"),
        };
        let is_small = |number: &i64| (-LARGEST..=LARGEST).contains(number);
        if !is_small(&sum.constant) || !sum.terms.values().all(is_small) {
            return refuse("has a number above 2^40");
        }
        terms.computed(node, &sum)?;
        Ok(sum)
    }
}

impl fmt::Display for Affine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (name, factor) in &self.terms {
            let sign = match (first, *factor < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            write!(out, "{sign}")?;
            if factor.abs() != 1 {
                write!(out, "{} * ", factor.abs())?;
            }
            write!(out, "{name}")?;
            first = false;
        }
        match (first, self.constant) {
            (true, constant) => write!(out, "{constant}"),
            (false, 0) => Ok(()),
            (false, constant) => write!(out, " {} {}", if constant < 0 { '-' } else { '+' }, constant.abs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_written_as_people_write_them() {
        let sum = Affine::variable("i").plus(2, &Affine::variable("n")).plus(-1, &Affine::constant(3));
        let check = |sum: &Affine, expected: &str| assert_eq!(sum.to_string(), expected);
        check(&sum, "i + 2 * n - 3");
        check(&Affine::default().plus(-1, &sum), "-i - 2 * n + 3");
        check(&sum.clone().plus(-1, &sum), "0");
    }
}
