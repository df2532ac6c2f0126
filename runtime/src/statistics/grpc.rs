//! Statistics as the gRPC service reports them.

use std::collections::BTreeMap;

use weir_protocol::grpc::proto;

use super::{BatchTally, FIRST_RESPONSE, Snapshot, Tally};

impl Snapshot {
    /// Returns the message of `ModelStatistics`, with every field that the HTTP body has.
    #[must_use]
    pub fn to_proto(&self, name: &str, version: u64) -> proto::ModelStatistics {
        let batch = |(size, batch): (&usize, &BatchTally)| proto::InferBatchStatistics {
            batch_size: *size as u64,
            compute_input: Some(batch.compute_input.into()),
            compute_infer: Some(batch.compute_infer.into()),
            compute_output: Some(batch.compute_output.into()),
        };
        proto::ModelStatistics {
            name: name.to_owned(),
            version: version.to_string(),
            last_inference: self.last_inference_ms,
            inference_count: self.inference_count,
            execution_count: self.execution_count,
            inference_stats: Some(self.infer_statistics()),
            batch_stats: self.batches.iter().map(batch).collect(),
            memory_usage: Vec::new(),
            response_stats: self.response_statistics(),
        }
    }

    fn response_statistics(&self) -> BTreeMap<String, proto::InferResponseStatistics> {
        let responses = self.responses().map(|of| proto::InferResponseStatistics {
            compute_infer: Some(of.compute_infer.into()),
            compute_output: Some(of.compute_output.into()),
            success: Some(of.success.into()),
            fail: Some(of.fail.into()),
            empty_response: Some(Tally::default().into()),
            cancel: Some(of.cancel.into()),
        });
        responses.map(|of| (FIRST_RESPONSE.to_owned(), of)).into_iter().collect()
    }

    fn infer_statistics(&self) -> proto::InferStatistics {
        proto::InferStatistics {
            success: Some(self.success.into()),
            fail: Some(self.fail.into()),
            queue: Some(self.queue.into()),
            compute_input: Some(self.compute_input.into()),
            compute_infer: Some(self.compute_infer.into()),
            compute_output: Some(self.compute_output.into()),
            cache_hit: Some(Tally::default().into()),
            cache_miss: Some(Tally::default().into()),
        }
    }
}

impl From<Tally> for proto::StatisticDuration {
    fn from(tally: Tally) -> Self {
        let Tally { count, ns } = tally;
        Self { count, ns }
    }
}
