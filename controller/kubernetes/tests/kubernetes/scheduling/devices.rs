//! Parts of GPUs, and devices by resource claims.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::{asking, of};
use crate::world::{World, condition};

#[tokio::test]
async fn a_mig_slice_is_placed_on_the_node_that_has_it() {
    let (world, _controller) = World::controlled("scheduling-mig").await;
    let mig = json!({"limits": {"nvidia.com/mig-1g.10gb": "1"}});
    world.apply(asking("digits", &mig, &json!({}))).await;
    world.until_rolled_out("digits", 1).await;
    let pods = world.pods(&of("digits")).await;
    assert_eq!(pods[0]["spec"]["nodeName"], "mig-0");
    let requests = &pods[0]["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(requests["nvidia.com/mig-1g.10gb"], "1");
}

#[tokio::test]
async fn a_service_on_a_shared_gpu_says_so_as_long_as_the_node_does() {
    let (world, _controller) = World::controlled("scheduling-shared").await;
    let mig = json!({"limits": {"nvidia.com/mig-1g.10gb": "1"}});
    world.apply(asking("digits", &mig, &json!({}))).await;
    world.until_rolled_out("digits", 1).await;
    let label = async |strategy: Value, pods: Value| {
        let labels = json!({
            "nvidia.com/gpu.replicas": pods,
            "nvidia.com/mig-1g.10gb.replicas": pods,
            "nvidia.com/mig-1g.10gb.sharing-strategy": strategy,
        });
        let nodes: Api<Node> = Api::all(world.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        nodes.patch("mig-0", &PatchParams::default(), &patch).await.unwrap();
    };
    label(json!("time-slicing"), json!("4")).await;
    let shared = |object: &Value| {
        let message = "digits-predictor-00001 is not isolated from other pods: each GPU of mig-0 is shared by 4 pods";
        let found = condition(object, "GpuNotIsolated");
        found["status"] == "True" && found["message"].as_str().is_some_and(|text| text.starts_with(message))
    };
    world.until("digits", "GpuNotIsolated", shared).await;
    label(Value::Null, Value::Null).await;
    world.until("digits", "no GpuNotIsolated", |object| condition(object, "GpuNotIsolated").is_null()).await;
}

#[tokio::test]
async fn a_claim_gets_a_device_and_the_next_claim_waits_for_it() {
    let (world, _controller) = World::controlled("scheduling-dra").await;
    let (class, driver) = ("one-gpu.scheduling-dra", "gpu.scheduling-dra.example.com");
    let selector = json!({"cel": {"expression": format!("device.driver == '{driver}'")}});
    world
        .make(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": class}, "spec": {"selectors": [selector]},
        }))
        .await;
    world
        .make(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": "scheduling-dra"},
            "spec": {
                "driver": driver, "nodeName": "gpu-0",
                "pool": {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            },
        }))
        .await;
    world
        .apply(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one-gpu"},
            "spec": {"spec": {"devices": {"requests": [
                {"name": "gpu", "exactly": {"deviceClassName": class, "count": 1}},
            ]}}},
        }))
        .await;
    let claims = json!({"claims": [{"name": "gpu"}]});
    let predictor = json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]});
    world.apply(asking("digits", &claims, &predictor)).await;
    world.until_rolled_out("digits", 1).await;
    let pods = world.pods(&of("digits")).await;
    assert_eq!(pods[0]["spec"]["nodeName"], "gpu-0");
    world.apply(asking("other", &claims, &predictor)).await;
    world.until_not_ready("other", &["cannot allocate all claims"]).await;
    world.delete("digits").await;
    world.until_rolled_out("other", 1).await;
}
