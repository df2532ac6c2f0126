//! Comparison of a candidate with the stable revision.

use std::sync::Arc;

use super::{Evidence, Limits, Sample};

/// Fewest requests for a verdict on errors. Among 20 requests one failure already exceeds the default limit of 1 %, and
/// a second one rules out an accident.
const MIN_REQUESTS: u64 = 20;

/// Fewest failures for a verdict on errors, because a single failure has many causes.
const MIN_FAILURES: u64 = 2;

/// Fewest requests for a p99: with fewer, the p99 is just the slowest request.
const MIN_FOR_P99: u64 = 100;

/// Result of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Too few requests for a verdict.
    Wait,
    /// The candidate is as good as the stable revision.
    Good,
    /// The candidate is worse than the stable revision, for this reason.
    Bad(Arc<str>),
}

pub(super) fn judge(limits: &Limits, evidence: &Evidence) -> Verdict {
    let (candidate, stable) = (&evidence.candidate, &evidence.stable);
    let reason = too_many_errors(limits, candidate, stable);
    match reason.or_else(|| too_slow(limits, candidate, stable)) {
        Some(reason) => Verdict::Bad(reason),
        None if candidate.requests() >= MIN_FOR_P99 => Verdict::Good,
        None => Verdict::Wait,
    }
}

fn too_many_errors(limits: &Limits, candidate: &Sample, stable: &Sample) -> Option<Arc<str>> {
    let is_judged = candidate.requests() >= MIN_REQUESTS && candidate.failed >= MIN_FAILURES;
    let (rate, usual) = (candidate.error_rate(), stable.error_rate());
    (is_judged && rate > usual + limits.max_error_rate).then(|| {
        let (rate, usual, most) = (rate * 100.0, usual * 100.0, limits.max_error_rate * 100.0);
        format!("{rate:.1} % of its requests failed (stable revision: {usual:.1} %; allowed: {most:.1} points more)")
            .into()
    })
}

/// Returns why the candidate is too slow. Both revisions need enough requests, because a p99 of few requests means
/// little.
fn too_slow(limits: &Limits, candidate: &Sample, stable: &Sample) -> Option<Arc<str>> {
    let counts = |sample: &Sample| sample.requests() >= MIN_FOR_P99;
    let (p99, usual) = (candidate.p99?, stable.p99?);
    let most = usual.mul_f64(limits.max_p99_ratio);
    (counts(candidate) && counts(stable) && p99 > most).then(|| {
        format!(
            "its p99 latency is {:.1} ms (stable revision: {:.1} ms; allowed: {:.2} times as much)",
            p99.as_secs_f64() * 1e3,
            usual.as_secs_f64() * 1e3,
            limits.max_p99_ratio
        )
        .into()
    })
}

impl Sample {
    /// Returns the number of finished requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.succeeded.saturating_add(self.failed)
    }

    /// Returns the share of the requests that failed, 0..=1; 0 without requests.
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        match self.requests() {
            0 => 0.0,
            requests => self.failed as f64 / requests as f64,
        }
    }
}
