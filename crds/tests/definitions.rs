//! Tests of the generated files in `yaml/`. `UPDATE=1 cargo test -p weir-crds --test definitions` regenerates them from
//! the types.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use kube::CustomResourceExt;
use weir_crds::{ClusterServingRuntime, DEFINITIONS, InferenceService, ServingRuntime, storage_container_definition};

/// Maximum size in bytes of an object's annotations in Kubernetes. Client-side `kubectl apply` stores the whole
/// manifest in one annotation.
const ANNOTATIONS: usize = 256 * 1024;

const PREFACE: &str = "\
# Generated from the types of weir-crds; `make generate` rewrites it.
";

fn generated() -> [(&'static str, CustomResourceDefinition); 4] {
    [
        ("inferenceservices", InferenceService::crd()),
        ("servingruntimes", ServingRuntime::crd()),
        ("clusterservingruntimes", ClusterServingRuntime::crd()),
        ("clusterstoragecontainers", storage_container_definition()),
    ]
}

fn schema(definition: &CustomResourceDefinition) -> &JSONSchemaProps {
    let version = &definition.spec.versions[0];
    let schema = version.schema.as_ref().unwrap();
    schema.open_api_v3_schema.as_ref().unwrap()
}

#[test]
fn definitions_are_up_to_date() {
    for (name, definition) in generated() {
        let expected = format!("{PREFACE}{}", serde_saphyr::to_string(&definition).unwrap());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("yaml/{name}.yaml"));
        #[expect(clippy::disallowed_methods, reason = "UPDATE is the only switch of this test")]
        if std::env::var("UPDATE").is_ok() {
            std::fs::write(&path, &expected).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap() == expected,
            "crds/yaml/{name}.yaml is out of date: make generate rewrites it"
        );
    }
}

#[test]
fn embedded_definitions_have_the_names_of_the_types() {
    for (definition, (plural, generated)) in DEFINITIONS.iter().zip(generated()) {
        assert_eq!(generated.metadata.name.as_deref(), Some(definition.name));
        assert!(definition.name.starts_with(plural));
    }
}

#[test]
fn definitions_fit_the_annotation_of_kubectl_apply() {
    for (name, definition) in generated() {
        let kept = serde_json::to_string(&definition).unwrap().len();
        assert!(kept < ANNOTATIONS * 3 / 4, "{name}: {kept} bytes");
    }
}

/// An API server prints a warning about any other format at each `kubectl apply`.
#[test]
fn formats_are_those_that_kubernetes_knows() {
    for (name, definition) in generated() {
        let text = serde_json::to_string_pretty(&definition).unwrap();
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("\"format\": \""));
        for format in lines.filter_map(|rest| rest.split('"').next()) {
            let known = ["date-time", "double", "int32", "int64"];
            assert!(known.contains(&format), "{name}: {format}");
        }
    }
}

#[test]
fn kubectl_scale_finds_the_replicas() {
    let definition = InferenceService::crd();
    let scale = definition.spec.versions[0].subresources.as_ref().unwrap();
    let scale = scale.scale.as_ref().unwrap();
    assert_eq!(scale.spec_replicas_path, ".spec.predictor.minReplicas");
    let spec = &schema(&definition).properties.as_ref().unwrap()["spec"];
    let predictor = |schema: &JSONSchemaProps| {
        let predictor = &schema.properties.as_ref().unwrap()["predictor"];
        predictor.properties.as_ref().unwrap()["minReplicas"].clone()
    };
    assert_eq!(predictor(spec).default.unwrap().0, 1);
    let canaries = serde_json::to_value(&spec.properties.as_ref().unwrap()["canary"]).unwrap();
    let canary: JSONSchemaProps = serde_json::from_value(canaries["items"].clone()).unwrap();
    assert_eq!(predictor(&canary).default, None);
}

#[test]
fn print_columns_are_kserves_and_the_wide_output_adds_the_reason() {
    let columns = |definition: CustomResourceDefinition| {
        let columns = definition.spec.versions[0].additional_printer_columns.clone();
        let names = columns.unwrap().into_iter().map(|column| {
            let is_wide = column.priority.is_some_and(|priority| priority > 0);
            column.name + if is_wide { "+" } else { "" }
        });
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        columns(InferenceService::crd()),
        "URL Ready Prev Latest PrevRolledoutRevision LatestReadyRevision Age Reason+"
    );
    assert_eq!(columns(ServingRuntime::crd()), "Disabled ModelType Containers Age");
    assert_eq!(columns(ClusterServingRuntime::crd()), "Disabled ModelType Containers Age");
}
