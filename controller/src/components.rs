//! Components of an InferenceService beside its predictor, as services of their own. Pure.
//!
//! A transformer or an explainer is declared as a service whose predictor runs the component's container. Revisions,
//! scaling, rollouts, routes and statuses then treat every component alike.

mod arguments;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::{ComponentKind, ServiceName};
use weir_crds::inference_service::{Art, Explainer, Predictor, StorageUri, Transformer};
use weir_crds::{InferenceService, InferenceServiceSpec};

use crate::manifest::annotations::MIRROR;
use crate::manifest::field_error::FieldError;
use crate::manifest::service::{KeptObject, ModelStamps, Service};
use crate::manifest::validate::Platform;
use arguments::Arguments;

/// Field with the name of an object.
pub(crate) const NAME: &str = "metadata.name";

/// Image of the ART explainer, as in KServe, without its tag.
const ART_IMAGE: &str = "kserve/art-explainer";

/// Tag of the ART explainer's image if the manifest sets none.
const ART_TAG: &str = "latest";

/// Components of a service.
pub(crate) struct Split {
    /// One service for each component, the predictor first. The predictor is the service as declared.
    pub(crate) components: Vec<Arc<Service>>,
    /// Errors for which no component can be served.
    pub(crate) errors: Vec<FieldError>,
}

/// Returns the components of a service.
pub(crate) fn split(service: &Arc<Service>, platform: &Platform) -> Split {
    let object = service.object.read();
    let spec = &object.spec;
    let arguments = Arguments::of(&service.name, platform);
    let transformer = spec.transformer.as_deref().map(|transformer| of_transformer(transformer, &arguments));
    let explainer = spec.explainer.as_deref().map(|explainer| of_explainer(explainer, &arguments));
    let found = [(ComponentKind::Transformer, transformer), (ComponentKind::Explainer, explainer)];
    let mut split = Split { components: vec![service.clone()], errors: Vec::new() };
    for (component, predictor) in found {
        let Some(predictor) = predictor else { continue };
        match service.name.of_component(component) {
            Ok(name) => split.components.push(Arc::new(derived(name, service, &object, predictor))),
            Err(error) => split.errors.push(FieldError::new(NAME, error.to_string())),
        }
    }
    split
}

/// Returns the error of each service whose name collides with that of an older service's component, or whose component
/// collides with an older service, by the name of the refused service.
pub(crate) fn collisions<'a>(
    all: impl Iterator<Item = (&'a ServiceName, &'a ObjectMeta)> + Clone,
) -> Vec<(ServiceName, FieldError)> {
    let services: std::collections::BTreeMap<_, _> = all.collect();
    let mut collisions = Vec::new();
    for (component, metadata) in services.iter().filter(|(name, _)| name.component() != ComponentKind::Predictor) {
        let whole = component.whole();
        for used in [component.component_name(), whole.component_name()] {
            let other = ServiceName::new(component.namespace(), &used).ok();
            let Some((other, of_other)) = other.as_ref().and_then(|other| services.get_key_value(other)) else {
                continue;
            };
            let is_older = age(of_other, other) < age(metadata, &whole);
            let (refused, older) = if is_older { (&whole, *other) } else { (*other, &whole) };
            let message = format!(
                "{older} already uses the name {used} for itself or a component: rename one of the InferenceServices"
            );
            collisions.push((refused.clone(), FieldError::new(NAME, message)));
        }
    }
    collisions
}

fn age<'a>(metadata: &ObjectMeta, name: &'a ServiceName) -> (Option<i64>, &'a ServiceName) {
    (metadata.creation_timestamp.as_ref().map(|time| time.0.as_second()), name)
}

/// Returns the service of a component, with the metadata of the whole.
fn derived(name: ServiceName, service: &Service, object: &InferenceService, predictor: Predictor) -> Service {
    let mut metadata = object.metadata.clone();
    // Requests are mirrored to a revision of the predictor.
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(MIRROR);
    }
    let spec =
        InferenceServiceSpec { predictor, tracing: object.spec.tracing.clone(), ..InferenceServiceSpec::default() };
    Service {
        name,
        object: KeptObject::Value(Arc::new(InferenceService { metadata, spec, status: None })),
        spans: service.spans.clone(),
        claims: service.claims.clone(),
        model_stamps: ModelStamps::new(),
    }
}

fn of_transformer(transformer: &Transformer, arguments: &Arguments) -> Predictor {
    let mut pod = transformer.pod.clone();
    arguments.add_to_pod(&mut pod);
    Predictor {
        storage_uris: transformer.storage_uris.clone(),
        pod,
        component: transformer.component.clone(),
        ..Predictor::default()
    }
}

fn of_explainer(explainer: &Explainer, arguments: &Arguments) -> Predictor {
    let (mut pod, mut storage_uris) = (explainer.pod.clone(), explainer.storage_uris.clone());
    // A manifest with both forms gets an error, because the pod then has two containers of one name.
    if let Some(art) = &explainer.art {
        pod.containers.push(of_art(art));
        storage_uris.extend(art.storage_uri.clone().map(|uri| StorageUri { uri, mount_path: None }));
    }
    arguments.add_to_pod(&mut pod);
    Predictor { storage_uris, pod, component: explainer.component.clone(), ..Predictor::default() }
}

/// Returns the container of the ART explainer with KServe's arguments.
fn of_art(art: &Art) -> k8s_openapi::api::core::v1::Container {
    let mut container = (*art.container).clone();
    weir_crds::SERVING_CONTAINER.clone_into(&mut container.name);
    container.image.get_or_insert_with(|| {
        let tag = art.runtime_version.as_deref().unwrap_or(ART_TAG);
        format!("{ART_IMAGE}:{tag}")
    });
    let mut words = Vec::new();
    if art.storage_uri.is_some() {
        words.extend(["--storage_uri".to_owned(), weir_crds::MODEL_MOUNT_PATH.to_owned()]);
    }
    words.extend(["--adversary_type".to_owned(), format!("{:?}", art.kind)]);
    for (name, value) in art.config.iter().flatten() {
        words.extend([format!("--{name}"), value.clone()]);
    }
    words.extend(container.args.take().unwrap_or_default());
    container.args = Some(words);
    container
}
