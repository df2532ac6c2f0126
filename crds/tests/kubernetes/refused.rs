//! Invalid manifests: the API server names the field, or prints the message of the rule.

use crate::kubectl::Namespace;

/// Applies an InferenceService of this name and spec, and returns the server's response.
fn service(namespace: &Namespace, name: &str, spec: &str) -> String {
    let manifest = format!(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    );
    apply(namespace, &manifest)
}

fn apply(namespace: &Namespace, manifest: &str) -> String {
    match namespace.call(&["apply", "-f", "-"], manifest) {
        Ok(output) => format!("accepted: {output}"),
        Err(error) => error,
    }
}

const MODEL: &str = "modelFormat: {name: onnx}";

fn assert_response(namespace: &Namespace, specs: &[(String, &str)]) {
    for (spec, expected) in specs {
        let response = service(namespace, "digits", spec);
        assert!(response.contains(expected), "{spec}: {response}");
    }
}

#[test]
fn rules_of_a_predictor_are_enforced() {
    let namespace = Namespace::new("refused-predictors");
    let predictor = |fields: &str| format!("{{predictor: {{{fields}, model: {{{MODEL}}}}}}}");
    let specs = [
        (predictor("minreplicas: 0"), r#"unknown field "spec.predictor.minreplicas""#),
        (predictor("minReplicas: -1"), "'MinReplicas' cannot be less than 0"),
        (predictor("minReplicas: 3, maxReplicas: 2"), "'MinReplicas' cannot be greater than MaxReplicas"),
        (predictor("containerConcurrency: -1"), "parallelism cannot be less than 0"),
        (predictor("timeout: -1"), "timeout cannot be less than 0"),
        (predictor("canaryTrafficPercent: 101"), "canaryTrafficPercent must be between 0 and 100"),
        (predictor("scaleMetric: concurency"), r#"Unsupported value: "concurency""#),
        (predictor("batcher: {maxBatchSize: 0}"), "spec.predictor.batcher.maxBatchSize"),
        (predictor("minReplicas: two"), "spec.predictor.minReplicas"),
        (predictor("onnx: {}"), "Exactly one of [sklearn"),
        ("{predictor: {minReplicas: 1}}".to_owned(), "Exactly one of [sklearn"),
        (
            "{predictor: {model: {modelFormat: {version: '1'}}}}".to_owned(),
            "spec.predictor.model.modelFormat.name: Required value",
        ),
        ("{}".to_owned(), "spec.predictor: Required value"),
    ];
    assert_response(&namespace, &specs);
}

#[test]
fn rules_of_a_canary_are_enforced() {
    let namespace = Namespace::new("refused-canaries");
    let canary = |fields: &str| {
        format!(
            "{{predictor: {{name: stable, minReplicas: 1, model: {{{MODEL}}}}}, canary: [{{trafficPercent: 5, predictor: {{{fields}model: {{{MODEL}}}}}}}]}}"
        )
    };
    let specs = [
        (canary(""), "canary predictor.name is required"),
        (canary("name: stable, "), "canary predictor.name conflicts with stable predictor name"),
        (canary("name: next, minReplicas: 2, "), "canary minReplicas must not exceed stable predictor minReplicas"),
        (canary("name: next, maxReplicas: 2, "), "canary must not set maxReplicas"),
        (canary("name: next, scaleTarget: 2, "), "canary must not set scaleTarget"),
        (canary("name: next, onnx: {}, "), "Exactly one of [sklearn"),
    ];
    assert_response(&namespace, &specs);
}

#[test]
fn a_canary_may_omit_inherited_fields() {
    let namespace = Namespace::new("short-canaries");
    let specs = ["", ", nodeSelector: {gpu: big}", ", labels: {a: b}", ", containers: [{name: proxy, image: x}]"];
    let specs = specs.map(|fields| {
        let canary = format!("[{{trafficPercent: 5, predictor: {{name: next{fields}}}}}]");
        (format!("{{predictor: {{model: {{{MODEL}}}}}, canary: {canary}}}"), "accepted")
    });
    assert_response(&namespace, &specs);
}

#[test]
fn rules_of_a_name_are_enforced() {
    let namespace = Namespace::new("refused-names");
    let spec = "{predictor: {model: {modelFormat: {name: onnx}}}}";
    let long = "a".repeat(48);
    for (name, expected) in [
        ("1digits", "must start with alphabetical character"),
        ("digits.v1", "must consist of lower case alphanumeric characters or '-'"),
        (&long, "at most 47 characters"),
    ] {
        let response = service(&namespace, name, spec);
        assert!(response.contains(expected), "{name}: {response}");
    }
    let response = service(&namespace, &long[1..], spec);
    assert!(response.ends_with("created\n"), "{response}");
}

#[test]
fn rules_of_a_runtime_are_enforced() {
    let namespace = Namespace::new("refused-runtimes");
    let runtime = |spec: &str| {
        format!(
            "apiVersion: serving.kserve.io/v1alpha1\nkind: ServingRuntime\nmetadata: {{name: mine}}\nspec: {spec}\n"
        )
    };
    let container = "containers: [{name: kserve-container, image: example/server}]";
    let priorities =
        format!("{{supportedModelFormats: [{{name: onnx, priority: 1}}, {{name: onnx, priority: 2}}], {container}}}");
    for (spec, expected) in [
        (&*priorities, "different priorities assigned for the model format"),
        ("{supportedModelFormats: []}", "spec.containers: Required value"),
    ] {
        let response = apply(&namespace, &runtime(spec));
        assert!(response.contains(expected), "{spec}: {response}");
    }
}

/// CEL rules have a cost budget. A rule that is too expensive for the largest allowed object would refuse valid
/// services.
#[test]
fn a_large_service_is_within_the_cost_budget_of_the_rules() {
    let namespace = Namespace::new("large-services");
    let canary = |i: usize| {
        let env: Vec<_> = (0..100).map(|v| format!("{{name: V{v}, value: x}}")).collect();
        format!(
            "{{trafficPercent: 1, predictor: {{name: c{i}, minReplicas: 1, model: {{modelFormat: {{name: onnx}}, env: [{}]}}}}}}",
            env.join(", ")
        )
    };
    let canaries: Vec<_> = (0..16).map(canary).collect();
    let spec = format!(
        "{{predictor: {{name: stable, minReplicas: 2, model: {{modelFormat: {{name: onnx}}}}}}, canary: [{}]}}",
        canaries.join(", ")
    );
    let response = service(&namespace, "large", &spec);
    assert!(response.ends_with("created\n"), "{response}");
}
