//! Shows the progress of a download on standard error: a bar on a terminal, otherwise a line every ten seconds.

use std::io::{self, IsTerminal, Write};

use weir_fetch::{Attempt, Progress};

use crate::output::{plain, print_note};

/// Reports of progress, one each second, between two lines.
const REPORTS_PER_LINE: u32 = 10;

/// Number of characters of the bar.
const BAR: u64 = 24;

/// Carriage return, and the sequence that clears a terminal's line.
const CLEAR: &str = "\r\x1b[K";

/// A display of one download.
#[derive(Debug)]
pub(super) struct Display {
    output: Output,
    /// Reports of progress since the last line.
    reports: u32,
}

/// Kind of standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Terminal,
    /// A file or a pipe, such as the log of a pod.
    Log,
}

impl Display {
    pub(super) fn new() -> Self {
        let output = if io::stderr().is_terminal() { Output::Terminal } else { Output::Log };
        Self { output, reports: 0 }
    }

    /// Shows an event of the download.
    pub(super) fn show(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Began => {}
            Attempt::Failed(reason) => {
                self.clear();
                print_note(&format!("{reason}; retrying"));
            }
            Attempt::Progressed(progress) => self.progressed(progress),
        }
    }

    fn progressed(&mut self, progress: Progress) {
        match self.output {
            Output::Terminal => {
                let line = format!("{CLEAR}{}", plain(&bar(progress)));
                let _ = io::stderr().write_all(line.as_bytes());
            }
            Output::Log => {
                // The first report comes at once.
                if self.reports > 0 && self.reports.is_multiple_of(REPORTS_PER_LINE) {
                    print_note(&format!("fetched {progress}"));
                }
                self.reports += 1;
            }
        }
    }

    /// Removes the progress bar from the terminal.
    pub(super) fn clear(&self) {
        if self.output == Output::Terminal {
            let _ = io::stderr().write_all(CLEAR.as_bytes());
        }
    }
}

/// Returns the line of a bar; without a total there is nothing to fill.
fn bar(progress: Progress) -> String {
    let Some(total) = progress.total.filter(|total| *total > 0) else {
        return format!("fetched {progress}");
    };
    let done = progress.done.min(total);
    let share = |of: u64| u64::try_from(u128::from(done) * u128::from(of) / u128::from(total)).unwrap_or(of);
    let (full, percent) = (share(BAR), share(100));
    let (full, empty) = ("█".repeat(full as usize), "░".repeat((BAR - full) as usize));
    format!("{full}{empty} {percent:3} %  {progress}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_shows_share_rate_and_time_left() {
        let progress = Progress { done: 3_100_000_000, total: Some(12_400_000_000), rate: 211_000_000 };
        assert_eq!(bar(progress), "██████░░░░░░░░░░░░░░░░░░  25 %  3.1 of 12.4 GB, 211 MB/s, 45 s left");
        let complete = Progress { done: 10, total: Some(10), rate: 0 };
        assert!(bar(complete).starts_with("████████████████████████ 100 %  10 of 10 B"), "{}", bar(complete));
        let unknown = Progress { done: 3_100_000, total: None, rate: 2_000_000 };
        assert_eq!(bar(unknown), "fetched 3.1 MB, 2.0 MB/s");
    }
}
