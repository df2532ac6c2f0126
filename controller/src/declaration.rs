//! All declared services at one moment, each validated once.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_cluster::ServiceName;

use crate::field_error::ValidationErrors;
use crate::runtimes::Runtimes;
use crate::service::Service;
use crate::validate::{Platform, Validated, validate};

/// All declared services and runtimes at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declaration {
    /// The services by name, each with the result of its validation.
    pub services: BTreeMap<ServiceName, DeclaredService>,
    /// The runtimes that the services can use.
    pub runtimes: Arc<Runtimes>,
    /// Errors in the manifests read last, one sentence each; their last valid version keeps serving.
    pub problems: Vec<String>,
    /// Objects of kinds that Weir does not serve, as `KIND NAME`.
    pub ignored_objects: Vec<String>,
}

/// A service and the result of its validation. Clones share both.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredService {
    /// The service as declared.
    pub service: Arc<Service>,
    /// Every choice the manifest makes, or every error in it.
    pub validation: Result<Arc<Validated>, Arc<ValidationErrors>>,
}

impl Declaration {
    /// Validates the services. One that is the same value as in `before`, with equal runtimes, keeps its
    /// validation.
    #[must_use]
    pub fn new(
        services: BTreeMap<ServiceName, Arc<Service>>,
        runtimes: Runtimes,
        before: &Self,
        platform: &Platform,
    ) -> Self {
        let is_same_runtimes = runtimes == *before.runtimes;
        let validated = |service: Arc<Service>| {
            let before = before.services.get(&service.name);
            match before.filter(|before| Arc::ptr_eq(&before.service, &service)) {
                Some(before) if is_same_runtimes => before.clone(),
                Some(_) | None => DeclaredService::new(service, &runtimes, platform),
            }
        };
        let services = services.into_iter();
        Self {
            services: services
                .map(|(name, service)| (name, validated(service)))
                .collect(),
            runtimes: if is_same_runtimes {
                before.runtimes.clone()
            } else {
                Arc::new(runtimes)
            },
            ..Self::default()
        }
    }

    /// Reports whether both declare the same; services and runtimes by pointer, as there are thousands.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let mut pairs = self.services.iter().zip(&other.services);
        self.services.len() == other.services.len()
            && pairs
                .all(|((one, declared), (other, of_other))| one == other && declared.is(of_other))
            && Arc::ptr_eq(&self.runtimes, &other.runtimes)
            && self.problems == other.problems
            && self.ignored_objects == other.ignored_objects
    }

    /// Every validation error of the services, with its position.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let each = self.services.values().flat_map(DeclaredService::errors);
        each.collect()
    }
}

impl DeclaredService {
    fn new(service: Arc<Service>, runtimes: &Runtimes, platform: &Platform) -> Self {
        let validation = validate(&service, runtimes, platform);
        Self {
            validation: validation.map(Arc::new).map_err(Arc::new),
            service,
        }
    }

    /// The validated service; `None` when it has errors.
    #[must_use]
    pub fn validated(&self) -> Option<&Arc<Validated>> {
        self.validation.as_ref().ok()
    }

    /// Reports whether both are the same values in memory.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let is_same_validation = match (&self.validation, &other.validation) {
            (Ok(one), Ok(other)) => Arc::ptr_eq(one, other),
            (Err(one), Err(other)) => Arc::ptr_eq(one, other),
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        };
        is_same_validation && Arc::ptr_eq(&self.service, &other.service)
    }

    fn errors(&self) -> Vec<String> {
        let errors = self.validation.as_ref().err();
        let errors = errors.into_iter().flat_map(|errors| &errors.list);
        errors
            .map(|error| self.service.located(&error.field, &error.message))
            .collect()
    }
}
