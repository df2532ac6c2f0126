//! Checks which services can run as processes of this machine, before anything starts.

use std::iter::once;
use std::sync::Arc;

use weir_cluster::{ClusterError, Workload};
use weir_cluster_local::{Inspection, Options};
use weir_controller::{Declaration, Service, Validated, Variant, component_field};

/// Inspection of a predictor that can run here.
pub(crate) struct Inspected {
    pub(crate) service: Arc<Service>,
    /// YAML field of the predictor in the manifest.
    field: String,
    pub(crate) inspection: Inspection,
}

impl Inspected {
    /// Returns `text` as a sentence about the predictor, with its location.
    pub(crate) fn located(&self, text: &str) -> String {
        self.service.located(&self.field, text)
    }
}

/// Inspects every service that would run; invalid services are reported elsewhere. Also returns an error for each
/// predictor that cannot run here, a sentence with its location.
pub(super) fn inspect(declaration: &Declaration, options: &Options) -> (Vec<Inspected>, Vec<String>) {
    let (mut inspected, mut errors) = (Vec::new(), Vec::new());
    for declared in declaration.services.values() {
        let Some(valid) = declared.validated().filter(|valid| !valid.is_stopped) else {
            continue;
        };
        let service = &declared.service;
        for (field, variant) in variants(valid) {
            let field = component_field(service.name.component(), field);
            match of_variant(service, valid, variant, options) {
                Ok(inspection) => inspected.push(Inspected { service: service.clone(), field, inspection }),
                Err(reason) => errors.push(service.located(&field, &reason)),
            }
        }
    }
    (inspected, errors)
}

/// Returns the predictor and the canaries, each with its YAML field.
fn variants(valid: &Validated) -> impl Iterator<Item = (String, &Variant)> {
    let canaries = valid.canaries.iter().enumerate();
    let canaries = canaries.map(|(i, canary)| {
        let field = format!("spec.canary[{i}].predictor");
        (field, &canary.variant)
    });
    once(("spec.predictor".to_owned(), &valid.predictor)).chain(canaries)
}

/// Inspects one variant. The error is the reason that it cannot run here.
fn of_variant(
    service: &Service,
    valid: &Validated,
    variant: &Variant,
    options: &Options,
) -> Result<Inspection, String> {
    // Any revision number does, because no revision runs yet.
    let revision = service.name.revision(1);
    let workload = Workload {
        ready_call: None,
        revision: revision.map_err(|error| error.to_string())?,
        template: variant.template.clone(),
        storage: variant.storage.clone(),
        replicas: variant.scaling.at_creation(),
        concurrency: valid.concurrency,
        scaling: Some(Arc::new(variant.scaling.policy.clone())),
    };
    weir_cluster_local::inspect(&workload, options).map_err(|error| match error {
        ClusterError::Refused { subject, because } if subject == workload.revision.to_string() => because,
        error => error.to_string(),
    })
}
