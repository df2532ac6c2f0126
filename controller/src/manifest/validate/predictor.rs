//! Validation of a predictor: its pod and its model.

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use weir_cluster::{ControlRoutes, ReadyCall, Storage, Tag};
use weir_crds::inference_service::{Model, Predictor, Protocol};

use super::error_list::ErrorList;
use super::validated::{ManifestIdentity, Variant};
use super::{Context, annotations, component, manifest, model_place, pods, runtime_arguments, storage};
use crate::manifest::annotations::CONTROL_ROUTES;
use crate::manifest::field_error::Cure;
use crate::manifest::pod;
use crate::runtimes::{Runtime, Scope, ServerType};

/// Variable of a custom container with the protocol that it speaks, as in KServe.
const PROTOCOL: &str = "PROTOCOL";

/// Variables that a container must not set, because they change which code the runtime loads.
const BLOCKED: [&str; 1] = ["PYTHONPATH"];

/// Reads a predictor with its defaults; None after an error that leaves no pod.
pub(super) fn read(
    context: &Context<'_>,
    path: &str,
    predictor: &Predictor,
    errors: &mut ErrorList,
) -> Option<Variant> {
    component::check(path, &predictor.component, errors);
    if let Some(Err(error)) = predictor.name.as_deref().map(Tag::new) {
        errors.add(format!("{path}.name"), error.to_string());
    }
    let scaling = component::scaling(context, path, &predictor.component, errors);
    let variant = variant(context, path, predictor, errors)?;
    Some(Variant { scaling, ..variant })
}

/// Reads pod and model of a predictor; bounds keep their defaults.
pub(super) fn variant(
    context: &Context<'_>,
    path: &str,
    predictor: &Predictor,
    errors: &mut ErrorList,
) -> Option<Variant> {
    storage::check_listed(path, predictor, errors);
    variables(path, &predictor.pod, errors);
    let containers = predictor.pod.containers.len();
    match (&predictor.model, predictor.frameworks().count(), containers) {
        (Some(model), 1, _) => of_model(context, path, predictor, model, errors),
        (None, 0, 1..) => of_containers(context, path, predictor, errors),
        (_, _, _) => {
            let forms = Predictor::SHORT_FORMS.join(", ");
            let message = format!("Exactly one of [{forms}, model, containers] must be specified in predictor");
            errors.add(path, message);
            None
        }
    }
}

fn of_model(
    context: &Context<'_>,
    path: &str,
    predictor: &Predictor,
    model: &Model,
    errors: &mut ErrorList,
) -> Option<Variant> {
    let (pod_path, path) = (path, format!("{path}.model"));
    let given = storage::of_model(context, pod_path, (predictor, model), errors);
    env(&path, &model.framework.container, errors);
    let written = manifest::identity(context, predictor);
    let Some(runtime) = runtime(context, &path, model, errors) else {
        return Variant::without_pods(context.service, written).ok();
    };
    let limit = component::max_batch_time(context, &predictor.component, errors);
    let (mut metadata, mut model) = (context.object.metadata.clone(), model.clone());
    if let Some(server) = runtime.server {
        pod::add_defaults(server, &mut metadata, &mut model);
    }
    let template = pod::of_model(&metadata, &runtime.spec.pod, predictor, &model);
    let template = template.map(|template| pod::limit_batches(template, limit));
    let unsupported =
        template.as_ref().ok().zip(runtime.server).and_then(|(t, server)| pod::unsupported_gpu(t, server));
    if let Some(message) = unsupported {
        errors.add(format!("{path}.resources"), message);
    }
    let template = template.map(|template| built(template, runtime, &model));
    let template = template.map(|template| traced(context, template, runtime.server));
    if let Ok(template) = &template {
        model_place::check(&path, runtime, predictor, template, errors);
        runtime_arguments::check(&path, runtime, template, errors);
        pods::check(pod_path, predictor, template, errors);
    }
    let used = Some((runtime.name.clone(), runtime.scope.clone()));
    let storage = storage::placed(context, predictor, given, errors);
    let template = template.map(|template| storage::annotated(template, predictor));
    let variant = checked(context, &path, (template, storage), (used, written), errors)?;
    Some(Variant {
        ready_call: ready_call(model.framework.protocol_version, &runtime.spec.protocol_versions),
        ..variant
    })
}

fn runtime<'a>(context: &Context<'a>, path: &str, model: &Model, errors: &mut ErrorList) -> Option<&'a Runtime> {
    let chosen = context.runtimes.choose(context.service.namespace(), model);
    let unserved = match chosen {
        Ok(runtime) => return Some(runtime),
        Err(unserved) => unserved,
    };
    let field = match model.runtime {
        Some(_) => "runtime",
        None => "modelFormat",
    };
    let field = format!("{path}.{field}");
    errors.add_of_runtime(field, unserved.message, Cure::Cluster);
    errors.reason.get_or_insert(unserved.reason);
    None
}

/// Returns the readiness check of a replica, from the protocols that its runtime declares and the one that the service
/// asks for. None if they leave it open: a runtime with V1 and V2 may speak only one of them, depending on its
/// configuration.
fn ready_call(asked: Option<Protocol>, declared: &[Protocol]) -> Option<ReadyCall> {
    let has = |protocol| declared.contains(&protocol);
    match asked {
        _ if declared.is_empty() => None,
        _ if !has(Protocol::V2) => Some(ReadyCall::Platform),
        Some(Protocol::V2 | Protocol::GrpcV2) => Some(ReadyCall::V2),
        None if !has(Protocol::V1) => Some(ReadyCall::V2),
        Some(Protocol::V1 | Protocol::GrpcV1) | None => None,
    }
}

