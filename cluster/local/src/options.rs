//! Options of the cluster on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_fetch::Limits;

/// Options of the cluster, set once at the start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that serves where a pod names Weir's own runtime. Without one, such pods are refused.
    pub runtime: Option<PathBuf>,
    /// Where logs are kept, in `logs/`, and downloaded models, in `models/`. Made if it is missing.
    pub state_dir: PathBuf,
    /// The environment that every command inherits, `PATH` included: a laptop's commands need what the
    /// user's shell has set. A container's own variables win over it.
    pub environment: Arc<BTreeMap<String, String>>,
    /// Bounds of each download of a model.
    pub fetch: Limits,
    /// Whether containers that ask for a GPU find one.
    pub gpu: Gpu,
}

/// Whether this machine has a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// It has none that a program could use.
    Absent,
    /// It has one at least.
    Present,
}

/// Directory in which NVIDIA's driver lists the GPUs.
const GPUS: &str = "/proc/driver/nvidia/gpus";

impl Gpu {
    /// Finds out whether the driver lists a GPU.
    #[must_use]
    pub fn detect() -> Self {
        let listed = std::fs::read_dir(GPUS).map(|mut gpus| gpus.next().is_some());
        if listed.unwrap_or(false) { Self::Present } else { Self::Absent }
    }
}

impl Options {
    /// The directory of the logs: `REPLICA.log`, and `REPLICA.log.1` for what came before.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.state_dir.join("logs")
    }

    /// The directory of downloaded models, one directory for each address.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.state_dir.join("models")
    }
}
