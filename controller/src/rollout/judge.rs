//! Whether a candidate is as good as the stable revision.

use std::sync::Arc;

use super::{Evidence, Limits, Sample};

/// Requests that a judgement on errors needs: among 20, the default limit of 1 % is passed by one, and
/// a second one makes it no accident.
const MIN_REQUESTS: u64 = 20;

/// Failures that a judgement needs: a single one has many causes.
const MIN_FAILURES: u64 = 2;

/// Requests that a p99 needs: of fewer it is the slowest one, and says nothing.
const MIN_FOR_P99: u64 = 100;

/// What the evidence says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Too little to tell.
    Wait,
    /// As good as the stable one.
    Good,
    /// Worse, for this reason.
    Bad(Arc<str>),
}

pub(super) fn judge(limits: &Limits, evidence: &Evidence) -> Verdict {
    let (candidate, stable) = (&evidence.candidate, &evidence.stable);
    if let Some(because) = too_many_errors(limits, candidate, stable) {
        return Verdict::Bad(because);
    }
    if let Some(because) = too_slow(limits, candidate, stable) {
        return Verdict::Bad(because);
    }
    match candidate.requests() >= MIN_FOR_P99 {
        true => Verdict::Good,
        false => Verdict::Wait,
    }
}

fn too_many_errors(limits: &Limits, candidate: &Sample, stable: &Sample) -> Option<Arc<str>> {
    let is_judged = candidate.requests() >= MIN_REQUESTS && candidate.failed >= MIN_FAILURES;
    let (rate, usual) = (candidate.error_rate(), stable.error_rate());
    (is_judged && rate > usual + limits.max_error_rate).then(|| {
        let (rate, usual, most) = (rate * 100.0, usual * 100.0, limits.max_error_rate * 100.0);
        format!(
            "{rate:.1} % of its requests failed, {usual:.1} % of the stable revision's; {most:.1} points more are allowed"
        )
        .into()
    })
}

/// Both p99 must be of enough requests. A stable one that is rarely asked is no measure.
fn too_slow(limits: &Limits, candidate: &Sample, stable: &Sample) -> Option<Arc<str>> {
    let counts = |sample: &Sample| sample.requests() >= MIN_FOR_P99;
    let (p99, usual) = (candidate.p99?, stable.p99?);
    let most = usual.mul_f64(limits.max_p99_ratio);
    (counts(candidate) && counts(stable) && p99 > most).then(|| {
        format!(
            "its p99 is {:.1} ms, the stable revision's {:.1} ms; {:.2} times as much is allowed",
            p99.as_secs_f64() * 1e3,
            usual.as_secs_f64() * 1e3,
            limits.max_p99_ratio
        )
        .into()
    })
}

impl Sample {
    /// Requests that ended.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.succeeded.saturating_add(self.failed)
    }

    /// The share that failed; 0 of none.
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        match self.requests() {
            0 => 0.0,
            requests => self.failed as f64 / requests as f64,
        }
    }
}
