//! Checks of a container's requests and limits.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use weir_crds::quantity_value;

/// Returns messages about the resources that a container requests.
pub(super) fn errors(container: &Container) -> Vec<String> {
    let Some(resources) = &container.resources else {
        return Vec::new();
    };
    let limits = resources.limits.iter().flatten();
    let requests = resources.requests.iter().flatten();
    let parts = || limits.clone().chain(requests.clone());
    let name = &container.name;
    let below_zero = parts().filter_map(|(resource, amount)| negative(name, resource, amount));
    let in_parts = parts().filter_map(|(resource, amount)| part_of_a_device(name, resource, amount));
    let mut errors: Vec<_> = below_zero.chain(in_parts).collect();
    errors.sort();
    errors.dedup();
    let pairs = requests.filter_map(|(resource, request)| {
        let limit = resources.limits.as_ref()?.get(resource)?;
        unequal(name, resource, (request, limit))
    });
    errors.extend(pairs);
    errors
}

fn negative(container: &str, resource: &str, amount: &Quantity) -> Option<String> {
    let is_negative = quantity_value(&amount.0)? < 0.0;
    let amount = &amount.0;
    is_negative.then(|| {
        format!(
            "the container {container} asks for {amount} of {resource}: write an amount from 0, such as 500m or 4Gi"
        )
    })
}

/// Returns a message about a fraction of an extended resource, such as a GPU, which is counted in whole units.
fn part_of_a_device(container: &str, resource: &str, amount: &Quantity) -> Option<String> {
    let value = quantity_value(&amount.0)?;
    let is_part = is_device(resource) && value.fract() != 0.0;
    let amount = &amount.0;
    is_part.then(|| {
        format!(
            "the container {container} asks for {amount} of {resource}, which comes in whole units: write 1, or \
             request a resource for parts of a device, such as a MIG profile"
        )
    })
}

fn unequal(container: &str, resource: &str, (request, limit): (&Quantity, &Quantity)) -> Option<String> {
    let (requested, limited) = (quantity_value(&request.0)?, quantity_value(&limit.0)?);
    let (request, limit) = (&request.0, &limit.0);
    match requested.total_cmp(&limited) {
        Ordering::Greater => Some(format!(
            "the container {container} requests {request} of {resource}, and its limit is {limit}: raise the limit, or \
             request no more"
        )),
        Ordering::Less if is_device(resource) => Some(format!(
            "the container {container} requests {request} of {resource} with a limit of {limit}: for a device both \
             must be equal, so set the limit alone"
        )),
        Ordering::Less | Ordering::Equal => None,
    }
}

/// Returns true for an extended resource, whose name has a prefix other than Kubernetes' own.
fn is_device(resource: &str) -> bool {
    resource.split_once('/').is_some_and(|(prefix, _)| prefix != "kubernetes.io" && !prefix.ends_with(".kubernetes.io"))
}
