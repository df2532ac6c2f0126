//! Patterns that choose the files of a source, as KServe's storage initializer and `huggingface_hub` have them.

use crate::access::settings::Settings;

/// Patterns of the files to fetch and of those to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patterns {
    /// A file must match one of these; empty allows all files.
    allow: Vec<String>,
    /// A file must match none of these.
    ignore: Vec<String>,
}

impl Patterns {
    /// Returns the patterns in KServe's variables `STORAGE_ALLOW_PATTERNS` and `STORAGE_IGNORE_PATTERNS`.
    pub(crate) fn of(settings: &dyn Settings) -> Self {
        let list = |name: &str| settings.variable(name).map(|text| split(&text)).unwrap_or_default();
        Self { allow: list("STORAGE_ALLOW_PATTERNS"), ignore: list("STORAGE_IGNORE_PATTERNS") }
    }

    /// Returns true if the patterns choose the file with this path relative to the source's root.
    pub(crate) fn choose(&self, path: &str) -> bool {
        let is_in = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, path));
        (self.allow.is_empty() || is_in(&self.allow)) && !is_in(&self.ignore)
    }
}

/// Splits a list of patterns: a JSON array, otherwise text with commas. A pattern that ends in `/` means the directory's
/// content.
fn split(text: &str) -> Vec<String> {
    let list = serde_json::from_str::<Vec<String>>(text);
    let list = list.unwrap_or_else(|_| text.split(',').map(str::to_owned).collect());
    let trimmed = list.iter().map(|pattern| pattern.trim()).filter(|pattern| !pattern.is_empty());
    trimmed.map(|pattern| if pattern.ends_with('/') { format!("{pattern}*") } else { pattern.to_owned() }).collect()
}

/// Returns true if a path matches a pattern by the rules of Python's `fnmatch.fnmatchcase`: `*` matches any characters,
/// also `/`; `?` one character; `[seq]` and `[!seq]` one character of a set. Takes time proportional to the product of
/// both lengths: only the last `*` is tried again.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    let (mut p, mut at, mut retry) = (0, 0, None);
    while at < path.len() {
        if pattern.get(p) == Some(&'*') {
            p += 1;
            retry = Some((p, at));
        } else if let Some(length) = pattern.get(p..).and_then(|rest| one(rest, path[at])) {
            p += length;
            at += 1;
        } else if let Some((star, from)) = retry {
            (p, at) = (star, from + 1);
            retry = Some((star, at));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

/// Returns the length of the pattern's first element if it matches this character.
fn one(pattern: &[char], found: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => match set(pattern) {
            Some((members, length)) => has(members, found).then_some(length),
            // A bracket that is never closed stands for itself.
            None => (found == '[').then_some(1),
        },
        literal => (*literal == found).then_some(1),
    }
}

/// Returns the content of the brackets at the start of a pattern, and the length with them; `None` if they are not closed.
fn set(pattern: &[char]) -> Option<(&[char], usize)> {
    let negation = usize::from(pattern.get(1) == Some(&'!'));
    // A closing bracket in the first place is a member.
    let first = 2 + negation;
    let end = first + pattern.get(first..)?.iter().position(|part| *part == ']')?;
    Some((&pattern[1..end], end + 1))
}

fn has(members: &[char], found: char) -> bool {
    let (is_negated, members) = match members {
        ['!', rest @ ..] => (true, rest),
        all => (false, all),
    };
    let mut rest = members;
    let mut is_in = false;
    while let [first, tail @ ..] = rest {
        (is_in, rest) = match tail {
            ['-', last, tail @ ..] => (is_in || (*first..=*last).contains(&found), tail),
            _ => (is_in || *first == found, tail),
        };
    }
    is_in != is_negated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::settings::Fixed;

    #[test]
    fn patterns_match_as_in_python() {
        let cases = [
            ("*.safetensors", "a/model.safetensors", true),
            ("*.safetensors", "model.safetensors.index.json", false),
            ("data/*.json", "data/a/b.json", true),
            ("?", "a", true),
            ("?", "", false),
            ("", "", true),
            ("*", "", true),
            ("[ab]x", "bx", true),
            ("[!ab]x", "bx", false),
            ("[!ab]x", "cx", true),
            ("[a-c]", "b", true),
            ("[a-c]", "d", false),
            ("[]]", "]", true),
            ("[", "[", true),
            ("[a", "[a", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("**/x", "a/x", true),
            ("A", "a", false),
            ("ü?", "üß", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn many_stars_take_little_time() {
        let pattern = format!("{}b", "a*".repeat(1000));
        assert!(!matches(&pattern, &"a".repeat(4000)));
    }

    #[test]
    fn the_patterns_are_read_as_kserve_reads_them() {
        let settings = |allow: &str, ignore: &str| Fixed {
            variables: vec![
                ("STORAGE_ALLOW_PATTERNS", allow.to_owned()),
                ("STORAGE_IGNORE_PATTERNS", ignore.to_owned()),
            ],
            ..Fixed::default()
        };
        let chosen = |patterns: &Patterns| ["a.json", "a.bin", "b/a.json"].map(|path| patterns.choose(path));
        assert_eq!(chosen(&Patterns::of(&Fixed::default())), [true, true, true]);
        assert_eq!(chosen(&Patterns::of(&settings("*.json", ""))), [true, false, true]);
        assert_eq!(chosen(&Patterns::of(&settings(" *.json , *.bin", "b/"))), [true, true, false]);
        assert_eq!(chosen(&Patterns::of(&settings("[\"*.bin\"]", "[]"))), [false, true, false]);
    }
}
