//! Models of a predictor: their URIs, mount paths and digests.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use weir_cluster::{PodTemplate, Storage};
use weir_crds::StorageContainer;
use weir_crds::inference_service::{Model, ModelStorage, Predictor};
use weir_fetch::without_secrets;

use super::error_list::ErrorList;
use super::{Context, component};
use crate::manifest::annotations::{
    STORAGE_CONTAINER, STORAGE_DIGEST, STORAGE_SPEC, STORAGE_SPEC_KEY, STORAGE_SPEC_PARAMETERS,
};

/// Variable of a custom container with the URI of the model to mount, as in KServe.
pub const STORAGE_URI: &str = "STORAGE_URI";

/// Schemes of storage URIs.
const SCHEMES: [&str; 10] =
    ["gs://", "s3://", "pvc://", "file://", "https://", "http://", "hf://", "oci://", "oci+native://", "oci+fetch://"];

/// Schemes for which KServe has a reader and Weir has none.
const UNREAD_SCHEMES: [&str; 5] = ["hdfs://", "webhdfs://", "git://", "ms://", "modelscope://"];

/// A model as the manifest gives it.
pub(super) struct Given<'a> {
    field: String,
    uri: Cow<'a, str>,
    mount_path: &'a str,
}

/// Returns the models of a predictor with a model format.
pub(super) fn of_model<'a>(
    context: &Context<'_>,
    path: &str,
    (predictor, model): (&'a Predictor, &'a Model),
    errors: &mut ErrorList,
) -> Vec<Given<'a>> {
    let framework = &model.framework;
    if framework.storage.is_some() && !predictor.storage_uris.is_empty() {
        errors.add(format!("{path}.storageUris"), "storageUris and model.storage exclude each other");
    }
    let given = match (&framework.storage_uri, &framework.storage) {
        (Some(uri), _) => vec![at_model_path(format!("{path}.model.storageUri"), uri.into())],
        (None, Some(storage)) => of_store(&format!("{path}.model.storage"), storage, errors).into_iter().collect(),
        (None, None) => listed(path, predictor),
    };
    check(context, predictor, &given, errors);
    given
}

/// Returns the models of a predictor with containers of its own, from their variable or from `storageUris`.
pub(super) fn of_containers<'a>(
    context: &Context<'_>,
    path: &str,
    (predictor, serving): (&'a Predictor, Option<&'a Container>),
    errors: &mut ErrorList,
) -> Vec<Given<'a>> {
    let by_variable = serving.and_then(storage_variable);
    if by_variable.is_some() && !predictor.storage_uris.is_empty() {
        let message = format!("storageUris and the variable {STORAGE_URI} exclude each other");
        errors.add(format!("{path}.storageUris"), message);
    }
    let given = match by_variable {
        Some(uri) => vec![at_model_path(format!("{path}.containers"), uri.into())],
        None => listed(path, predictor),
    };
    check(context, predictor, &given, errors);
    given
}

/// Returns the models as they are placed in the pods, with the digest that the file must have.
pub(super) fn placed(
    context: &Context<'_>,
    predictor: &Predictor,
    given: Vec<Given<'_>>,
    errors: &mut ErrorList,
) -> Vec<Storage> {
    let digest = component::storage_digest(context, &predictor.component, errors);
    if digest.is_some() && given.len() > 1 {
        let field = format!("metadata.annotations[{STORAGE_DIGEST}]");
        errors.add(field, "is for one storage URI: write #sha256:DIGEST at the end of each of the storageUris instead");
        return Vec::new();
    }
    let each = given.into_iter().map(|model| {
        let uri = with_digest(&model.uri, digest.as_deref(), errors);
        let uri = match context.model_stamps.get(&*uri) {
            Some(state) => Storage::uri_in_state(&uri, state).into(),
            None => uri.into(),
        };
        Storage { uri, mount_path: model.mount_path.into(), claims: context.claims.cloned() }
    });
    each.collect()
}

/// Checks that `storageUris` and `storageUri` exclude each other, and the mount paths.
pub(super) fn check_listed(path: &str, predictor: &Predictor, errors: &mut ErrorList) {
    let mut models = predictor.frameworks();
    let single = models.any(|(_, model)| model.storage_uri.is_some());
    if single && !predictor.storage_uris.is_empty() {
        let message = "storageUris and storageUri exclude each other";
        errors.add(format!("{path}.storageUris"), message);
    }
    let listed = predictor.storage_uris.iter();
    let paths: Vec<_> = listed.map(|uri| uri.mount_path.as_deref().unwrap_or(Storage::MOUNT_PATH)).collect();
    for (i, mount) in paths.iter().enumerate() {
        if let Some(message) = unusable(mount, &paths[..i]) {
            errors.add(format!("{path}.storageUris[{i}].mountPath"), message);
        }
    }
}

/// Returns the annotations of a pod template that say how its models are fetched. KServe's pods have the same ones.
pub(super) fn annotated(mut template: PodTemplateSpec, predictor: &Predictor) -> PodTemplateSpec {
    let storage = predictor.model.as_ref().and_then(|model| model.framework.storage.as_ref());
    let spec = storage.map(|storage| &storage.storage);
    let parameters = spec.and_then(|spec| spec.parameters.as_ref());
    let set = [
        (STORAGE_SPEC, spec.map(|_| "true".to_owned())),
        (STORAGE_SPEC_KEY, spec.and_then(|spec| spec.key.clone())),
        (STORAGE_SPEC_PARAMETERS, parameters.map(|parameters| serde_json::json!(parameters).to_string())),
        (STORAGE_CONTAINER, predictor.storage_container_name.clone()),
    ];
    let set: Vec<_> = set.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    if !set.is_empty() {
        template.metadata.get_or_insert_default().annotations.get_or_insert_default().extend(set);
    }
    template
}

