//! The last lines of a log.

use std::collections::VecDeque;

/// Lines that are kept: the end of a stack trace says why, and often something is said after it.
const KEPT: usize = 3;

/// The last lines that are not empty.
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

    /// All of them in one line; where some are errors by their level, these alone.
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

/// A line without the time that it begins with: whoever reads it reads it now.
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

/// An error without its level and the part of the program that it is from: `ERROR weir_runtime::app: ` and the like.
fn without_level(line: &str) -> &str {
    let message = line.strip_prefix("ERROR ").and_then(|rest| {
        let (target, message) = rest.trim_start().split_once(": ")?;
        let is_target = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-');
        target.chars().all(is_target).then_some(message)
    });
    message.unwrap_or(line)
}

/// As most logs mark them.
fn is_error(line: &str) -> bool {
    let mut joined = line.split(|c: char| !c.is_ascii_alphanumeric());
    joined.any(|word| matches!(word, "ERROR" | "FATAL" | "CRITICAL"))
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
    fn errors_are_told_without_what_was_said_around_them() {
        let lines = ["2026-11-21T18:47:26.007656Z ERROR app: no model", "2026-11-21T18:47:26.007820Z  INFO app: ended"];
        assert_eq!(joined(&lines), "no model");
        assert_eq!(joined(&["ERROR in line 3: x"]), "ERROR in line 3: x");
    }

    #[test]
    fn without_a_level_the_last_lines_are_told() {
        let lines = ["one", "", "Traceback:", "ValueError: 7", "Time: 10:00 is late"];
        assert_eq!(joined(&lines), "Traceback: | ValueError: 7 | Time: 10:00 is late");
    }
}
