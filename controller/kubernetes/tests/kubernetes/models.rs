//! Fetches of models in the pods that a controller makes: credentials, stores by key, storage containers and images.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use weir_crds::ClusterStorageContainer;

use crate::world::{World, condition, service};

/// Returns the Deployment's pod of a service's first revision, once it exists.
async fn pod(world: &World, name: &str, revision: u32) -> Value {
    let name = format!("{name}-predictor-{revision:05}");
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    let exists = await_condition(deployments.clone(), &name, |found: Option<&Deployment>| found.is_some());
    tokio::time::timeout(world.limit, exists).await.unwrap().unwrap();
    json!(deployments.get(&name).await.unwrap().spec.unwrap().template.spec.unwrap())
}

/// Returns a service whose model has these fields.
fn stored(name: &str, model: Value, more: Value) -> Value {
    let mut object = service(name, "", more);
    for (field, value) in model.as_object().unwrap() {
        object["spec"]["predictor"]["model"][field] = value.clone();
    }
    object
}

fn account(secrets: &[&str]) -> Value {
    let secrets: Vec<_> = secrets.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "reader", "annotations": {"serving.kserve.io/s3-endpoint": "minio:9000"}},
        "secrets": secrets, "imagePullSecrets": [{"name": "registry"}],
    })
}

/// Returns the Secrets that the pod's volumes name.
fn secrets(pod: &Value) -> Vec<&str> {
    let volumes = pod["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| volume["secret"]["secretName"].as_str()).collect()
}

#[tokio::test]
async fn a_fetch_gets_the_secrets_of_the_service_account() {
    let (world, _controller) = World::controlled("models-account").await;
    world.apply(account(&["s3-reader"])).await;
    let more = json!({"serviceAccountName": "reader"});
    world.apply(stored("bucket", json!({"storageUri": "s3://models/digits"}), more.clone())).await;
    world.apply(stored("image", json!({"storageUri": "oci://registry.example/digits:1"}), more)).await;
    world.apply(stored("hub", json!({"storageUri": "hf://org/digits"}), json!({}))).await;
    let bucket = pod(&world, "bucket", 1).await;
    assert_eq!(secrets(&bucket), ["s3-reader"]);
    let fetch = &bucket["initContainers"][0];
    let args = ["fetch", "s3://models/digits", "/mnt/models", "--credentials", "/var/run/weir/credentials"];
    assert_eq!(fetch["args"], json!(args));
    let endpoint = json!({"name": "AWS_ENDPOINT_URL", "value": "https://minio:9000"});
    assert!(fetch["env"].as_array().unwrap().contains(&endpoint), "{fetch}");
    assert_eq!(secrets(&pod(&world, "image", 1).await), ["s3-reader", "registry"]);
    assert_eq!(secrets(&pod(&world, "hub", 1).await), [""; 0]);
}

/// A revision that was made before its account would never get the Secrets.
#[tokio::test]
async fn a_service_waits_for_its_account() {
    let (world, _controller) = World::controlled("models-account-late").await;
    let more = json!({"serviceAccountName": "reader"});
    world.apply(stored("bucket", json!({"storageUri": "s3://models/digits"}), more)).await;
    let says = |object: &Value| {
        let message = condition(object, "Ready")["message"].as_str().unwrap_or_default();
        message.contains("name the ServiceAccount \"reader\", which does not exist: create it")
    };
    world.until("bucket", "without its account", says).await;
    world.apply(account(&["s3-reader"])).await;
    assert_eq!(secrets(&pod(&world, "bucket", 1).await), ["s3-reader"]);
}

/// A changed account must not replace pods that serve, so its Secrets apply from the next revision on.
#[tokio::test]
async fn a_changed_account_counts_from_the_next_revision_on() {
    let (world, _controller) = World::controlled("models-account-change").await;
    world.apply(account(&["old"])).await;
    let of = |label: &str| {
        let more = json!({"serviceAccountName": "reader", "labels": {"version": label}});
        stored("bucket", json!({"storageUri": "s3://models/digits"}), more)
    };
    world.apply(of("a")).await;
    let first = pod(&world, "bucket", 1).await;
    world.apply(account(&["new"])).await;
    let mut scaled = of("a");
    scaled["spec"]["predictor"]["minReplicas"] = 2.into();
    world.apply(scaled).await;
    world
        .until("bucket", "processed", |object| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
        })
        .await;
    assert_eq!(pod(&world, "bucket", 1).await, first);
    world.apply(of("b")).await;
    assert_eq!(secrets(&pod(&world, "bucket", 2).await), ["new"]);
}

