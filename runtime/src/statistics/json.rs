//! Statistics in the format of the HTTP statistics extension.

use serde_json::{Value, json};

use super::{FIRST_RESPONSE, Snapshot, Tally};

/// Returns the body of `GET …/stats`, with one entry per model version.
pub(crate) fn statistics_body<'a>(models: impl IntoIterator<Item = (&'a str, u64, Snapshot)>) -> Value {
    let models: Vec<Value> =
        models.into_iter().map(|(name, version, snapshot)| snapshot.to_json(name, version)).collect();
    json!({ "model_stats": models })
}

impl Snapshot {
    /// Returns one entry of `model_stats` with every key of the extension, because `perf_analyzer` fails if one is
    /// missing. Fields of the response cache, of decoupled models and of memory are zero or empty: Weir has neither of
    /// the first two, and reports memory as metrics.
    #[must_use]
    pub fn to_json(&self, name: &str, version: u64) -> Value {
        json!({
            "name": name,
            "version": version.to_string(),
            "last_inference": self.last_inference_ms,
            "inference_count": self.inference_count,
            "execution_count": self.execution_count,
            "inference_stats": {
                "success": tally(self.success),
                "fail": tally(self.fail),
                "queue": tally(self.queue),
                "compute_input": tally(self.compute_input),
                "compute_infer": tally(self.compute_infer),
                "compute_output": tally(self.compute_output),
                "cache_hit": tally(Tally::default()),
                "cache_miss": tally(Tally::default()),
            },
            "response_stats": self.response_stats(),
            "batch_stats": self.batch_stats(),
            "memory_usage": [],
        })
    }

    fn response_stats(&self) -> Value {
        let Some(of) = self.responses() else {
            return json!({});
        };
        json!({ FIRST_RESPONSE: {
            "compute_infer": tally(of.compute_infer),
            "compute_output": tally(of.compute_output),
            "success": tally(of.success),
            "fail": tally(of.fail),
            "empty_response": tally(Tally::default()),
            "cancel": tally(of.cancel),
        } })
    }

    fn batch_stats(&self) -> Vec<Value> {
        let entry = |(size, batch): (&usize, &super::BatchTally)| {
            json!({
                "batch_size": size,
                "compute_input": tally(batch.compute_input),
                "compute_infer": tally(batch.compute_infer),
                "compute_output": tally(batch.compute_output),
            })
        };
        self.batches.iter().map(entry).collect()
    }
}

fn tally(tally: Tally) -> Value {
    json!({ "count": tally.count, "ns": tally.ns })
}
