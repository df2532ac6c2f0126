//! Revisions and their replicas, gateways, and the places of pods, as the objects of the API server show them.

pub(crate) mod drift;
mod endpoints;
mod gateways;
mod gpu_sharing;
pub(crate) mod held;
pub(crate) mod kept_revisions;
pub(crate) mod notes;
pub(crate) mod observed;
mod other_autoscalers;
pub(crate) mod placements;
mod replica;
pub(crate) mod watching;

use kube::ResourceExt;

/// Returns the generation of routes that an object belongs to: its resource version, which grows with every write to
/// the cluster, and so keeps growing when any part of Weir restarts.
pub(crate) fn generation(object: &impl kube::Resource) -> u64 {
    let version = object.resource_version();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}
