//! Check before anything starts: services that cannot run as processes of this machine.

use std::iter::once;

use weir_cluster::{ClusterError, Workload};
use weir_cluster_local::Options;
use weir_controller::{Declaration, Service, Validated, Variant};

/// Errors of services that cannot run here, a sentence each with its location. Invalid services are reported
/// elsewhere.
pub(super) fn errors(declaration: &Declaration, options: &Options) -> Vec<String> {
    let services = declaration.services.values();
    let each = services.flat_map(|declared| match declared.validated() {
        Some(validated) if !validated.is_stopped => {
            of_service(&declared.service, validated, options)
        }
        Some(_) | None => Vec::new(),
    });
    each.collect()
}

fn of_service(service: &Service, valid: &Validated, options: &Options) -> Vec<String> {
    let canaries = valid.canaries.iter().enumerate();
    let canaries = canaries.map(|(i, canary)| {
        let field = format!("spec.canary[{i}].predictor");
        (field, &canary.variant)
    });
    let all = once(("spec.predictor".to_owned(), &valid.predictor)).chain(canaries);
    let refused = all.filter_map(|(field, variant)| {
        let reason = refusal(service, valid, variant, options)?;
        Some(service.located(&field, &reason))
    });
    refused.collect()
}

/// Reason that the variant cannot run here.
fn refusal(
    service: &Service,
    valid: &Validated,
    variant: &Variant,
    options: &Options,
) -> Option<String> {
    let workload = Workload {
        // Any number, as no revision runs yet.
        revision: service.name.revision(1).ok()?,
        template: variant.template.clone(),
        storage: variant.storage.clone(),
        replicas: 1,
        concurrency: valid.concurrency,
        scaling: None,
    };
    match weir_cluster_local::check(&workload, options).err()? {
        ClusterError::Refused { subject, because } if subject == workload.revision.to_string() => {
            Some(because)
        }
        error => Some(error.to_string()),
    }
}