/// Returns the URI in the variable [`STORAGE_URI`] of a service's own container; None for a model in a runtime.
#[must_use]
pub fn uri_of_variable(predictor: &Predictor) -> Option<&str> {
    let is_own = predictor.frameworks().next().is_none();
    serving(predictor).filter(|_| is_own).and_then(storage_variable)
}

/// Returns the URI of a model in the store that `model.storage` names; None without a path.
#[must_use]
pub fn uri_of_store(storage: &ModelStorage) -> Option<String> {
    let path = storage.storage.path.as_deref()?.trim_start_matches('/');
    let parameter = |name: &str| storage.storage.parameters.as_ref()?.get(name).map(String::as_str);
    Some(match (parameter("type"), parameter("bucket")) {
        (Some(kind), Some(bucket)) => format!("{kind}://{bucket}/{path}"),
        (Some(_), None) | (None, _) => format!("{}{path}", Storage::OF_CONFIG),
    })
}

/// Returns the container that serves among a service's own.
pub(super) fn serving(predictor: &Predictor) -> Option<&Container> {
    PodTemplate::serving(&predictor.pod.containers)
}

fn at_model_path(field: String, uri: Cow<'_, str>) -> Given<'_> {
    Given { field, uri, mount_path: Storage::MOUNT_PATH }
}

fn of_store(field: &str, storage: &ModelStorage, errors: &mut ErrorList) -> Option<Given<'static>> {
    let uri = uri_of_store(storage);
    if uri.is_none() {
        errors.add(field, "names no model: write its path in the store, or a storageUri");
    }
    Some(at_model_path(field.to_owned(), uri?.into()))
}

fn listed<'a>(path: &str, predictor: &'a Predictor) -> Vec<Given<'a>> {
    let listed = predictor.storage_uris.iter().enumerate();
    let listed = listed.map(|(i, listed)| Given {
        field: format!("{path}.storageUris[{i}].uri"),
        uri: listed.uri.as_str().into(),
        mount_path: listed.mount_path.as_deref().unwrap_or(Storage::MOUNT_PATH),
    });
    listed.collect()
}

fn storage_variable(container: &Container) -> Option<&str> {
    let mut variables = container.env.iter().flatten();
    let variable = variables.rfind(|variable| variable.name == STORAGE_URI)?;
    variable.value.as_deref()
}

/// Returns why files cannot be mounted at a path, next to those at the paths before it.
fn unusable(mount: &str, before: &[&str]) -> Option<String> {
    let plain = mount.trim_end_matches('/');
    if !mount.starts_with('/') || mount.contains("..") {
        return Some("mountPath must be absolute and without '..'".to_owned());
    }
    if plain.is_empty() {
        return Some("files cannot replace the root directory: write a directory such as /mnt/adapters".to_owned());
    }
    let same = before.iter().position(|other| other.trim_end_matches('/') == plain)?;
    Some(format!("storageUris[{same}] is mounted at {plain}, too: write another mountPath"))
}

/// Checks the URIs of all models.
fn check(context: &Context<'_>, predictor: &Predictor, given: &[Given<'_>], errors: &mut ErrorList) {
    let containers = context.runtimes.storage_containers();
    for model in given {
        let is_named = predictor.storage_container_name.is_some();
        if let Some(message) = unsupported(&model.uri, containers).filter(|_| !is_named) {
            errors.add(&*model.field, message);
        }
    }
}

/// Returns why no container fetches a URI, with what to write instead; None if one does.
fn unsupported(uri: &str, containers: &[StorageContainer]) -> Option<String> {
    let starts_with = |schemes: &[&str]| schemes.iter().any(|scheme| uri.starts_with(scheme));
    if uri.contains(char::is_control) {
        let message =
            "has a line break or another character that cannot be seen, as after `|` in YAML: write it on one line";
        return Some(message.to_owned());
    }
    let is_known = starts_with(&SCHEMES) || uri.starts_with(Storage::OF_CONFIG);
    if is_known || containers.iter().any(|container| container.supports(uri)) {
        return None;
    }
    let shown = without_secrets(uri);
    Some(if starts_with(&UNREAD_SCHEMES) {
        format!(
            "storage {shown:?} is not fetched by Weir: copy the files to a bucket or a volume and write \
             s3://BUCKET/PREFIX or pvc://CLAIM/PATH, or install a ClusterStorageContainer for this scheme"
        )
    } else {
        let advice =
            if uri.contains("://") { "" } else { ": write a path as file:///abs/path, or as pvc://CLAIM/path" };
        let schemes = SCHEMES.join(", ");
        format!("storageUri, must be one of: [{schemes}]. StorageUri [{shown}] is not supported{advice}")
    })
}

/// Appends the digest that the file must have to a storage URI, as a fetch reads it. It is part of a revision's
/// identity.
fn with_digest<'a>(uri: &'a str, digest: Option<&str>, errors: &mut ErrorList) -> Cow<'a, str> {
    let Some(digest) = digest else {
        return Cow::Borrowed(uri);
    };
    if !uri.starts_with("http://") && !uri.starts_with("https://") {
        let field = format!("metadata.annotations[{STORAGE_DIGEST}]");
        let message = format!("is for http:// and https:// storage, not for {}; remove it", without_secrets(uri));
        errors.add(field, message);
        return Cow::Borrowed(uri);
    }
    let plain = uri.split('#').next().unwrap_or(uri);
    Cow::Owned(format!("{plain}#{digest}"))
}
