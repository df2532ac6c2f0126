use weir_protocol::Code;

use super::*;
use crate::statistics::{BatchOutcome, BatchRecord, Reason, Refusal, RequestRecord, Snapshot, Statistics};

#[derive(Debug)]
struct Fixture {
    gpus: Vec<GpuSample>,
}

impl Sources for Fixture {
    fn models(&self) -> Vec<ModelSample> {
        let statistics = Statistics::new(2);
        let request = RequestRecord { queue: Duration::from_millis(3), total: Duration::from_millis(9) };
        statistics.record_batch(&BatchRecord {
            instance: 1,
            rows: 5,
            requests: &[request],
            compute_input: Duration::from_millis(1),
            compute_infer: Duration::from_millis(2),
            compute_output: Duration::from_millis(1),
            outcome: BatchOutcome::Succeeded,
            ended_ms: 1,
        });
        statistics.record_failure(Reason::Backend, Duration::ZERO);
        statistics.record_shrunk_batch();
        statistics.record_refusal(Refusal::QueueFull, Duration::ZERO);
        vec![ModelSample {
            name: "m".to_owned(),
            version: 1,
            tags: vec![("team".to_owned(), "a\"b".to_owned())],
            snapshot: Snapshot { pending: 4, ..statistics.snapshot() },
            predicted_wait: Duration::from_millis(1500),
            batch_bound: 16,
            load: Duration::from_secs(2),
            running_batch: Duration::from_millis(2500),
            batch_limit: Duration::from_secs(60),
            memory: ModelMemory { weights: Some(100), workspace: Some(20), inputs: None, graphs: None },
        }]
    }

    fn gpus(&self) -> Vec<GpuSample> {
        self.gpus.clone()
    }
}

fn gpu() -> GpuSample {
    GpuSample {
        uuid: "GPU-1".to_owned(),
        utilization: Some(0.5),
        memory: Some(Pool { total: 100, used: 10 }),
        power: None,
        power_limit: Some(300.0),
        energy: Some(7.0),
        allocator: Some(Pool { total: 50, used: 5 }),
    }
}

fn printed(options: Options, gpus: Vec<GpuSample>) -> (String, Requests) {
    let mut registry = Registry::default();
    let requests = register(&mut registry, Arc::new(Fixture { gpus }), options);
    let open = requests.begin(Protocol::Grpc);
    requests.begin(Protocol::Http).finish(Some(Code::NotFound));
    requests.begin(Protocol::Http).finish(None);
    let text = weir_ops::registry::text(&registry).unwrap();
    drop(open);
    (text, requests)
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no line {line} in\n{text}");
}

#[test]
fn triton_names_have_no_suffix() {
    let (text, _) = printed(Options::default(), Vec::new());
    has(&text, "# TYPE nv_inference_count counter");
    has(&text, r#"nv_inference_count{model="m",version="1",team="a\"b"} 5"#);
    has(&text, r#"nv_inference_queue_duration_us{model="m",version="1",team="a\"b"} 3000"#);
    has(&text, "# TYPE nv_inference_pending_request_count gauge");
    has(&text, "nv_pinned_memory_pool_total_bytes 0");
    for (reason, count) in [("REJECTED", 1), ("CANCELED", 0), ("BACKEND", 1), ("OTHER", 0)] {
        let labels = format!(r#"model="m",version="1",team="a\"b",reason="{reason}""#);
        has(&text, &format!("nv_inference_request_failure{{{labels}}} {count}"));
    }
    assert!(!text.contains("nv_gpu_") && !text.contains("first_response"), "{text}");
}

#[test]
fn weirs_own_metrics_are_printed_too() {
    let (text, _) = printed(Options::default(), Vec::new());
    let labels = r#"model="m",version="1",team="a\"b""#;
    has(&text, "# TYPE weir_runtime_refused_total counter");
    has(&text, &format!(r#"weir_runtime_refused_total{{{labels},cause="queue_full"}} 1"#));
    has(&text, &format!(r#"weir_runtime_instance_busy_seconds_total{{{labels},instance="0"}} 0.0"#));
    has(&text, &format!(r#"weir_runtime_instance_busy_seconds_total{{{labels},instance="1"}} 0.004"#));
    has(&text, &format!("weir_runtime_predicted_wait_seconds{{{labels}}} 1.5"));
    has(&text, &format!("weir_runtime_batch_bound_rows{{{labels}}} 16.0"));
    has(&text, &format!("weir_runtime_shrunk_batches_total{{{labels}}} 1"));
    has(&text, &format!(r#"weir_runtime_queue_delay_seconds_bucket{{le="0.005",{labels}}} 1"#));
    has(&text, &format!(r#"weir_runtime_batch_size_bucket{{le="+Inf",{labels}}} 1"#));
    has(&text, r#"weir_runtime_requests_total{protocol="http",code="not_found"} 1"#);
    has(&text, r#"weir_runtime_requests_in_flight{protocol="grpc"} 1"#);
}

#[test]
fn options_choose_what_is_printed() {
    let none = Options { counter_latencies: false, histogram_latencies: false, cpu: false, gpu: false };
    let (text, _) = printed(none, vec![gpu()]);
    assert!(!text.contains("duration_us") && !text.contains("nv_cpu") && !text.contains("nv_gpu"));
    let all = Options { histogram_latencies: true, ..Options::default() };
    let (text, _) = printed(all, vec![gpu()]);
    has(&text, r#"nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 10.0"#);
    has(&text, "# TYPE nv_energy_consumption counter");
    has(&text, r#"nv_gpu_power_limit{gpu_uuid="GPU-1"} 300.0"#);
    // A value that the driver does not report is omitted, not printed as 0.
    assert!(!text.contains("nv_gpu_power_usage{"), "{text}");
    let bucket = r#"nv_inference_first_response_histogram_ms_bucket{le="100.0","#;
    assert!(text.contains(bucket), "{text}");
}

#[test]
fn a_request_dropped_before_its_end_counts_as_cancelled() {
    let mut registry = Registry::default();
    let sources = Arc::new(Fixture { gpus: Vec::new() });
    let requests = register(&mut registry, sources, Options::default());
    drop(requests.begin(Protocol::Grpc));
    let text = weir_ops::registry::text(&registry).unwrap();
    has(&text, r#"weir_runtime_requests_total{protocol="grpc",code="cancelled"} 1"#);
    has(&text, r#"weir_runtime_requests_in_flight{protocol="grpc"} 0"#);
}
