//! Where the parts of a JSON text lie, for who moves them without reading them.

use std::ops::Range;

use super::reader::{Kind, Reader};

/// Members of one object at most: more than any V1 or V2 object has, few enough to compare each key with
/// all before it.
const MAX_MEMBERS: usize = 256;

/// How the rows of a tensor's JSON are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nesting {
    /// All scalars follow each other in one array.
    Flat,
    /// Each row is an array.
    Rows,
}

/// The keys of an object, and where their values lie in `text`, which holds nothing else. `None` for
/// what is no object, for one with a key twice, and for one with very many.
#[must_use]
pub fn members(text: &[u8]) -> Option<Vec<(String, Range<usize>)>> {
    let mut reader = Reader::new(text);
    let mut members: Vec<(String, Range<usize>)> = Vec::new();
    reader.begin_object().ok()?;
    while let Some(key) = reader.key().ok()? {
        let value = reader.span()?;
        if members.len() == MAX_MEMBERS || members.iter().any(|(known, _)| *known == key) {
            return None;
        }
        members.push((key.into_owned(), value));
    }
    reader.finish().ok()?;
    Some(members)
}

/// Where the elements of an array lie in `text`, which holds nothing else. `None` for what is no array.
#[must_use]
pub fn elements(text: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut reader = Reader::new(text);
    let mut elements = Vec::new();
    reader.begin_array().ok()?;
    while reader.element().ok()? {
        elements.push(reader.span()?);
    }
    reader.finish().ok()?;
    Some(elements)
}

/// Where the rows of a tensor lie in `text`, which holds its array and nothing else: so many rows, each
/// of so many scalars, which are not zero. `None` for anything else: then the text is not that tensor.
#[must_use]
pub fn rows(text: &[u8], rows: usize, scalars: usize) -> Option<(Nesting, Vec<Range<usize>>)> {
    let mut reader = Reader::new(text);
    // Two bytes of text are the least that a row takes.
    let mut found: Vec<Range<usize>> = Vec::with_capacity(rows.min(text.len() / 2));
    let mut nesting = None;
    let mut inside = 0;
    reader.begin_array().ok()?;
    while reader.element().ok()? {
        let start = reader.start()?;
        let (kind, count) = match reader.at_array() {
            true => (Nesting::Rows, reader.count_scalars()?),
            false => (Nesting::Flat, reader.scalar()?),
        };
        if *nesting.get_or_insert(kind) != kind {
            return None;
        }
        match inside {
            0 => found.push(start..reader.at),
            _ => found.last_mut()?.end = reader.at,
        }
        inside += count;
        if inside > scalars || found.len() > rows || kind == Nesting::Rows && inside != scalars {
            return None;
        }
        inside %= scalars;
    }
    reader.finish().ok()?;
    (inside == 0 && found.len() == rows).then_some((nesting?, found))
}

impl Reader<'_> {
    /// Where the next value begins.
    fn start(&mut self) -> Option<usize> {
        self.kind().ok()?;
        Some(self.at)
    }

    /// Where the next value lies; it is stepped over.
    fn span(&mut self) -> Option<Range<usize>> {
        let start = self.start()?;
        self.skip().ok()?;
        Some(start..self.at)
    }

    /// Steps over one scalar, and counts it.
    fn scalar(&mut self) -> Option<usize> {
        if self.kind().ok()? == Kind::Object {
            return None;
        }
        self.skip().ok()?;
        Some(1)
    }

    /// Steps over an array and counts its scalars, however they are nested.
    fn count_scalars(&mut self) -> Option<usize> {
        let outside = self.depth();
        self.begin_array().ok()?;
        let mut count = 0;
        loop {
            if !self.element().ok()? {
                if self.depth() == outside {
                    return Some(count);
                }
            } else if self.at_array() {
                self.begin_array().ok()?;
            } else {
                count += self.scalar()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(text: &'a str, found: &[Range<usize>]) -> Vec<&'a str> {
        found.iter().map(|range| &text[range.clone()]).collect()
    }

    #[test]
    fn members_and_elements_are_found_with_their_text() {
        let text = r#" { "a" : [1, NaN] , "b\n":{"x":"]}"} } "#;
        let found = members(text.as_bytes()).unwrap();
        let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a", "b\n"]);
        let values: Vec<Range<usize>> = found.into_iter().map(|(_, value)| value).collect();
        assert_eq!(texts(text, &values), ["[1, NaN]", r#"{"x":"]}"}"#]);
        let found = elements(b"[1, NaN]").unwrap();
        assert_eq!(texts("[1, NaN]", &found), ["1", "NaN"]);
        assert_eq!(elements(b"[]").unwrap(), []);
    }

    #[test]
    fn what_is_not_whole_json_is_not_cut() {
        for text in [
            "",
            "{",
            "{}x",
            "[]",
            r#"{"a":1,"a":2}"#,
            r#"{"a":}"#,
            r#"{"a":01}"#,
        ] {
            assert_eq!(members(text.as_bytes()), None, "{text}");
        }
        for text in ["", "[1,]", "[1 2]", "[1],2", "{}", "[1,,2]", "[[1]"] {
            assert_eq!(elements(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn rows_are_cut_flat_and_nested() {
        let flat = "[1, 2,3 ,4]";
        let (nesting, found) = rows(flat.as_bytes(), 2, 2).unwrap();
        assert_eq!(
            (nesting, texts(flat, &found)),
            (Nesting::Flat, vec!["1, 2", "3 ,4"])
        );
        let nested = "[[[1],[2]],[[3],[4]]]";
        let (nesting, found) = rows(nested.as_bytes(), 2, 2).unwrap();
        assert_eq!(nesting, Nesting::Rows);
        assert_eq!(texts(nested, &found), ["[[1],[2]]", "[[3],[4]]"]);
    }

    #[test]
    fn a_row_that_is_too_long_or_too_short_is_no_row() {
        for text in [
            "[1,2,3]",
            "[1,2,3,4,5]",
            "[[1,2],[3]]",
            "[[1],[2,3,4]]",
            "[[1,2],3,4]",
        ] {
            assert_eq!(rows(text.as_bytes(), 2, 2), None, "{text}");
        }
        assert_eq!(rows(b"[{},{},{},{}]", 2, 2), None);
        assert_eq!(rows(b"[[1,2,3,4]]", 2, 2), None);
    }
}
