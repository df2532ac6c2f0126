//! JSON form of a revision's failures, which gateways cannot observe themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_cluster::{Failure, FailureReason, FailureReport, Outlook};

/// Most program exits that are stored. Each is of another replica, and the annotations of an object may have 256 KiB in
/// total.
const MOST_EXITS: usize = 64;

/// Longest message that is stored or read, in characters. Messages of programs are shorter.
const LONGEST: usize = 1024;

/// Failures of a revision, as stored in the annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WrittenFailures {
    /// True if every replica waits for another start after its starts failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cannot_start: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<WrittenFailure>,
    /// Last program exit of each replica, by pod name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    exits: BTreeMap<String, WrittenFailure>,
}

/// JSON form of a [`Failure`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenFailure {
    reason: String,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
}

impl WrittenFailures {
    /// Converts a report to its JSON form.
    pub(crate) fn of(report: &FailureReport) -> Self {
        let mut newest: Vec<_> = report.exits.iter().collect();
        newest.sort_by_key(|(name, exit)| (std::cmp::Reverse(exit.at), name));
        let exits = newest.into_iter().take(MOST_EXITS);
        Self {
            cannot_start: report.outlook == Outlook::Fails,
            failure: report.failure.as_ref().map(WrittenFailure::of),
            exits: exits.map(|(name, exit)| (name.to_string(), WrittenFailure::of(exit))).collect(),
        }
    }

    /// Returns the text of the annotation; `None` if there are no failures.
    ///
    /// # Errors
    /// None in practice: the value has only strings and numbers.
    pub(crate) fn text(&self) -> Result<Option<String>, serde_json::Error> {
        if *self == Self::default() { Ok(None) } else { serde_json::to_string(self).map(Some) }
    }

    /// Returns whether the revision can be expected to start while no replica is ready.
    pub(crate) fn outlook(&self) -> Outlook {
        if self.cannot_start { Outlook::Fails } else { Outlook::Starts }
    }

    /// Returns why the revision has no ready replica.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.as_ref().map(WrittenFailure::read)
    }

    /// Returns how the replica's program last ended.
    pub(crate) fn exit(&self, replica: &str) -> Option<Failure> {
        self.exits.get(replica).map(WrittenFailure::read)
    }
}

impl WrittenFailure {
    fn of(failure: &Failure) -> Self {
        Self {
            reason: failure.reason.label().to_owned(),
            message: bounded(&failure.message).to_owned(),
            exit_code: failure.exit_code,
            at: failure.at,
        }
    }

    /// Converts to a [`Failure`]. A reason that this version of Weir does not know is read as `NotReady`.
    fn read(&self) -> Failure {
        let known = FailureReason::ALL.into_iter().find(|reason| reason.label() == self.reason);
        Failure {
            exit_code: self.exit_code,
            at: self.at,
            ..Failure::new(known.unwrap_or(FailureReason::NotReady), Arc::<str>::from(bounded(&self.message)))
        }
    }
}

fn bounded(message: &str) -> &str {
    let end = message.char_indices().nth(LONGEST);
    end.map_or(message, |(end, _)| &message[..end])
}

#[cfg(test)]
mod tests {
    use weir_cluster::ServiceName;

    use super::*;

    fn exit(code: i32) -> Failure {
        Failure { exit_code: Some(code), at: Some(7), ..Failure::new(FailureReason::OutOfMemory, "it used 2 GiB") }
    }

    fn report() -> FailureReport {
        FailureReport {
            revision: ServiceName::new("vision", "digits").unwrap().revision(1).unwrap(),
            outlook: Outlook::Fails,
            failure: Some(Failure::new(FailureReason::NotStarted, "no such image")),
            exits: vec![("a".into(), exit(137))],
        }
    }

    #[test]
    fn failures_are_read_as_they_were_written() {
        let text = WrittenFailures::of(&report()).text().unwrap().unwrap();
        let read: WrittenFailures = serde_json::from_str(&text).unwrap();
        assert_eq!((read.outlook(), read.failure()), (Outlook::Fails, report().failure));
        assert_eq!((read.exit("a"), read.exit("b")), (Some(exit(137)), None));
    }

    #[test]
    fn without_failures_there_is_no_annotation() {
        let none = FailureReport { outlook: Outlook::Starts, failure: None, exits: Vec::new(), ..report() };
        assert_eq!(WrittenFailures::of(&none).text().unwrap(), None);
    }

    #[test]
    fn only_the_newest_exits_are_written_and_messages_are_bounded() {
        let long = "é".repeat(2000);
        let many = (0..200_u64).map(|at| {
            (Arc::from(format!("pod-{at}")), Failure { at: Some(at), ..Failure::new(FailureReason::Exited, &*long) })
        });
        let written = WrittenFailures::of(&FailureReport { exits: many.collect(), ..report() });
        assert_eq!((written.exits.len(), written.exit("pod-135"), written.exit("pod-199").is_some()), (64, None, true));
        assert_eq!(written.exit("pod-199").unwrap().message.chars().count(), 1024);
    }
}
