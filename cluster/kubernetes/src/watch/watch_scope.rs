//! Kinds of objects that a process watches.

/// Kinds of objects that a process watches, and therefore must be allowed to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchScope {
    /// Services and EndpointSlices: all that a gateway needs. They do not show how many replicas of a revision without
    /// endpoints are desired, or why none exists. If its policy allows zero replicas, it counts as scaled to zero, so
    /// that a request wakes it.
    Gateway,
    /// Deployments and Pods too, which show the desired replicas and the failures.
    #[default]
    Control,
}
