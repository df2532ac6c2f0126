//! Environment variables of the init containers that fetch models, with KServe's names.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EnvVar, EnvVarSource, PodSpec, SecretKeySelector, Volume, VolumeMount,
};
use serde_json::Value;

use super::{FetchContext, SECRET_NAME, STORAGE_SPEC};

/// Prefix of KServe's annotations about S3.
const S3: &str = "serving.kserve.io/s3-";

/// KServe's annotations about S3, without the prefix, and their variables. KServe's own containers read the misspelled
/// `S3_USER_VIRTUAL_BUCKET`.
const S3_VARIABLES: [(&str, &[&str]); 7] = [
    ("endpoint", &["S3_ENDPOINT"]),
    ("usehttps", &["S3_USE_HTTPS"]),
    ("region", &["AWS_DEFAULT_REGION"]),
    ("verifyssl", &["S3_VERIFY_SSL"]),
    ("usevirtualbucket", &["S3_USE_VIRTUAL_BUCKET", "S3_USER_VIRTUAL_BUCKET"]),
    ("useanoncredential", &["awsAnonymousCredential"]),
    ("cabundle", &["AWS_CA_BUNDLE"]),
];

/// Variables of the serving container that a fetch gets too, because users set them for the download of the model as
/// well.
const SHARED: [&str; 11] = [
    "HF_ENDPOINT",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "STORAGE_ALLOW_PATTERNS",
    "STORAGE_IGNORE_PATTERNS",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// KServe's annotations of a pod with the key and the parameters of `model.storage`.
const STORAGE_SPEC_KEY: &str = "internal.serving.kserve.io/storage-spec-key";
const STORAGE_SPEC_PARAMETERS: &str = "internal.serving.kserve.io/storage-spec-param";

/// KServe's Secret with the settings of stores by key, and the key for pods that name none.
const STORAGE_CONFIG: &str = "storage-config";
const DEFAULT_KEY: &str = "default";

/// Directory, volume and key of the certificates of private authorities, as in KServe.
const CA_DIRECTORY: &str = "/etc/ssl/custom-certs";
const CA_VOLUME: &str = "cabundle-cert";
const CA_KEY: &str = "cabundle.crt";

/// Returns the variables of a fetch, each once, sorted by name: those of the installation, then those of the
/// ServiceAccount, the service and the serving container, of which a later one wins.
pub(super) fn variables(serving: &[EnvVar], fetch: &FetchContext<'_>) -> Vec<EnvVar> {
    let mut all: BTreeMap<String, EnvVar> = BTreeMap::new();
    let plain = |(name, value): (String, String)| EnvVar { name, value: Some(value), value_from: None };
    let of_account = of_s3(&fetch.account.annotations);
    let given = fetch.options.fetch.env.clone().into_iter().chain(of_account).chain(of_s3(fetch.annotations));
    let certificates = ca_bundle(fetch).into_iter().flat_map(of_ca_bundle);
    for variable in given.chain(certificates).map(plain).chain(of_store(fetch.annotations)) {
        all.insert(variable.name.clone(), variable);
    }
    for variable in serving.iter().filter(|variable| SHARED.contains(&&*variable.name)) {
        all.insert(variable.name.clone(), variable.clone());
    }
    all.into_values().collect()
}

/// Returns the variables that KServe's annotations about S3 stand for.
fn of_s3(annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let get = |name: &str| annotations.get(&format!("{S3}{name}")).map(|value| value.trim());
    let mut variables = BTreeMap::new();
    for (name, targets) in S3_VARIABLES {
        if let Some(value) = get(name) {
            variables.extend(targets.iter().map(|target| ((*target).to_owned(), value.to_owned())));
        }
    }
    if let Some(endpoint) = get("endpoint") {
        let scheme = if get("usehttps") == Some("0") { "http" } else { "https" };
        variables.insert("AWS_ENDPOINT_URL".to_owned(), format!("{scheme}://{endpoint}"));
    }
    variables
}

/// Returns the variables for a store that `model.storage` names. Without a key the entry `default_TYPE` or `default`
/// is used if the Secret has it.
fn of_store(annotations: &BTreeMap<String, String>) -> Vec<EnvVar> {
    if !annotations.contains_key(STORAGE_SPEC) {
        return Vec::new();
    }
    let parameters = annotations.get(STORAGE_SPEC_PARAMETERS);
    let key = annotations.get(STORAGE_SPEC_KEY);
    let secret = annotations.get(SECRET_NAME).map_or(STORAGE_CONFIG, String::as_str);
    let config = EnvVarSource {
        secret_key_ref: Some(SecretKeySelector {
            name: secret.to_owned(),
            key: key.cloned().unwrap_or_else(|| default_key(parameters)),
            optional: key.is_none().then_some(true),
        }),
        ..EnvVarSource::default()
    };
    let config = EnvVar { name: "STORAGE_CONFIG".to_owned(), value: None, value_from: Some(config) };
    let own = parameters.map(|parameters| EnvVar {
        name: "STORAGE_OVERRIDE_CONFIG".to_owned(),
        value: Some(parameters.clone()),
        value_from: None,
    });
    [config].into_iter().chain(own).collect()
}

fn default_key(parameters: Option<&String>) -> String {
    let parameters: Option<Value> = parameters.and_then(|text| serde_json::from_str(text).ok());
    let kind = parameters.as_ref().and_then(|parameters| parameters.get("type")).and_then(Value::as_str);
    kind.map_or_else(|| DEFAULT_KEY.to_owned(), |kind| format!("{DEFAULT_KEY}_{kind}"))
}

/// Returns the ConfigMap with the certificates of private authorities.
fn ca_bundle<'a>(fetch: &'a FetchContext<'_>) -> Option<&'a str> {
    let annotation = format!("{S3}cabundle-configmap");
    let of = |annotations: &'a BTreeMap<String, String>| annotations.get(&annotation);
    let named = of(fetch.annotations).or_else(|| of(&fetch.account.annotations));
    named.or(fetch.options.fetch.ca_bundle.as_ref()).map(String::as_str)
}

/// Returns the variables by which a fetch finds the certificates in this ConfigMap; KServe's own containers read the
/// last two.
fn of_ca_bundle(name: &str) -> [(String, String); 3] {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    [
        pair("AWS_CA_BUNDLE", &format!("{CA_DIRECTORY}/{CA_KEY}")),
        pair("CA_BUNDLE_CONFIGMAP_NAME", name),
        pair("CA_BUNDLE_VOLUME_MOUNT_POINT", CA_DIRECTORY),
    ]
}

/// Adds the volume with the certificates of private authorities, and returns its mount; None if there are none.
pub(super) fn mount_ca_bundle(pod: &mut PodSpec, fetch: &FetchContext<'_>) -> Option<VolumeMount> {
    let name = ca_bundle(fetch)?;
    let volumes = pod.volumes.get_or_insert_default();
    if !volumes.iter().any(|volume| volume.name == CA_VOLUME) {
        volumes.push(Volume {
            name: CA_VOLUME.to_owned(),
            config_map: Some(ConfigMapVolumeSource { name: name.to_owned(), ..ConfigMapVolumeSource::default() }),
            ..Volume::default()
        });
    }
    Some(VolumeMount {
        name: CA_VOLUME.to_owned(),
        mount_path: CA_DIRECTORY.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    })
}
