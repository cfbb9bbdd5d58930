//! Results of tuning, as lines behind a model's text, and the merge of two runs' lines.
//!
//! A line is `learned PROGRAM FORM COLLECTIVE ROOT BYTES OCCURRENCE PLACE ALGORITHM MANNER`. The best
//! algorithm depends on the computation beside an operation, so the program's name is part of the key. PLACE
//! is the number of ranks, the number of hosts and the hash of the layout. ALGORITHM is a
//! [`Choice::label`](crate::select::Choice::label). A line has an effect only if an alternative has the same
//! label. So a damaged line, or one of another machine or version, is ignored.

use std::collections::HashMap;

use tutti_base::cost_model::LEARNED;

use super::CallForm;
use super::cycle::CyclePlace;
use crate::shape::Collective;
use crate::simulate::Layout;

/// Lines that a file keeps; the oldest go first.
pub const MOST_LINES: usize = 1024;
/// Longest line that is read, in bytes.
const MOST_BYTES: usize = 400;
/// Longest name of a program, in bytes; the rest is cut off.
const MOST_NAME: usize = 64;
/// Words of a line: the first one, the key, algorithm and manner.
const WORDS: usize = 10;

/// Labels of the best [`Proposal`](super::Proposal)s that were learned, by key.
pub type Learned = HashMap<String, String>;

/// Returns the key of a unit: a program, an operation, and the layout of its ranks.
pub fn key(program: &str, place: CyclePlace, layout: &Layout) -> String {
    let CyclePlace { key, occurrence } = place;
    let (ranks, hosts, hash) = (layout.ranks(), layout.hosts(), layout.fingerprint());
    format!(
        "{} {} {} {} {} {occurrence} {ranks}@{hosts}-{hash:016x}",
        name(program),
        key.form.name(),
        key.collective.name(),
        key.root,
        key.bytes
    )
}

/// Returns a program's name as a single word.
fn name(program: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-+".contains(letter);
    let word = program.chars().map(|letter| if is_plain(letter) { letter } else { '_' });
    let word: String = word.take(MOST_NAME).collect();
    if word.is_empty() { "_".to_string() } else { word }
}

/// Reads the lines of a model's text that say what was learned; of two with one key the last counts.
pub fn parse(text: &str) -> Learned {
    text.lines().filter_map(pair).map(|(key, label)| (key.to_string(), label.to_string())).collect()
}

/// Returns the key and the label of a line, or `None` if it is no such line.
fn pair(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_end();
    let rest = line.strip_prefix(LEARNED)?.strip_prefix(' ')?;
    let words: Vec<&str> = line.split(' ').collect();
    let fits = line.len() <= MOST_BYTES
        && words.len() == WORDS
        && words.iter().all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic()))
        && !line.contains('#');
    if !fits {
        return None;
    }
    let [_, _, form, collective, root, bytes, occurrence, ..] = words[..] else { return None };
    let forms = [CallForm::Blocking, CallForm::Nonblocking, CallForm::Persistent];
    let is_known = forms.iter().any(|known| known.name() == form)
        && Collective::EVERY.iter().any(|known| known.name() == collective)
        && [root, bytes, occurrence].iter().all(|number| number.parse::<u64>().is_ok());
    let label = words[WORDS - 2].len() + 1 + words[WORDS - 1].len();
    is_known.then(|| (&rest[..rest.len() - label - 1], &rest[rest.len() - label..]))
}

/// Returns the text of a file with newly learned lines. Other lines stay, lines with the same keys are
/// replaced, and if there are too many, the oldest are dropped.
pub fn merge(text: &str, new: &[(String, String)]) -> String {
    let is_new = |key: &str| new.iter().any(|(known, _)| known == key);
    let room = MOST_LINES.saturating_sub(new.len());
    let old: Vec<&str> =
        text.lines().filter(|line| pair(line).is_some_and(|(key, _)| !is_new(key))).collect();
    let dropped = &old[..old.len().saturating_sub(room)];
    let mut merged = String::with_capacity(text.len());
    let is_of_learning = |line: &str| line.split(' ').next() == Some(LEARNED);
    let kept = text.lines().filter(|line| !is_of_learning(line)).chain(old[dropped.len()..].iter().copied());
    for line in kept {
        merged.push_str(line);
        merged.push('\n');
    }
    for (key, label) in &new[new.len().saturating_sub(MOST_LINES)..] {
        merged += &format!("{LEARNED} {key} {label}\n");
    }
    merged
}

