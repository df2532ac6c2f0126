use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_controller::{KeptObject, Runtime, Runtimes, Scope};

use super::super::request;
use super::*;

fn platform() -> Platform {
    Platform::new("example.com")
}

/// Returns a runtime of all namespaces for `pytorch`.
fn runtimes() -> Runtimes {
    let spec = json!({
        "supportedModelFormats": [{"name": "pytorch", "autoSelect": true}],
        "containers": [{"name": "kserve-container", "image": "example/server:1"}],
    });
    Runtimes::declared(vec![Runtime {
        name: "runtime".to_owned(),
        scope: Scope::Cluster,
        since: 0,
        server: None,
        spec: serde_json::from_value(spec).unwrap(),
    }])
}

fn object(name: &str, namespace: &str, predictor: Value) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"predictor": predictor},
    })
}

fn model(more: Value) -> Value {
    let mut model = json!({"modelFormat": {"name": "pytorch"}, "storageUri": "pvc://models/digits"});
    for (field, value) in more.as_object().unwrap() {
        model[field] = value.clone();
    }
    json!({ "model": model })
}

fn verdict(kind: &str, object: &Value, before: Option<&Value>) -> Verdict {
    let declaration = watch::Sender::new(Arc::new(declaration()));
    let rules = Rules::new(declaration.subscribe(), platform());
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u",
        "kind": {"group": "serving.kserve.io", "kind": kind},
        "operation": if before.is_some() { "UPDATE" } else { "CREATE" },
        "object": object,
        "oldObject": before,
    }});
    rules.verdict(&request::read(review.to_string().as_bytes()).unwrap())
}

/// Returns a declaration of one service with the host `a-b-c.example.com`.
fn declaration() -> Declaration {
    let older = object("a", "b-c", model(json!({})));
    let older: DynamicObject = serde_json::from_value(older).unwrap();
    let service = Arc::new(Service {
        name: ServiceName::new("b-c", "a").unwrap(),
        object: KeptObject::Value(object::service(&older).unwrap()),
        spans: None,
        claims: None,
        model_stamps: weir_controller::ModelStamps::new(),
    });
    let services = BTreeMap::from([(service.name.clone(), service)]);
    Declaration::new(services, runtimes(), &Declaration::default(), &platform())
}

#[test]
fn unsupported_storage_is_refused_with_what_to_write() {
    for uri in ["s3://", "gs:///m", "hf://model", "modelscope://m", "hdfs://b/m", "file://here", "pvc://claim/../x"] {
        let object = object("d", "team", model(json!({"storageUri": uri})));
        let errors = texts(&verdict("InferenceService", &object, None));
        let names_it =
            |error: &String| error.starts_with("spec.predictor.model.storageUri: storage ") && error.contains(uri);
        assert!(errors.iter().any(names_it), "{uri}: {errors:?}");
    }
    let variable = json!([{"name": "STORAGE_URI", "value": "s3://"}]);
    let own = json!([{"name": "kserve-container", "image": "a", "env": variable}]);
    let own = object("d", "team", json!({ "containers": own }));
    let [error] = &texts(&verdict("InferenceService", &own, None))[..] else {
        panic!("there is one error");
    };
    let expected = "spec.predictor.containers: STORAGE_URI: storage s3://: the URI must name a bucket";
    assert!(error.starts_with(expected), "{error}");
    let twice = object("d", "team", model(json!({"storageUri": "hdfs://r/m"})));
    assert_eq!(texts(&verdict("InferenceService", &twice, None)).len(), 1);
    for uri in ["pvc://claim", "https://host/m.zip", "file:///m", "s3://b/m", "hf://org/m", "oci+native://r/m"] {
        let object = object("d", "team", model(json!({"storageUri": uri})));
        assert_eq!(texts(&verdict("InferenceService", &object, None)), [""; 0], "{uri}");
    }
}

