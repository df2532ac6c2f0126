//! Quotas, Pod Security and hosts of other services: reported, and recovered from.

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::json;

use super::{asking, of};
use crate::world::{ANY, World, condition, service};

#[tokio::test]
async fn an_exhausted_gpu_quota_is_reported_until_it_is_raised() {
    let (world, _controller) = World::controlled("scheduling-quota").await;
    let quota = |gpus: &str| {
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"},
            "spec": {"hard": {"requests.nvidia.com/gpu": gpus}},
        })
    };
    world.apply(quota("1")).await;
    let gpu = json!({"limits": {"nvidia.com/gpu": "1"}});
    world.apply(asking("digits", &gpu, &json!({}))).await;
    world.until_rolled_out("digits", 1).await;
    let pods = world.pods(&of("digits")).await;
    assert_eq!(pods[0]["spec"]["nodeName"], "gpu-0");
    world.apply(asking("other", &gpu, &json!({}))).await;
    let words = ["exceeded quota: gpus", "requests.nvidia.com/gpu=1", "raise the quota"];
    world.until_not_ready("other", &words).await;
    // The first service is unaffected.
    let object = world.services().get("digits").await.unwrap();
    let object = serde_json::to_value(object).unwrap();
    assert_eq!(condition(&object, "PredictorReady")["status"], "True");
    world.apply(quota("2")).await;
    world.until_rolled_out("other", 1).await;
}

#[tokio::test]
async fn a_pod_that_a_restricted_namespace_refuses_is_reported_until_it_is_fixed() {
    let world = World::new("scheduling-restricted").await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Namespace"));
    let namespaces: Api<DynamicObject> = Api::all_with(world.client.clone(), &kind);
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let label = Patch::Merge(label);
    namespaces.patch(&world.namespace, &PatchParams::default(), &label).await.unwrap();
    let _controller = world.controller(ANY).await;
    world.apply(service("plain", "", json!({}))).await;
    world.until_rolled_out("plain", 1).await;
    let mut root = service("root", "", json!({}));
    root["spec"]["predictor"]["model"]["securityContext"] = json!({"runAsUser": 0});
    world.apply(root).await;
    let words = ["violates PodSecurity", "runAsUser", "securityContext"];
    world.until_not_ready("root", &words).await;
    world.apply(service("root", "", json!({}))).await;
    world.until_rolled_out("root", 2).await;
}

#[tokio::test]
async fn a_host_of_another_service_is_reported_until_it_is_free() {
    let (world, _controller) = World::controlled("scheduling-host").await;
    let mut older = service("digits", "", json!({}));
    let canary = service("blue", "", json!({"name": "blue"}));
    older["spec"]["canary"] = json!([{"trafficPercent": 10, "predictor": canary["spec"]["predictor"]}]);
    world.apply(older).await;
    world.until_rolled_out("digits", 1).await;
    // The canary's host is `blue-digits-…` too, and a service's own host wins over it.
    world.apply(service("blue-digits", "", json!({}))).await;
    let object = world
        .until("digits", "the conflict of the host", |object| condition(object, "HostConflict")["status"] == "True")
        .await;
    let message = condition(&object, "HostConflict")["message"].as_str().unwrap().to_owned();
    let words = "host blue-digits-scheduling-host.example.com belongs to scheduling-host/blue-digits";
    assert!(message.contains(words), "{message}");
    world.until_rolled_out("blue-digits", 1).await;
    world.delete("blue-digits").await;
    world.until("digits", "without a conflict", |object| condition(object, "HostConflict").is_null()).await;
}
