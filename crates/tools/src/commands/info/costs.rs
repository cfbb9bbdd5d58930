//! Costs of this machine that are in force: their origin and date, or the defaults.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tutti_base::config::Config;
use tutti_base::cost_model;
use tutti_sys::files;
use tutti_sys::machine_kind::machine_kind;

use crate::kept::{MEASURED, MODEL_BYTES, default_path};
use crate::measure::library::home;

/// Returns one line about the costs that a job started here uses.
pub fn in_force(config: &Config) -> String {
    let shipped = || home().ok().map(|home| cost_model::shipped_path(&home, &machine_kind()));
    let candidates = default_path(config).into_iter().chain(shipped());
    let found = candidates.into_iter().find_map(|path: PathBuf| {
        let text = files::read_text(&path, MODEL_BYTES).ok()?;
        describe(&text, &path, age(&path))
    });
    found.unwrap_or_else(|| {
        let when = match config.collectives.calibrate && config.collectives.model_file.is_empty() {
            true => "the next mpirun measures them",
            false => "tutti probe measures them",
        };
        format!("defaults of the library: not measured on a {} yet; {when}", machine_kind())
    })
}

fn age(path: &Path) -> Option<Duration> {
    let modified = std::fs::metadata(path).and_then(|file| file.modified()).ok()?;
    Some(SystemTime::now().duration_since(modified).unwrap_or_default())
}

/// Returns the line about a file; none if the file has no costs, only what tuning has learned.
fn describe(text: &str, path: &Path, age: Option<Duration>) -> Option<String> {
    let place = match text.lines().find_map(|line| line.strip_prefix(MEASURED)) {
        Some(place) => format!("measured on {place}"),
        None if cost_model::has_costs(text) => "of unknown origin".to_string(),
        None => return None,
    };
    let age = age.map_or(String::new(), |age| format!(", {}", ago(age)));
    Some(format!("{place}{age}: {}", path.display()))
}

fn ago(age: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86400, "days"), (3600, "hours"), (60, "minutes")];
    let seconds = age.as_secs();
    let unit = UNITS.iter().find(|(length, _)| seconds >= 2 * length);
    unit.map_or("just now".to_string(), |(length, unit)| format!("{} {unit} ago", seconds / length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, seconds: u64, expected: Option<&str>) {
        let described = describe(text, Path::new("/c/MODEL"), Some(Duration::from_secs(seconds)));
        assert_eq!(described.as_deref(), expected, "{text}");
    }

    #[test]
    fn files_tell_where_and_when() {
        let text = format!("{MEASURED}n1, a EPYC_2_6.1\nline.1 4e-8\n");
        check(&text, 3, Some("measured on n1, a EPYC_2_6.1, just now: /c/MODEL"));
        check(&text, 3 * 86400 + 5, Some("measured on n1, a EPYC_2_6.1, 3 days ago: /c/MODEL"));
        check("line.1 4e-8\n", 7300, Some("of unknown origin, 2 hours ago: /c/MODEL"));
        check("learned a b\n", 3, None);
        check("", 3, None);
    }
}
