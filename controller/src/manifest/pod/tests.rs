use serde_json::json;
use weir_cluster::Workload;
use weir_crds::{Object, read};

use super::*;

const RUNTIME: &str = "
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: triton}
spec:
  labels: {tier: gpu}
  nodeSelector: {gpu: a100}
  volumes: [{name: shm, emptyDir: {medium: Memory}}]
  containers:
  - name: kserve-container
    image: host:5000/triton:23
    args: [--model-store=/mnt/models, '--name={{ .Name }}', '{{.Labels.team}}']
    env: [{name: A, value: '1'}, {name: B, value: '2'}]
    resources: {limits: {cpu: '1', memory: 2Gi}}
";

fn runtime() -> RuntimePod {
    match read("runtime.yaml", RUNTIME).unwrap().remove(0).object {
        Object::ServingRuntime(runtime) => runtime.spec.pod,
        other => panic!("{other:?}"),
    }
}

fn model(value: Value) -> Model {
    let mut value = value;
    value["modelFormat"] = json!({ "name": "triton" });
    serde_json::from_value(value).unwrap()
}

fn object() -> ObjectMeta {
    serde_json::from_value(json!({ "name": "digits", "labels": { "team": "red" } })).unwrap()
}

#[test]
fn a_model_is_merged_over_its_runtime() {
    let predictor: Predictor = serde_json::from_value(json!({
        "nodeSelector": { "zone": "a" },
        "labels": { "team": "red" },
        "annotations": { "autoscaling.knative.dev/window": "30s", "note": "x" },
        "containers": [{ "name": "proxy", "image": "p" }],
    }))
    .unwrap();
    let model = model(json!({
        "runtimeVersion": "24",
        "args": ["--more"],
        "env": [{ "name": "B", "value": "3" }, { "name": "C", "value": "4" }],
        "resources": { "limits": { "cpu": "2" } },
    }));
    let template = of_model(&object(), &runtime(), &predictor, &model).unwrap();
    let found = serde_json::to_value(&template).unwrap();
    assert_eq!(
        found,
        json!({
            "metadata": {
                "labels": { "tier": "gpu", "team": "red" },
                "annotations": { "note": "x" },
            },
            "spec": {
                "nodeSelector": { "gpu": "a100", "zone": "a" },
                "volumes": [{ "name": "shm", "emptyDir": { "medium": "Memory" } }],
                "containers": [
                    {
                        "name": "kserve-container",
                        "image": "host:5000/triton:24",
                        "args": ["--model-store=/mnt/models", "--name=digits", "red", "--more"],
                        "env": [
                            { "name": "A", "value": "1" },
                            { "name": "B", "value": "3" },
                            { "name": "C", "value": "4" },
                        ],
                        "resources": { "limits": { "cpu": "2", "memory": "2Gi" } },
                    },
                    { "name": "proxy", "image": "p" },
                ],
            },
        })
    );
}

#[test]
fn an_unknown_placeholder_is_named() {
    let predictor = Predictor::default();
    let model = model(json!({ "args": ["{{.Annotations.size}}"] }));
    let error = of_model(&object(), &runtime(), &predictor, &model).unwrap_err();
    assert!(error.contains("`{{.Annotations.size}}`"), "{error}");
}

#[test]
fn braces_of_a_services_own_containers_are_no_placeholders() {
    let chat = "--chat-template={{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
    let containers = json!([{ "name": Workload::CONTAINER, "image": "x", "args": [chat] }]);
    let predictor: Predictor = serde_json::from_value(json!({ "containers": containers })).unwrap();
    let template = of_containers(&object(), &predictor).unwrap();
    assert_eq!(json!(template.spec)["containers"], containers);
    let others = json!([
        { "name": "transformer-container", "image": "t", "args": ["{{.Name}}"] },
        { "name": "proxy", "image": "p", "args": ["{{ request.path }}"] },
    ]);
    let predictor: Predictor = serde_json::from_value(json!({ "containers": others })).unwrap();
    let template = of_model(&object(), &runtime(), &predictor, &model(json!({}))).unwrap();
    let pod = json!(template.spec);
    assert_eq!(pod["containers"][1]["args"], json!(["digits"]));
    assert_eq!(pod["containers"][2], others[1]);
}

