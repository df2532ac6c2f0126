//! The service to which a request is addressed.

use crate::pattern;

/// A service, by the names of its namespace and of its InferenceService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceId<'a> {
    /// Namespace of the service.
    pub namespace: &'a str,
    /// Name of the InferenceService, without that of a component.
    pub name: &'a str,
}

/// Pattern that matches every service.
pub(crate) const EVERY_SERVICE: &str = "*";

impl ServiceId<'_> {
    /// Returns true for a pattern `NAMESPACE/NAME`, each with an optional final `*`, or `*`, that matches the service.
    pub(crate) fn matches(self, pattern: &str) -> bool {
        match pattern.split_once('/') {
            Some((namespace, name)) => pattern::matches(namespace, self.namespace) && pattern::matches(name, self.name),
            None => pattern == EVERY_SERVICE,
        }
    }
}
