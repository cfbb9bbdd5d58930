//! Tests of innermost loops: they are unrolled, or copied in pieces.

mod common;

use tutti_overlap::generate::Scheme;

const DECLARATIONS: &str = "double a[50], b[50], c[50][50], d[50][50];
float narrow[50];";

/// Checks the lines that the nest of a program becomes, beginning with the first of `expected`.
fn check(name: &str, nest: &str, expected: &[&str]) {
    let body = format!(
        "for (int i = 1; i < n - 1; i++)
            b[i] = a[i - 1] + a[i + 1];
        {nest}"
    );
    let made = common::made(name, DECLARATIONS, &body, Scheme::Tiles);
    let lines: Vec<&str> = made.lines().map(str::trim).collect();
    assert!(lines.windows(expected.len()).any(|some| some == expected), "{name}:\n{made}");
}

#[test]
fn copies_are_done_in_pieces() {
    check(
        "rows",
        "for (int i = 0; i < n; i++) a[i] = b[i];",
        &[
            "for (long piece = overlap_max(0, from - 1); piece < overlap_min(n, to - 1); piece += 1024)",
            "memcpy(&a[piece], &b[piece], (size_t)overlap_min(1024, overlap_min(n, to - 1) - piece) * sizeof a[piece]);",
        ],
    );
    check(
        "braces",
        "for (int i = 0; i < n; i++) {
            for (int j = 1; j < n - 1; j++) {
                c[i][j] = d[i][j + 1];
            }
        }",
        &[
            "for (long piece = 1; piece < n - 1; piece += 1024)",
            "memcpy(&c[i][piece], &d[i][piece + 1], (size_t)overlap_min(1024, (n - 1) - piece) * sizeof c[i][piece]);",
            "}",
        ],
    );
}

#[test]
fn other_loops_are_unrolled() {
    let rows = "for (int i = overlap_max(0, from - 1); i < overlap_min(n, to - 1); i++)";
    for (name, statement) in [
        ("sum", "a[i] = b[i] + 1;"),
        ("grows", "a[i] += b[i];"),
        ("other type", "a[i] = narrow[i];"),
        ("fixed", "a[i] = b[0];"),
        ("negative", "a[i] = -b[i];"),
    ] {
        let nest = format!("for (int i = 0; i < n; i++)\n{statement}");
        check(name, &nest, &["OVERLAP_UNROLL", "#endif", rows, statement]);
    }
    check(
        "columns",
        "for (int i = 0; i < n; i++)\nfor (int j = 0; j < n; j++)\nc[i][j] = d[j][i];",
        &["OVERLAP_UNROLL", "for (int j = 0; j < n; j++)", "c[i][j] = d[j][i];"],
    );
}

#[test]
fn a_nest_with_a_pragma_stays_as_it_is() {
    check(
        "pragma",
        "for (int i = 0; i < n; i++) {\n#pragma GCC ivdep\nfor (int j = 0; j < n; j++)\nc[i][j] = d[i][j];\n}",
        &["#pragma GCC ivdep", "for (int j = 0; j < n; j++)", "c[i][j] = d[i][j];"],
    );
}
