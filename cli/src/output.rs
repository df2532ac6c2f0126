//! Standard output.

use std::io::Write;

/// Prints a line. When standard output is closed, work goes on.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
