//! File with the revision numbers, the rollouts in progress and the services' creation times. After a restart an equal
//! revision has the same name, a used name is not given to another revision, and a rollout continues at its stage.
//!
//! Only the hash of a revision is stored, because the manifest has the rest. For the revisions of a rollout, whose
//! manifests are gone, the pods are stored as well.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weir_cluster::{ComponentKind, Identity, PodTemplate, RevisionName, ServiceName};

use super::generations::CreationTimes;
use super::stored_rollout::StoredRollout;
use crate::history::{History, LoadState, RevisionRecord};

/// The histories of all services, by name.
pub(super) type Histories = BTreeMap<ServiceName, Arc<History>>;

/// Largest file that is read, in bytes. A thousand services with eleven revisions each, all with rollouts of a few
/// kilobytes in progress, take half of it.
const MAX_FILE: u64 = 16 << 20;

/// Permissions of the file, private because the variables of a pod may hold secrets.
const MODE: u32 = 0o600;

/// The contents of the file.
#[derive(Debug, Default, Deserialize, Serialize)]
struct RevisionNumbers {
    /// Hashes by number for each service: `{"default/digits": {"1": "c307994a5b3c3dca"}}`.
    revisions: BTreeMap<String, BTreeMap<u32, String>>,
    /// Rollouts in progress, for each service that has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rollouts: BTreeMap<String, StoredRollout>,
    /// Creation times in seconds since 1970 for each declared service. Files of earlier versions have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    created: BTreeMap<String, u64>,
}

/// File that is written whole whenever a number changes.
#[derive(Debug)]
pub(super) struct RevisionFile {
    path: PathBuf,
    /// Text written last; an equal text is not written again.
    text: Mutex<String>,
}

impl RevisionFile {
    /// Reads the file. If it cannot be read, numbering starts over.
    pub(super) fn open(path: PathBuf) -> (Self, Histories) {
        let numbers = match read(&path) {
            Ok(numbers) => numbers,
            Err(error) if error.kind() == io::ErrorKind::NotFound => RevisionNumbers::default(),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "cannot read the revision numbers; numbering starts over");
                RevisionNumbers::default()
            }
        };
        let file = Self { path, text: Mutex::default() };
        (file, numbers.histories())
    }

    /// Returns the creation times in a file; none if it cannot be read.
    pub(super) fn creation_times(path: &Path) -> CreationTimes {
        let created = read(path).unwrap_or_default().created.into_iter();
        let times = created.filter_map(|(service, time)| Some((service_name(&service)?, time)));
        times.collect()
    }

    /// Writes the numbers atomically. A failure is logged and does not stop the service. `latest` is called while the
    /// lock is held, so that no write replaces newer numbers by older ones.
    pub(super) fn write(&self, latest: impl FnOnce() -> (Histories, CreationTimes)) {
        let mut last = self.text.lock();
        let (histories, created) = latest();
        let numbers = RevisionNumbers::of(&histories, &created);
        // Serializing texts and numbers never fails.
        let text = serde_json::to_string_pretty(&numbers).unwrap_or_default();
        if *last == text {
            return;
        }
        let new = self.path.with_extension("json.new");
        let written = write_private(&new, &text).and_then(|()| fs::rename(&new, &self.path));
        match written {
            Ok(()) => *last = text,
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "cannot save the revision numbers; after a restart numbering starts over");
            }
        }
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(MODE);
    options.open(path)?.write_all(text.as_bytes())
}

