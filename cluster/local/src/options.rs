//! Options of the cluster on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_fetch::Limits;

use crate::predictor_addresses::PredictorAddresses;

/// Options of the cluster, set once at the start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of `weir-runtime`, which serves pods that name Weir's own runtime. Without it, such pods are refused.
    pub runtime: Option<PathBuf>,
    /// Directory of logs, in `logs/`, and downloaded models, in `models/`. Created if it is missing.
    pub state_dir: PathBuf,
    /// Environment that every command inherits, `PATH` included: local commands need the variables of the user's shell.
    /// A container's own variables take precedence.
    pub environment: Arc<BTreeMap<String, String>>,
    /// Limits for each download of a model.
    pub fetch: Limits,
    /// Maximum size of all downloaded models in bytes. Above it, the least recently used ones that no replica needs are
    /// removed.
    pub max_models_bytes: u64,
    /// Presence of a GPU for containers that request one.
    pub gpu: Gpu,
    /// Addresses at which transformers and explainers reach their predictors.
    pub predictors: PredictorAddresses,
}

/// Presence of a GPU in this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// The machine has no usable GPU.
    Absent,
    /// The machine has at least one GPU.
    Present,
}

/// Directory in which NVIDIA's driver lists the GPUs.
const GPUS: &str = "/proc/driver/nvidia/gpus";

impl Gpu {
    /// Returns `Present` if NVIDIA's driver lists a GPU.
    #[must_use]
    pub fn detect() -> Self {
        let listed = std::fs::read_dir(GPUS).map(|mut gpus| gpus.next().is_some());
        if listed.unwrap_or(false) { Self::Present } else { Self::Absent }
    }
}

impl Options {
    /// Default of `max_models_bytes`: 100 GiB, which holds several models of the largest size that one GPU serves.
    pub const MAX_MODELS_BYTES: u64 = 100 << 30;

    /// Log directory: `REPLICA.log`, and `REPLICA.log.1` for the rotated lines before it.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.state_dir.join("logs")
    }

    /// Directory of downloaded models, one subdirectory per URI.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.state_dir.join("models")
    }
}
