//! Services for tests, made from a few lines of YAML.

use weir_cluster::{Identity, ServiceName};
use weir_crds::{Object, read};

use crate::manifest::service::{KeptObject, ModelStamps, Service};
use crate::manifest::validate::{Platform, Validated, validate};
use crate::runtimes::Runtimes;

/// A canary with 30 percent, to append to a predictor.
pub(crate) const CANARY: &str = "  canary:
  - trafficPercent: 30
    predictor: {name: blue, model: {modelFormat: {name: pytorch}, storageUri: pvc://models/blue}}
";

pub(crate) fn platform() -> Platform {
    Platform { routes_model_names: true, ..Platform::new("example.com") }
}

/// Returns a manifest with these annotations and this text below `spec`.
pub(crate) fn manifest(annotations: &[(&str, &str)], spec: &str) -> String {
    let annotations = annotations.iter();
    let annotations = annotations.map(|(name, value)| format!("    {name}: {value:?}\n"));
    let mut annotations: String = annotations.collect();
    if !annotations.is_empty() {
        annotations.insert_str(0, "  annotations:\n");
    }
    format!(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata:\n  name: digits\n{annotations}spec:\n{spec}"
    )
}

pub(crate) fn service(annotations: &[(&str, &str)], spec: &str) -> Service {
    let manifests = read("service.yaml", &manifest(annotations, spec)).unwrap();
    let [manifest] = <[_; 1]>::try_from(manifests).unwrap();
    let Object::InferenceService(object) = manifest.object else { panic!("no service: {:?}", manifest.object) };
    Service {
        name: ServiceName::new("default", "digits").unwrap(),
        object: KeptObject::Value(object),
        spans: Some(manifest.spans),
        claims: Some("/here".into()),
        model_stamps: ModelStamps::new(),
    }
}

/// Returns a validated service; panics on errors.
pub(crate) fn validated(annotations: &[(&str, &str)], spec: &str) -> Validated {
    let service = service(annotations, spec);
    validate(&service, &Runtimes::default(), &platform()).unwrap()
}

/// Returns a predictor with a model at this path, and further fields of the predictor, one per line.
pub(crate) fn model(path: &str, fields: &[&str]) -> String {
    let fields: String = fields.iter().map(|field| format!("    {field}\n")).collect();
    format!(
        "  predictor:\n{fields}    model:\n      modelFormat: {{name: pytorch}}\n      storageUri: pvc://models/{path}\n"
    )
}

/// Returns the validation errors of a service, one per line.
pub(crate) fn errors(annotations: &[(&str, &str)], spec: &str) -> String {
    let service = service(annotations, spec);
    match validate(&service, &Runtimes::default(), &platform()) {
        Ok(_) => String::new(),
        Err(errors) => {
            let list = errors.list.iter().map(ToString::to_string);
            list.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Gives a service different pods with this hash, as a changed runtime does.
pub(crate) fn change_pods(validated: &mut Validated, hash: &str) {
    let mut template = validated.predictor.template.read();
    let metadata = template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.insert("runtime".to_owned(), hash.to_owned());
    validated.predictor.template = template.into();
    validated.predictor.identity = Identity::from_label(hash);
}
