//! Generations of routes, which grow over restarts of all parts.

use kube::ResourceExt;

/// The generation of routes that an object belongs to: its version, which grows with every write in the cluster.
pub(crate) fn generation(object: &impl kube::Resource) -> u64 {
    let version = object.resource_version();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}
