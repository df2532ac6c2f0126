//! Golden test of the objects that the controller makes for services as users write them. `UPDATE=1 make test-kube`
//! writes the golden files, which reviewers read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::api_server::until;
use crate::world::{World, condition};

/// KServe's runtimes for MLServer and Triton, with the settings that their servers need.
const RUNTIMES: &str = include_str!("golden/runtimes.yaml");

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes/golden");
    folder.join(name)
}

/// Compares a text with the golden file of this name.
fn compare(name: &str, text: &str) {
    let path = file(name);
    let is_update = std::env::var_os("UPDATE").is_some();
    if is_update {
        fs::write(&path, text).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(golden, text, "{name} is out of date: UPDATE=1 make test-kube writes it");
}

/// Returns every document of a YAML text, as JSON.
fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n").filter(|text| !text.trim().is_empty());
    documents.map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

/// Services with every form and field of KServe's samples.
const SERVICES: &str = include_str!("golden/services.yaml");

/// Reasons of the condition `Ready` of a service that is not run; the message says what to do.
const NOT_RUN: [&str; 4] = ["InvalidSpec", "Refused", "Denied", "Stopped"];

/// Conditions that do not change with time here, where no gateway runs and no claim exists.
const LASTING: [&str; 3] = ["Stopped", "HostConflict", "FieldsIgnored"];

/// Returns the pod templates of the services' revisions by name.
async fn pods(world: &World) -> BTreeMap<String, Value> {
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    let all = deployments.list(&ListParams::default()).await.unwrap();
    let pod = |deployment: Deployment| {
        let name = deployment.name_any();
        let spec = deployment.spec.unwrap();
        (name, serde_json::to_value(spec.template).unwrap())
    };
    all.into_iter().map(pod).collect()
}

#[tokio::test]
async fn kserves_runtimes_get_the_pods_that_their_servers_need() {
    let (world, _controller) = World::controlled("golden-runtimes").await;
    for runtime in documents(RUNTIMES) {
        world.apply(runtime).await;
    }
    for (name, format) in [("iris", "sklearn"), ("boost", "xgboost"), ("net", "onnx")] {
        let mut service = crate::world::service(name, "", json!({}));
        let model = &mut service["spec"]["predictor"]["model"];
        model["modelFormat"]["name"] = format.into();
        model["protocolVersion"] = "v2".into();
        model["storageUri"] = format!("pvc://models/{name}").into();
        world.apply(service).await;
    }
    let mut managed = crate::world::service("managed", "", json!({}));
    managed["spec"]["predictor"]["model"] = json!({"modelFormat": {"name": "onnx"}, "protocolVersion": "v2"});
    world.apply(managed).await;
    for name in ["iris", "boost", "net", "managed"] {
        let what = "planned";
        world
            .until(name, what, |object| {
                object["status"]["components"]["predictor"]["latestCreatedRevision"].is_string()
            })
            .await;
    }
    until("four pods", async || pods(&world).await.len() >= 4).await;
    compare("runtimes.pods.yaml", &serde_saphyr::to_string(&pods(&world).await).unwrap());
}

#[tokio::test]
async fn services_of_every_form_match_the_golden_file() {
    let (world, _controller) = World::controlled("golden-services").await;
    for runtime in documents(RUNTIMES) {
        world.apply(runtime).await;
    }
    world.apply(any_format()).await;
    let mut reported = BTreeMap::new();
    let mut taken = Vec::new();
    for service in documents(SERVICES) {
        let name = service["metadata"]["name"].as_str().unwrap().to_owned();
        match world.try_apply(service).await {
            Ok(()) => taken.push(name),
            Err(refusal) => {
                reported.insert(name, json!({ "refused by the API server": refusal }));
            }
        }
    }
    for name in taken {
        let object = world
            .until(&name, "seen by the controller", |object| {
                let seen = &object["status"]["observedGeneration"];
                seen.is_number() && *seen == object["metadata"]["generation"]
            })
            .await;
        reported.insert(name, status(&object));
    }
    let made = world.made().await;
    let pods = pods(&world).await;
    for (name, reported) in &mut reported {
        let of_service = |(id, _): &(&String, &String)| {
            let id = id.rsplit(' ').next().unwrap_or_default();
            let rest = id.strip_prefix(name.as_str()).unwrap_or_default();
            let of_component = ["-transformer", "-explainer"].iter().any(|component| rest.starts_with(component));
            id == name || rest.starts_with("-predictor-0") || of_component
        };
        let ids: Vec<_> = made.iter().filter(of_service).map(|(id, _)| id).collect();
        if !ids.is_empty() {
            reported["objects"] = json!(ids);
        }
        let first = format!("{name}-predictor-00001");
        if let Some(pod) = pods.get(&first) {
            reported["pod"] = pod.clone();
        }
        for component in ["transformer", "explainer"] {
            if let Some(pod) = pods.get(&format!("{name}-{component}-00001")) {
                reported[format!("pod of the {component}")] = pod.clone();
            }
        }
    }
    compare("services.made.yaml", &serde_saphyr::to_string(&reported).unwrap());
}

/// Returns the parts of a service's status that do not change with time.
fn status(object: &Value) -> Value {
    let status = &object["status"];
    let mut reported = json!({
        "runtime": status.get("servingRuntimeName"),
        "url": status.get("url"),
        "address": status.get("address"),
        "traffic": status["components"]["predictor"].get("traffic"),
    });
    for kind in LASTING {
        let condition = condition(object, kind);
        if condition["status"].is_string() && condition["reason"] != "Running" {
            reported[kind] = condition.get("message").cloned().unwrap_or_default();
        }
    }
    let ready = condition(object, "Ready");
    if NOT_RUN.iter().any(|reason| ready["reason"] == *reason) {
        reported[ready["reason"].as_str().unwrap_or_default()] = ready["message"].clone();
    }
    reported.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    reported
}

/// Returns a runtime for the formats that KServe's samples use.
fn any_format() -> Value {
    let formats = ["tensorflow", "pytorch", "huggingface", "pmml", "paddle"];
    let formats = formats.map(|name| json!({"name": name, "autoSelect": true}));
    json!({
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "any-format"},
        "spec": {
            "supportedModelFormats": formats,
            "containers": [{"name": "kserve-container", "image": "example/any:1", "args": ["--model_name={{.Name}}"]}],
        },
    })
}
