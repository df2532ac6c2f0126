//! The last lines of a log.

use std::collections::VecDeque;

/// Lines that are kept: the end of a stack trace says why, and often something is said after it.
const KEPT: usize = 3;

/// The last lines that are not empty.
#[derive(Debug, Default)]
pub(super) struct Ring(VecDeque<String>);

impl Ring {
    pub(super) fn push(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    /// All of them in one line.
    pub(super) fn words(&self) -> String {
        let lines: Vec<_> = self.0.iter().map(|line| line.trim()).collect();
        lines.join(" | ")
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
