//! Outcome of a policy on a trace.

use serde_json::{Value, json};
use weir_simulation::{Contender, Score, Standard};

/// Outcome of a policy on a trace.
pub(crate) struct Outcome {
    pub(crate) trace: Standard,
    /// Start time in seconds.
    pub(crate) cold_start: u64,
    pub(crate) policy: Contender,
    pub(crate) score: Score,
    /// GPU time relative to the cheapest plan that keeps 99 % of the requests in time.
    pub(crate) times: f64,
    /// GPU time relative to the cheapest plan with the same attainment.
    pub(crate) times_at_equal: f64,
}

impl Outcome {
    /// Header of the table on a terminal.
    pub(crate) const HEAD: &'static str =
        "trace              L policy      in time   worst      p99      GPU-s    x99    xeq  starts  peak  idle";

    /// Formats a row of the table.
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
