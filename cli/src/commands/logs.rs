//! `weir logs`: prints the output of a service's replicas.

mod files;
mod reader;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::args::LogsArgs;
use crate::error::CliError;
use crate::error::Exit;
use crate::output::{Reader, print_result};
use crate::service_name;
use crate::state::{self, AdminFile};
use files::LogFile;
use reader::LogReader;

/// Interval of `--follow`: short for a person, and cheap.
const INTERVAL: Duration = Duration::from_millis(200);

/// Folder of the logs in a state directory.
const LOGS: &str = "logs";

/// Prints the logs. With `--follow`, keeps printing until standard output is closed.
///
/// # Errors
/// [`CliError::Usage`] for a service without logs; it lists the services with logs.
pub(crate) async fn run(args: LogsArgs) -> Result<Exit, CliError> {
    let service = service_name::parse(&args.service)?;
    let state_dir = state::directory(args.state_dir.as_deref())?;
    let folder = state_dir.join(LOGS);
    let files = list(&folder)?;
    let known = files::services(&files);
    if !known.contains(&service) {
        return Err(service_name::unknown(&service, &known, &format!("has logs in {}", folder.display())));
    }
    let since = started(&state_dir);
    let mut readers = Readers::default();
    let mut tail = args.tail;
    loop {
        let lines = readers.lines(files::of_service(list(&folder)?, &service, since), tail);
        let lines = lines.map_err(|error| unreadable(&folder, error))?;
        // Like any filter, the command ends when standard output is closed.
        if print(&lines)? == Reader::Gone || !args.follow {
            return Ok(Exit::Done);
        }
        // From now on, new lines are printed without a limit.
        tail = None;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Readers of all log files, by path.
#[derive(Debug, Default)]
struct Readers(BTreeMap<PathBuf, LogReader>);

impl Readers {
    /// Returns the new lines of all files, each with its replica's name; of each file at most the last `tail`.
    fn lines(&mut self, files: Vec<LogFile>, tail: Option<usize>) -> io::Result<Vec<String>> {
        let mut all = Vec::new();
        for file in files {
            let reader = self.0.entry(file.path.clone());
            let lines = reader.or_insert_with(|| LogReader::new(file.path)).lines()?;
            let skipped = tail.map_or(0, |tail| lines.len().saturating_sub(tail));
            let lines = lines.into_iter().skip(skipped);
            all.extend(lines.map(|line| format!("{} | {line}", file.replica)));
        }
        Ok(all)
    }
}

/// Returns the time at which the running `weir up` of the state directory started; `None` if none runs.
fn started(state_dir: &Path) -> Option<SystemTime> {
    AdminFile::read(state_dir).ok()?;
    fs::metadata(state_dir.join(state::ADMIN_FILE)).ok()?.modified().ok()
}

fn list(folder: &Path) -> Result<Vec<LogFile>, CliError> {
    files::list(folder).map_err(|error| unreadable(folder, error))
}

fn unreadable(folder: &Path, source: io::Error) -> CliError {
    CliError::io(format!("cannot read the logs in {}", folder.display()), source)
}

fn print(lines: &[String]) -> Result<Reader, CliError> {
    match lines {
        [] => Ok(Reader::Present),
        [_, ..] => print_result(&lines.join("\n")),
    }
}
