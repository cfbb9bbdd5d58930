//! Tests of nests in strips, and of the diagonals of these.

mod common;

use tutti_overlap::generate::Scheme;

/// Checks the loops that a nest of two or three loops becomes in its first tile or step.
fn check(name: &str, nest: &str, expected: &[&str]) {
    let made = common::made(name, "double a[50][50], b[50][50], c[50][50][50];", nest, Scheme::Auto);
    let found: Vec<&str> = made
        .lines()
        .map(str::trim)
        .skip_while(|line| !line.contains("long strip = "))
        .skip(2)
        .take(expected.len().max(1))
        .filter(|_| made.contains("long strip = "))
        .collect();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn chains_are_computed_along_diagonals() {
    let two = "for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++)";
    // Nine points in place: the row before is needed up to one place further.
    check(
        "nine",
        &format!("{two} a[i][j] = a[i - 1][j + 1] + a[i][j - 1] + a[i + 1][j + 1];"),
        &["for (long diagonal = 2 * strip + 1; diagonal < 2 * (beyond - 1) + n - 1; diagonal++)"],
    );
    // Five points: each diagonal needs the one before it.
    check(
        "five",
        &format!("{two} a[i][j] = a[i - 1][j] + a[i][j - 1] + a[i + 1][j];"),
        &["for (long diagonal = strip + 1; diagonal < (beyond - 1) + n - 1; diagonal++)"],
    );
    // Rows that do not need each other: the loops are exchanged.
    check(
        "sums",
        &format!("{two} {{ a[i][j] = a[i][j - 1] + b[i][j]; }}"),
        &["for (int j = 1; j < n - 1; j++)", "for (int i = strip; i < beyond; i++) {"],
    );
    // Rows along the last dimension of three.
    check(
        "three",
        &format!(
            "{two} for (int k = 1; k < n; k++) c[i][j][k] = c[i][j][k - 1] + c[i - 1][j][k] + c[i][j - 1][k];"
        ),
        &["for (long diagonal = strip + 1; diagonal < (beyond - 1) + n; diagonal++)"],
    );
}

#[test]
fn other_nests_stay_as_they_are() {
    let two = "for (int i = 1; i < n - 1; i++) for (int j = 5; j < n - 5; j++)";
    check("no chain", &format!("{two} a[i][j] = b[i - 1][j] + b[i][j + 1];"), &[]);
    check("columns", &format!("{two} a[i][j] = a[i - 1][j] + b[i][j];"), &[]);
    // The row before is needed so far ahead that there are no diagonals.
    check("far", &format!("{two} a[i][j] = a[i][j - 1] + a[i - 1][j + 5];"), &[]);
    check(
        "between",
        "for (int i = 1; i < n; i++) { b[i][0] = 1; for (int j = 1; j < n; j++) a[i][j] = a[i][j - 1] + b[i][0]; }",
        &[],
    );
    check("triangle", "for (int i = 1; i < n; i++) for (int j = 1; j < i; j++) a[i][j] = a[i][j - 1];", &[]);
}
