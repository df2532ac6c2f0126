//! Drift: changes and deletions by hand of objects that the controller made.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::world::{World, stays};

/// Timeout until a change is undone.
const SOON: Duration = Duration::from_secs(30);

const REVISION: &str = "digits-predictor-00001";

#[tokio::test]
async fn changed_and_deleted_objects_are_restored() {
    let (world, _controller) = World::controlled("drift").await;
    world.roll_out("digits", "", 1).await;
    let before = world.made().await;
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    let services: Api<Service> = Api::namespaced(world.client.clone(), &world.namespace);
    let image = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "kserve-container", "image": "example/other:2"}]}}}});
    edit(&deployments, REVISION, image).await;
    until_as(&world, &before, "an edited image").await;
    let selector = json!({"spec": {"selector": {"weir.dev/revision": "nobody"}}});
    edit(&services, REVISION, selector).await;
    until_as(&world, &before, "an edited selector").await;
    let route = json!({"metadata": {"annotations": {"weir.dev/route": null}}});
    edit(&services, "digits", route).await;
    until_as(&world, &before, "a removed annotation").await;
    let label = "serving.kserve.io/inferenceservice";
    let labels = json!({"metadata": {"labels": {label: null}}});
    edit(&deployments, REVISION, labels).await;
    until_as(&world, &before, "a removed label").await;
    let all = json!({"metadata": {"labels": {label: null, "weir.dev/revision": null, "app.kubernetes.io/managed-by": "Helm"}}});
    for name in [REVISION, "digits"] {
        edit(&services, name, all.clone()).await;
        until_as(&world, &before, "a Service's labels").await;
    }
    edit(&deployments, REVISION, all).await;
    until_as(&world, &before, "all labels").await;
    deployments.delete(REVISION, &DeleteParams::background()).await.unwrap();
    until_as(&world, &before, "a deleted Deployment").await;
    for name in ["digits", "digits-predictor", REVISION] {
        services.delete(name, &DeleteParams::background()).await.unwrap();
        until_as(&world, &before, "a deleted Service").await;
    }
}

#[tokio::test]
async fn a_status_that_another_writer_changes_is_written_again() {
    let (world, _controller) = World::controlled("drift-status").await;
    world.roll_out("digits", "", 1).await;
    let services = world.services();
    let params = PatchParams::default();
    let other = json!({"status": {"url": "http://elsewhere", "conditions": [
        {"type": "PredictorReady", "status": "False"}]}});
    for change in [other, json!({"status": null})] {
        let change = Patch::Merge(change);
        let written = services.patch_status("digits", &params, &change).await;
        written.unwrap();
        world
            .until("digits", "as it was", |object| object["status"]["url"] == "http://digits-drift-status.example.com")
            .await;
        world.until_rolled_out("digits", 1).await;
    }
}

#[tokio::test]
async fn numbers_of_replicas_and_annotations_of_others_are_kept() {
    let (world, _controller) = World::controlled("no-drift").await;
    world.serve("digits", "", json!({"maxReplicas": 9})).await;
    world.until_rolled_out("digits", 1).await;
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    let others = json!({"spec": {"replicas": 3}, "metadata": {"annotations": {"team.example/note": "ours"}}});
    edit(&deployments, REVISION, others).await;
    let is_kept = async || {
        let deployment = deployments.get(REVISION).await.unwrap();
        let annotations = deployment.metadata.annotations.unwrap();
        deployment.spec.unwrap().replicas == Some(3) && annotations.contains_key("team.example/note")
    };
    stays(Duration::from_secs(3), "the edit is kept", is_kept).await;
}

/// Edits an object like `kubectl edit`.
async fn edit<K>(api: &Api<K>, name: &str, change: Value)
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    api.patch(name, &params, &Patch::Strategic(change)).await.unwrap();
}

async fn until_as(world: &World, before: &std::collections::BTreeMap<String, String>, after: &str) {
    let wait = async {
        while world.made().await != *before {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    if tokio::time::timeout(SOON, wait).await.is_err() {
        let now = world.made().await;
        let other = before.iter().find(|(name, object)| now.get(*name) != Some(*object));
        panic!("{after} was not put back: {other:?}, now {:?}", other.map(|(name, _)| now.get(name)));
    }
}
