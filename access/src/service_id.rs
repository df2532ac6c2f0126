//! The service to which a request is addressed.

/// A service, by the names of its namespace and of its InferenceService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceId<'a> {
    /// Namespace of the service.
    pub namespace: &'a str,
    /// Name of the InferenceService, without that of a component.
    pub name: &'a str,
}
