//! Errors in manifests and their diagnostics: file, line, column, field.

use weir_crds::read;

/// Returns the diagnostics of a text, one per line.
fn diagnose(text: &str) -> String {
    match read("service.yaml", text) {
        Ok(manifests) => format!("{} objects", manifests.len()),
        Err(diagnostics) => diagnostics
            .iter()
            .map(|diagnostic| {
                let line = diagnostic.to_string();
                line.strip_prefix("service.yaml:").unwrap_or(&line).to_owned()
            })
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

/// Returns the diagnostics of a service with this spec, which begins on line 5.
fn spec(spec: &str) -> String {
    diagnose(&format!(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {{name: digits}}\nspec:\n{spec}"
    ))
}

#[track_caller]
fn check(found: &str, expected: &str) {
    assert_eq!(found, expected.trim_start_matches('\n'), "\n{found}");
}

#[test]
fn an_unknown_field_has_a_suggestion() {
    check(
        &spec(
            "  predictor:
    minreplicas: 0
    model:
      modelFormat: {name: pytorch}
      storageURI: pvc://models/digits
      colour: red
",
        ),
        "
6:5: spec.predictor.minreplicas: unknown field; did you mean `minReplicas`?
9:7: spec.predictor.model.storageURI: unknown field; did you mean `storageUri`?
10:7: spec.predictor.model.colour: unknown field",
    );
}

#[test]
fn a_tab_is_reported_with_advice() {
    check(
        &spec("\tpredictor:\n    minReplicas: 0\n"),
        "5:2: tabs disallowed within this context (block indentation): use spaces instead of tabs",
    );
}

#[test]
fn a_misplaced_field_has_its_right_path() {
    check(
        &spec(
            "  minReplicas: 0
  predictor:
    storageUri: pvc://models/digits
    model:
      modelFormat: {name: pytorch}
      maxReplicas: 3
",
        ),
        "
5:3: spec.minReplicas: unknown field; did you mean `spec.predictor.minReplicas`?
7:5: spec.predictor.storageUri: unknown field; did you mean `spec.predictor.model.storageUri`?
10:7: spec.predictor.model.maxReplicas: unknown field; did you mean `spec.predictor.maxReplicas`?",
    );
}

#[test]
fn fields_of_kubernetes_types_are_checked_too() {
    check(
        &spec(
            "  predictor:
    contaners: []
    tolerations:
    - key: nvidia.com/gpu
      opertor: Exists
    containers:
    - name: kserve-container
      image: example/server
      resources:
        limits: {nvidia.com/gpu: one, memory: 4GB, cpu: 0.5}
      readinessProbe:
        httpGet: {path: /ready, port: [8080]}
    - image: example/proxy
    volumes:
    - name: cache
      emptyDir: {medum: Memory}
",
        ),
        "
6:5: spec.predictor.contaners: unknown field; did you mean `containers`?
9:7: spec.predictor.tolerations[0].opertor: unknown field; did you mean `operator`?
14:34: spec.predictor.containers[0].resources.limits[nvidia.com/gpu]: `one` is not a quantity, such as 2, 500m or 4Gi
14:47: spec.predictor.containers[0].resources.limits.memory: `4GB` is not a quantity, such as 2, 500m or 4Gi
16:39: spec.predictor.containers[0].readinessProbe.httpGet.port: expected an integer or text, found a list
17:7: spec.predictor.containers[1].name: required field is missing
20:18: spec.predictor.volumes[0].emptyDir.medum: unknown field; did you mean `medium`?",
    );
}

#[test]
fn a_value_of_another_type_names_the_expected_type() {
    check(
        &spec(
            "  predictor:
    minReplicas: two
    maxReplicas: 1.5
    containerConcurrency: [1]
    labels: [team]
    hostIPC: maybe
    sklearn: here
    model:
      modelFormat: {name: 1}
      env:
      - name: DEBUG
        value: on
      - name: LEVEL
        value: 3
      args: --verbose
",
        ),
        "
6:18: spec.predictor.minReplicas: expected an integer, found the text `two`
7:18: spec.predictor.maxReplicas: expected an integer, found the number `1.5`
8:27: spec.predictor.containerConcurrency: expected an integer, found a list
9:13: spec.predictor.labels: expected a mapping, found a list
10:14: spec.predictor.hostIPC: expected true or false, found the text `maybe`
11:14: spec.predictor.sklearn: expected a mapping, found the text `here`
13:27: spec.predictor.model.modelFormat.name: expected text, found the number `1`; put it in quotes
16:16: spec.predictor.model.env[0].value: expected text, found the boolean `on`; put it in quotes
18:16: spec.predictor.model.env[1].value: expected text, found the number `3`; put it in quotes
19:13: spec.predictor.model.args: expected a list, found the text `--verbose`",
    );
}

#[test]
fn a_word_must_be_an_allowed_one() {
    check(
        &spec(
            "  predictor:
    scaleMetric: concurency
    logger: {mode: none}
    model:
      modelFormat: {name: onnx}
      protocolVersion: v3
",
        ),
        "
6:18: spec.predictor.scaleMetric: `concurency` is not one of cpu, memory, concurrency, rps; did you mean `concurrency`?
7:20: spec.predictor.logger.mode: `none` is not one of all, request, response
10:24: spec.predictor.model.protocolVersion: `v3` is not one of v1, v2, grpc-v1, grpc-v2; did you mean `v1`?",
    );
}

#[test]
fn a_number_must_be_within_its_bounds() {
    check(
        &spec(
            "  predictor:
    minReplicas: 3000000000
    batcher: {maxBatchSize: 0}
    triton: {storageUri: pvc://models}
  canary:
  - predictor: {name: next, triton: {}}
    trafficPercent: 101
",
        ),
        "
6:18: spec.predictor.minReplicas: 3000000000 is not between -2147483648 and 2147483647
7:29: spec.predictor.batcher.maxBatchSize: 0 is not between 1 and 2147483647
11:21: spec.canary[0].trafficPercent: 101 is not between 0 and 100",
    );
}

#[test]
fn missing_required_fields_are_reported() {
    check(
        &spec(
            "  predictor:
    model:
      modelFormat: {version: '1'}
  canary:
  - predictor: {name: next}
",
        ),
        "
7:20: spec.predictor.model.modelFormat.name: required field is missing
9:5: spec.canary[0].trafficPercent: required field is missing",
    );
    check(
        &diagnose("apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {}\n"),
        "
1:1: spec: required field is missing
3:11: metadata.name: required field is missing",
    );
    check(
        &diagnose(
            "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata:\n  name: a\nspec:\n  predictor:\n",
        ),
        "
6:3: spec.predictor: required field is missing",
    );
}

#[test]
fn a_duplicate_key_is_refused() {
    check(
        &spec(
            "  predictor:
    minReplicas: 1
    model: {modelFormat: {name: onnx}}
    minReplicas: 2
",
        ),
        "
8:5: `minReplicas` is given twice; the first is on line 6",
    );
}

#[test]
fn kinds_are_known_or_refused_by_name() {
    let kind = |version: &str, kind: &str| {
        diagnose(&format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{}}\n"))
    };
    let known = "Weir knows InferenceService in serving.kserve.io/v1beta1, ServingRuntime, \
                 ClusterServingRuntime and ClusterStorageContainer in serving.kserve.io/v1alpha1";
    check(
        &kind("serving.kserve.io/v1beta1", "InferenceServce"),
        &format!(
            "2:7: kind: no `InferenceServce` in `serving.kserve.io/v1beta1`; {known}; did you mean `InferenceService`?"
        ),
    );
    check(
        &kind("serving.kubeflow.org/v1beta1", "InferenceService"),
        &format!("2:7: kind: no `InferenceService` in `serving.kubeflow.org/v1beta1`; {known}"),
    );
    check(
        &kind("serving.kserve.io/v1beta1", "ServingRuntime"),
        &format!("2:7: kind: no `ServingRuntime` in `serving.kserve.io/v1beta1`; {known}"),
    );
    check(
        &kind("serving.kserve.io/v1alpha1", "InferenceGraph"),
        "2:7: kind: KServe's `InferenceGraph` is not supported by Weir",
    );
    for (version, other) in [
        ("v1", "ConfigMap"),
        ("v1", "PersistentVolumeClaim"),
        ("v1", "Service"),
        ("apps/v1", "Deployment"),
        ("serving.knative.dev/v1", "Service"),
    ] {
        check(&kind(version, other), "1 objects");
    }
}

#[test]
fn a_document_must_be_an_object() {
    check(
        &diagnose("- a\n- b\n---\nkind: Service\n---\napiVersion: v1\n---\n# nothing\n"),
        "
1:1: expected a mapping with apiVersion and kind, found a list
4:1: apiVersion: required field is missing
6:1: kind: required field is missing",
    );
}

#[test]
fn broken_yaml_does_not_hide_the_next_document() {
    check(
        &diagnose(
            "apiVersion: v1
kind: ConfigMap
metadata: {name: a
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: b}
spec: {predictr: {}}
",
        ),
        "
3:11: unclosed bracket '{'
8:8: spec.predictr: unknown field; did you mean `predictor`?",
    );
}

#[test]
fn yaml_without_meaning_is_refused() {
    check(
        &diagnose(
            "apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  [1, 2]: pair
  infinite: .inf
  tagged: !secret x
",
        ),
        "
5:3: a key must be a word, not a list
6:13: JSON has no number `.inf`
7:19: the tag `!secret` is not supported",
    );
    check(&diagnose("a: *missing\n"), "1:4: no anchor `&missing` above");
}

#[test]
fn aliases_of_aliases_are_bounded() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..9 {
        let item = format!("*a{}", i - 1);
        text.push_str(&format!("a{i}: &a{i} [{}]\n", [&*item; 10].join(", ")));
    }
    let found = diagnose(&text);
    assert!(found.ends_with("more than 1000000 values in one file"), "{found}");
}

#[test]
fn depth_is_bounded() {
    let flow = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
    let first_line = |text: &str| diagnose(text).lines().next().unwrap_or_default().to_owned();
    assert_eq!(first_line(&flow), "1:104: nested more than 100 levels deep");
    let nest = |inner: &str| format!("{}{inner}{}", "[".repeat(60), "]".repeat(60));
    let aliases = format!("a: &a {}\nb: {}\n", nest("x"), nest("*a"));
    assert_eq!(first_line(&aliases), "2:64: nested more than 100 levels deep");
}

#[test]
fn anchors_merge_and_lists_are_read() {
    check(
        &diagnose(
            "apiVersion: v1
kind: List
items:
- apiVersion: serving.kserve.io/v1beta1
  kind: InferenceService
  metadata: {name: a, creationTimestamp: null}
  spec:
    predictor: &predictor
      minReplicas: 0
      model: {modelFormat: {name: onnx}, storageUri: pvc://models/a}
  status: {anything: goes}
- apiVersion: serving.kserve.io/v1beta1
  kind: InferenceService
  metadata: {name: b}
  spec:
    predictor:
      <<: *predictor
      minReplicas: 1
",
        ),
        "2 objects",
    );
}

#[test]
fn lists_of_one_kind_are_read_as_the_api_server_prints_them() {
    let list = "apiVersion: serving.kserve.io/v1beta1
kind: InferenceServiceList
metadata: {resourceVersion: '7'}
items:
- apiVersion: serving.kserve.io/v1beta1
  kind: InferenceService
  metadata: {name: a}
  spec: {predictor: {model: {modelFormat: {name: onnx}, storageUri: pvc://models/a}}}
";
    check(&diagnose(list), "1 objects");
    let runtimes = list.replace("InferenceServiceList", "ServingRuntimeList");
    assert!(diagnose(&runtimes).contains("no `ServingRuntimeList` in `serving.kserve.io/v1beta1`"));
}

#[test]
fn a_list_has_items() {
    let list = |kind: &str, items: &str| diagnose(&format!("{kind}\nmetadata: {{}}\n{items}"));
    for kind in ["apiVersion: v1\nkind: List", "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceServiceList"] {
        check(&list(kind, ""), "1:1: items: required field is missing");
        check(&list(kind, "items: {kind: InferenceService}\n"), "4:8: items: expected a list, found a mapping");
        check(&list(kind, "items: none\n"), "4:8: items: expected a list, found the text `none`");
        check(&list(kind, "items: [a]\n"), "4:9: expected a mapping with apiVersion and kind, found the text `a`");
        check(&list(kind, "items: []\n"), "0 objects");
        check(&list(kind, "items:\n"), "0 objects");
    }
}

#[test]
fn a_probe_needs_no_port() {
    let text = "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: digits}
spec:
  predictor:
    model:
      modelFormat: {name: pytorch}
      readinessProbe: {httpGet: {path: /v2/health/ready}}
      livenessProbe: {tcpSocket: {}}
      startupProbe: {grpc: {service: s}}
";
    assert!(weir_crds::read("probes.yaml", text).is_ok());
}
