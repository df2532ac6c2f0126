//! Report of a running download, as JSON for another process.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::progress::attempt::{Attempt, Progress};

/// Number of seconds without a new byte after which a download counts as stalled.
const STALLED: u64 = 10;

/// Maximum number of characters of a reason that another process reports.
const MAX_REASON: usize = 240;

/// State of a running download.
///
/// The text is for people, such as `fetching 3.1 of 12.4 GB, 210 MB/s, 44 s left`. It says since when a download has
/// stalled, and why an attempt failed that another one follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadReport {
    /// Bytes so far; `None` until the files are listed.
    #[serde(default)]
    progress: Option<Progress>,
    /// Number of seconds since the last new byte.
    #[serde(default, rename = "idleSeconds")]
    idle_seconds: u64,
    /// Reason of the last failure that another attempt follows; `None` once the server sends again.
    #[serde(default)]
    retrying: Option<String>,
}

impl DownloadReport {
    /// Maximum length of a report as JSON, in bytes.
    pub const MAX_LENGTH: usize = 4096;

    /// Updates the report with an event of the download.
    pub fn observe(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Began => self.retrying = None,
            Attempt::Failed(reason) => self.retrying = Some(reason),
            Attempt::Progressed(progress) => self.progressed(progress),
        }
    }

    /// Updates the report with the progress, which the download reports each second.
    fn progressed(&mut self, progress: Progress) {
        let before = self.progress.replace(progress);
        if before.is_some_and(|before| before.done == progress.done) {
            self.idle_seconds = self.idle_seconds.saturating_add(1);
            return;
        }
        self.idle_seconds = 0;
        if before.is_some() {
            self.retrying = None;
        }
    }

    /// Returns true once the files are listed, so that the report has bytes.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.progress.is_some()
    }

    /// Returns the reason of the last failure that another attempt follows; `None` while bytes arrive.
    #[must_use]
    pub fn retrying(&self) -> Option<&str> {
        self.retrying.as_deref()
    }

    /// Returns the report as JSON, at most [`Self::MAX_LENGTH`] bytes long.
    #[must_use]
    pub fn to_json(&self) -> String {
        let bounded = Self { retrying: self.retrying.as_deref().map(plain), ..self.clone() };
        // Numbers and text are always JSON.
        serde_json::to_string(&bounded).unwrap_or_default()
    }

    /// Reads the JSON of a report, which may come from a hostile process. The reason is shortened to 240 characters,
    /// and characters outside of printable ASCII become question marks. Returns `None` for everything that is no report:
    /// a longer text, another form, or more bytes than the total.
    #[must_use]
    pub fn from_json(text: &[u8]) -> Option<Self> {
        if text.len() > Self::MAX_LENGTH {
            return None;
        }
        let report: Self = serde_json::from_slice(text).ok()?;
        let is_possible = report.progress.is_none_or(|progress| progress.total.is_none_or(|all| progress.done <= all));
        is_possible.then(|| Self { retrying: report.retrying.as_deref().map(plain), ..report })
    }
}

/// Returns the beginning of a text in printable ASCII.
fn plain(text: &str) -> String {
    let printable = |letter: char| if matches!(letter, ' '..='~') { letter } else { '?' };
    let mut plain: String = text.chars().take(MAX_REASON).map(printable).collect();
    if text.chars().nth(MAX_REASON).is_some() {
        plain.push_str("...");
    }
    plain
}

