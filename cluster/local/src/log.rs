//! Logs of replicas: to our standard error, each line with the replica's name, and to a file each.

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

/// The size at which a file becomes `.1` and another begins: two of them per replica keep a day of
/// ordinary logs, and a replica that floods fills no disk.
const MAX_FILE: u64 = 4 << 20;

/// One replica's log; clones share it. It goes on over restarts.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<Mutex<LogState>>);

#[derive(Debug)]
struct LogState {
    name: Arc<str>,
    printer: Printer,
    path: PathBuf,
    /// None after writing failed: a full disk must not end a replica. It is opened again for the next line.
    file: Option<File>,
    written: u64,
    last: LastLines,
    echo: Echo,
}

/// Output of a replica's lines to standard error, beside its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    On,
    /// They are in the file only: the runs before failed, and most print the same.
    Off,
}

impl Log {
    /// An empty log in `folder`; one of that name is replaced, and what was before its lines goes.
    pub(crate) fn new(folder: &Path, name: Arc<str>, printer: Printer) -> Self {
        let path = folder.join(format!("{name}.log"));
        // Most logs have none.
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

    /// Takes lines until the stream ends.
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

    /// The last lines of this run, joined to one; empty if there are none.
    pub(crate) fn last_lines(&self) -> String {
        self.0.lock().last.joined()
    }

    /// Path of its file.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.lock().path.clone()
    }

    /// Begins a run: what was printed before does not explain its end.
    pub(crate) fn begin_run(&self) {
        self.0.lock().last.clear();
    }

    /// Sets where lines go from now on, and says so once where they go to the file only.
    pub(crate) fn set_echo(&self, echo: Echo) {
        let mut state = self.0.lock();
        if state.echo == Echo::On && echo == Echo::Off {
            let path = state.path.display();
            let line = format!("... ends again and again: its further lines are in {path} only");
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
    fn a_log_goes_on_once_it_can_be_written_again() {
        let (folder, log) = log();
        let path = folder.path().join("digits-0.log");
        let mut state = log.0.lock();
        state.keep("one");
        // Nothing can be written to it, as to a full disk.
        state.file = Some(File::open(&path).unwrap());
        state.keep("lost");
        state.keep("two");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_log_of_an_earlier_run_is_replaced_with_what_was_rotated_out_of_it() {
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
