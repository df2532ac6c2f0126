//! The metrics of `/metrics`: Triton's names exactly, and Weir's own.
//!
//! Metrics of models are not kept in the registry: a collector reads the models from the server at each scrape, so
//! those of an unloaded version disappear by themselves. `docs/metrics.md` lists every name; a test compares the page
//! with the output.

mod collector;
mod families;
mod gpus;
mod host;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;

use crate::engine::ModelMemory;
use crate::statistics::Snapshot;

pub(crate) use gpus::GpuMeter;
pub use gpus::ReadGpus;
pub(crate) use requests::Protocol;
pub use requests::Requests;

/// The values that the collector reads at each scrape.
pub trait Sources: std::fmt::Debug + Send + Sync {
    /// Every loaded model version.
    fn models(&self) -> Vec<ModelSample>;

    /// Bytes that request bodies in flight hold, and the limit on them.
    fn request_bodies(&self) -> Pool {
        Pool::default()
    }

    /// The GPUs that the process uses; empty on a machine without any.
    fn gpus(&self) -> Vec<GpuSample> {
        Vec::new()
    }
}

/// One model version at the moment of a scrape.
#[derive(Clone, Debug)]
pub struct ModelSample {
    /// Value of the label `model`.
    pub name: String,
    /// Value of the label `version`.
    pub version: u64,
    /// `metric_tags` of the model's configuration, which become labels.
    pub tags: Vec<(String, String)>,
    /// The version's statistics so far.
    pub snapshot: Snapshot,
    /// Predicted queue wait of a request that arrives now.
    pub predicted_wait: Duration,
    /// Rows of the largest batch for which the device has memory.
    pub batch_bound: usize,
    /// Duration of loading, including warm-up.
    pub load: Duration,
    /// Age of the oldest running batch; zero if none runs.
    pub running_batch: Duration,
    /// Age at which a batch counts as stuck; zero if there is no limit.
    pub batch_limit: Duration,
    /// Memory of the model by its parts.
    pub memory: ModelMemory,
}

/// A memory pool in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Size of the pool.
    pub total: u64,
    /// Number of bytes in use.
    pub used: u64,
}

/// One GPU at the moment of a scrape.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuSample {
    /// The driver's name for the GPU, `GPU-…`.
    pub uuid: String,
    /// Share of time in which the GPU was busy, 0 to 1. This field and the following are `None` if the driver does not
    /// report them.
    pub utilization: Option<f64>,
    /// Memory of the GPU in bytes.
    pub memory: Option<Pool>,
    /// Power draw in watts.
    pub power: Option<f64>,
    /// Power limit in watts.
    pub power_limit: Option<f64>,
    /// Energy since the driver was loaded, in joules.
    pub energy: Option<f64>,
    /// Memory that the backend's allocator holds for this process, and the part of it in use by tensors, in bytes.
    pub allocator: Option<Pool>,
}

/// The optional metrics to print: Triton's `--metrics-config`, `--allow-cpu-metrics` and `--allow-gpu-metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Print the counters `nv_inference_*_duration_us`.
    pub counter_latencies: bool,
    /// Print the histogram `nv_inference_first_response_histogram_ms`.
    pub histogram_latencies: bool,
    /// Print the gauges `nv_cpu_*`.
    pub cpu: bool,
    /// Print the series `nv_gpu_*` and `nv_energy_consumption`.
    pub gpu: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { counter_latencies: true, histogram_latencies: false, cpu: true, gpu: true }
    }
}

/// Adds the runtime's metrics to the process's registry.
pub fn register(registry: &mut Registry, sources: Arc<dyn Sources>, options: Options) -> Requests {
    registry.register_collector(Box::new(collector::Collector::new(sources, options)));
    Requests::register(registry)
}

#[cfg(test)]
mod tests;