fn texts(verdict: &Verdict) -> Vec<String> {
    verdict.errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_valid_service_is_allowed_without_warnings() {
    let verdict = verdict("InferenceService", &object("digits", "team", model(json!({}))), None);
    assert_eq!(verdict, Verdict::default());
}

#[test]
fn every_error_is_listed_at_once() {
    let mut predictor = model(json!({"resuorces": {}, "storageUri": "ftp://x"}));
    predictor["nodeSelectr"] = json!({});
    let found = verdict("InferenceService", &object("digits", "team", predictor), None);
    let texts = texts(&found).join("\n");
    assert!(texts.contains("spec.predictor.model.resuorces: unknown field; did you mean `resources`?"), "{texts}");
    assert!(texts.contains("spec.predictor.nodeSelectr: unknown field; did you mean `nodeSelector`?"), "{texts}");
    let predictor = model(json!({"storageUri": "ftp://x", "env": [{"name": "PYTHONPATH", "value": "/x"}]}));
    let found = verdict("InferenceService", &object("digits", "team", predictor), None);
    assert_eq!(found.errors.len(), 2, "{found:?}");
}

#[test]
fn a_missing_runtime_and_a_field_without_effect_are_warnings() {
    let mut service = object("digits", "team", model(json!({"modelFormat": {"name": "pmml"}})));
    let found = verdict("InferenceService", &service, None);
    assert_eq!(found.errors, []);
    assert!(found.warnings[0].starts_with("spec.predictor.model.modelFormat: no runtime serves"), "{found:?}");
    service["spec"]["predictor"] = model(json!({}));
    service["metadata"]["annotations"] = json!({"serving.kserve.io/nodegroup": "a"});
    let found = verdict("InferenceService", &service, None);
    assert_eq!(
        found.warnings,
        ["metadata.annotations[serving.kserve.io/nodegroup] is ignored: models are not cached by node groups"]
    );
}

#[test]
fn a_host_that_an_older_service_has_is_a_warning() {
    let found = verdict("InferenceService", &object("a-b", "c", model(json!({}))), None);
    assert_eq!(found.errors, []);
    assert!(found.warnings[0].contains("host a-b-c.example.com belongs to b-c/a"), "{found:?}");
}

#[test]
fn an_invalid_service_can_still_be_labelled_and_stopped() {
    let before = object("digits", "team", model(json!({"resuorces": {}})));
    let mut after = before.clone();
    after["metadata"]["annotations"] = json!({"serving.kserve.io/stop": "true"});
    let found = verdict("InferenceService", &after, Some(&before));
    assert_eq!(found.errors, []);
    assert!(found.warnings[0].contains("resuorces"), "{found:?}");
    after["spec"]["predictor"]["minReplicas"] = 2.into();
    assert_eq!(verdict("InferenceService", &after, Some(&before)).errors.len(), 1);
}

#[test]
fn a_new_annotation_that_is_wrong_is_refused() {
    let before = object("digits", "team", model(json!({})));
    let mut after = before.clone();
    after["metadata"]["annotations"] = json!({"weir.dev/max-queue": "many"});
    let found = verdict("InferenceService", &after, Some(&before));
    assert!(texts(&found)[0].starts_with("metadata.annotations[weir.dev/max-queue]"), "{found:?}");
}

#[test]
fn a_name_that_cannot_be_served_is_refused() {
    let found = verdict("InferenceService", &object("1digits", "team", model(json!({}))), None);
    assert!(texts(&found)[0].starts_with("metadata.name"), "{found:?}");
}

#[test]
fn runtimes_are_checked_by_their_own_rules() {
    let runtime = |spec: Value| {
        json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime",
            "metadata": {"name": "runtime", "namespace": "team"}, "spec": spec})
    };
    let good = runtime(
        json!({"containers": [{"name": "kserve-container", "image": "a"}], "storageHelper": {"disabled": true}}),
    );
    let found = verdict("ServingRuntime", &good, None);
    assert_eq!(found.errors, []);
    assert_eq!(found.warnings, ["spec.storageHelper is ignored: it is for ModelMesh only"]);
    let bad = runtime(json!({"containers": [], "multiModel": true}));
    assert_eq!(verdict("ServingRuntime", &bad, None).errors.len(), 2);
    assert_eq!(verdict("ServingRuntime", &bad, Some(&bad)).errors, []);
    let unknown = runtime(json!({"containers": [{"name": "a", "imgae": "b"}]}));
    let found = verdict("ClusterServingRuntime", &unknown, None);
    assert!(texts(&found)[0].contains("imgae"), "{found:?}");
}