impl fmt::Display for DownloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.progress {
            None => f.write_str("listing the files of the model")?,
            Some(progress) if progress.total == Some(progress.done) => {
                write!(f, "fetched all {}, checking and unpacking", progress.size())?;
            }
            Some(progress) if self.idle_seconds >= STALLED => {
                write!(f, "fetching {}, stalled for {} s", progress.size(), self.idle_seconds)?;
            }
            Some(progress) => write!(f, "fetching {progress}")?,
        }
        match &self.retrying {
            Some(reason) => write!(f, "; retrying, because {reason}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIGABYTE: u64 = 1_000_000_000;

    fn progress(done: u64, rate: u64) -> Attempt {
        Attempt::Progressed(Progress { done, total: Some(4 * GIGABYTE), rate })
    }

    fn after(attempts: &[Attempt]) -> DownloadReport {
        let mut report = DownloadReport::default();
        attempts.iter().for_each(|attempt| report.observe(attempt.clone()));
        report
    }

    #[test]
    fn a_report_says_how_far_a_download_is() {
        assert_eq!(after(&[]).to_string(), "listing the files of the model");
        let half = after(&[Attempt::Began, progress(0, 0), progress(2 * GIGABYTE, GIGABYTE)]);
        assert_eq!(half.to_string(), "fetching 2.0 of 4.0 GB, 1.0 GB/s, 2 s left");
        let whole = after(&[progress(4 * GIGABYTE, GIGABYTE)]);
        assert_eq!(whole.to_string(), "fetched all 4.0 GB, checking and unpacking");
    }

    #[test]
    fn a_stalled_download_says_for_how_long() {
        let stands = vec![progress(GIGABYTE, 0); 13];
        assert_eq!(after(&stands[..10]).to_string(), "fetching 1.0 of 4.0 GB, 0 B/s");
        assert_eq!(after(&stands).to_string(), "fetching 1.0 of 4.0 GB, stalled for 12 s");
        let goes_on = after(&[stands, vec![progress(2 * GIGABYTE, 5)]].concat());
        assert!(goes_on.to_string().starts_with("fetching 2.0 of 4.0 GB, 5 B/s, "), "{goes_on}");
    }

    #[test]
    fn a_retried_download_says_why_until_bytes_arrive() {
        let failed = Attempt::Failed("http://a/x answered 503".to_owned());
        let mut report = after(std::slice::from_ref(&failed));
        assert_eq!(report.to_string(), "listing the files of the model; retrying, because http://a/x answered 503");
        report.observe(progress(GIGABYTE, 7));
        report.observe(progress(GIGABYTE, 0));
        assert_eq!(report.to_string(), "fetching 1.0 of 4.0 GB, 0 B/s; retrying, because http://a/x answered 503");
        report.observe(progress(GIGABYTE + 1, 0));
        assert_eq!(report.retrying(), None);
        report.observe(failed);
        report.observe(Attempt::Began);
        assert_eq!(report.retrying(), None);
    }

    #[test]
    fn a_report_passes_through_json() {
        let report = after(&[progress(GIGABYTE, 7), Attempt::Failed("http://a/x answered 503".to_owned())]);
        assert_eq!(DownloadReport::from_json(report.to_json().as_bytes()), Some(report));
        assert_eq!(DownloadReport::from_json(b"{}"), Some(DownloadReport::default()));
    }

    #[test]
    fn reports_of_hostile_processes_are_refused_or_cleaned() {
        let wrong = [
            r#"{"progress":{"done":-1,"total":5,"rate":1}}"#,
            r#"{"progress":{"done":1e3,"total":5,"rate":1}}"#,
            r#"{"progress":{"done":6,"total":5,"rate":1}}"#,
            r#"{"progress":{"done":18446744073709551616,"total":null,"rate":1}}"#,
            r#"{"idleSeconds":"1"}"#,
            "1",
            "",
        ];
        for text in wrong {
            assert_eq!(DownloadReport::from_json(text.as_bytes()), None, "{text}");
        }
        let hostile = format!(r#"{{"retrying":"a\u001b[2J\nb\u202ec{}"}}"#, "x".repeat(1000));
        let report = DownloadReport::from_json(hostile.as_bytes()).unwrap();
        assert!(report.retrying().unwrap().starts_with("a?[2J?b?cxxx"), "{report:?}");
        assert_eq!(report.retrying().unwrap().len(), MAX_REASON + 3);
        assert_eq!(DownloadReport::from_json(&vec![b' '; DownloadReport::MAX_LENGTH + 1]), None);
    }

    proptest! {
        #[test]
        fn a_report_is_short_and_plain_whatever_is_read(done: u64, total: Option<u64>, rate: u64, reason in ".*") {
            let report = DownloadReport {
                progress: Some(Progress { done, total, rate }), idle_seconds: rate, retrying: Some(reason),
            };
            let text = report.to_json();
            prop_assert!(text.len() <= DownloadReport::MAX_LENGTH);
            if let Some(read) = DownloadReport::from_json(text.as_bytes()) {
                let shown = read.to_string();
                prop_assert!(shown.len() < 512 && shown.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{}", shown);
            }
        }
    }
}
