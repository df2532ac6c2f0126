//! Limits on the numbers of requests to the API server, so that these do not grow unnoticed. The limits are somewhat
//! above the counted numbers, because two reconciliations may be merged into one, or split into three.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::world::{ANY, Running, World};

/// Returns the requests since the last call, once the controller is idle.
async fn requests(controller: &Running) -> Vec<String> {
    controller.until_idle().await;
    controller.take_calls()
}

fn at_most(limit: usize, requests: &[String], what: &str) {
    let count = requests.len();
    assert!(count <= limit, "{what}: {count} requests, not {limit}: {requests:#?}");
}

#[tokio::test]
async fn a_service_a_restart_and_a_change_cost_few_requests() {
    let (world, first) = World::controlled("requests").await;
    requests(&first).await;
    world.serve("asleep", "", json!({"minReplicas": 0})).await;
    at_most(24, &requests(&first).await, "a service that sleeps");
    world.roll_out("digits", "", 1).await;
    at_most(22, &requests(&first).await, "a service");
    let made = world.made().await;
    first.kill().await;
    let next = world.controller(ANY).await;
    // The only request lists what is stored.
    at_most(1, &requests(&next).await, "a restart");
    assert_eq!(world.made().await, made);
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    // A rollout waits for as many replicas as the stable revision has, and no autoscaler runs here.
    for replicas in [2, 1] {
        let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let params = PatchParams::default();
        let scaled = deployments.patch_scale("digits-predictor-00001", &params, &scale);
        scaled.await.unwrap();
        at_most(2, &requests(&next).await, "a status");
    }
    world.serve("digits", "", json!({"labels": {"team": "a"}})).await;
    world.until_rolled_out("digits", 2).await;
    at_most(26, &requests(&next).await, "a rollout");
}

/// An edit made while no controller ran is undone by the next controller, which writes nothing else.
#[tokio::test]
async fn a_restart_undoes_an_edit_and_writes_nothing_else() {
    let (world, first) = World::controlled("requests-edited").await;
    for name in ["kept", "edited"] {
        world.roll_out(name, "", 1).await;
    }
    requests(&first).await;
    let made = world.made().await;
    first.kill().await;
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    let edit = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "kserve-container", "image": "example/other:2"}]}}}});
    deployments.patch("edited-predictor-00001", &PatchParams::default(), &Patch::Strategic(edit)).await.unwrap();
    let next = world.controller(ANY).await;
    let calls = requests(&next).await;
    let is_write = |call: &&String| !call.starts_with("GET ") && !call.ends_with("/status");
    let writes: Vec<_> = calls.iter().filter(is_write).collect();
    let path = "/apis/apps/v1/namespaces/requests-edited/deployments/edited-predictor-00001";
    assert_eq!(writes, [&format!("PATCH {path}")]);
    assert_eq!(world.made().await, made);
}
