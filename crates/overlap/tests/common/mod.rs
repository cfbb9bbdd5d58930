//! Functions that the tests of whole programs share.

use tutti_overlap::generate::{Options, Scheme};
use tutti_overlap::translate;

/// Translates a program that declares `declarations` and executes `body` in each of nine steps. Returns the
/// result or the refusal as text.
pub fn made(name: &str, declarations: &str, body: &str, scheme: Scheme) -> String {
    let folder = std::env::temp_dir().join(format!("overlap-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("program.c");
    let program = format!(
        "{declarations}
int main(void)
{{
    int n = 50;
#pragma scop
    for (int t = 0; t < 9; t++) {{
        {body}
    }}
#pragma endscop
    return 0;
}}
"
    );
    std::fs::write(&path, program).expect("a temporary file");
    let options = Options { scheme, overlap: true, measure: false };
    let made = translate(path.to_str().expect("a path in UTF-8"), &[], options)
        .unwrap_or_else(|refusal| panic!("{name}: {}", refusal.message));
    std::fs::remove_dir_all(&folder).expect("the folder made above");
    made
}
