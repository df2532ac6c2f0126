//! Finds doc comments that say nothing: three words can only repeat the item's name.

/// Minimum number of words in a doc comment.
const LEAST: usize = 4;

/// Finds doc comments of three words or fewer; each as `(line, comment)`, lines counted from 1.
#[must_use]
pub fn short_docs(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for (index, line) in text.lines().chain([""]).enumerate() {
        match (doc(line), &mut block) {
            (Some(words), Some((_, comment))) => {
                comment.push(' ');
                comment.push_str(words);
            }
            (Some(words), None) => block = Some((index + 1, words.to_owned())),
            (None, _) => found.extend(block.take().filter(|(_, comment)| is_short(comment))),
        }
    }
    found
}

fn doc(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("///")?;
    (!text.starts_with('/')).then(|| text.trim())
}

fn is_short(comment: &str) -> bool {
    comment.split_whitespace().count() < LEAST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_of_three_words_is_found_with_its_line() {
        let text = "\n    /// Of the queue.\n    queue: Queue,\n";
        assert_eq!(short_docs(text), [(2, "Of the queue.".to_owned())]);
    }

    #[test]
    fn longer_comments_and_several_lines_pass() {
        assert_eq!(short_docs("/// Requests that wait, oldest first.\nstruct A;"), []);
        assert_eq!(short_docs("/// Requests that\n/// wait here.\nstruct A;"), []);
        assert_eq!(short_docs("// one\n//// two"), []);
    }
}
