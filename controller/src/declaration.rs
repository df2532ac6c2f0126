//! All declared services at one moment, each validated once.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_cluster::{ComponentKind, ServiceName};
use weir_crds::inference_service::FailureReason;

use crate::components::{self, Split};
use crate::history::History;
use crate::manifest::field_error::{FieldError, ValidationErrors};
use crate::manifest::service::Service;
use crate::manifest::validate::{Platform, Validated, validate_or_keep};
use crate::runtimes::Runtimes;

/// All declared services and runtimes at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declaration {
    /// The services by name, each with the result of its validation. A service with a transformer or an explainer has
    /// one entry for each of its components.
    pub services: BTreeMap<ServiceName, DeclaredService>,
    /// The runtimes that the services can use.
    pub runtimes: Arc<Runtimes>,
    /// Errors in the last manifests that were read, one sentence each. An object with errors keeps its last valid
    /// version, if it had one; other objects are not affected.
    pub problems: Vec<String>,
    /// Objects of kinds that Weir does not serve, as `KIND NAME`, and ignored fields of runtimes, as `FIELD of the
    /// runtime NAME`.
    pub ignored_objects: Vec<String>,
}

/// A service and the result of its validation. Clones share both.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredService {
    /// The service as declared.
    pub service: Arc<Service>,
    /// Every choice the manifest makes, or every error in it.
    pub validation: Result<Arc<Validated>, Arc<ValidationErrors>>,
    /// Manifest without its pods, set if the only errors are in the pods and their cause may be a changed runtime; see
    /// `served`.
    pub kept: Option<Arc<Validated>>,
}

impl Declaration {
    /// Validates the services. A service that is the same allocation as in `before`, with equal runtimes, keeps its
    /// validation.
    #[must_use]
    pub fn new(
        services: BTreeMap<ServiceName, Arc<Service>>,
        runtimes: Runtimes,
        before: &Self,
        platform: &Platform,
    ) -> Self {
        let is_same_runtimes = runtimes == *before.runtimes;
        let validated = |service: Arc<Service>| match before.unchanged(&service) {
            Some(components) if is_same_runtimes => components,
            Some(_) | None => DeclaredService::all(&service, &runtimes, platform),
        };
        let services = services.into_values().flat_map(validated);
        let services = services.map(|declared| (declared.service.name.clone(), declared)).collect();
        Self {
            services: without_collisions(services),
            runtimes: if is_same_runtimes { before.runtimes.clone() } else { Arc::new(runtimes) },
            ..Self::default()
        }
    }

    /// Returns true if both declare the same. Services and runtimes are compared by pointer, because there are
    /// thousands.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let mut pairs = self.services.iter().zip(&other.services);
        self.services.len() == other.services.len()
            && pairs.all(|((one, declared), (other, of_other))| one == other && declared.is(of_other))
            && Arc::ptr_eq(&self.runtimes, &other.runtimes)
            && self.problems == other.problems
            && self.ignored_objects == other.ignored_objects
    }

    /// Returns every validation error of the services, with its position. An error of a whole service is in each of its
    /// components, and is returned once.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for error in self.services.values().flat_map(DeclaredService::errors) {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        errors
    }

    /// Returns the components of an InferenceService, the predictor first.
    pub fn components(&self, service: &ServiceName) -> impl Iterator<Item = &DeclaredService> {
        let whole = service.whole();
        let range = self.services.range(whole.clone()..);
        range.take_while(move |(name, _)| name.whole() == whole).map(|(_, declared)| declared)
    }

    /// Returns the number of InferenceServices.
    #[must_use]
    pub fn count(&self) -> usize {
        self.services.keys().filter(|name| name.component() == ComponentKind::Predictor).count()
    }

    /// Returns the components of a service that is the same allocation as in this declaration. A service that collided
    /// with another one is validated again, because the other may be gone.
    fn unchanged(&self, service: &Arc<Service>) -> Option<Vec<DeclaredService>> {
        let components: Vec<_> = self.components(&service.name).cloned().collect();
        let is_same = components.first().is_some_and(|predictor| Arc::ptr_eq(&predictor.service, service));
        (is_same && !components.iter().any(DeclaredService::has_wrong_name)).then_some(components)
    }
}

/// Refuses each service whose name an older service uses for one of its components, or whose component has the name of
/// an older service.
fn without_collisions(mut services: BTreeMap<ServiceName, DeclaredService>) -> BTreeMap<ServiceName, DeclaredService> {
    let all = services.iter().map(|(name, declared)| (name, declared.service.metadata()));
    for (whole, error) in components::collisions(all) {
        for (name, declared) in &mut services {
            if name.whole() == whole {
                declared.refuse(error.clone());
            }
        }
    }
    services
}