fn of_containers(context: &Context<'_>, path: &str, predictor: &Predictor, errors: &mut ErrorList) -> Option<Variant> {
    let serving = storage::serving(predictor);
    let given = storage::of_containers(context, path, (predictor, serving), errors);
    let limit = component::max_batch_time(context, &predictor.component, errors);
    let template = pod::of_containers(&context.object.metadata, predictor);
    let template = template.map(|template| pod::limit_batches(template, limit));
    let template = template.map(|template| traced(context, template, None));
    if let Ok(template) = &template {
        pods::check(path, predictor, template, errors);
    }
    let storage = storage::placed(context, predictor, given, errors);
    let template = template.map(|template| storage::annotated(template, predictor));
    let written = manifest::identity(context, predictor);
    let variant = checked(context, path, (template, storage), (None, written), errors)?;
    Some(Variant { ready_call: serving.and_then(ready_call_of_container), ..variant })
}

/// Returns the readiness check of a service's own container, from the variable with its protocol.
fn ready_call_of_container(container: &Container) -> Option<ReadyCall> {
    let variables = container.env.iter().flatten();
    let mut variables = variables.filter(|variable| variable.name == PROTOCOL);
    match variables.next_back()?.value.as_deref()? {
        "v2" | "grpc-v2" => Some(ReadyCall::V2),
        _ => None,
    }
}

/// Returns a pod with the build of the server's image that fits its resources. A requested version already names its
/// build, except for Weir's own runtime, whose versions have both builds. An image set in the manifest is kept.
fn built(template: PodTemplateSpec, runtime: &Runtime, model: &Model) -> PodTemplateSpec {
    let framework = &model.framework;
    match (runtime.server, &framework.runtime_version) {
        (Some(ServerType::Weir), _) => {
            let template = match framework.container.image {
                None => pod::choose_build(template, ServerType::Weir),
                Some(_) => template,
            };
            match framework.container.command {
                None => pod::require_gpu(template, ServerType::Weir),
                Some(_) => template,
            }
        }
        (Some(server), None) => pod::choose_build(template, server),
        (Some(_), Some(_)) | (None, _) => template,
    }
}

/// Returns a pod whose servers have the tracing variables, if tracing is set.
fn traced(context: &Context<'_>, template: PodTemplateSpec, server: Option<ServerType>) -> PodTemplateSpec {
    let traced = pod::Traced { service: context.service, server };
    pod::trace(template, context.object.spec.tracing.as_ref(), &traced)
}

/// Returns the variant of a pod template and its models. If the template is invalid, the variant has no pods; it is
/// None if no runtime can be the cause.
fn checked(
    context: &Context<'_>,
    path: &str,
    (template, storage): (Result<PodTemplateSpec, String>, Vec<Storage>),
    (runtime, manifest): (Option<(String, Scope)>, ManifestIdentity),
    errors: &mut ErrorList,
) -> Option<Variant> {
    let control = control_routes(context);
    let of_runtime = runtime.as_ref().map(|_| manifest.clone());
    let variant = template.and_then(|template| {
        let template = pod::allow_control(template, control);
        let variant = Variant::new(context.service, template, storage, runtime, manifest);
        variant.map_err(|error| error.to_string())
    });
    match (variant, of_runtime) {
        (Ok(variant), _) => Some(variant),
        (Err(message), Some(manifest)) => {
            errors.add_of_runtime(path, message, Cure::Manifest);
            Variant::without_pods(context.service, manifest).ok()
        }
        (Err(message), None) => {
            errors.add(path, message);
            None
        }
    }
}

/// Returns the service's access to control routes; an invalid value is reported elsewhere.
fn control_routes(context: &Context<'_>) -> ControlRoutes {
    let set = context.object.metadata.annotations.as_ref();
    let text = set.and_then(|annotations| annotations.get(CONTROL_ROUTES));
    text.and_then(|text| annotations::control_routes(text.trim())).unwrap_or_default()
}

fn variables(path: &str, pod: &PodSpec, errors: &mut ErrorList) {
    for (i, container) in pod.containers.iter().enumerate() {
        env(&format!("{path}.containers[{i}]"), container, errors);
    }
    for (i, container) in pod.init_containers.iter().flatten().enumerate() {
        env(&format!("{path}.initContainers[{i}]"), container, errors);
    }
}

fn env(path: &str, container: &Container, errors: &mut ErrorList) {
    for (i, variable) in container.env.iter().flatten().enumerate() {
        if BLOCKED.contains(&&*variable.name) {
            let message = format!("the variable {} may not be set", variable.name);
            errors.add(format!("{path}.env[{i}]"), message);
        } else if !is_variable(&variable.name) {
            let message = format!(
                "{:?} is no name of a variable: it must have printable ASCII characters, and no `=`",
                variable.name
            );
            errors.add(format!("{path}.env[{i}].name"), message);
        }
    }
}

/// True if Kubernetes accepts the name. A process would read `A=B` as the variable A.
fn is_variable(name: &str) -> bool {
    let is_printable = |b: u8| (b' '..=b'~').contains(&b) && b != b'=';
    !name.is_empty() && name.bytes().all(is_printable)
}
