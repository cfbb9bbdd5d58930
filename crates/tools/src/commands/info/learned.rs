//! `tutti info --learned`: stored results of tuning at run time.

use std::io::ErrorKind;
use std::path::Path;

use tutti_coll::tune::learned;
use tutti_sys::files;

/// Formats a table of the learned results in the model file at `path`, of which at most `most_bytes` bytes
/// are read.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn list(path: &Path, most_bytes: u64) -> Result<String, String> {
    let text = match files::read(path, most_bytes) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    Ok(table(&text, &path.display().to_string()))
}

fn table(text: &str, path: &str) -> String {
    let all = learned::parse(text);
    let mut rows: Vec<(Vec<&str>, &str)> =
        all.iter().map(|(key, label)| (key.split(' ').collect(), label.as_str())).collect();
    rows.sort();
    let mut out = format!("# {} learned, in {path}\n", rows.len());
    if rows.is_empty() {
        return out;
    }
    out += "# program, form, collective, root, bytes, number in the loop, ranks@hosts, \
            algorithm:radix:fan-out:segment:window:readers:ignored, progress\n";
    for (key, label) in rows {
        let [program, form, collective, root, bytes, occurrence, place] = key[..] else { continue };
        let number = occurrence.parse::<u64>().map_or(0, |number| number + 1);
        let place = place.split('-').next().unwrap_or_default();
        out += &format!(
            "{program}\t{form}\t{collective}\t{root}\t{bytes}\t{number}\t{place}\t{}\n",
            label.replace(' ', "\t")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_rows() {
        assert_eq!(table("switch 1e-6\nlearned nothing\n", "f"), "# 0 learned, in f\n");
        let line = "learned a.out non-blocking bcast 0 65536 1 4@1-00ff tree:2:0:0:1:0:0 plain\n";
        let rows: Vec<String> = table(line, "f").lines().skip(2).map(str::to_string).collect();
        assert_eq!(rows, ["a.out\tnon-blocking\tbcast\t0\t65536\t2\t4@1\ttree:2:0:0:1:0:0\tplain"]);
    }
}
