//! Names, types and meanings of the model metrics that are a single number.

use std::time::Duration;

use super::{GpuSample, ModelSample};
use crate::statistics::Tally;

/// A metric with one number per source: a model version or a GPU.
pub(super) struct Family<S, V> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) value: fn(&S) -> V,
}

impl<S, V> Family<S, V> {
    const fn new(name: &'static str, help: &'static str, value: fn(&S) -> V) -> Self {
        Self { name, help, value }
    }
}

type Counter = Family<ModelSample, u64>;
type Gauge = Family<ModelSample, f64>;

/// A gauge per GPU; GPUs whose driver does not report it have none.
type GpuGauge = Family<GpuSample, Option<f64>>;

/// Triton's counters of requests and executions, without the failures, which have one more label.
pub(super) const COUNTS: [Counter; 3] = [
    Family::new("nv_inference_request_success", "Answered requests", |sample| sample.snapshot.success.count),
    Family::new("nv_inference_count", "Inferences; a request with batch size n counts n times", |sample| {
        sample.snapshot.inference_count
    }),
    Family::new("nv_inference_exec_count", "Executed batches", |sample| sample.snapshot.execution_count),
];

/// Triton's cumulative durations in microseconds.
pub(super) const DURATIONS: [Counter; 5] = [
    Family::new(
        "nv_inference_request_duration_us",
        "Time from arrival to answer, summed over all requests",
        |sample| microseconds(sample.snapshot.success),
    ),
    Family::new("nv_inference_queue_duration_us", "Time in the queue, summed over all requests", |sample| {
        microseconds(sample.snapshot.queue)
    }),
    Family::new(
        "nv_inference_compute_input_duration_us",
        "Time for inputs; each request counts the time of its whole batch",
        |sample| microseconds(sample.snapshot.compute_input),
    ),
    Family::new(
        "nv_inference_compute_infer_duration_us",
        "Time in the model; each request counts the time of its whole batch",
        |sample| microseconds(sample.snapshot.compute_infer),
    ),
    Family::new(
        "nv_inference_compute_output_duration_us",
        "Time for outputs; each request counts the time of its whole batch",
        |sample| microseconds(sample.snapshot.compute_output),
    ),
];

/// Gauges per model version.
pub(super) const GAUGES: [Gauge; 6] = [
    Family::new("nv_inference_pending_request_count", "Requests admitted but not yet executing", |sample| {
        sample.snapshot.pending as f64
    }),
    Family::new("nv_model_load_duration_secs", "Duration of loading the model, including warm-up", |sample| {
        sample.load.as_secs_f64()
    }),
    Family::new(
        "weir_runtime_predicted_wait_seconds",
        "Predicted queue wait of a request that arrives now",
        |sample| sample.predicted_wait.as_secs_f64(),
    ),
    Family::new(
        "weir_runtime_batch_bound_rows",
        "Rows of the largest batch that is formed: the model's maximum batch size, or less while the device has no memory for it",
        |sample| sample.batch_bound as f64,
    ),
    Family::new("weir_runtime_running_batch_seconds", "Age of the oldest running batch; 0 if none runs", |sample| {
        sample.running_batch.as_secs_f64()
    }),
    Family::new(
        "weir_runtime_batch_limit_seconds",
        "Age at which a batch counts as stuck and the liveness probe fails (--max-batch-seconds); 0 means no limit",
        |sample| sample.batch_limit.as_secs_f64(),
    ),
];

/// Triton's gauges per GPU, and Weir's own.
pub(super) const GPU_GAUGES: [GpuGauge; 7] = [
    Family::new("nv_gpu_utilization", "Share of time in which the GPU was busy, 0 to 1", |gpu| gpu.utilization),
    Family::new("nv_gpu_memory_total_bytes", "Memory of the GPU", |gpu| Some(gpu.memory?.total as f64)),
    Family::new("nv_gpu_memory_used_bytes", "Memory of the GPU in use", |gpu| Some(gpu.memory?.used as f64)),
    Family::new(
        "weir_runtime_gpu_reserved_bytes",
        "Memory of the GPU that libtorch's allocator holds for this process",
        |gpu| Some(gpu.allocator?.total as f64),
    ),
    Family::new("weir_runtime_gpu_allocated_bytes", "Memory of the GPU in use by tensors of this process", |gpu| {
        Some(gpu.allocator?.used as f64)
    }),
    Family::new("nv_gpu_power_usage", "Power draw of the GPU in watts", |gpu| gpu.power),
    Family::new("nv_gpu_power_limit", "Power limit of the GPU in watts", |gpu| gpu.power_limit),
];

fn microseconds(tally: Tally) -> u64 {
    u64::try_from(Duration::from_nanos(tally.ns).as_micros()).unwrap_or(u64::MAX)
}
