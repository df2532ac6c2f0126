//! The failures of revisions that gateways know of.

use std::collections::BTreeMap;

use weir_cluster::RevisionName;

/// The annotations with failures, as the watches show them and as they were written last.
#[derive(Debug, Default)]
pub(crate) struct ReportedFailures(BTreeMap<RevisionName, String>);

impl ReportedFailures {
    /// Notes the annotation of a revision's Service; unset: it has none.
    pub(crate) fn set(&mut self, revision: &RevisionName, text: Option<&str>) {
        match text {
            Some(text) => self.0.insert(revision.clone(), text.to_owned()),
            None => self.0.remove(revision),
        };
    }

    /// Returns true if the revision's Service has this annotation, or none.
    pub(crate) fn is(&self, revision: &RevisionName, text: Option<&str>) -> bool {
        self.0.get(revision).map(String::as_str) == text
    }
}
