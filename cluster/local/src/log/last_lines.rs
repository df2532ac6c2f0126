//! The last lines of a log, for the message of a failure.

use std::collections::VecDeque;

/// Number of lines kept: the last line of a stack trace names the cause, and often a few more lines follow.
const KEPT: usize = 3;

/// The last non-empty lines of a run.
#[derive(Debug, Default)]
pub(super) struct LastLines(VecDeque<String>);

impl LastLines {
    pub(super) fn push(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    /// Joins the lines into one. If some are errors by their level, only these are returned.
    pub(super) fn joined(&self) -> String {
        let lines = self.0.iter().map(|line| without_time(line.trim()));
        let (errors, others): (Vec<_>, Vec<_>) = lines.partition(|line| is_error(line));
        let errors: Vec<_> = errors.into_iter().map(without_level).collect();
        if errors.is_empty() { others.join(" | ") } else { errors.join(" | ") }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Removes the timestamp at the beginning of a line, which is not needed in the message of a recent failure.
fn without_time(line: &str) -> &str {
    let Some((first, rest)) = line.split_once(' ') else {
        return line;
    };
    let is_time = first.contains('T')
        && first.contains(':')
        && first.starts_with(|c: char| c.is_ascii_digit())
        && first.chars().all(|c| c.is_ascii_digit() || "TZ-+:.".contains(c));
    if is_time { rest.trim_start() } else { line }
}

/// Removes the level and the target from an error line, such as `ERROR weir_runtime::app: `.
fn without_level(line: &str) -> &str {
    let message = line.strip_prefix("ERROR ").and_then(|rest| {
        let (target, message) = rest.trim_start().split_once(": ")?;
        let is_target = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-');
        target.chars().all(is_target).then_some(message)
    });
    message.unwrap_or(line)
}

/// Returns true if the line contains a level word that most loggers use for errors.
fn is_error(line: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| matches!(word, "ERROR" | "FATAL" | "CRITICAL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(lines: &[&str]) -> String {
        let mut last_lines = LastLines::default();
        lines.iter().for_each(|line| last_lines.push(line));
        last_lines.joined()
    }

    #[test]
    fn errors_are_returned_without_other_lines_level_and_target() {
        let lines = ["2026-11-21T18:47:26.007656Z ERROR app: no model", "2026-11-21T18:47:26.007820Z  INFO app: ended"];
        assert_eq!(joined(&lines), "no model");
        assert_eq!(joined(&["ERROR in line 3: x"]), "ERROR in line 3: x");
    }

    #[test]
    fn without_an_error_level_all_last_lines_are_returned() {
        let lines = ["one", "", "Traceback:", "ValueError: 7", "Time: 10:00 is late"];
        assert_eq!(joined(&lines), "Traceback: | ValueError: 7 | Time: 10:00 is late");
    }
}
