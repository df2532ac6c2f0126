//! A GPU that several pods use at the same time.

use std::sync::Arc;

/// The GPUs of a node that a replica shares with other pods without isolation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedGpu {
    /// Name of the node.
    pub node: Arc<str>,
    /// Way in which the pods share a GPU.
    pub sharing: GpuSharing,
    /// Number of pods among which each GPU is divided; `None` if the node does not say it.
    pub pods: Option<u32>,
}

/// Way in which pods share a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuSharing {
    /// The pods run in turn, and any of them may use all memory of the GPU.
    TimeSlicing,
    /// The pods run at the same time through NVIDIA's Multi-Process Service, which divides the memory.
    Mps,
    /// The way is not known, because only the name of the resource shows that the GPU is shared.
    Unknown,
}
