//! Standard output.

use std::io::Write;

/// Prints a line for people. When nobody reads any more, work goes on.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