/// Returns the text of a new model with the lines that the old file had learned.
pub fn carry_over(old: &str, text: &str) -> String {
    let lines = old.lines().filter_map(pair);
    let lines: Vec<_> = lines.map(|(key, label)| (key.to_string(), label.to_string())).collect();
    merge(text, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use crate::shape::Shape;
    use crate::tune::UnitKey;

    const LINE: &str = "learned a.out non-blocking bcast 0 65536 1 4@1-00 tree:2:0:0:1:0:0 plain";

    fn check(line: &str, expected: Option<(&str, &str)>) {
        assert_eq!(pair(line), expected, "{line}");
    }

    #[test]
    fn lines_are_read_or_passed_over() {
        let (key, label) = ("a.out non-blocking bcast 0 65536 1 4@1-00", "tree:2:0:0:1:0:0 plain");
        check(LINE, Some((key, label)));
        check(&format!("{LINE}\r"), Some((key, label)));
        check(&format!("{LINE} "), Some((key, label)));
        check(&format!("{LINE} more"), None);
        check(&format!(" {LINE}"), None);
        check(&LINE.replace("bcast", "broadcast"), None);
        check(&LINE.replace("65536", "-1"), None);
        check(&LINE.replace("plain", "#plain"), None);
        check(&LINE.replace("a.out", &"a".repeat(500)), None);
        check("learned", None);
        check("", None);
    }

    #[test]
    fn keys_are_read_as_written() {
        let key = UnitKey::new(&Shape::new(Collective::Allreduce, 4, 0, 8), CallForm::Blocking);
        let place = CyclePlace { key, occurrence: 2 };
        for program in ["a.out", "", "with blank", "\u{e4}#", &"x".repeat(1000)] {
            let key = super::key(program, place, &Layout::flat(4, 2));
            let text = merge("", &[(key.clone(), "ring:1:0:0:1:0:0 plain".to_string())]);
            assert_eq!(parse(&text).get(&key).map(String::as_str), Some("ring:1:0:0:1:0:0 plain"), "{text}");
        }
        let layouts = [Layout::flat(4, 2), Layout::flat(4, 4), Layout::flat(5, 2)];
        let keys: Vec<String> = layouts.iter().map(|layout| super::key("a", place, layout)).collect();
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2], "{keys:?}");
    }

    #[test]
    fn other_lines_stay_and_the_oldest_go() {
        let line = |number: usize| (format!("p blocking bcast 0 {number} 0 4@1-0"), "a b".to_string());
        let first: Vec<_> = (0..MOST_LINES).map(line).collect();
        let text = merge("# a machine\nswitch 2e-6\n", &first);
        let text = merge(&text, &[line(5), line(MOST_LINES)]);
        assert!(text.starts_with("# a machine\nswitch 2e-6\nlearned "));
        let known = parse(&text);
        assert_eq!(known.len(), MOST_LINES);
        assert!(!known.contains_key(&line(0).0) && known.contains_key(&line(5).0));
        assert_eq!(Model::parse(&text).map(|model| model.switch), Ok(2e-6));
        let carried = carry_over(&text, "switch 3e-6\n");
        assert_eq!((parse(&carried), Model::parse(&carried).map(|model| model.switch)), (known, Ok(3e-6)));
    }

    /// Files that were damaged, cut off or mixed with others. Reading gives some of the lines that were
    /// written, by tuning or by others in the same form. Writing gives a file whose new lines can be read.
    #[test]
    fn damaged_files_are_harmless() {
        let mut state = 1_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let whole = format!("# costs\nswitch 2e-6\n{LINE}\n{}\n", LINE.replace("65536", "8"));
        let new = [("p blocking bcast 0 1 0 4@1-0".to_string(), "a b".to_string())];
        for _ in 0..20_000 {
            let mut bytes = whole.clone().into_bytes();
            for _ in 0..random(8) {
                let place = random(bytes.len());
                match random(4) {
                    0 => bytes[place] = random(256) as u8,
                    1 => drop(bytes.drain(place..(place + random(30)).min(bytes.len()))),
                    2 => bytes.insert(place, b"\n #\0"[random(4)]),
                    _ => bytes.truncate(place.max(1)),
                }
                if bytes.is_empty() {
                    bytes.push(b'\n');
                }
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let before = parse(&text);
            let after = parse(&merge(&text, &new));
            assert_eq!(after.get(&new[0].0), Some(&new[0].1), "{text:?}");
            let stays = |(key, label): (&String, &String)| *key == new[0].0 || after.get(key) == Some(label);
            assert!(before.iter().all(stays), "{text:?}");
        }
    }
}