#[test]
fn a_digest_is_not_replaced_by_a_tag() {
    let mut container = json!({ "name": Workload::CONTAINER, "image": "triton@sha256:0" });
    set_tag(&mut container, "24");
    assert_eq!(container["image"], "triton@sha256:0");
    container["image"] = "host:5000/triton".into();
    set_tag(&mut container, "24");
    assert_eq!(container["image"], "host:5000/triton:24");
}

#[test]
fn labels_are_the_components_then_the_services_then_the_runtimes() {
    let mut runtime = runtime();
    let object: ObjectMeta = serde_json::from_value(json!({
        "name": "digits",
        "labels": { "tier": "of the service", "only": "of the service", "team": "of the service" },
        "annotations": { "note": "of the service", "serving.kserve.io/stop": "false" },
    }))
    .unwrap();
    runtime.labels = Some(["tier", "team", "rest"].map(|name| (name.to_owned(), "of the runtime".to_owned())).into());
    runtime.annotations =
        Some(["note", "serving.kserve.io/stop"].map(|name| (name.to_owned(), "of the runtime".to_owned())).into());
    let predictor = json!({ "labels": { "team": "of the component" } });
    let predictor: Predictor = serde_json::from_value(predictor).unwrap();
    let template = of_model(&object, &runtime, &predictor, &model(json!({}))).unwrap();
    let expected = json!({
        "labels": { "tier": "of the service", "team": "of the component", "rest": "of the runtime" },
        "annotations": { "note": "of the service", "serving.kserve.io/stop": "of the runtime" },
    });
    assert_eq!(json!(template.metadata), expected);
}

#[test]
fn the_service_wins_where_fields_exclude_each_other() {
    let mut runtime = runtime();
    let container = json!({
        "name": Workload::CONTAINER,
        "env": [
            { "name": "TOKEN", "value": "none" },
            { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "a" } } },
        ],
        "readinessProbe": { "httpGet": { "path": "/ready", "port": 8080 }, "periodSeconds": 1 },
        "livenessProbe": { "httpGet": { "path": "/live", "port": 8080 }, "periodSeconds": 9 },
    });
    runtime.containers = vec![serde_json::from_value(container).unwrap()];
    let volumes = json!([{ "name": "shm", "persistentVolumeClaim": { "claimName": "cache" } }]);
    let predictor: Predictor = serde_json::from_value(json!({ "volumes": volumes })).unwrap();
    let secret = json!({ "secretKeyRef": { "name": "s", "key": "token" } });
    let model = model(json!({
        "env": [{ "name": "TOKEN", "valueFrom": secret }, { "name": "A", "valueFrom": secret }],
        "readinessProbe": { "exec": { "command": ["ready"] } },
        "livenessProbe": { "httpGet": { "path": "/alive", "port": 8081 } },
    }));
    let template = of_model(&object(), &runtime, &predictor, &model).unwrap();
    let pod = json!(template.spec);
    assert_eq!(pod["volumes"], volumes);
    let container = &pod["containers"][0];
    let variable = |name: &str| json!({ "name": name, "valueFrom": secret });
    assert_eq!(container["env"], json!([variable("TOKEN"), variable("A")]));
    let readiness = json!({ "exec": { "command": ["ready"] }, "periodSeconds": 1 });
    assert_eq!(container["readinessProbe"], readiness);
    let liveness = json!({ "httpGet": { "path": "/alive", "port": 8081 }, "periodSeconds": 9 });
    assert_eq!(container["livenessProbe"], liveness);
}
