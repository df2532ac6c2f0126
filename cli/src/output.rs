//! Standard output and standard error.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};

use weir_ops::telemetry::{self, Levels, Settings};

use crate::error::CliError;

/// State of the process that reads standard output, as the last write showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The reader still reads.
    Present,
    /// The reader has closed its end of the pipe, as `head` does once it has enough.
    Gone,
}

/// Prints a line while a server runs. The server goes on if standard output is closed, so a failed write is ignored.
pub(crate) fn print(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{}", plain(line));
}

/// Prints a line of the command's result.
///
/// # Errors
/// [`CliError::Io`] when the line cannot be written, for instance to a full disk. A closed pipe is not an error.
pub(crate) fn print_result(line: &str) -> Result<Reader, CliError> {
    let mut out = io::stdout().lock();
    reader(writeln!(out, "{line}").and_then(|()| out.flush()))
}

/// Prints a message for people to standard error. `eprintln!` would panic if standard error were closed.
pub(crate) fn print_note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(line));
}

/// Installs the process's log output with these levels.
///
/// # Errors
/// [`CliError::Usage`] when the log output cannot be installed.
pub(crate) fn install_log(levels: Levels) -> Result<(), CliError> {
    let settings = Settings { levels, ..Settings::default() };
    telemetry::install(&settings).map_err(|error| CliError::Usage(error.to_string()))?;
    Ok(())
}

/// Escapes control characters, which a terminal would execute. Messages quote untrusted text, such as names in an
/// archive.
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

/// Returns the reader's state, given the outcome of a write.
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
    fn control_characters_in_messages_are_escaped() {
        assert_eq!(plain("one\n\tzwei ü"), "one\n\tzwei ü");
        let hostile = "\x1b]0;mine\x07\r\u{9b}2J";
        assert_eq!(plain(hostile), "\\u{1b}]0;mine\\u{7}\\r\\u{9b}2J");
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
        let written = |kind: ErrorKind| reader(Err(kind.into()));
        assert_eq!(reader(Ok(())).unwrap(), Reader::Present);
        assert_eq!(written(ErrorKind::BrokenPipe).unwrap(), Reader::Gone);
        let error = written(ErrorKind::StorageFull).unwrap_err().to_string();
        let begin = "cannot write to the standard output: ";
        assert!(error.starts_with(begin), "{error}");
    }
}
