//! Sentences of comments that a reader cannot understand alone: those that open with a word that stands in place of a
//! subject ("Whether it waits.", "Its address."), and words for people that are applied to processes.

/// First words of a sentence that leave it without a subject.
const OPENINGS: &[&str] = &[
    "as", "how", "its", "nobody", "of", "somebody", "such", "their", "those", "what", "whatever", "whether", "which",
    "who", "whoever", "whom", "whose",
];

/// First words that open a subordinate clause: a main clause, with a subject, has to follow behind a comma.
const CLAUSES: &[&str] = &["when", "where", "why"];

/// Words that treat processes as people, or leave a sentence unclear; each with what to write instead.
const WORDS: &[(&str, &str)] = &[
    ("nobody", "the thing that does not: no client, no replica, no gateway"),
    ("somebody", "the thing itself: a client, an operator, a controller"),
    ("told", "knows, receives, is configured with, reports"),
    ("whoever", "the thing itself: a client, an operator, a reader"),
    ("whom", "the thing itself"),
];

/// A comment of several lines, as one text.
struct Block {
    line: usize,
    text: String,
}

/// Finds the sentences of comments that break a rule; each as `(line of the comment, what is wrong)`.
#[must_use]
pub fn unclear_sentences(text: &str) -> Vec<(usize, String)> {
    let blocks = blocks(text).into_iter();
    blocks.flat_map(|block| complaints(&block.text).into_iter().map(move |complaint| (block.line, complaint))).collect()
}

/// The comments of a file. A line of code, an empty line, a list's item and a code fence each end one.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::<Block>::new();
    let (mut continues, mut fenced) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let comment = comment(line);
        fenced = comment.is_some_and(|words| words.starts_with("```")) != fenced && comment.is_some();
        match comment.filter(|words| !fenced && is_prose(words)) {
            Some(words) => {
                let item = words.strip_prefix("- ").or_else(|| words.strip_prefix("* "));
                match found.last_mut().filter(|_| continues && item.is_none()) {
                    Some(block) => block.text.extend([" ", words]),
                    None => found.push(Block { line: index + 1, text: item.unwrap_or(words).to_owned() }),
                }
                continues = true;
            }
            None => continues = false,
        }
    }
    found
}

/// The words of a line that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

/// Headings, tables, pictures, numbered steps and links' targets are no sentences.
fn is_prose(words: &str) -> bool {
    words.starts_with(|first: char| first.is_alphabetic() || matches!(first, '`' | '-' | '*' | '['))
        && !words.contains("──")
}

fn complaints(text: &str) -> Vec<String> {
    let openings = sentences(text).filter(|sentence| opens_without_subject(sentence));
    let openings = openings.map(|sentence| format!("a sentence without its subject: {sentence}"));
    let plain = text.split('`').step_by(2).flat_map(|part| part.split(|letter: char| !letter.is_alphabetic()));
    let words = plain.filter_map(|word| WORDS.iter().find(|(refused, _)| word.eq_ignore_ascii_case(refused)));
    openings.chain(words.map(|(word, better)| format!("`{word}`; write {better}: {text}"))).collect()
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['.', '?', '!']).scan(String::new(), |_, part| Some(part.trim()))
}

fn opens_without_subject(sentence: &str) -> bool {
    let word = sentence.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
    let capital = word.starts_with(char::is_uppercase);
    let is = |list: &[&str]| list.iter().any(|opening| word.eq_ignore_ascii_case(opening));
    capital && (is(OPENINGS) && !sentence.ends_with('?') || is(CLAUSES) && !sentence.contains(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        unclear_sentences(text)
    }

    #[test]
    fn a_sentence_that_opens_without_a_subject_is_found_with_the_line_of_its_comment() {
        let text = "fn a() {}\n    /// Address of the replica.\n    /// Whether it waits.\n    waits: Waits,\n";
        assert_eq!(found(text), [(2, "a sentence without its subject: Whether it waits.".to_owned())]);
        assert_eq!(found("// Its address.").len(), 1);
        assert_eq!(found("//! - Of no use.").len(), 1);
    }

    #[test]
    fn a_clause_needs_a_main_clause() {
        assert_eq!(found("/// Where the model lies.").len(), 1);
        assert_eq!(found("/// Where no limit is set, the queue holds 100 requests.").len(), 0);
    }

    #[test]
    fn processes_are_not_people() {
        assert_eq!(found("/// The gateway is told of it.").len(), 1);
        assert_eq!(found("/// A reply that nobody\n/// reads.").len(), 1);
        assert_eq!(found("/// The flag `told` stays.").len(), 0);
    }

    #[test]
    fn questions_code_lists_and_pictures_pass() {
        assert_eq!(found("/// Is it ready?\n/// ```\n/// What is it\n/// ```\n").len(), 0);
        assert_eq!(found("//! | what | Whether |\n//!   a ──► b\n").len(), 0);
        assert_eq!(found("let url = \"http://a\"; // Whose\n").len(), 0);
        assert_eq!(found("/// Reads a file, e.g. of weights.\n").len(), 0);
    }
}
