//! A file with the numbers of revisions: after a restart an equal revision has the same name, and a used name is
//! not given to another revision.
//!
//! Of a revision only the hash is kept, as the manifest has the rest. The state of a rollout is not kept, as
//! nothing of it runs after a restart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weir_cluster::{Identity, RevisionName, ServiceName};

use crate::history::{History, LoadState, RevisionRecord};

/// The histories of all services, by name.
pub(super) type Histories = BTreeMap<ServiceName, Arc<History>>;

/// Largest file that is read, in bytes: a thousand services with eleven revisions each take half of it.
const MAX_FILE: u64 = 1 << 20;

/// The contents of the file.
#[derive(Debug, Default, Deserialize, Serialize)]
struct RevisionNumbers {
    /// Hashes by number, for each service: `{"default/digits": {"1": "c307994a5b3c3dca"}}`.
    revisions: BTreeMap<String, BTreeMap<u32, String>>,
}

/// The file, written whole whenever a number changes.
#[derive(Debug)]
pub(super) struct RevisionFile {
    path: PathBuf,
    /// The text written last; an equal text is not written again.
    text: Mutex<String>,
}

impl RevisionFile {
    /// Reads the file. Without a readable file numbering starts over.
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
        let file = Self {
            path,
            text: Mutex::default(),
        };
        (file, numbers.histories())
    }

    /// Writes the numbers, whole or not at all. A failure is logged and does not stop the service.
    pub(super) fn write(&self, histories: &Histories) {
        let mut last = self.text.lock();
        // Text and numbers always serialize.
        let text =
            serde_json::to_string_pretty(&RevisionNumbers::of(histories)).unwrap_or_default();
        if *last == text {
            return;
        }
        let new = self.path.with_extension("json.new");
        let written = fs::write(&new, &text).and_then(|()| fs::rename(&new, &self.path));
        match written {
            Ok(()) => *last = text,
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "cannot save the revision numbers; after a restart numbering starts over");
            }
        }
    }
}

fn read(path: &std::path::Path) -> io::Result<RevisionNumbers> {
    if fs::metadata(path)?.len() > MAX_FILE {
        return Err(io::Error::other("the file is too large"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

impl RevisionNumbers {
    fn of(histories: &Histories) -> Self {
        let number = |record: &RevisionRecord| {
            let identity = record.identity.to_string();
            (record.revision.number(), identity)
        };
        let revisions = histories.iter().map(|(service, history)| {
            let numbers = history.records.iter().map(number);
            (service.to_string(), numbers.collect())
        });
        Self {
            revisions: revisions.collect(),
        }
    }

    /// Converts to histories; invalid names are left out.
    fn histories(self) -> Histories {
        let services = self.revisions.into_iter();
        let history = |(service, numbers): (String, BTreeMap<u32, String>)| {
            let (namespace, name) = service.split_once('/')?;
            let service = ServiceName::new(namespace, name).ok()?;
            let records = numbers.iter().filter_map(|(number, identity)| {
                let revision = service.revision(*number).ok()?;
                Some(by_hash(revision, Identity::from_label(identity)))
            });
            let history = History {
                records: records.collect(),
                ..History::default()
            };
            Some((service, Arc::new(history)))
        };
        services.filter_map(history).collect()
    }
}

/// The record of a revision of which only the hash is known.
fn by_hash(revision: RevisionName, identity: Identity) -> RevisionRecord {
    RevisionRecord {
        revision,
        template: Arc::default(),
        storage: Vec::new(),
        identity,
        load: LoadState::Never,
        desired_replicas: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(service: &ServiceName, numbers: &[(u32, &str)]) -> Arc<History> {
        let record = |(number, identity): &(u32, &str)| {
            let revision = service.revision(*number).unwrap();
            by_hash(revision, Identity::from_label(identity))
        };
        Arc::new(History {
            records: numbers.iter().map(record).collect(),
            ..History::default()
        })
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
        numbers.write(&histories);
        assert_eq!(RevisionFile::open(path).1, histories);
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
            numbers.write(&histories);
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
        assert_eq!(
            RevisionFile::open(path).1,
            BTreeMap::from([(service, known)])
        );
    }
}
