//! Names, types and meanings of the model metrics that are a single number.

use std::time::Duration;

use super::{GpuSample, ModelSample};
use crate::statistics::Tally;

/// A counter with one unsigned number per model version.
pub(super) struct Counter {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) value: fn(&ModelSample) -> u64,
}

/// A gauge with one number per model version.
pub(super) struct Gauge {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) value: fn(&ModelSample) -> f64,
}

/// A gauge with one number per GPU; GPUs whose driver does not report it have none.
pub(super) struct GpuGauge {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) value: fn(&GpuSample) -> Option<f64>,
}

/// Triton's counters of requests and executions, without the failures, which have one more label.
pub(super) const COUNTS: [Counter; 3] = [
    Counter {
        name: "nv_inference_request_success",
        help: "Answered requests",
        value: |sample| sample.snapshot.success.count,
    },
    Counter {
        name: "nv_inference_count",
        help: "Inferences; a request with batch size n counts n times",
        value: |sample| sample.snapshot.inference_count,
    },
    Counter {
        name: "nv_inference_exec_count",
        help: "Executed batches",
        value: |sample| sample.snapshot.execution_count,
    },
];

/// Triton's cumulative durations in microseconds.
pub(super) const DURATIONS: [Counter; 5] = [
    Counter {
        name: "nv_inference_request_duration_us",
        help: "Time from arrival to answer, summed over all requests",
        value: |sample| microseconds(sample.snapshot.success),
    },
    Counter {
        name: "nv_inference_queue_duration_us",
        help: "Time in the queue, summed over all requests",
        value: |sample| microseconds(sample.snapshot.queue),
    },
    Counter {
        name: "nv_inference_compute_input_duration_us",
        help: "Time for inputs; each request counts the time of its whole batch",
        value: |sample| microseconds(sample.snapshot.compute_input),
    },
    Counter {
        name: "nv_inference_compute_infer_duration_us",
        help: "Time in the model; each request counts the time of its whole batch",
        value: |sample| microseconds(sample.snapshot.compute_infer),
    },
    Counter {
        name: "nv_inference_compute_output_duration_us",
        help: "Time for outputs; each request counts the time of its whole batch",
        value: |sample| microseconds(sample.snapshot.compute_output),
    },
];

/// Gauges per model version.
pub(super) const GAUGES: [Gauge; 6] = [
    Gauge {
        name: "nv_inference_pending_request_count",
        help: "Requests admitted but not yet executing",
        value: |sample| sample.snapshot.pending as f64,
    },
    Gauge {
        name: "nv_model_load_duration_secs",
        help: "Duration of loading the model, including warm-up",
        value: |sample| sample.load.as_secs_f64(),
    },
    Gauge {
        name: "weir_runtime_predicted_wait_seconds",
        help: "Predicted queue wait of a request that arrives now",
        value: |sample| sample.predicted_wait.as_secs_f64(),
    },
    Gauge {
        name: "weir_runtime_batch_bound_rows",
        help: "Rows of the largest batch that is formed: the model's maximum batch size, or less while the device has no memory for it",
        value: |sample| sample.batch_bound as f64,
    },
    Gauge {
        name: "weir_runtime_running_batch_seconds",
        help: "Age of the oldest running batch; 0 if none runs",
        value: |sample| sample.running_batch.as_secs_f64(),
    },
    Gauge {
        name: "weir_runtime_batch_limit_seconds",
        help: "Age at which a batch counts as stuck and the liveness probe fails (--max-batch-seconds); 0 means no limit",
        value: |sample| sample.batch_limit.as_secs_f64(),
    },
];

/// Triton's gauges per GPU, and Weir's own.
pub(super) const GPU_GAUGES: [GpuGauge; 7] = [
    GpuGauge {
        name: "nv_gpu_utilization",
        help: "Share of time in which the GPU was busy, 0 to 1",
        value: |gpu| gpu.utilization,
    },
    GpuGauge {
        name: "nv_gpu_memory_total_bytes",
        help: "Memory of the GPU",
        value: |gpu| Some(gpu.memory?.total as f64),
    },
    GpuGauge {
        name: "nv_gpu_memory_used_bytes",
        help: "Memory of the GPU in use",
        value: |gpu| Some(gpu.memory?.used as f64),
    },
    GpuGauge {
        name: "weir_runtime_gpu_reserved_bytes",
        help: "Memory of the GPU that libtorch's allocator holds for this process",
        value: |gpu| Some(gpu.allocator?.total as f64),
    },
    GpuGauge {
        name: "weir_runtime_gpu_allocated_bytes",
        help: "Memory of the GPU in use by tensors of this process",
        value: |gpu| Some(gpu.allocator?.used as f64),
    },
    GpuGauge { name: "nv_gpu_power_usage", help: "Power draw of the GPU in watts", value: |gpu| gpu.power },
    GpuGauge { name: "nv_gpu_power_limit", help: "Power limit of the GPU in watts", value: |gpu| gpu.power_limit },
];

fn microseconds(tally: Tally) -> u64 {
    u64::try_from(Duration::from_nanos(tally.ns).as_micros()).unwrap_or(u64::MAX)
}
