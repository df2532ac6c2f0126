//! Validation of a service, which yields every choice of its manifest, or every error in it.

mod annotations;
mod behavior;
mod canary;
mod component;
mod error_list;
mod ignored;
mod manifest;
mod model_place;
mod pods;
mod predictor;
mod route;
mod runtime;
mod runtime_arguments;
mod storage;
#[cfg(test)]
mod tests;
mod tracing;
mod url_scheme;
mod validated;

use std::path::PathBuf;
use std::sync::Arc;

use weir_cluster::ServiceName;
use weir_crds::{InferenceService, with_defaults};

use crate::manifest::component_field::{renamed_error, renamed_fields};
use crate::manifest::field_error::{IgnoredField, ValidationErrors};
use crate::manifest::service::{ModelStamps, Service};
use crate::runtimes::Runtimes;
use error_list::ErrorList;

pub(crate) use annotations::LATEST;
pub(crate) use canary::PREVIOUS;
pub use runtime::validate_runtime;
pub use storage::{STORAGE_URI, uri_of_store, uri_of_variable};
pub use url_scheme::UrlScheme;
pub use validated::{AutoUpdate, CanaryVariant, Exposure, ManifestIdentity, Validated, Variant};

/// Settings of the platform that apply to every service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Domain of the hosts for clients outside the cluster, such as `example.com`.
    pub domain: String,
    /// Scheme of the URLs for clients outside the cluster.
    pub scheme: UrlScheme,
    /// Domain of the names inside the cluster, such as `cluster.local`.
    pub cluster_domain: String,
    /// True if a V2 request is routed by its model's name, as on one machine.
    pub routes_model_names: bool,
}

impl Platform {
    /// Returns the settings of a Kubernetes cluster whose services have plain HTTP hosts in this domain.
    #[must_use]
    pub fn new(domain: impl Into<String>) -> Self {
        Self {
            domain: domain.into(),
            scheme: UrlScheme::Http,
            cluster_domain: ServiceName::CLUSTER_DOMAIN.to_owned(),
            routes_model_names: false,
        }
    }
}

/// Result of validating a service with errors.
pub(crate) struct Invalid {
    /// Every error in the manifest.
    pub(crate) errors: ValidationErrors,
    /// Manifest without its pods, set if the only errors are in the pods and their cause may be a changed runtime.
    /// Revisions that were made from the manifest before keep running by it.
    pub(crate) kept: Option<Box<Validated>>,
}

/// Validates a service by the rules of its schema and by those that the schema cannot express.
///
/// # Errors
/// Every error in the manifest, with its field.
pub fn validate(declared: &Service, runtimes: &Runtimes, platform: &Platform) -> Result<Validated, ValidationErrors> {
    validate_or_keep(declared, runtimes, platform).map_err(|invalid| invalid.errors)
}

/// Validates a service like [`validate`], and also returns the parts of an invalid one by which it can keep running.
pub(crate) fn validate_or_keep(
    declared: &Service,
    runtimes: &Runtimes,
    platform: &Platform,
) -> Result<Validated, Invalid> {
    let mut errors = ErrorList::default();
    let written = declared.object.read();
    let ignored_fields = ignored::ignored_fields(&written, &mut errors);
    let object = with_defaults(Arc::unwrap_or_clone(written));
    let context = Context {
        service: &declared.name,
        object: &object,
        claims: declared.claims.as_ref(),
        model_stamps: &declared.model_stamps,
        runtimes,
    };
    let validated = context.read(platform, ignored_fields, &mut errors);
    let component = declared.name.component();
    match validated {
        Some(validated) if errors.is_empty() => Ok(validated),
        found => {
            let kept = found.filter(|_| errors.are_of_runtimes()).map(Box::new);
            let ValidationErrors { reason, list } = errors.into_errors();
            let list = list.into_iter().map(|error| renamed_error(component, error)).collect();
            Err(Invalid { kept, errors: ValidationErrors { reason, list } })
        }
    }
}

/// Service with everything that its parts refer to.
struct Context<'a> {
    service: &'a ServiceName,
    /// Object with defaults filled in.
    object: &'a InferenceService,
    claims: Option<&'a PathBuf>,
    model_stamps: &'a ModelStamps,
    runtimes: &'a Runtimes,
}

impl Context<'_> {
    /// Reads all parts; None after an error that leaves no predictor or no host.
    fn read(
        &self,
        platform: &Platform,
        mut ignored_fields: Vec<IgnoredField>,
        errors: &mut ErrorList,
    ) -> Option<Validated> {
        let spec = &self.object.spec;
        let annotations = annotations::read(self.object, errors);
        for error in pods::metadata::errors(&self.object.metadata) {
            errors.add(format!("metadata.{}", error.field), error.message);
        }
        let predictor = predictor::read(self, "spec.predictor", &spec.predictor, errors);
        ignored_fields.extend(tracing::read(spec.tracing.as_ref(), predictor.as_ref(), errors));
        let scaling = predictor.as_ref().map(|predictor| &predictor.scaling);
        let canaries = canary::read(self, &scaling.cloned().unwrap_or_default(), errors);
        let exposure = route::read(self, &annotations, platform, errors);
        Some(Validated {
            service: self.service.clone(),
            since: created(self.object),
            generation: self.object.metadata.generation,
            is_stopped: annotations.is_stopped,
            predictor: predictor?,
            canaries,
            strategy: annotations.strategy,
            auto_update: annotations.auto_update,
            rollback_window: annotations.rollback_window,
            exposure: exposure?,
            concurrency: component::concurrency(&spec.predictor.component),
            ignored_fields: renamed_fields(self.service.component(), ignored_fields),
        })
    }
}

fn created(object: &InferenceService) -> u64 {
    let created = object.metadata.creation_timestamp.as_ref();
    created.map_or(0, |time| u64::try_from(time.0.as_second()).unwrap_or(0))
}
