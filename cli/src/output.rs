//! Standard output and standard error.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};

use crate::error::CliError;

/// The reader of the standard output, as the last text found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Takes what is printed.
    Present,
    /// Closed its end, as `head` does once it has enough.
    Gone,
}

/// Prints a line beside the work of a server, which goes on when standard output is closed.
pub(crate) fn print(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{}", plain(line));
}

/// Prints a line that the command is for.
///
/// # Errors
/// [`CliError::Io`] when it cannot be written, for instance to a full disk. A reader that has left is none.
pub(crate) fn print_result(line: &str) -> Result<Reader, CliError> {
    let mut out = io::stdout().lock();
    reader(writeln!(out, "{line}").and_then(|()| out.flush()))
}

/// Prints a line for people to standard error. `eprintln` would end the process where that is closed.
pub(crate) fn print_note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(line));
}

/// Text without characters that a terminal would obey: messages quote what strangers wrote, such as the names in an archive.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let is_command = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_command(letter) {
            plain.extend(letter.escape_default());
        } else {
            plain.push(letter);
        }
    }
    Cow::Owned(plain)
}

/// Reads from the outcome of a write how the reader is.
fn reader(written: io::Result<()>) -> Result<Reader, CliError> {
    match written {
        Ok(()) => Ok(Reader::Present),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(CliError::io("cannot write to the standard output", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_that_is_quoted() {
        assert_eq!(plain("one\n\tzwei ü"), "one\n\tzwei ü");
        let hostile = "\x1b]0;mine\x07\r\u{9b}2J";
        assert_eq!(plain(hostile), "\\u{1b}]0;mine\\u{7}\\r\\u{9b}2J");
    }

    #[test]
    fn a_reader_that_left_is_no_error_and_a_full_disk_is_one() {
        let written = |kind: ErrorKind| reader(Err(kind.into()));
        assert_eq!(reader(Ok(())).unwrap(), Reader::Present);
        assert_eq!(written(ErrorKind::BrokenPipe).unwrap(), Reader::Gone);
        let error = written(ErrorKind::StorageFull).unwrap_err().to_string();
        let begin = "cannot write to the standard output: ";
        assert!(error.starts_with(begin), "{error}");
    }
}
