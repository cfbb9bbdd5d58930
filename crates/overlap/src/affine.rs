//! Affine expressions: whole numbers times variables, plus a constant.

use std::collections::BTreeMap;
use std::fmt;

use crate::clang::{Kind, Node, Shape};
use crate::refusal::Refusal;

/// A sum of variables with factors and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affine {
    /// Factors that are not zero.
    pub terms: BTreeMap<String, i64>,
    /// What is added.
    pub constant: i64,
}

impl Affine {
    /// A number.
    pub fn constant(constant: i64) -> Affine {
        Affine { terms: BTreeMap::new(), constant }
    }

    /// A variable.
    pub fn variable(name: &str) -> Affine {
        Affine { terms: BTreeMap::from([(name.to_string(), 1)]), constant: 0 }
    }

    /// This and `factor` times `other`.
    pub fn plus(mut self, factor: i64, other: &Affine) -> Affine {
        for (name, by) in &other.terms {
            *self.terms.entry(name.clone()).or_default() += factor * by;
        }
        self.terms.retain(|_, by| *by != 0);
        self.constant += factor * other.constant;
        self
    }

    /// The factor of `name`.
    pub fn factor(&self, name: &str) -> i64 {
        self.terms.get(name).copied().unwrap_or(0)
    }

    /// Reads an expression of whole numbers; `variable` says what a name stands for in it, or why it must not
    /// be there.
    pub fn parse(
        node: &Node,
        source: &str,
        variable: &mut impl FnMut(&Node) -> Result<Affine, Refusal>,
    ) -> Result<Affine, Refusal> {
        let text = &source[node.span.clone()];
        let refuse = |wrong: &str| {
            Err(Refusal::at(
                node.place,
                text,
                wrong,
                "write it as a sum of loop variables and sizes with constant factors",
            ))
        };
        let bare = node.bare();
        if let Some(value) = bare.value {
            return Ok(Affine::constant(value));
        }
        match (bare.kind, bare.operator) {
            (Kind::Name, _) if matches!(bare.shape, Shape::Signed | Shape::Unsigned) => variable(bare),
            (Kind::Unary, "-") => {
                Ok(Affine::default().plus(-1, &Affine::parse(&bare.children[0], source, variable)?))
            }
            (Kind::Unary, "+") => Affine::parse(&bare.children[0], source, variable),
            (Kind::Binary, "+" | "-" | "*") => {
                let left = Affine::parse(&bare.children[0], source, variable)?;
                let right = Affine::parse(&bare.children[1], source, variable)?;
                match bare.operator {
                    "+" => Ok(left.plus(1, &right)),
                    "-" => Ok(left.plus(-1, &right)),
                    _ if left.terms.is_empty() => Ok(Affine::default().plus(left.constant, &right)),
                    _ if right.terms.is_empty() => Ok(Affine::default().plus(right.constant, &left)),
                    _ => refuse("multiplies variables"),
                }
            }
            (Kind::Subscript, _) => refuse("takes a bound or a subscript from data"),
            _ => refuse("is not affine"),
        }
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
