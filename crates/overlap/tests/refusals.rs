//! Golden texts of refusals, and of the programs that are generated from the kernels. `OVERLAP_BLESS=1`
//! writes them anew.

use std::path::{Path, PathBuf};

use tutti_overlap::generate::{Options, Scheme};
use tutti_overlap::translate;

const AROUND: [&str; 2] = [
    "#include <math.h>
int n, steps, lookup[100];
double a[100], b[100], c[100][100], exists[100], sum, *p;
volatile double device[100], knob;
struct node { double x; struct node *next; } *list, *at; struct { double x, v[100]; } pair;
double noise(double), (*rule)(double);
#define EACH(i) for (i = 1; i < n; i++)
int main(void) { int t, i, j; (void)t, (void)i, (void)j;
#pragma scop
",
    "
#pragma endscop
return 0; }
",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/overlap")
}

fn options(scheme: Scheme) -> Options {
    Options { scheme, overlap: true, measure: false }
}

/// Returns the refusal of a region, with lines counted from its first.
fn refusal(folder: &Path, name: &str, code: &str) -> String {
    let path = folder.join(format!("{name}.c"));
    let path = path.to_str().expect("a path in UTF-8");
    // Declarations that a part begins with stand before the region.
    let (before, region) =
        code.split_at(code.find("for (t").filter(|_| code.starts_with("double")).unwrap_or(0));
    let (head, pragma) = AROUND[0].split_at(AROUND[0].len() - "#pragma scop\n".len());
    let (declarations, _) = head.split_once("int main").expect("a program has one");
    // A part with functions of its own stands for itself after the declarations.
    let (head, text) = match code.starts_with("void ") {
        true => (declarations, format!("{declarations}\n{code}\n")),
        false => (head, format!("{head}{before}{pragma}{region}{}", AROUND[1])),
    };
    std::fs::write(path, text).expect("a temporary file");
    let shift = head.matches('\n').count() + 1;
    match translate(path, &[], options(Scheme::Auto)) {
        Ok(_) => "is translated".to_string(),
        Err(refusal) => {
            let place = refusal
                .place
                .map_or(String::new(), |at| format!("{}:{}: ", at.line as i64 - shift as i64, at.column));
            format!("{place}{}", refusal.message)
        }
    }
}

/// Compares with a file, or writes it.
fn check(path: &Path, got: &str) {
    if std::env::var_os("OVERLAP_BLESS").is_some() {
        std::fs::write(path, got).expect("fixtures can be written");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    let differs = expected.lines().zip(got.lines()).position(|(old, new)| old != new);
    if let Some(at) = differs {
        let line = |text: &str| text.lines().nth(at).unwrap_or("").to_string();
        panic!("{}:{}:\nexpected {}\ngot      {}", path.display(), at + 1, line(&expected), line(got));
    }
    assert_eq!(expected.lines().count(), got.lines().count(), "{}", path.display());
}

#[test]
fn what_cannot_be_done_is_refused_in_these_words() {
    let folder = std::env::temp_dir().join(format!("overlap-refusals-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = fixtures().join("refusals.txt");
    let text = std::fs::read_to_string(&path).expect("a fixture");
    let mut parts = text.split("\n== ");
    let mut got = parts.next().expect("a heading").to_string();
    for part in parts {
        let (name, rest) = part.split_once('\n').expect("a name");
        let (code, _) = rest.split_once("\n--").expect("an answer");
        got += &format!("\n== {name}\n{code}\n--\n{}", refusal(&folder, name, code));
    }
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    check(&path, &(got + "\n"));
}

#[test]
fn programs_are_these_line_by_line() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/overlap");
    for (kernel, scheme, name) in [
        ("jacobi-1d", Scheme::Step, "step"),
        ("seidel-2d", Scheme::Tiles, "tiles"),
        ("fdtd-2d", Scheme::Tiles, "tiles"),
        ("jacobi-1d", Scheme::Auto, "auto"),
    ] {
        let source = sources.join(format!("{kernel}.c"));
        let made = translate(source.to_str().expect("a path in UTF-8"), &[], options(scheme));
        check(
            &fixtures().join(format!("{kernel}-{name}.c")),
            &made.unwrap_or_else(|refusal| panic!("{kernel}: {refusal}")),
        );
    }
}