impl DeclaredService {
    /// Validates all components of a service, the predictor first.
    #[must_use]
    pub fn all(service: &Arc<Service>, runtimes: &Runtimes, platform: &Platform) -> Vec<Self> {
        let Split { components, errors } = components::split(service, platform);
        let mut all: Vec<_> = components.into_iter().map(|part| Self::new(part, runtimes, platform)).collect();
        for error in errors {
            all.iter_mut().for_each(|declared| declared.refuse(error.clone()));
        }
        all
    }

    /// Adds an error that keeps the service from being served.
    fn refuse(&mut self, error: FieldError) {
        let mut errors = match &self.validation {
            Ok(_) => ValidationErrors { reason: FailureReason::InvalidPredictorSpec, list: Vec::new() },
            Err(errors) => ValidationErrors::clone(errors),
        };
        errors.list.push(error);
        self.validation = Err(Arc::new(errors));
        self.kept = None;
    }

    /// Returns true if an error is about the service's name.
    fn has_wrong_name(&self) -> bool {
        let errors = self.validation.as_ref().err();
        errors.is_some_and(|errors| errors.list.iter().any(|error| error.field == components::NAME))
    }

    fn new(service: Arc<Service>, runtimes: &Runtimes, platform: &Platform) -> Self {
        let (validation, kept) = match validate_or_keep(&service, runtimes, platform) {
            Ok(validated) => (Ok(Arc::new(validated)), None),
            Err(invalid) => (Err(Arc::new(invalid.errors)), invalid.kept.map(|kept| Arc::new(*kept))),
        };
        Self { service, validation, kept }
    }

    /// Returns the validated service; None when it has errors.
    #[must_use]
    pub fn validated(&self) -> Option<&Arc<Validated>> {
        self.validation.as_ref().ok()
    }

    /// Returns the manifest by which a service with this history is served: the valid one, or one with errors in its
    /// pods alone if the history already has those pods. Thus a deleted runtime does not stop services that run.
    pub(crate) fn served(&self, history: &History) -> Result<&Arc<Validated>, &Arc<ValidationErrors>> {
        let errors = match &self.validation {
            Ok(validated) => return Ok(validated),
            Err(errors) => errors,
        };
        let kept = self.kept.as_ref();
        let kept = kept.filter(|kept| history.has_pods_of(kept));
        kept.ok_or(errors)
    }

    /// Returns true if both share the same allocations.
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
        errors.map(|error| self.service.located(&error.field, &error.message)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{model, platform, service};
    use crate::history::{RuntimeChange, revise};

    fn declared(spec: &str, runtimes: &Runtimes) -> DeclaredService {
        DeclaredService::new(Arc::new(service(&[], spec)), runtimes, &platform())
    }

    /// Returns the history of a service with a model at `a`, made while its runtime existed.
    fn history() -> History {
        let first = declared(&model("a", &[]), &Runtimes::default());
        let validated = first.validated().unwrap();
        revise(validated, &History::default(), RuntimeChange::Follow, 0).unwrap()
    }

    #[track_caller]
    fn keeps_running_until_its_pods_must_change(runtimes: &Runtimes) {
        let history = history();
        let scaled = declared(&model("a", &["minReplicas: 3"]), runtimes);
        assert!(scaled.validated().is_none());
        let served = scaled.served(&history).unwrap();
        assert_eq!(served.predictor.scaling.policy.min, 3);
        let next = revise(served, &history, RuntimeChange::Follow, 1).unwrap();
        assert_eq!(next.records, history.records);
        assert_eq!(next.runtime_roll, None);
        assert!(!next.is_behind(served));
        for spec in [model("b", &[]), model("a", &["labels: {team: a}"]), model("a", &["minReplicas: -1"])] {
            let edited = declared(&spec, runtimes);
            assert!(edited.served(&history).is_err(), "{spec}");
        }
        let is_new = scaled.served(&History::default());
        assert!(is_new.is_err());
    }

    #[test]
    fn a_service_keeps_running_without_its_runtime() {
        keeps_running_until_its_pods_must_change(&Runtimes::declared(Vec::new()));
    }

    #[test]
    fn a_service_keeps_running_with_a_runtime_that_no_longer_fits() {
        let mut runtime = Runtimes::default().as_slice()[0].clone();
        runtime.spec.pod.containers[0].args = Some(vec!["{{.Labels.none}}".to_owned()]);
        keeps_running_until_its_pods_must_change(&Runtimes::declared(vec![runtime]));
    }

    #[test]
    fn no_new_revision_begins_without_a_runtime() {
        let declared = declared(&model("b", &[]), &Runtimes::default());
        let mut validated = Validated::clone(declared.validated().unwrap());
        validated.predictor.has_pods = false;
        let refused = revise(&validated, &history(), RuntimeChange::Follow, 1).unwrap_err();
        assert_eq!(refused.to_string(), "default/digits: no runtime defines its pods");
    }
}
