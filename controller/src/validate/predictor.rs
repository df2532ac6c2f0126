//! The predictor: which pod it means.

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use weir_cluster::{Storage, Workload};
use weir_crds::inference_service::{Model, Predictor};

use super::{Context, FieldError, Found, Variant, component, right};
use crate::{Runtime, Scope, pod};

/// Where a custom container says which model it wants beside it, as KServe reads it.
const STORAGE_URI: &str = "STORAGE_URI";

/// Variables that a container may not set: they would change which code the runtime loads.
const BLOCKED: [&str; 1] = ["PYTHONPATH"];

/// Schemes that a storage may have; those of KServe that Weir does not fetch are refused by name
/// elsewhere.
const SCHEMES: [&str; 13] = [
    "gs://",
    "s3://",
    "pvc://",
    "file://",
    "https://",
    "http://",
    "hf://",
    "hdfs://",
    "webhdfs://",
    "oci://",
    "oci+native://",
    "oci+fetch://",
    "modelscope://",
];

/// Reads a predictor with its defaults. None, when there is a fault that leaves no pod.
pub(super) fn read(
    context: &Context<'_>,
    path: &str,
    predictor: &Predictor,
    found: &mut Found,
) -> Option<Variant> {
    component::check(path, &predictor.component, found);
    let scaling = component::scaling(context, &predictor.component, found);
    let variant = variant(context, path, predictor, found)?;
    Some(Variant { scaling, ..variant })
}

/// Its pod and its models; the bounds are left as they are by default.
pub(super) fn variant(
    context: &Context<'_>,
    path: &str,
    predictor: &Predictor,
    found: &mut Found,
) -> Option<Variant> {
    storage_uris(path, predictor, found);
    variables(path, &predictor.pod, found);
    let containers = predictor.pod.containers.len();
    match (&predictor.model, predictor.frameworks().count(), containers) {
        (Some(model), 1, _) => of_model(context, path, predictor, model, found),
        (None, 0, 1..) => of_containers(context, path, predictor, found),
        (_, _, _) => {
            let forms = Predictor::SHORT_FORMS.join(", ");
            let because = format!(
                "Exactly one of [{forms}, model, containers] must be specified in predictor"
            );
            found.add(path, because);
            None
        }
    }
}

fn of_model(
    context: &Context<'_>,
    path: &str,
    predictor: &Predictor,
    model: &Model,
    found: &mut Found,
) -> Option<Variant> {
    let path = format!("{path}.model");
    let uri = model.framework.storage_uri.as_deref();
    if let Some(uri) = uri {
        scheme(&format!("{path}.storageUri"), uri, found);
    }
    env(&path, &model.framework.container, found);
    let runtime = runtime(context, &path, model, found)?;
    let metadata = &context.object.metadata;
    let template = pod::of_model(metadata, &runtime.spec.pod, predictor, model);
    let used = Some((runtime.name.clone(), runtime.scope.clone()));
    made(context, &path, (template, uri), used, found)
}

fn runtime<'a>(
    context: &Context<'a>,
    path: &str,
    model: &Model,
    found: &mut Found,
) -> Option<&'a Runtime> {
    let chosen = context.runtimes.choose(context.service.namespace(), model);
    let unserved = match chosen {
        Ok(runtime) => return Some(runtime),
        Err(unserved) => unserved,
    };
    let field = match model.runtime {
        Some(_) => "runtime",
        None => "modelFormat",
    };
    found.add(format!("{path}.{field}"), unserved.message);
    found.reason.get_or_insert(unserved.reason);
    None
}

fn of_containers(
    context: &Context<'_>,
    path: &str,
    predictor: &Predictor,
    found: &mut Found,
) -> Option<Variant> {
    let containers = &predictor.pod.containers;
    let serving = containers.iter().find(|c| c.name == Workload::CONTAINER);
    let serving = serving.or(containers.first());
    let wanted = serving.and_then(|container| {
        let mut variables = container.env.iter().flatten();
        let variable = variables.rfind(|variable| variable.name == STORAGE_URI);
        variable.and_then(|variable| variable.value.as_deref())
    });
    if let Some(uri) = wanted {
        scheme(&format!("{path}.containers"), uri, found);
    }
    let template = pod::of_containers(&context.object.metadata, predictor);
    made(context, path, (template, wanted), None, found)
}

/// The variant of a pod and the address of a model, unless the pod is none.
fn made(
    context: &Context<'_>,
    path: &str,
    (template, uri): (Result<PodTemplateSpec, String>, Option<&str>),
    runtime: Option<(String, Scope)>,
    found: &mut Found,
) -> Option<Variant> {
    let storage = storage(context, uri);
    let made = template.and_then(|template| {
        let variant = Variant::new(context.service, template, storage, runtime);
        variant.map_err(|error| error.to_string())
    });
    match made {
        Ok(variant) => Some(variant),
        Err(because) => {
            found.add(path, because);
            None
        }
    }
}

fn storage(context: &Context<'_>, uri: Option<&str>) -> Vec<Storage> {
    let storage = uri.map(|uri| Storage {
        uri: uri.into(),
        mount_path: Storage::MOUNT_PATH.into(),
        claims: context.claims.cloned(),
    });
    storage.into_iter().collect()
}

fn scheme(field: &str, uri: &str, found: &mut Found) {
    let known = SCHEMES.iter().any(|scheme| uri.starts_with(scheme));
    let because = format!(
        "storageUri, must be one of: [{}]. StorageUri [{uri}] is not supported",
        SCHEMES.join(", ")
    );
    found.check(right(known), field, because);
}

fn storage_uris(path: &str, predictor: &Predictor, found: &mut Found) {
    let mut models = predictor.frameworks();
    let single = models.any(|(_, model)| model.storage_uri.is_some());
    let both = single && !predictor.storage_uris.is_empty();
    let because = "storageUris and storageUri exclude each other";
    found.check(right(!both), format!("{path}.storageUris"), because);
    for (i, uri) in predictor.storage_uris.iter().enumerate() {
        let mount = uri.mount_path.as_deref().unwrap_or(Storage::MOUNT_PATH);
        let rule = mount.starts_with('/') && !mount.contains("..");
        let field = format!("{path}.storageUris[{i}].mountPath");
        found.check(
            right(rule),
            field,
            "mountPath must be absolute and without '..'",
        );
    }
}

fn variables(path: &str, pod: &PodSpec, found: &mut Found) {
    for (i, container) in pod.containers.iter().enumerate() {
        env(&format!("{path}.containers[{i}]"), container, found);
    }
    for (i, container) in pod.init_containers.iter().flatten().enumerate() {
        env(&format!("{path}.initContainers[{i}]"), container, found);
    }
}

fn env(path: &str, container: &Container, found: &mut Found) {
    let faults = container
        .env
        .iter()
        .flatten()
        .enumerate()
        .filter_map(|(i, variable)| {
            let is_blocked = BLOCKED.contains(&&*variable.name);
            let because = format!("the variable {} may not be set", variable.name);
            is_blocked.then(|| FieldError::new(format!("{path}.env[{i}]"), because))
        });
    found.list.extend(faults);
}
