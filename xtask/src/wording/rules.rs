//! The rules for one passage: signs that a reader who sees it alone does not understand it.

use super::passages::{Passage, PassageKind};

/// A sign that a passage is hard to understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Documentation that begins with a dependent clause ("What was asked for.") in place of a noun or a verb.
    Clause,
    /// Documentation that begins with a pronoun, or whose first sentence ends with a preposition.
    Pronoun,
    /// Documentation of a public item of three words or fewer.
    Stub,
    /// A function named by a preposition alone, or a public type named by an everyday word.
    Name,
    /// A sentence of more than [`LONGEST_SENTENCE`] words.
    Long,
    /// A sentence of a document whose subject is a clause ("Who has sent repairs all the same.").
    Nominal,
}

/// Words of the longest sentence.
const LONGEST_SENTENCE: usize = 35;
/// Words of the longest stub.
const STUB: usize = 3;

const CLAUSES: &[&str] = &[
    "What", "How", "Who", "Whose", "Whom", "Where", "Which", "As", "Nor", "Mostly", "Rather", "Else",
    "Though",
];
const PRONOUNS: &[&str] = &[
    "It", "Its", "They", "Their", "Them", "Those", "These", "That", "Such", "There", "Other", "Others",
    "Nobody", "Somebody", "Whoever", "Whatever",
];
/// Words that may follow "This" at the beginning.
const AFTER_THIS: &[&str] = &["function", "method", "type", "is"];
const LAST_PREPOSITIONS: &[&str] =
    &["of", "by", "for", "with", "to", "at", "on", "in", "from", "over", "behind", "beside"];
const SUBJECTS: &[&str] = &["Who", "What", "Whoever", "Whatever"];
const FUNCTION_NAMES: &[&str] = &[
    "of", "by", "at", "with", "over", "like", "but", "along", "from", "to", "on", "into", "beside", "behind",
    "as_of", "through",
];
const TYPE_NAMES: &[&str] = &[
    "Said",
    "Given",
    "Means",
    "Wishes",
    "Standing",
    "Near",
    "Words",
    "Whose",
    "Prepared",
    "Begun",
    "Terms",
    "Manner",
    "Patience",
    "Turn",
    "Learnings",
    "Gathering",
    "Place",
    "Refusal",
    "Its",
    "Told",
    "Untold",
    "Looks",
    "Doubt",
    "Homing",
    "Errand",
    "Errands",
    "Room",
];

impl Fault {
    /// All faults, in the order of their columns in `xtask/wording.txt`.
    pub const ALL: [Fault; 6] =
        [Fault::Clause, Fault::Pronoun, Fault::Stub, Fault::Name, Fault::Long, Fault::Nominal];

    /// Returns the name of the column.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Clause => "clause",
            Fault::Pronoun => "pronoun",
            Fault::Stub => "stub",
            Fault::Name => "name",
            Fault::Long => "long",
            Fault::Nominal => "nominal",
        }
    }
}

/// Returns the faults of a passage, each with the text in question.
pub fn faults(passage: &Passage) -> Vec<(Fault, String)> {
    let text = passage.text.as_str();
    let mut found = Vec::new();
    let sentences = sentences(text);
    match passage.place {
        PassageKind::FunctionName if FUNCTION_NAMES.contains(&text) => {
            found.push((Fault::Name, text.to_string()))
        }
        PassageKind::TypeName if TYPE_NAMES.contains(&text) => found.push((Fault::Name, text.to_string())),
        PassageKind::FunctionName | PassageKind::TypeName => return found,
        PassageKind::Document => {
            let is_nominal =
                |sentence: &&&str| SUBJECTS.contains(&first_word(sentence)) && !sentence.ends_with('?');
            found.extend(sentences.iter().filter(is_nominal).map(|one| (Fault::Nominal, one.to_string())));
        }
        PassageKind::PublicItem | PassageKind::Item => {
            if CLAUSES.contains(&first_word(text)) && !text.ends_with('?') {
                found.push((Fault::Clause, text.to_string()));
            } else if begins_with_pronoun(text) || ends_with_preposition(sentences[0]) {
                found.push((Fault::Pronoun, text.to_string()));
            }
            if passage.place == PassageKind::PublicItem && text.split_whitespace().count() <= STUB {
                found.push((Fault::Stub, text.to_string()));
            }
        }
    }
    let is_long = |sentence: &&&str| sentence.split_whitespace().count() > LONGEST_SENTENCE;
    found.extend(sentences.iter().filter(is_long).map(|one| (Fault::Long, one.to_string())));
    found
}

/// Returns the letters, digits and underscores at the beginning.
fn first_word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

fn begins_with_pronoun(text: &str) -> bool {
    let this = || text.strip_prefix("This ").map(first_word).is_some_and(|next| !AFTER_THIS.contains(&next));
    PRONOUNS.contains(&first_word(text)) || this()
}

fn ends_with_preposition(sentence: &str) -> bool {
    let last = sentence.strip_suffix('.').and_then(|sentence| sentence.rsplit(' ').next());
    last.is_some_and(|last| LAST_PREPOSITIONS.contains(&last))
}

/// Splits a text where a full stop, question or exclamation mark is followed by a capital, code or emphasis.
/// The result is never empty.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let is_end = |text: &str, at: usize| {
        let next = text[at + 1..].trim_start();
        next.len() < text.len() - at - 1
            && next.starts_with(|letter: char| letter.is_ascii_uppercase() || letter == '`' || letter == '*')
    };
    while let Some(end) = rest.match_indices(['.', '!', '?']).map(|(at, _)| at).find(|at| is_end(rest, *at)) {
        found.push(&rest[..=end]);
        rest = rest[end + 1..].trim_start();
    }
    found.push(rest);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(place: PassageKind, text: &str, expected: &[Fault]) {
        let passage = Passage { line: 1, text: text.to_string(), place };
        let found: Vec<Fault> = faults(&passage).into_iter().map(|(fault, _)| fault).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn documentation_names_its_subject() {
        check(PassageKind::Item, "What was asked for by the user.", &[Fault::Clause]);
        check(PassageKind::Item, "Where is it?", &[]);
        check(PassageKind::Item, "Its name from now on.", &[Fault::Pronoun]);
        check(PassageKind::Item, "This function returns a name.", &[]);
        check(PassageKind::Item, "This one returns a name.", &[Fault::Pronoun]);
        check(PassageKind::Item, "The rank that it is sent to. More.", &[Fault::Pronoun]);
        check(PassageKind::PublicItem, "The name.", &[Fault::Stub]);
        check(PassageKind::Item, "The name.", &[]);
        check(PassageKind::PublicItem, "Hints of the user (MPI-5, section 7.4.4).", &[]);
    }

    #[test]
    fn sentences_are_short() {
        let words = "word ".repeat(30);
        check(PassageKind::Document, &format!("A {words}. And {words}."), &[]);
        check(PassageKind::Document, &format!("A {words}, e.g. not {words}."), &[Fault::Long]);
        check(PassageKind::Document, "Who has sent repairs all the same.", &[Fault::Nominal]);
        check(PassageKind::Document, "A rank. What is it?", &[]);
    }

    #[test]
    fn names_have_a_meaning_of_their_own() {
        check(PassageKind::FunctionName, "of", &[Fault::Name]);
        check(PassageKind::FunctionName, "of_rank", &[]);
        check(PassageKind::TypeName, "Told", &[Fault::Name]);
        check(PassageKind::TypeName, "Request", &[]);
    }
}
