//! What `/metrics` says: Triton's names exactly, and our own beside them.
//!
//! Model series are not kept in the registry: one collector asks the server for its models at each scrape,
//! so an unloaded version disappears by itself. `docs/metrics.md` lists every name; a test keeps it true.

mod collector;
mod families;
mod host;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;

use crate::statistics::Snapshot;

pub use requests::{Protocol, Requests};

/// What the server tells the collector at each scrape.
pub trait Sources: std::fmt::Debug + Send + Sync {
    /// Every loaded model version.
    fn models(&self) -> Vec<ModelSample>;

    /// What request bodies under way hold together, and the most they may.
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
    /// The model's name.
    pub name: String,
    /// The version.
    pub version: u64,
    /// `metric_tags` of its configuration, which become labels.
    pub tags: Vec<(String, String)>,
    /// What it has done.
    pub snapshot: Snapshot,
    /// How long a request that arrived now would wait.
    pub predicted_wait: Duration,
    /// How long loading took, warm-up included.
    pub load: Duration,
}

/// A memory pool in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Its size.
    pub total: u64,
    /// What is taken of it.
    pub used: u64,
}

/// One GPU at the moment of a scrape.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuSample {
    /// `GPU-…`, as the driver names it.
    pub uuid: String,
    /// Share of time it was busy, 0 to 1.
    pub utilization: f64,
    /// Its memory in bytes.
    pub memory: Pool,
    /// Watts drawn.
    pub power: f64,
    /// Watts it may draw.
    pub power_limit: f64,
    /// Joules drawn since the driver was loaded.
    pub energy: f64,
}

/// Which optional series are printed: Triton's `--metrics-config`, `--allow-cpu-metrics` and
/// `--allow-gpu-metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `nv_inference_*_duration_us`.
    pub counter_latencies: bool,
    /// `nv_inference_first_response_histogram_ms`.
    pub histogram_latencies: bool,
    /// `nv_cpu_*`.
    pub cpu: bool,
    /// `nv_gpu_*`, `nv_energy_consumption`.
    pub gpu: bool,
}

/// Triton's defaults.
impl Default for Options {
    fn default() -> Self {
        Self {
            counter_latencies: true,
            histogram_latencies: false,
            cpu: true,
            gpu: true,
        }
    }
}

/// Adds the runtime's metrics to the process's registry.
pub fn register(registry: &mut Registry, sources: Arc<dyn Sources>, options: Options) -> Requests {
    registry.register_collector(Box::new(collector::Collector::new(sources, options)));
    Requests::register(registry)
}

#[cfg(test)]
mod tests;
