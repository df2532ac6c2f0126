//! Services for tests, from a few lines of YAML.

use weir_cluster::ServiceName;
use weir_crds::{Object, read};

use crate::{ModelNames, Platform, Runtimes, Service, Validated, validate};

pub(crate) fn platform() -> Platform {
    Platform {
        domain: "example.com".to_owned(),
        model_names: ModelNames::Lead,
    }
}

/// A manifest: annotations, one a line, and what stands below `spec`.
pub(crate) fn manifest(annotations: &[(&str, &str)], spec: &str) -> String {
    let annotations = annotations.iter();
    let annotations = annotations.map(|(name, value)| format!("    {name}: {value:?}\n"));
    let annotations: String = annotations.collect();
    let annotations = match annotations.is_empty() {
        true => String::new(),
        false => format!("  annotations:\n{annotations}"),
    };
    format!(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata:\n  name: digits\n{annotations}spec:\n{spec}"
    )
}

pub(crate) fn service(annotations: &[(&str, &str)], spec: &str) -> Service {
    let manifests = read("service.yaml", &manifest(annotations, spec)).unwrap();
    let [manifest] = <[_; 1]>::try_from(manifests).unwrap();
    let Object::InferenceService(object) = manifest.object else {
        panic!("no service: {:?}", manifest.object)
    };
    Service {
        name: ServiceName::new("default", "digits").unwrap(),
        object,
        spans: Some(manifest.spans),
        claims: Some("/here".into()),
    }
}

/// What a service means that is right.
pub(crate) fn valid(annotations: &[(&str, &str)], spec: &str) -> Validated {
    let service = service(annotations, spec);
    validate(&service, &Runtimes::default(), &platform()).unwrap()
}

/// A predictor of a model: its path, and further fields of the predictor, one a line.
pub(crate) fn model(path: &str, fields: &[&str]) -> String {
    let fields: String = fields
        .iter()
        .map(|field| format!("    {field}\n"))
        .collect();
    format!(
        "  predictor:\n{fields}    model:\n      modelFormat: {{name: pytorch}}\n      storageUri: pvc://models/{path}\n"
    )
}

/// What is wrong with a service, a fault a line.
pub(crate) fn faults(annotations: &[(&str, &str)], spec: &str) -> String {
    let service = service(annotations, spec);
    match validate(&service, &Runtimes::default(), &platform()) {
        Ok(_) => String::new(),
        Err(faults) => {
            let list = faults.list.iter().map(ToString::to_string);
            list.collect::<Vec<_>>().join("\n")
        }
    }
}
