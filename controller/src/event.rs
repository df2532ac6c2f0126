//! Events of a service, modelled on Kubernetes' Events.

use std::fmt;

/// Change in a service's life that is worth reporting to its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Severity of the event.
    pub kind: EventType,
    /// The part of the service that the event is about.
    pub subject: Subject,
    /// Machine-readable reason in CamelCase, such as `RevisionPromoted`.
    pub reason: &'static str,
    /// Description of the event for people.
    pub message: String,
}

/// Severity of an event: Kubernetes' two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Progress that needs no attention.
    Normal,
    /// A failure that may need attention.
    Warning,
}

/// The part of a service that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The service as a whole, or its manifest.
    Service,
    /// A revision's replicas, whose failures the cluster reports as well.
    Replicas,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}
