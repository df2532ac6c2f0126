//! Generations of routes, which keep growing when any part of Weir restarts.

use kube::ResourceExt;

/// Returns the generation of routes that an object belongs to: its resource version, which grows with every write to
/// the cluster.
pub(crate) fn generation(object: &impl kube::Resource) -> u64 {
    let version = object.resource_version();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}
