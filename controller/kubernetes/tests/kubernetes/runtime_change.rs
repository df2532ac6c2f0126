//! Changes of a runtime that services use.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::api_server::DEADLINE;
use crate::world::{ANY, World, condition, runtime, service, stays};

const SERVICES: usize = 7;

fn names() -> impl Iterator<Item = String> {
    (0..SERVICES).map(|number| format!("s{number}"))
}

async fn deployments(world: &World) -> Vec<Deployment> {
    let all: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    all.list(&ListParams::default()).await.unwrap().items
}

/// Counts the Deployments of second revisions.
async fn second(world: &World) -> usize {
    let all = deployments(world).await;
    let second = all.iter().filter(|one| one.name_any().ends_with("-00002"));
    second.count()
}

fn image(deployment: &Deployment) -> String {
    let template = &deployment.spec.as_ref().unwrap().template;
    let containers = &template.spec.as_ref().unwrap().containers;
    containers[0].image.clone().unwrap()
}

fn reason(object: &Value) -> &str {
    let complete = condition(object, "RolloutComplete");
    complete["reason"].as_str().unwrap_or_default()
}

/// Waits until this many services wait for their turn, and the others for their pods.
async fn until_waiting(world: &World, expected: usize) {
    let wait = async {
        loop {
            let mut waiting = 0;
            for name in names() {
                // The pods of the services that follow fit no node.
                let object = world
                    .until(&name, "the reason", |object| ["WaitingForTurn", "NotStarted"].contains(&reason(object)));
                waiting += usize::from(reason(&object.await) == "WaitingForTurn");
            }
            if waiting == expected {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap();
}

#[tokio::test]
async fn a_changed_runtime_rolls_four_services_and_the_others_wait_until_it_works() {
    let (world, controller) = World::controlled("runtime-roll").await;
    for name in names() {
        world.serve(&name, "", json!({})).await;
    }
    for name in names() {
        world.until_rolled_out(&name, 1).await;
    }
    let nowhere = json!({"nodeSelector": {"example.com/node": "none"}});
    world.apply(runtime("example/server:2", nowhere)).await;
    until_waiting(&world, SERVICES - 4).await;
    let others_wait = async || second(&world).await == 4;
    stays(Duration::from_secs(3), "the others wait", others_wait).await;
    // Another controller keeps the limit.
    controller.kill().await;
    let _next = world.controller(ANY).await;
    stays(Duration::from_secs(3), "the others wait after a restart", others_wait).await;
    world.apply(runtime("example/server:3", json!({}))).await;
    for name in names() {
        let rolled_out = |object: &Value| {
            let serving = &object["status"]["components"]["predictor"]["latestRolledoutRevision"];
            reason(object) == "RolledOut" && *serving != format!("{name}-predictor-00001").as_str()
        };
        world.until(&name, "rolled out anew", rolled_out).await;
    }
    let all = deployments(&world).await;
    let third = all.iter().filter(|one| image(one) == "example/server:3");
    assert_eq!(third.count(), SERVICES);
}

#[tokio::test]
async fn a_service_without_auto_update_keeps_its_runtime_until_it_is_edited() {
    let (world, _controller) = World::controlled("runtime-kept").await;
    let kept = |more: Value| {
        let mut kept = service("digits", "", more);
        kept["metadata"]["annotations"] = json!({"serving.kserve.io/disable-auto-update": "true"});
        kept
    };
    world.apply(kept(json!({}))).await;
    world.serve("other", "", json!({})).await;
    world.until_rolled_out("digits", 1).await;
    world.until_rolled_out("other", 1).await;
    world.apply(runtime("example/server:2", json!({}))).await;
    world.until_rolled_out("other", 2).await;
    world.until("digits", "kept", |object| reason(object) == "AutoUpdateDisabled").await;
    world.apply(kept(json!({"maxReplicas": 5}))).await;
    world
        .until("digits", "kept with other bounds", |object| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
                && reason(object) == "AutoUpdateDisabled"
        })
        .await;
    world.apply(kept(json!({"labels": {"team": "a"}}))).await;
    world.until_rolled_out("digits", 2).await;
    let all = deployments(&world).await;
    let second = all.iter().find(|one| one.name_any() == "digits-predictor-00002");
    assert_eq!(image(second.unwrap()), "example/server:2");
}
