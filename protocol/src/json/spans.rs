//! Byte ranges of the members, elements and rows of a JSON text, for callers that move them undecoded.

use std::ops::Range;

use super::reader::{Kind, Reader};

/// Maximum number of members in one object: more than any V1 or V2 object has, and few enough to compare each key with
/// all previous ones.
const MAX_MEMBERS: usize = 256;

/// Layout of a tensor's rows in JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowLayout {
    /// One array of all scalars, row after row.
    Flat,
    /// One array for each row.
    Nested,
}

/// Returns an object's keys with the byte ranges of their values in `text`, which contains nothing else. Returns `None`
/// if the text is not an object, repeats a key, or has more than 256 members.
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

/// Returns the byte ranges of an array's elements in `text`, which contains nothing else. Returns `None` if the text is
/// not an array or has more than `most` elements: a range takes eight times the memory of the shortest element.
#[must_use]
pub fn elements(text: &[u8], most: usize) -> Option<Vec<Range<usize>>> {
    let mut reader = Reader::new(text);
    let mut elements = Vec::new();
    reader.begin_array().ok()?;
    while reader.element().ok()? {
        if elements.len() == most {
            return None;
        }
        elements.push(reader.span()?);
    }
    reader.finish().ok()?;
    Some(elements)
}

/// Returns the length of the array in `text`, of its first element, and so on for each level; empty if the text is not
/// an array. The text is read once, whatever the depth of its nesting.
#[must_use]
pub fn widths(text: &[u8]) -> Vec<usize> {
    let mut widths = Vec::new();
    // An error ends the count early. Equal texts still have equal widths, and callers only compare widths.
    let _ = count_widths(&mut Reader::new(text), &mut widths);
    widths
}

fn count_widths(reader: &mut Reader<'_>, widths: &mut Vec<usize>) -> Option<()> {
    let mut open = 0;
    while reader.at_array() {
        reader.begin_array().ok()?;
        let is_empty = !reader.element().ok()?;
        widths.push(usize::from(!is_empty));
        if is_empty {
            break;
        }
        open += 1;
    }
    if open == widths.len() && open > 0 {
        reader.skip().ok()?;
    }
    for width in widths[..open].iter_mut().rev() {
        while reader.element().ok()? {
            reader.skip().ok()?;
            *width += 1;
        }
    }
    Some(())
}

/// Returns the byte ranges of a tensor's rows in `text`, which contains the tensor's array and nothing else: `rows`
/// rows of `scalars` scalars each, where `scalars` is at least one. Returns `None` if the text is not such a tensor.
#[must_use]
pub fn rows(text: &[u8], rows: usize, scalars: usize) -> Option<(RowLayout, Vec<Range<usize>>)> {
    let mut reader = Reader::new(text);
    // A row takes at least two bytes of text.
    let mut found: Vec<Range<usize>> = Vec::with_capacity(rows.min(text.len() / 2));
    let mut layout = None;
    let mut inside = 0;
    reader.begin_array().ok()?;
    while reader.element().ok()? {
        let start = reader.start()?;
        let (found_layout, count) = if reader.at_array() {
            (RowLayout::Nested, reader.count_scalars()?)
        } else {
            (RowLayout::Flat, reader.skip_scalar()?)
        };
        if *layout.get_or_insert(found_layout) != found_layout {
            return None;
        }
        match inside {
            0 => found.push(start..reader.at),
            _ => found.last_mut()?.end = reader.at,
        }
        inside += count;
        if inside > scalars || found.len() > rows || found_layout == RowLayout::Nested && inside != scalars {
            return None;
        }
        inside %= scalars;
    }
    reader.finish().ok()?;
    (inside == 0 && found.len() == rows).then_some((layout?, found))
}

impl Reader<'_> {
    /// Returns the position where the next value begins.
    fn start(&mut self) -> Option<usize> {
        self.kind().ok()?;
        Some(self.at)
    }

    /// Skips the next value and returns its byte range.
    fn span(&mut self) -> Option<Range<usize>> {
        let start = self.start()?;
        self.skip().ok()?;
        Some(start..self.at)
    }

    /// Skips one scalar and returns its count, 1.
    fn skip_scalar(&mut self) -> Option<usize> {
        if self.kind().ok()? == Kind::Object {
            return None;
        }
        self.skip().ok()?;
        Some(1)
    }

    /// Skips an array and returns the number of its scalars at all levels.
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
                count += self.skip_scalar()?;
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
        let found = elements(b"[1, NaN]", 2).unwrap();
        assert_eq!(texts("[1, NaN]", &found), ["1", "NaN"]);
        assert_eq!(elements(b"[1, NaN]", 1), None);
        assert_eq!(elements(b"[]", 0).unwrap(), []);
    }

    #[test]
    fn widths_follow_the_first_elements() {
        for (text, expected) in [
            ("7", &[][..]),
            ("{}", &[]),
            ("[]", &[0]),
            ("[1, 2]", &[2]),
            ("[[]]", &[1, 0]),
            ("[[], [1]]", &[2, 0]),
            (" [ [ [1,2] , 3 ], [4], 5 ] ", &[3, 2, 2]),
            (r#"[{"a":[1]}, 2]"#, &[2]),
        ] {
            assert_eq!(widths(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn text_that_is_not_one_complete_json_value_is_refused() {
        for text in ["", "{", "{}x", "[]", r#"{"a":1,"a":2}"#, r#"{"a":}"#, r#"{"a":01}"#] {
            assert_eq!(members(text.as_bytes()), None, "{text}");
        }
        for text in ["", "[1,]", "[1 2]", "[1],2", "{}", "[1,,2]", "[[1]"] {
            assert_eq!(elements(text.as_bytes(), 9), None, "{text}");
        }
    }

    #[test]
    fn rows_are_found_flat_and_nested() {
        let flat = "[1, 2,3 ,4]";
        let (layout, found) = rows(flat.as_bytes(), 2, 2).unwrap();
        assert_eq!((layout, texts(flat, &found)), (RowLayout::Flat, vec!["1, 2", "3 ,4"]));
        let nested = "[[[1],[2]],[[3],[4]]]";
        let (layout, found) = rows(nested.as_bytes(), 2, 2).unwrap();
        assert_eq!(layout, RowLayout::Nested);
        assert_eq!(texts(nested, &found), ["[[1],[2]]", "[[3],[4]]"]);
    }

    #[test]
    fn rows_of_wrong_length_are_refused() {
        for text in ["[1,2,3]", "[1,2,3,4,5]", "[[1,2],[3]]", "[[1],[2,3,4]]", "[[1,2],3,4]"] {
            assert_eq!(rows(text.as_bytes(), 2, 2), None, "{text}");
        }
        assert_eq!(rows(b"[{},{},{},{}]", 2, 2), None);
        assert_eq!(rows(b"[[1,2,3,4]]", 2, 2), None);
    }
}
