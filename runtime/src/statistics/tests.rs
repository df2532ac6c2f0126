use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn record(requests: &[RequestRecord], outcome: BatchOutcome) -> BatchRecord<'_> {
    BatchRecord {
        instance: 0,
        rows: 3,
        requests,
        compute_input: ms(1),
        compute_infer: ms(2),
        compute_output: ms(3),
        outcome,
        ended_ms: 1_700_000_000_123,
    }
}

const TWO: [RequestRecord; 2] = [
    RequestRecord { queue: Duration::from_millis(4), total: Duration::from_millis(10) },
    RequestRecord { queue: Duration::from_millis(6), total: Duration::from_millis(12) },
];

#[test]
fn a_batch_counts_rows_executions_and_requests() {
    let statistics = Statistics::new(2);
    statistics.record_batch(&record(&TWO, BatchOutcome::Succeeded));
    let snapshot = statistics.snapshot();
    assert_eq!(snapshot.inference_count, 3);
    assert_eq!(snapshot.execution_count, 1);
    assert_eq!(snapshot.last_inference_ms, 1_700_000_000_123);
    assert_eq!(snapshot.success, Tally { count: 2, ns: 22_000_000 });
    assert_eq!(snapshot.queue, Tally { count: 2, ns: 10_000_000 });
    // Each request counts the time of its whole batch, as in Triton.
    assert_eq!(snapshot.compute_infer, Tally { count: 2, ns: 4_000_000 });
    assert_eq!(snapshot.batches[&3].compute_output, Tally { count: 1, ns: 3_000_000 });
    assert_eq!(snapshot.busy, [ms(6), ms(0)]);
    assert_eq!(snapshot.queue_delay.count(), 2);
    assert_eq!(snapshot.batch_size.sum(), 3.0);
}

#[test]
fn a_failed_batch_fails_its_requests_and_keeps_the_instance_busy() {
    let statistics = Statistics::new(1);
    statistics.record_batch(&record(&TWO, BatchOutcome::Failed));
    statistics.record_batch(&record(&TWO, BatchOutcome::Retried));
    let snapshot = statistics.snapshot();
    assert_eq!(snapshot.execution_count, 0);
    assert_eq!(snapshot.fail, Tally { count: 2, ns: 22_000_000 });
    assert_eq!(snapshot.failures, [0, 0, 2, 0]);
    assert_eq!(snapshot.busy, [ms(12)]);
}

#[test]
fn a_refusal_is_a_rejection_with_a_cause() {
    let statistics = Statistics::new(1);
    statistics.record_refusal(Refusal::PredictedWait, ms(1));
    statistics.record_failure(Reason::Canceled, ms(2));
    let snapshot = statistics.snapshot();
    assert_eq!(snapshot.failures, [1, 1, 0, 0]);
    assert_eq!(snapshot.refusals, [0, 1, 0, 0]);
    assert_eq!(snapshot.fail, Tally { count: 2, ns: 3_000_000 });
}

#[test]
fn labels_match_their_index() {
    for (index, reason) in Reason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, index, "{}", reason.label());
    }
    for (index, refusal) in Refusal::ALL.into_iter().enumerate() {
        assert_eq!(refusal as usize, index, "{}", refusal.label());
    }
}

#[test]
fn a_value_equal_to_a_bound_counts_in_its_bucket() {
    let mut histogram = Histogram::new(&[1.0, 2.0]);
    for value in [0.5, 1.0, 1.5, 2.0, 3.0] {
        histogram.observe(value);
    }
    let counts: Vec<u64> = histogram.buckets().map(|(_, count)| count).collect();
    assert_eq!(counts, [2, 2, 1]);
    assert_eq!(histogram.sum(), 8.0);
}

#[test]
fn the_json_body_has_every_key_and_exact_integers() {
    let statistics = Statistics::new(1);
    statistics.record_batch(&record(&TWO, BatchOutcome::Succeeded));
    let body = statistics_body([("m", 7, statistics.snapshot())]);
    let model = &body["model_stats"][0];
    assert_eq!(model["name"], "m");
    assert_eq!(model["version"], "7");
    assert_eq!(model["last_inference"], 1_700_000_000_123_u64);
    for key in
        ["success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"]
    {
        let tally = &model["inference_stats"][key];
        assert!(tally["count"].is_u64() && tally["ns"].is_u64(), "{key}");
    }
    assert_eq!(model["batch_stats"][0]["batch_size"], 3);
    assert_eq!(model["batch_stats"][0]["compute_infer"]["count"], 1);
    assert_eq!(model["memory_usage"], serde_json::json!([]));
    assert_eq!(model["response_stats"]["0"]["success"]["count"], 2);
    assert!(body.to_string().contains("1700000000123"));
}

#[test]
fn the_grpc_message_equals_the_http_body() {
    let statistics = Statistics::new(1);
    statistics.record_batch(&record(&TWO, BatchOutcome::Succeeded));
    let message = statistics.snapshot().to_proto("m", 7);
    assert_eq!((message.name.as_str(), message.version.as_str()), ("m", "7"));
    assert_eq!(message.inference_count, 3);
    let stats = message.inference_stats.unwrap();
    assert_eq!(stats.queue.unwrap().ns, 10_000_000);
    assert_eq!(stats.cache_hit.unwrap().count, 0);
    assert_eq!(message.batch_stats[0].compute_infer.unwrap().ns, 2_000_000);
}
