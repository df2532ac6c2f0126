//! Our standard error, for many replicas.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Lines that may wait for a slow terminal; further ones are in the files only.
const WAITING: usize = 1024;

/// A thread that writes lines to standard error. A terminal that was stopped, or a pipe that is not
/// read, blocks the thread and nothing else: in this process requests are served too. Clones share it;
/// it ends with the last.
#[derive(Clone, Debug)]
pub(crate) struct Printer {
    lines: SyncSender<String>,
    dropped: Arc<AtomicU64>,
}

impl Printer {
    pub(crate) fn start() -> io::Result<Self> {
        let (lines, receiver) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let printer = Self { lines, dropped: dropped.clone() };
        let thread = std::thread::Builder::new().name("replica-logs".to_owned());
        thread.spawn(move || print(&receiver, &dropped, io::stderr()))?;
        Ok(printer)
    }

    /// Prints a line, at once or soon or, when too many wait, not.
    pub(super) fn line(&self, name: &str, line: &str) {
        if self.lines.try_send(format!("{name} | {line}\n")).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn print(lines: &Receiver<String>, dropped: &AtomicU64, mut out: impl Write) {
    for line in lines {
        // A closed standard error is no reason to stop.
        let _ = out.write_all(line.as_bytes());
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(out, "... {lost} lines are in the log files only");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let (lines, receiver) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let printer = Printer { lines, dropped: dropped.clone() };
        for line in ["one", "two", "three"] {
            printer.line("digits-0", line);
        }
        drop(printer);
        let mut out = Vec::new();
        print(&receiver, &dropped, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "digits-0 | one\n... 2 lines are in the log files only\n");
    }
}
