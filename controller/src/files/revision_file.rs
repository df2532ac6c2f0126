//! The numbers that revisions have, in a file: after a restart an equal revision has the same name, and a name
//! that stood for something else is not given again.
//!
//! What a revision is made of is not kept, only its hash: the manifest says the rest. How far a rollout was is
//! not kept either, as nothing of it runs after a restart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weir_cluster::{Identity, RevisionName, ServiceName};

use super::Histories;
use crate::History;
use crate::history::Record;

/// A larger file is not ours: a thousand services with eleven revisions each take half of it.
const MAX_FILE: u64 = 1 << 20;

/// What the file holds.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Kept {
    /// Hashes by number, for each service: `{"default/digits": {"1": "c307994a5b3c3dca"}}`.
    revisions: BTreeMap<String, BTreeMap<u32, String>>,
}

/// The file.
#[derive(Debug)]
pub(super) struct RevisionFile {
    path: PathBuf,
    /// What it holds, to write only what changes.
    text: Mutex<String>,
}

impl RevisionFile {
    /// Reads the file. One that is not there, or damaged, tells nothing: numbers begin anew.
    pub(super) fn open(path: PathBuf) -> (Self, Histories) {
        let kept = match read(&path) {
            Ok(kept) => kept,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "revisions are numbered anew");
                Kept::default()
            }
        };
        let numbers = Self {
            path,
            text: Mutex::default(),
        };
        (numbers, kept.histories())
    }

    /// Writes what is known now, whole or not at all. That it cannot is no reason to serve nothing.
    pub(super) fn write(&self, histories: &Histories) {
        let mut last = self.text.lock();
        // Text and numbers: nothing that JSON cannot hold.
        let text = serde_json::to_string_pretty(&Kept::of(histories)).unwrap_or_default();
        if *last == text {
            return;
        }
        let new = self.path.with_extension("json.new");
        let written = fs::write(&new, &text).and_then(|()| fs::rename(&new, &self.path));
        match written {
            Ok(()) => *last = text,
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "after a restart revisions will be numbered anew");
            }
        }
    }
}

fn read(path: &std::path::Path) -> io::Result<Kept> {
    if fs::metadata(path)?.len() > MAX_FILE {
        return Err(io::Error::other("it is too large"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

impl Kept {
    fn of(histories: &Histories) -> Self {
        let number = |record: &Record| {
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

    /// Names that are none are left out.
    fn histories(self) -> Histories {
        let services = self.revisions.into_iter();
        let history = |(service, numbers): (String, BTreeMap<u32, String>)| {
            let (namespace, name) = service.split_once('/')?;
            let service = ServiceName::new(namespace, name).ok()?;
            let records = numbers.iter().filter_map(|(number, identity)| {
                let revision = service.revision(*number).ok()?;
                Some(Record::known(revision, Identity::from_label(identity)))
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

impl Record {
    /// One of which only the hash is known.
    fn known(revision: RevisionName, identity: Identity) -> Self {
        Self {
            revision,
            template: Arc::default(),
            storage: Vec::new(),
            identity,
            loaded: crate::Loaded::Never,
            wanted: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(service: &ServiceName, numbers: &[(u32, &str)]) -> Arc<History> {
        let record = |(number, identity): &(u32, &str)| {
            let revision = service.revision(*number).unwrap();
            Record::known(revision, Identity::from_label(identity))
        };
        Arc::new(History {
            records: numbers.iter().map(record).collect(),
            ..History::default()
        })
    }

    #[test]
    fn numbers_outlive_the_process() {
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
    fn a_damaged_file_tells_nothing_and_is_written_anew() {
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
    fn what_is_no_name_is_left_out() {
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
