//! Types of whole numbers in C: their least and greatest values, where `int` has 32 bits and `long` 64.

use crate::clang::Shape;

/// Returns the range of the type called `canonical`, a name without typedefs. `shape` determines whether
/// `char` and enumerations have a sign. Unsigned values of 64 bits are limited to signed ones, as no loop is
/// longer. Returns `None` for other types than those of whole numbers.
pub fn range(canonical: &str, shape: Shape) -> Option<(i64, i64)> {
    let is_qualifier = |word: &&str| !["const", "volatile"].contains(word);
    let words: Vec<&str> = canonical.split_whitespace().filter(is_qualifier).collect();
    let bits = match words.as_slice() {
        ["_Bool" | "bool"] => return Some((0, 1)),
        ["char"] | ["signed" | "unsigned", "char"] => 8,
        ["short"] | ["unsigned", "short"] => 16,
        ["int"] | ["unsigned", "int"] => 32,
        ["enum", ..] => return Some((0, i64::from(i32::MAX))),
        ["long"] | ["unsigned", "long"] | ["long", "long"] | ["unsigned", "long", "long"] => 64,
        _ => return None,
    };
    match shape {
        Shape::Signed => Some((i64::MIN >> (64 - bits), i64::MAX >> (64 - bits))),
        Shape::Unsigned => Some((0, if bits == 64 { i64::MAX } else { (1 << bits) - 1 })),
        _ => None,
    }
}

/// Returns true if `range` is that of a type of 64 bits.
pub fn is_wide(range: (i64, i64)) -> bool {
    range.1 == i64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_types() {
        let check = |name: &str, shape: Shape, expected| assert_eq!(range(name, shape), expected, "{name}");
        check("const unsigned char", Shape::Unsigned, Some((0, 255)));
        check("char", Shape::Signed, Some((-128, 127)));
        check("short", Shape::Signed, Some((-32768, 32767)));
        check("unsigned int", Shape::Unsigned, Some((0, 4_294_967_295)));
        check("long long", Shape::Signed, Some((i64::MIN, i64::MAX)));
        check("unsigned long", Shape::Unsigned, Some((0, i64::MAX)));
        check("_Bool", Shape::Unsigned, Some((0, 1)));
        check("__int128", Shape::Signed, None);
    }
}