#[test]
fn a_pod_that_the_api_server_would_refuse_is_refused_with_its_service() {
    let resources = |written: Value| model(json!({ "resources": written }));
    let refused = |predictor: Value| {
        let object = object("digits", "team", predictor);
        texts(&verdict("InferenceService", &object, None))
    };
    let gpu = |amount: &str| json!({"limits": {"nvidia.com/gpu": amount}});
    for (predictor, part) in [
        (
            resources(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}})),
            "spec.predictor.model.resources: the container kserve-container requests 2 of cpu, and its limit is 1500m: raise",
        ),
        (resources(gpu("500m")), "asks for 500m of nvidia.com/gpu, which comes in whole units"),
        (resources(gpu("0.5")), "asks for 0.5 of nvidia.com/gpu"),
        (
            resources(json!({"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}})),
            "for a device both must be equal",
        ),
    ] {
        let found = refused(predictor);
        assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
    }
    for good in [
        resources(json!({"requests": {"cpu": "1", "memory": "1024Mi"}, "limits": {"cpu": "1000m", "memory": "1Gi"}})),
        resources(gpu("2")),
        resources(json!({"requests": {"ephemeral-storage": "1500m"}})),
    ] {
        assert_eq!(refused(good), Vec::<String>::new());
    }
}

#[test]
fn volumes_must_exist_once_and_be_mounted_at_distinct_paths() {
    let refused = |volumes: Value, mounts: Value| {
        let mut predictor = model(json!({ "volumeMounts": mounts }));
        predictor["volumes"] = volumes;
        let object = object("digits", "team", predictor);
        texts(&verdict("InferenceService", &object, None))
    };
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let cache = || json!([{"name": "cache", "emptyDir": {}}]);
    let missing = refused(json!([]), json!([mount("cache", "/cache")]));
    assert!(missing[0].contains("mounts the volume cache, which the pod does not have: add it"));
    let twice = json!([{"name": "cache", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}]);
    let twice = refused(twice, json!([]));
    assert!(twice[0].contains("two volumes are called cache"), "{twice:?}");
    let together = refused(cache(), json!([mount("cache", "/a"), mount("cache", "/a")]));
    assert!(together[0].contains("mounts two volumes at /a: remove one"), "{together:?}");
    let apart = json!([mount("cache", "/a"), mount("cache", "/b"), mount("kserve-provision-location", "/c")]);
    assert_eq!(refused(cache(), apart), Vec::<String>::new());
}

#[test]
fn labels_and_annotations_of_pods_must_have_kubernetes_syntax() {
    let refused = |field: &str, name: &str, value: &str| {
        let mut predictor = model(json!({}));
        predictor[field] = json!({ name: value });
        let found = verdict("InferenceService", &object("digits", "team", predictor), None);
        texts(&found)
    };
    for (field, name, value) in [
        ("labels", "team", "a b"),
        ("labels", "team", "-a"),
        ("labels", "team", &"a".repeat(64)),
        ("labels", "te am", "a"),
        ("labels", "Example.com/team", "a"),
        ("labels", "/team", "a"),
        ("annotations", "a/b/c", "any text at all"),
    ] {
        let found = refused(field, name, value);
        let start = format!("spec.predictor.{field}[{name}]: ");
        assert!(found.len() == 1 && found[0].starts_with(&start), "{found:?}");
    }
    for (field, name, value) in [
        ("labels", "example.com/Team_1.a", ""),
        ("labels", "team", "A-b_c.9"),
        ("annotations", "sidecar.istio.io/inject", "any text at all"),
    ] {
        assert_eq!(refused(field, name, value), Vec::<String>::new());
    }
}

#[test]
fn a_container_without_an_image_is_refused_where_it_is_written() {
    let errors = |predictor: Value| {
        let object = object("digits", "team", predictor);
        texts(&verdict("InferenceService", &object, None))
    };
    let server = json!({"containers": [{"name": "kserve-container", "command": ["serve"]}]});
    assert_eq!(
        errors(server),
        [
            "spec.predictor.containers[kserve-container].image: the container kserve-container has no image: write one, such as \
             `image: example/server:1`"
        ]
    );
    let mut beside = model(json!({}));
    beside["initContainers"] = json!([{"name": "prepare", "image": ""}]);
    let [error] = &errors(beside)[..] else {
        panic!("there is one error");
    };
    assert!(error.contains("the container prepare has no image"), "{error}");
    assert_eq!(errors(model(json!({}))), [""; 0]);
}
