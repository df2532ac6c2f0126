//! Deletion of a runtime that a service uses.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use crate::api_server::until;
use crate::world::{ANY, World, condition, runtime};

const FIRST: &str = "digits-predictor-00001";

fn deployments(world: &World) -> Api<Deployment> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

/// Returns true if the status reports the loss for the newest manifest, and the predictor is as ready as before.
fn goes_on(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
        && condition(object, "RuntimeUnusable")["status"] == "True"
        && condition(object, "PredictorReady")["status"] == "True"
        && condition(object, "Ready")["reason"] != "InvalidSpec"
}

/// Waits until the Deployment of the first revision exists again, as another object.
async fn until_made_again(world: &World, before: &Deployment) {
    until("another Deployment", async || {
        let now = deployments(world).get_opt(FIRST).await.unwrap();
        now.is_some_and(|now| now.uid() != before.uid())
    })
    .await;
}

#[tokio::test]
async fn a_service_keeps_serving_without_its_runtime_and_follows_when_it_is_back() {
    let (world, controller) = World::controlled("runtime-gone").await;
    let before = world.roll_out("digits", "", 1).await;
    let made = world.made().await;
    world.delete_runtime().await;
    let reported = world.until("digits", "the condition", goes_on).await;
    let message = condition(&reported, "RuntimeUnusable")["message"].as_str();
    assert!(message.unwrap().contains("no runtime serves"), "{message:?}");
    let runtime_name = |object: &Value| object["status"]["servingRuntimeName"].clone();
    assert_eq!(runtime_name(&reported), runtime_name(&before));
    assert_eq!(world.made().await, made);
    // The next controller keeps the running revision by its stored form alone.
    controller.kill().await;
    let _next = world.controller(ANY).await;
    let deployment = deployments(&world).get(FIRST).await.unwrap();
    let params = DeleteParams::default();
    deployments(&world).delete(FIRST, &params).await.unwrap();
    until_made_again(&world, &deployment).await;
    world.serve("digits", "", json!({"maxReplicas": 3})).await;
    world.until("digits", "with other bounds", goes_on).await;
    world.until_rolled_out("digits", 1).await;
    // A change of the pod needs the runtime.
    world.serve("digits", "", json!({"labels": {"team": "a"}})).await;
    world.until("digits", "refused", |object| condition(object, "Ready")["reason"] == "InvalidSpec").await;
    assert!(deployments(&world).get_opt(FIRST).await.unwrap().is_some());
    world.apply(runtime("example/server:1", json!({}))).await;
    let back = world.until_rolled_out("digits", 2).await;
    assert!(condition(&back, "RuntimeUnusable").is_null());
}
