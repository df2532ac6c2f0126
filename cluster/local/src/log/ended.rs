//! Deletion of old logs: of each revision's ended replicas, the newest logs are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Number of logs of ended replicas kept per revision: enough to distinguish a repeated failure from a single one. With
/// their rotated files they take 40 MiB at most, however often a service scales to zero and back.
const KEPT: usize = 5;

/// Extension of a log file.
const EXTENSION: &str = "log";

/// Extension of a rotated log file, which holds the lines before those of the log.
pub(super) const ROTATED: &str = "log.1";

/// The log of a replica that ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EndedLog {
    /// Time of the last line.
    changed: SystemTime,
    /// Number of the replica; orders logs that changed at the same moment.
    number: u32,
    path: PathBuf,
}

/// Deletes all but the newest logs of ended replicas whose names are `PREFIX-NUMBER`. A log that cannot be deleted is
/// left for the next call.
pub(crate) fn delete_old(folder: &Path, prefix: &str, is_running: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let ended = paths.filter_map(|path| ended(path, prefix, &is_running));
    for log in old(ended.collect()) {
        let _ = fs::remove_file(log.path.with_extension(ROTATED));
        let _ = fs::remove_file(log.path);
    }
}

/// Returns the log at this path if it belongs to an ended replica with this prefix.
fn ended(path: PathBuf, prefix: &str, is_running: impl Fn(&str) -> bool) -> Option<EndedLog> {
    if path.extension()? != EXTENSION {
        return None;
    }
    let replica = path.file_stem()?.to_str()?;
    let number = replica.strip_prefix(prefix)?.strip_prefix('-')?;
    let number = number.parse().ok()?;
    if is_running(replica) {
        return None;
    }
    Some(EndedLog { changed: fs::metadata(&path).ok()?.modified().ok()?, number, path })
}

/// Returns the logs to delete, oldest first.
fn old(mut logs: Vec<EndedLog>) -> Vec<EndedLog> {
    logs.sort();
    let surplus = logs.len().saturating_sub(KEPT);
    logs.truncate(surplus);
    logs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_logs_are_kept() {
        let log = |seconds, number| EndedLog {
            changed: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            number,
            path: PathBuf::from(format!("a-{number}.log")),
        };
        // Logs of an earlier run of Weir, whose replicas had higher numbers.
        let before = [log(1, 98), log(1, 99)];
        let now = [log(2, 0), log(2, 1), log(3, 2), log(3, 3)];
        let all = |count: usize| [&now[..count], &before].concat();
        assert!(old(all(3)).is_empty());
        assert_eq!(old(all(4)), [log(1, 98)]);
        assert!(old(all(0)).is_empty());
    }

    /// Returns the names of the files in a folder.
    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn only_ended_replicas_of_the_revision_lose_their_logs() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: String| fs::write(folder.path().join(name), "").unwrap();
        let kept = ["x-predictor-00002-0.log", "team.x-predictor-00001-0.log", "x-predictor-00001-0.txt"];
        kept.into_iter().for_each(|name| write(name.to_owned()));
        for number in 0..=KEPT + 2 {
            write(format!("x-predictor-00001-{number}.log"));
            write(format!("x-predictor-00001-{number}.log.1"));
        }
        let is_running = |name: &str| name == "x-predictor-00001-0";
        delete_old(folder.path(), "x-predictor-00001", is_running);
        let left = names(folder.path());
        assert!(kept.iter().all(|name| left.contains(*name)), "{left:?}");
        let logs = left.iter().filter(|name| name.starts_with("x-predictor-00001-"));
        let numbers: Vec<_> = logs.filter(|name| name.ends_with(".log")).collect();
        assert_eq!(numbers.len(), KEPT + 1, "{left:?}");
        assert!(left.contains("x-predictor-00001-0.log"), "{left:?}");
        let rotated = left.iter().filter(|name| name.ends_with(".log.1"));
        assert_eq!(rotated.count(), KEPT + 1, "{left:?}");
    }
}
