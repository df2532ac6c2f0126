//! Lines of a log, and CSV records with quoted fields that span lines.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use super::LogError;

/// A line with its number, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) number: u64,
    pub(super) text: String,
}

/// Non-empty lines of a reader. A line ends with `\n`, `\r\n`, or `\r` as written by old spreadsheets.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    number: u64,
    /// True if the previous line ended with `\r`, so that a following `\n` belongs to it.
    after_return: bool,
    /// Lines that were peeked at and not yet returned.
    ahead: VecDeque<LogLine>,
}

/// Longest line in bytes; a line of an access log has some hundred.
const LONGEST: usize = 1 << 20;

/// Most lines of one record, so that an unclosed quote is detected soon.
const MOST_LINES: usize = 1000;

/// Magic bytes of compressed files, with the program that unpacks each.
const PACKED: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "zcat"),
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"BZh", "bzcat"),
    (b"\xfd7zXZ", "xzcat"),
    (b"PK\x03\x04", "unzip -p"),
];

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, number: 0, after_return: false, ahead: VecDeque::new() }
    }

    /// Returns up to `count` next lines without consuming them.
    pub(super) fn peek(&mut self, count: usize) -> Result<&[LogLine], LogError> {
        while self.ahead.len() < count
            && let Some(line) = self.read()?
        {
            self.ahead.push_back(line);
        }
        Ok(self.ahead.make_contiguous())
    }

    /// Returns the next non-empty line, trimmed.
    pub(super) fn next(&mut self) -> Result<Option<LogLine>, LogError> {
        match self.ahead.pop_front() {
            Some(line) => Ok(Some(line)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Option<LogLine>, LogError> {
        loop {
            let mut bytes = Vec::new();
            self.number += 1;
            let is_end = !self.fill(&mut bytes)?;
            if self.number == 1 {
                readable(&bytes)?;
            }
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim_start_matches('\u{feff}').trim();
            if !text.is_empty() {
                let text = text.to_owned();
                let number = self.number;
                return Ok(Some(LogLine { number, text }));
            }
            if is_end {
                return Ok(None);
            }
        }
    }

    /// Reads up to the end of a line; returns false at the end of the input.
    fn fill(&mut self, bytes: &mut Vec<u8>) -> Result<bool, LogError> {
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if available.is_empty() {
                return Ok(false);
            }
            if std::mem::take(&mut self.after_return) && available.starts_with(b"\n") {
                self.reader.consume(1);
                continue;
            }
            let end = available.iter().position(|b| matches!(b, b'\n' | b'\r'));
            let length = end.unwrap_or(available.len());
            if bytes.len() + length >= LONGEST {
                return Err(LogError::LongLine(self.number));
            }
            bytes.extend(available.iter().take(length));
            self.after_return = available.get(length) == Some(&b'\r');
            self.reader.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Completes a record that begins with this line: appends lines while a quoted field is open.
    pub(super) fn complete(&mut self, line: &mut LogLine, delimiter: char) -> Result<(), LogError> {
        for _ in 0..MOST_LINES {
            if !walk(&line.text, delimiter).1 {
                return Ok(());
            }
            let Some(next) = self.next()? else {
                break;
            };
            line.text.push('\n');
            line.text.push_str(&next.text);
        }
        Err(LogError::OpenQuote(line.number))
    }
}

fn readable(first: &[u8]) -> Result<(), LogError> {
    if let Some((_, with)) = PACKED.iter().find(|(magic, _)| first.starts_with(magic)) {
        return Err(LogError::Compressed(with));
    }
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        return Err(LogError::WideText);
    }
    if first.contains(&0) || first.starts_with(b"PAR1") {
        return Err(LogError::Binary);
    }
    Ok(())
}

/// Splits a record into its fields. A field that begins with a quote ends at the next quote that is not doubled; a
/// quote inside any other field is literal.
pub(super) fn split(text: &str, delimiter: char) -> Vec<String> {
    walk(text, delimiter).0
}

/// State of the quotes around a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    None,
    Open,
    Closed,
}

/// Returns the fields, and true if the last one has an unclosed quote.
fn walk(text: &str, delimiter: char) -> (Vec<String>, bool) {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut quotes = Quotes::None;
    for letter in text.chars() {
        match (quotes, letter) {
            (Quotes::None, '"') if field.trim().is_empty() => quotes = Quotes::Open,
            (Quotes::Open, '"') => quotes = Quotes::Closed,
            (Quotes::Closed, '"') => {
                field.push(letter);
                quotes = Quotes::Open;
            }
            (Quotes::None | Quotes::Closed, _) if letter == delimiter => {
                fields.push(std::mem::take(&mut field).trim().to_owned());
                quotes = Quotes::None;
            }
            _ => field.push(letter),
        }
    }
    fields.push(field.trim().to_owned());
    if delimiter == ' ' {
        fields.retain(|field| !field.is_empty());
    }
    (fields, quotes == Quotes::Open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(u64, String)> {
        let mut lines = Lines::new(bytes);
        let each = std::iter::from_fn(|| lines.next().unwrap());
        each.map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn every_kind_of_line_end_is_read() {
        for text in ["a\nb\n\nc", "a\r\nb\r\n\r\nc\r\n", "a\rb\r\rc\r"] {
            let read = lines(text.as_bytes());
            let expected = [(1, "a"), (2, "b"), (4, "c")];
            let expected = expected.map(|(number, text)| (number, text.to_owned()));
            assert_eq!(read, expected, "{text:?}");
        }
    }

    #[test]
    fn quotes_hold_delimiters_lines_and_doubled_quotes() {
        let text = "1,\"say \"\"hi, you\"\"\",x\n2,\"two\nlines, 3\",y\n3,5\" disk,z\n";
        let mut lines = Lines::new(text.as_bytes());
        let mut records = Vec::new();
        while let Some(mut line) = lines.next().unwrap() {
            lines.complete(&mut line, ',').unwrap();
            records.push(split(&line.text, ','));
        }
        let expected = [["1", "say \"hi, you\"", "x"], ["2", "two\nlines, 3", "y"], ["3", "5\" disk", "z"]];
        assert_eq!(records, expected);
    }
}
