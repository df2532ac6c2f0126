//! Writer of many replicas' lines to Weir's standard error.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Number of lines that may wait for a slow terminal; further lines go to the files only.
const WAITING: usize = 1024;

/// Handle to a thread that writes lines to standard error. A stopped terminal or a pipe that is not read blocks only
/// this thread, and not the gateway in the same process. Clones share the thread; it ends with the last one.
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

    /// Queues a line for printing. If the queue is full, the line is dropped and counted.
    pub(super) fn line(&self, name: &str, line: &str) {
        if self.lines.try_send(format!("{name} | {line}\n")).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn print(lines: &Receiver<String>, dropped: &AtomicU64, mut out: impl Write) {
    for line in lines {
        // A failed write is ignored: the thread must keep draining the queue even if standard error is closed.
        let _ = out.write_all(line.as_bytes());
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(out, "... {lost} lines were written to the log files only");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_lines_are_counted() {
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
        assert_eq!(text, "digits-0 | one\n... 2 lines were written to the log files only\n");
    }
}
