//! What of the cluster a process watches.

/// What of the cluster a process watches, and so may have to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchScope {
    /// Services and EndpointSlices: all that a gateway needs. Of a revision without endpoints it is not known how many
    /// replicas are asked for, nor why none is there: where its policy lets it sleep it counts as asleep, so that a
    /// request wakes it.
    Gateway,
    /// Deployments and Pods too, with what they say of their failures.
    #[default]
    Control,
}