#[tokio::test]
async fn a_store_is_named_by_its_key() {
    let (world, _controller) = World::controlled("models-store").await;
    let storage = json!({"key": "minio", "path": "digits/3", "parameters": {"bucket": "models"}});
    world.apply(stored("keyed", json!({ "storage": storage }), json!({}))).await;
    let pod = pod(&world, "keyed", 1).await;
    let fetch = &pod["initContainers"][0];
    assert_eq!(fetch["args"][1], "<scheme-placeholder>://digits/3");
    let config = json!({
        "name": "STORAGE_CONFIG", "valueFrom": {"secretKeyRef": {"name": "storage-config", "key": "minio"}},
    });
    let own = json!({"name": "STORAGE_OVERRIDE_CONFIG", "value": r#"{"bucket":"models"}"#});
    let port = json!({"name": "WEIR_PROGRESS_PORT", "value": "9095"});
    assert_eq!(fetch["env"], json!([config, own, port]));
}

#[tokio::test]
async fn an_image_is_mounted_by_the_node() {
    let (world, _controller) = World::controlled("models-image").await;
    world.apply(stored("native", json!({"storageUri": "oci+native://registry.example/digits:1"}), json!({}))).await;
    let pod = pod(&world, "native", 1).await;
    assert_eq!(pod["volumes"][0]["image"]["reference"], "registry.example/digits:1");
    let mount = &pod["containers"][0]["volumeMounts"][0];
    assert_eq!((&mount["mountPath"], &mount["subPath"]), (&json!("/mnt/models"), &json!("models")));
    assert_eq!(pod.get("initContainers"), None);
}

/// Only this test's URIs fit its container, which all namespaces have.
#[tokio::test]
async fn a_storage_container_fetches_the_uris_that_its_formats_fit() {
    let (world, _controller) = World::controlled("models-container").await;
    let model = json!({"storageUri": "hdfs://models-container/digits"});
    world.apply(stored("hadoop", model.clone(), json!({}))).await;
    let refused =
        world.until("hadoop", "refused", |object| condition(object, "Ready")["reason"] == "InvalidSpec").await;
    let message = condition(&refused, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("is not fetched by Weir") && message.contains("ClusterStorageContainer"), "{message}");
    let all: Api<DynamicObject> =
        Api::all_with(world.client.clone(), &ApiResource::erase::<ClusterStorageContainer>(&()));
    let object = json!({
        "apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterStorageContainer",
        "metadata": {"name": "models-container"}, "disabled": false,
        "spec": {
            "container": {"name": "storage-initializer", "image": "example/hadoop:1"},
            "supportedUriFormats": [{"prefix": "hdfs://models-container/"}],
            "workloadType": "initContainer",
        },
    });
    let params = PatchParams::apply("user").force();
    all.patch("models-container", &params, &Patch::Apply(&object)).await.unwrap();
    let pod = pod(&world, "hadoop", 1).await;
    let fetch = &pod["initContainers"][0];
    assert_eq!(fetch["image"], "example/hadoop:1");
    assert_eq!(fetch["args"], json!(["hdfs://models-container/digits", "/mnt/models"]));
    all.delete("models-container", &DeleteParams::default()).await.unwrap();
}
