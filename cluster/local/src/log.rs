//! Logs of replicas: each line goes to the replica's log file and, with the replica's name, to Weir's standard error.

mod ended;
mod last_lines;
mod lines;
mod printer;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncRead;

use self::ended::ROTATED;
pub(crate) use self::ended::delete_old;
use self::last_lines::LastLines;
use self::lines::Lines;
pub(crate) use self::printer::Printer;

/// Size at which a log file is renamed to `.1` and a new one begins. Two files per replica hold a day of ordinary logs,
/// and a replica that floods its log cannot fill the disk.
const MAX_FILE: u64 = 4 << 20;

/// The log of one replica, across its restarts. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<Mutex<LogState>>);

#[derive(Debug)]
struct LogState {
    name: Arc<str>,
    printer: Printer,
    path: PathBuf,
    /// `None` after a failed write: a full disk must not end a replica. The file is opened again for the next line.
    file: Option<File>,
    written: u64,
    last: LastLines,
    echo: Echo,
}

/// Output of a replica's lines to standard error, in addition to its log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    On,
    /// Lines go to the file only: earlier runs failed, and most repeat the same lines.
    Off,
}

impl Log {
    /// Creates an empty log file in `folder`. It replaces a file of that name and deletes the corresponding rotated
    /// file.
    pub(crate) fn new(folder: &Path, name: Arc<str>, printer: Printer) -> Self {
        let path = folder.join(format!("{name}.log"));
        // Most logs have no rotated file, so the error is ignored.
        let _ = std::fs::remove_file(path.with_extension(ROTATED));
        Self(Arc::new(Mutex::new(LogState {
            file: File::create(&path).ok(),
            name,
            printer,
            path,
            written: 0,
            last: LastLines::default(),
            echo: Echo::On,
        })))
    }

    /// Reads and logs lines until the stream ends.
    pub(crate) async fn follow(self, stream: impl AsyncRead + Unpin) {
        let mut lines = Lines::new(stream);
        while let Some(line) = lines.next().await {
            let mut state = self.0.lock();
            match state.echo {
                Echo::On => state.printer.line(&state.name, &line),
                Echo::Off => {}
            }
            state.keep(&line);
        }
    }

    /// Returns the last lines of this run, joined into one; empty if there are none.
    pub(crate) fn last_lines(&self) -> String {
        self.0.lock().last.joined()
    }

    /// Path of the log file.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.lock().path.clone()
    }

    /// Begins a run: forgets the last lines of earlier runs, which would not explain the end of this one.
    pub(crate) fn begin_run(&self) {
        self.0.lock().last.clear();
    }

    /// Turns the echo to standard error on or off, and prints a notice when it is turned off.
    pub(crate) fn set_echo(&self, echo: Echo) {
        let mut state = self.0.lock();
        if state.echo == Echo::On && echo == Echo::Off {
            let path = state.path.display();
            let line = format!("... crash loop: further lines go to {path} only");
            state.printer.line(&state.name, &line);
        }
        state.echo = echo;
    }
}

impl LogState {
    fn keep(&mut self, line: &str) {
        self.last.push(line);
        if self.written >= MAX_FILE {
            self.rotate();
        }
        if self.file.is_none() {
            let append = OpenOptions::new().create(true).append(true).open(&self.path);
            self.file = append.ok();
        }
        let Some(file) = &mut self.file else { return };
        match writeln!(file, "{line}") {
            Ok(()) => self.written += line.len() as u64 + 1,
            Err(_) => self.file = None,
        }
    }

    fn rotate(&mut self) {
        self.written = 0;
        let old = self.path.with_extension(ROTATED);
        self.file = std::fs::rename(&self.path, old).and_then(|()| File::create(&self.path)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> (tempfile::TempDir, Log) {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::new(folder.path(), "digits-0".into(), Printer::start().unwrap());
        (folder, log)
    }

    #[tokio::test]
    async fn lines_go_to_the_file_and_the_last_ones_are_kept() {
        let (folder, log) = log();
        log.clone().follow(&b"one\n\ntwo\n\n"[..]).await;
        assert_eq!(log.last_lines(), "one | two");
        let text = std::fs::read_to_string(folder.path().join("digits-0.log")).unwrap();
        assert_eq!(text, "one\n\ntwo\n\n");
        log.begin_run();
        assert_eq!(log.last_lines(), "");
    }

    #[test]
    fn a_log_continues_once_it_can_be_written_again() {
        let (folder, log) = log();
        let path = folder.path().join("digits-0.log");
        let mut state = log.0.lock();
        state.keep("one");
        // The file is opened read-only, so that writing fails as on a full disk.
        state.file = Some(File::open(&path).unwrap());
        state.keep("lost");
        state.keep("two");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_log_of_an_earlier_run_is_replaced_and_its_rotated_file_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("digits-0.log"), "old").unwrap();
        std::fs::write(file("digits-0.log.1"), "older").unwrap();
        let printer = Printer::start().unwrap();
        let _log = Log::new(folder.path(), "digits-0".into(), printer);
        assert_eq!(std::fs::read_to_string(file("digits-0.log")).unwrap(), "");
        assert!(!file("digits-0.log.1").exists());
    }

    #[test]
    fn a_flood_fills_two_files() {
        let (folder, log) = log();
        let line = "x".repeat(1 << 16);
        for _ in 0..(3 * MAX_FILE / (1 << 16)) {
            log.0.lock().keep(&line);
        }
        let sizes = std::fs::read_dir(folder.path()).unwrap();
        let sizes: Vec<_> = sizes.map(|f| f.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes.len(), 2);
        assert!(sizes.iter().all(|size| *size <= MAX_FILE + (1 << 17)), "{sizes:?}");
    }
}
