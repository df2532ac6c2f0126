//! Names of revisions.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{ComponentKind, ServiceName};
use crate::ClusterError;

/// The largest revision number: five digits, as [`ServiceName::MAX_LENGTH`] assumes.
const MAX_NUMBER: u32 = 99_999;

/// Name of a revision: `{service}-{component}-{NNNNN}`. The revision's Deployment has the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevisionName {
    service: ServiceName,
    number: u32,
    full: Arc<str>,
}

impl RevisionName {
    fn new(service: &ServiceName, number: u32) -> Result<Self, ClusterError> {
        let full = format!("{}-{number:05}", service.component_name());
        if !(1..=MAX_NUMBER).contains(&number) {
            return Err(ClusterError::name("revision", &full, "the number must be 1 to 99999"));
        }
        Ok(Self { service: service.clone(), number, full: full.into() })
    }

    /// Key range of an ordered map that contains all revisions of a service. The bounds themselves are not valid
    /// revisions.
    #[must_use]
    pub fn all_of(service: &ServiceName) -> RangeInclusive<Self> {
        let end = |number| Self { service: service.clone(), number, full: Arc::default() };
        end(0)..=end(MAX_NUMBER + 1)
    }

    /// Parses a full name, as the header `weir-revision` contains it.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when the text differs from what [`Self::as_str`] returns.
    pub fn parse(namespace: &str, full: &str) -> Result<Self, ClusterError> {
        let fault = || ClusterError::name("revision", full, "must look like {service}-predictor-{NNNNN}");
        let (component_name, number) = full.rsplit_once('-').ok_or_else(fault)?;
        let (name, component) = component_name.rsplit_once('-').ok_or_else(fault)?;
        let component = ComponentKind::named(component).ok_or_else(fault)?;
        let number = number.parse().map_err(|_| fault())?;
        let service = ServiceName::new(namespace, name)?.of_component(component)?;
        let revision = Self::new(&service, number)?;
        if *revision.full == *full { Ok(revision) } else { Err(fault()) }
    }

    /// The service that the revision belongs to.
    #[must_use]
    pub fn service(&self) -> &ServiceName {
        &self.service
    }

    /// The revision's number, counted from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The full name, without the namespace.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.full
    }
}

impl ServiceName {
    /// Returns the name of this service's revision `number`.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when the number is not within 1..=99999.
    pub fn revision(&self, number: u32) -> Result<RevisionName, ClusterError> {
        RevisionName::new(self, number)
    }
}

impl fmt::Display for RevisionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service.namespace(), self.full)
    }
}
