//! The series of `/metrics`: Triton's names exactly, and our own beside them.
//!
//! Model series are not kept in the registry: one collector asks the server for its models at each scrape,
//! so an unloaded version disappears by itself. `docs/metrics.md` lists every name; a test keeps it true.

mod collector;
mod families;
mod gpus;
mod host;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;

use crate::statistics::Snapshot;

pub(crate) use gpus::GpuMeter;
pub use gpus::ReadGpus;
pub(crate) use requests::Protocol;
pub use requests::Requests;

/// The sources of the collector's values at each scrape.
pub trait Sources: std::fmt::Debug + Send + Sync {
    /// Every loaded model version.
    fn models(&self) -> Vec<ModelSample>;

    /// Bytes that request bodies in flight hold together, and the most they may.
    fn request_bodies(&self) -> Pool {
        Pool::default()
    }

    /// The pinned host memory pool; zeros where nothing is pinned.
    fn pinned_pool(&self) -> Pool {
        Pool::default()
    }

    /// The GPUs the process uses; none on a machine without.
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
    /// `metric_tags` of its configuration, which become labels.
    pub tags: Vec<(String, String)>,
    /// Its statistics so far.
    pub snapshot: Snapshot,
    /// Predicted wait of a request that arrived now.
    pub predicted_wait: Duration,
    /// Time that loading took, warm-up included.
    pub load: Duration,
    /// Age of the oldest batch that runs; zero where none does.
    pub running_batch: Duration,
    /// Age from which a batch counts as stuck; zero where none does.
    pub batch_limit: Duration,
}

/// A memory pool in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Size of the pool.
    pub total: u64,
    /// Bytes taken of it.
    pub used: u64,
}

/// One GPU at the moment of a scrape.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuSample {
    /// `GPU-…`, as the driver names it.
    pub uuid: String,
    /// Share of time it was busy, 0 to 1. This and what follows is `None` if the driver does not tell it.
    pub utilization: Option<f64>,
    /// Its memory in bytes.
    pub memory: Option<Pool>,
    /// Watts that it draws.
    pub power: Option<f64>,
    /// Watts it may draw.
    pub power_limit: Option<f64>,
    /// Joules drawn since the driver was loaded.
    pub energy: Option<f64>,
}

/// The optional series to print: Triton's `--metrics-config`, `--allow-cpu-metrics` and
/// `--allow-gpu-metrics`.
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