fn read(path: &Path) -> io::Result<RevisionNumbers> {
    if fs::metadata(path)?.len() > MAX_FILE {
        return Err(io::Error::other("the file is too large"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

impl RevisionNumbers {
    fn of(histories: &Histories, created: &CreationTimes) -> Self {
        let number = |record: &RevisionRecord| {
            let identity = record.identity.to_string();
            (record.revision.number(), identity)
        };
        let revisions = histories.iter().map(|(service, history)| {
            let numbers = history.records.iter().map(number);
            (service.to_string(), numbers.collect())
        });
        let rollouts =
            histories.iter().filter_map(|(service, history)| Some((service.to_string(), StoredRollout::of(history)?)));
        let created = created.iter().map(|(service, time)| (service.to_string(), *time));
        Self { revisions: revisions.collect(), rollouts: rollouts.collect(), created: created.collect() }
    }

    /// Converts the numbers to histories, without invalid names.
    fn histories(mut self) -> Histories {
        let services = self.revisions.into_iter();
        let mut history = |(text, numbers): (String, BTreeMap<u32, String>)| {
            let service = service_name(&text)?;
            let records = numbers.iter().filter_map(|(number, identity)| {
                let revision = service.revision(*number).ok()?;
                Some(by_hash(revision, Identity::from_label(identity)))
            });
            let mut history = History { records: records.collect(), ..History::default() };
            if let Some(rollout) = self.rollouts.remove(&text) {
                rollout.restore(&service, &mut history);
            }
            Some((service, Arc::new(history)))
        };
        services.filter_map(&mut history).collect()
    }
}

/// Parses the name of a service in the file, `NAMESPACE/NAME` or `NAMESPACE/NAME/COMPONENT`.
fn service_name(text: &str) -> Option<ServiceName> {
    let (namespace, name) = text.split_once('/')?;
    match name.split_once('/') {
        Some((name, component)) => {
            ServiceName::new(namespace, name).ok()?.of_component(ComponentKind::named(component)?).ok()
        }
        None => ServiceName::new(namespace, name).ok(),
    }
}

/// Returns the record of a revision whose hash alone is known.
fn by_hash(revision: RevisionName, identity: Identity) -> RevisionRecord {
    RevisionRecord {
        revision,
        template: PodTemplate::default(),
        storage: Vec::new(),
        identity,
        manifest: None,
        ready_call: None,
        load: LoadState::Never,
        is_failing: false,
        desired_replicas: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use weir_cluster::Storage;

    use k8s_openapi::api::core::v1::PodTemplateSpec;

    use super::*;
    use crate::rollout::{Candidate, CandidateShare, PreviousRevision, Rollout, Stage, Surge};

    fn history(service: &ServiceName, numbers: &[(u32, &str)]) -> Arc<History> {
        let record = |(number, identity): &(u32, &str)| {
            let revision = service.revision(*number).unwrap();
            by_hash(revision, Identity::from_label(identity))
        };
        Arc::new(History { records: numbers.iter().map(record).collect(), ..History::default() })
    }

    fn write(file: &RevisionFile, histories: &Histories) {
        file.write(|| (histories.clone(), CreationTimes::new()));
    }

    #[test]
    fn numbers_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revisions.json");
        let (numbers, none) = RevisionFile::open(path.clone());
        assert!(none.is_empty());
        let service = ServiceName::new("default", "digits").unwrap();
        let known = history(&service, &[(3, "aa"), (7, "bb")]);
        let histories = BTreeMap::from([(service, known)]);
        write(&numbers, &histories);
        assert_eq!(RevisionFile::open(path).1, histories);
    }

    #[test]
    fn creation_times_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revisions.json");
        assert!(RevisionFile::creation_times(&path).is_empty());
        let service = ServiceName::new("default", "digits").unwrap();
        let created = CreationTimes::from([(service, 1_767_323_045)]);
        let (numbers, _) = RevisionFile::open(path.clone());
        numbers.write(|| (Histories::new(), created.clone()));
        assert_eq!(RevisionFile::creation_times(&path), created);
        let earlier_version = r#"{"revisions": {"default/digits": {"2": "c"}}}"#;
        fs::write(&path, earlier_version).unwrap();
        assert!(RevisionFile::creation_times(&path).is_empty());
    }

    /// Returns a history in which revision 7 replaces revision 3, at this stage.
    fn rollout(service: &ServiceName, stage: Stage) -> History {
        let mut history = History::clone(&history(service, &[(1, "aa"), (3, "bb"), (7, "cc")]));
        let name = |number| service.revision(number).unwrap();
        history.rollout = Rollout {
            stable: Some(name(3)),
            previous: Some(PreviousRevision { revision: name(1), since: 5, kept_replicas: 1 }),
            candidate: Some(Candidate {
                revision: name(7),
                stage,
                since: 9,
                share: CandidateShare { percent: 20, target: 50 },
                surge: Surge::None,
            }),
            needed_replicas: 2,
            ..Rollout::default()
        };
        let template = serde_json::json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        for record in &mut history.records {
            let template: PodTemplateSpec = serde_json::from_value(template.clone()).unwrap();
            record.template = template.into();
            record.storage = vec![Storage {
                uri: format!("pvc://m/{}", record.revision.number()).into(),
                mount_path: Storage::MOUNT_PATH.into(),
                claims: Some("/claims".into()),
            }];
            record.load = LoadState::Once;
            record.desired_replicas = 2;
        }
        history
    }

    #[test]
    fn the_stage_of_a_rollout_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revisions.json");
        let service = ServiceName::new("default", "digits").unwrap();
        for stage in [Stage::Waiting, Stage::Shifting(1), Stage::RolledBack("too slow".into())] {
            let known = Arc::new(rollout(&service, stage));
            let histories = BTreeMap::from([(service.clone(), known)]);
            let (numbers, _) = RevisionFile::open(path.clone());
            write(&numbers, &histories);
            assert_eq!(RevisionFile::open(path.clone()).1, histories);
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
    }

    #[test]
    fn a_rollout_of_unknown_revisions_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revisions.json");
        let service = ServiceName::new("default", "digits").unwrap();
        let mut history = rollout(&service, Stage::Shifting(0));
        history.records.retain(|record| record.revision.number() != 3);
        let (numbers, _) = RevisionFile::open(path.clone());
        let histories = BTreeMap::from([(service.clone(), Arc::new(history))]);
        write(&numbers, &histories);
        let found = RevisionFile::open(path).1;
        assert_eq!(found[&service].rollout, Rollout::default());
    }

    #[test]
    fn a_damaged_file_counts_as_empty_and_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revisions.json");
        let service = ServiceName::new("default", "digits").unwrap();
        let long = " ".repeat(MAX_FILE as usize + 1);
        for damage in ["", "{\"revisions\": {\"default/dig", "[]", &long] {
            fs::write(&path, damage).unwrap();
            let (numbers, none) = RevisionFile::open(path.clone());
            assert!(none.is_empty());
            let known = history(&service, &[(1, "aa")]);
            let histories = BTreeMap::from([(service.clone(), known)]);
            write(&numbers, &histories);
            assert_eq!(RevisionFile::open(path.clone()).1, histories);
        }
    }

    #[test]
    fn invalid_names_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revisions.json");
        let text = r#"{"revisions": {"digits": {"1": "a"}, "default/digits": {"0": "b", "2": "c"}},
            "later": true}"#;
        fs::write(&path, text).unwrap();
        let service = ServiceName::new("default", "digits").unwrap();
        let known = history(&service, &[(2, "c")]);
        assert_eq!(RevisionFile::open(path).1, BTreeMap::from([(service, known)]));
    }
}
