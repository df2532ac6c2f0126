//! Failure annotations of revisions, which gateways read.

use std::collections::BTreeMap;

use weir_cluster::RevisionName;

/// Failure annotation of each revision's Service, as last watched or written.
#[derive(Debug, Default)]
pub(crate) struct ReportedFailures(BTreeMap<RevisionName, String>);

impl ReportedFailures {
    /// Records the failure annotation of a revision's Service; `None` if the Service has none.
    pub(crate) fn set(&mut self, revision: &RevisionName, text: Option<&str>) {
        match text {
            Some(text) => self.0.insert(revision.clone(), text.to_owned()),
            None => self.0.remove(revision),
        };
    }

    /// Returns true if the failure annotation of the revision's Service equals `text`; `None` stands for no annotation.
    pub(crate) fn is(&self, revision: &RevisionName, text: Option<&str>) -> bool {
        self.0.get(revision).map(String::as_str) == text
    }
}
