//! The log files of a service's replicas in a state directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use weir_cluster::{RevisionName, ServiceName};

/// Extension of a replica's log file.
const EXTENSION: &str = "log";

/// Namespace that replica names leave out.
const DEFAULT_NAMESPACE: &str = weir_controller::DEFAULT_NAMESPACE;

/// The log of one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogFile {
    pub(super) service: ServiceName,
    pub(super) replica: String,
    pub(super) path: PathBuf,
    /// Time of the last write.
    pub(super) changed: SystemTime,
}

/// Lists the logs of a folder, the most recently changed last.
///
/// # Errors
/// An error if the folder cannot be read. A folder that does not exist has no logs.
pub(super) fn list(folder: &Path) -> io::Result<Vec<LogFile>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let files = entries.filter_map(|entry| log_file(entry.ok()?.path()));
    let mut files: Vec<_> = files.collect();
    files.sort_by(|a, b| (a.changed, &a.replica).cmp(&(b.changed, &b.replica)));
    Ok(files)
}

/// Returns the services that have logs.
pub(super) fn services(files: &[LogFile]) -> BTreeSet<ServiceName> {
    files.iter().map(|file| file.service.clone()).collect()
}

/// Returns the files of one service. Files last changed before `since` are left out if there are newer ones.
pub(super) fn of_service(files: Vec<LogFile>, service: &ServiceName, since: Option<SystemTime>) -> Vec<LogFile> {
    let mut ours: Vec<_> = files.into_iter().filter(|file| file.service == *service).collect();
    let is_new = |file: &LogFile| since.is_some_and(|since| file.changed >= since);
    if ours.iter().any(is_new) {
        ours.retain(is_new);
    }
    ours
}

fn log_file(path: PathBuf) -> Option<LogFile> {
    if path.extension()? != EXTENSION {
        return None;
    }
    let replica = path.file_stem()?.to_str()?.to_owned();
    Some(LogFile { service: service_of(&replica)?, changed: fs::metadata(&path).ok()?.modified().ok()?, replica, path })
}

/// Returns the service of a replica, whose name is `[NAMESPACE.]SERVICE-COMPONENT-NUMBER-COUNT`.
fn service_of(replica: &str) -> Option<ServiceName> {
    let (revision, _) = replica.rsplit_once('-')?;
    let (namespace, name) = revision.split_once('.').unwrap_or((DEFAULT_NAMESPACE, revision));
    Some(RevisionName::parse(namespace, name).ok()?.service().whole())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn service(namespace: &str, name: &str) -> ServiceName {
        ServiceName::new(namespace, name).unwrap()
    }

    #[test]
    fn a_replica_name_contains_its_service() {
        assert_eq!(service_of("digits-predictor-00001-0"), Some(service("default", "digits")));
        assert_eq!(service_of("team-a.digits-predictor-00012-3"), Some(service("team-a", "digits")));
        assert_eq!(service_of("x-predictor-y-predictor-00001-0"), Some(service("default", "x-predictor-y")));
        assert_eq!(service_of("digits-transformer-00001-0"), Some(service("default", "digits")));
        assert_eq!(service_of("lock"), None);
    }

    #[test]
    fn logs_of_an_earlier_run_are_left_out_if_there_are_newer_ones() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = |replica: &str, seconds| LogFile {
            service: service_of(replica).unwrap(),
            replica: replica.to_owned(),
            path: replica.into(),
            changed: at(seconds),
        };
        let (old, new) = (file("a-predictor-00001-0", 1), file("a-predictor-00002-0", 5));
        let other = file("b-predictor-00001-0", 6);
        let all = vec![old.clone(), new.clone(), other];
        let ours = |since| of_service(all.clone(), &service("default", "a"), since);
        assert_eq!(ours(None), [old.clone(), new.clone()]);
        assert_eq!(ours(Some(at(4))), std::slice::from_ref(&new));
        assert_eq!(ours(Some(at(9))), [old, new]);
    }
}
