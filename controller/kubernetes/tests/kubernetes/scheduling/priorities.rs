//! Priority of serving over training, by the chart's PriorityClasses.

use std::time::Duration;

use serde_json::{Value, json};

use super::{asking, of};
use crate::api_server::until;
use crate::chart::rendered;
use crate::world::{ANY, World, stays};

/// Device that only this test's node has.
const DEVICE: &str = "scheduling.example.com/npu";

/// Returns a node with two devices.
fn node() -> Value {
    let has = json!({"cpu": "96", "memory": "1Ti", "pods": "1000", DEVICE: "2"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "npu-0",
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": "npu-0", "kubernetes.io/os": "linux"},
        },
        "spec": {"taints": [{"key": "scheduling.example.com/test", "effect": "NoSchedule"}]},
        "status": {"allocatable": has, "capacity": has},
    })
}

/// Returns a training job that fills the node, as a Deployment, so that evicted pods are created again.
fn training() -> Value {
    let labels = json!({"app": "training"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "training"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "priorityClassName": "scheduling-training",
                    "terminationGracePeriodSeconds": 0,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{
                        "name": "training", "image": "example/training:1",
                        "resources": {"limits": {DEVICE: "1"}},
                    }],
                },
            },
        },
    })
}

/// Returns the UIDs of the pods with this label that have a node.
async fn placed(world: &World, label: &str) -> Vec<Value> {
    let pods = world.pods(label).await;
    let placed = pods.into_iter().filter(|pod| pod["spec"]["nodeName"].is_string());
    placed.map(|pod| pod["uid"].clone()).collect()
}

async fn until_placed(world: &World, label: &str, count: usize) -> Vec<Value> {
    let wait = async {
        loop {
            let found = placed(world, label).await;
            if found.len() == count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    match tokio::time::timeout(Duration::from_secs(60), wait).await {
        Ok(found) => found,
        Err(_) => panic!("{label}: never {count} placed: {:#?}", world.pods(label).await),
    }
}

#[tokio::test]
async fn a_model_server_preempts_training_and_is_never_preempted_by_it() {
    let world = World::new("scheduling-priorities").await;
    for class in rendered("PriorityClass", &world.namespace, &[]) {
        world.make(class).await;
    }
    world
        .make(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "scheduling-training"}, "value": 500,
        }))
        .await;
    world.make(node()).await;
    world.apply(training()).await;
    until_placed(&world, "app=training", 2).await;
    let _controller = world.controller_with_class(ANY, Some("weir-serving")).await;
    let device = json!({"limits": {DEVICE: "1"}});
    let tolerated = json!({"tolerations": [{"key": "scheduling.example.com/test", "operator": "Exists"}]});
    world.apply(asking("digits", &device, &tolerated)).await;
    world.until_rolled_out("digits", 1).await;
    let serving = until_placed(&world, &of("digits"), 1).await;
    let pods = world.pods(&of("digits")).await;
    assert_eq!(pods[0]["spec"]["priority"], 1000);
    assert_eq!(pods[0]["spec"]["nodeName"], "npu-0");
    // The preempted pod is created again, waits for a node, and does not get one.
    until_placed(&world, "app=training", 1).await;
    let mut more = training();
    more["spec"]["replicas"] = 6.into();
    world.apply(more).await;
    until("six pods", async || world.pods("app=training").await.len() >= 6).await;
    let is_preempted_by_none =
        async || placed(&world, &of("digits")).await == serving && placed(&world, "app=training").await.len() == 1;
    stays(Duration::from_secs(5), "the model server keeps its node", is_preempted_by_none).await;
    world.delete("digits").await;
    until_placed(&world, "app=training", 2).await;
}
