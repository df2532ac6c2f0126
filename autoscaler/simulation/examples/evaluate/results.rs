//! What came of a policy on a trace.

use serde_json::{Value, json};
use weir_simulation::{Contender, Score, Standard};

/// What came of a policy on a trace.
pub(crate) struct Outcome {
    pub(crate) trace: Standard,
    /// Seconds that a start takes.
    pub(crate) cold_start: u64,
    pub(crate) policy: Contender,
    pub(crate) score: Score,
    /// GPU time over that of the cheapest plan that keeps 99 %.
    pub(crate) times: f64,
    /// The same over that of the cheapest plan that keeps as many.
    pub(crate) times_at_equal: f64,
}

impl Outcome {
    /// The head of the table of rows.
    pub(crate) const HEAD: &'static str =
        "trace              L policy      in time   worst      p99      GPU-s    x99    xeq  starts  peak  idle";

    /// A row of the table on a terminal.
    pub(crate) fn row(&self) -> String {
        let score = &self.score;
        format!(
            "{:<15} {:>4} {:<11} {:>7.2} {:>7.2} {:>8.2} {:>10.0} {:>6.2} {:>6.2} {:>7} {:>5} {:>5.2}",
            self.trace.name(),
            self.cold_start,
            self.policy.to_string(),
            score.attainment * 100.0,
            score.worst * 100.0,
            score.p99.as_secs_f64(),
            score.gpu_seconds,
            self.times,
            self.times_at_equal,
            score.starts,
            score.peak,
            score.idle,
        )
    }

    pub(crate) fn json(&self) -> Value {
        let score = &self.score;
        let rounded = |value: f64, digits: i32| {
            let scale = 10_f64.powi(digits);
            (value * scale).round() / scale
        };
        json!({
            "trace": self.trace.name(),
            "coldStartSeconds": self.cold_start,
            "policy": self.policy.to_string(),
            "attainment": rounded(score.attainment, 5),
            "worstTenMinutes": rounded(score.worst, 4),
            "p50Seconds": rounded(score.p50.as_secs_f64(), 3),
            "p99Seconds": rounded(score.p99.as_secs_f64(), 3),
            "gpuSeconds": score.gpu_seconds.round(),
            "timesTheLeast": rounded(self.times, 3),
            "timesTheLeastAtEqualAttainment": rounded(self.times_at_equal, 3),
            "starts": score.starts,
            "peak": score.peak,
            "idleShare": rounded(score.idle, 3),
        })
    }
}
