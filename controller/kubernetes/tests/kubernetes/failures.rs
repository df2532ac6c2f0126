//! Tests of the failure annotations that the controller writes for gateways.

use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::api_server;
use crate::world::{ANY, World};

/// Waits until the failure annotation of the first revision's Service satisfies `is_so`.
async fn until(world: &World, what: &str, is_so: impl Fn(Option<&str>) -> bool) {
    let services: Api<Service> = Api::namespaced(world.client.clone(), &world.namespace);
    api_server::until(what, async || {
        let service = services.get_opt("digits-predictor-00001").await.unwrap().unwrap_or_default();
        let annotations = service.metadata.annotations.unwrap_or_default();
        is_so(annotations.get("weir.dev/failures").map(String::as_str))
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_written_for_gateways_until_a_replica_is_ready() {
    let world = World::new("failures").await;
    let quotas: Api<ResourceQuota> = Api::namespaced(world.client.clone(), &world.namespace);
    let quota = json!({ "metadata": { "name": "none" }, "spec": { "hard": { "pods": "0" } } });
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let controller = world.controller(ANY).await;
    world.serve("digits", "", json!({})).await;
    until(&world, "the failure", |text| text.is_some_and(|text| text.contains("exceeded quota"))).await;
    // After a restart, the controller removes the annotation.
    controller.kill().await;
    quotas.delete("none", &Default::default()).await.unwrap();
    let _next = world.controller(ANY).await;
    world.until_rolled_out("digits", 1).await;
    until(&world, "no failure", |text| text.is_none()).await;
}
