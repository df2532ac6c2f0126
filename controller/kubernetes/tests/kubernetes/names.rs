//! Conflicts over names: between two services, or between a service and another owner's object.

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::world::{ANY, World, condition};

fn services(world: &World) -> Api<Service> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

/// Waits for a state of a Kubernetes Service.
async fn until(world: &World, name: &str, what: &str, is_it: impl Fn(&Service) -> bool) {
    let (services, mut last) = (services(world), None);
    let wait = async {
        loop {
            last = services.get_opt(name).await.unwrap();
            if last.as_ref().is_some_and(&is_it) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let in_time = tokio::time::timeout(world.limit, wait).await;
    assert!(in_time.is_ok(), "{name} never became: {what}\n{last:#?}");
}

fn leads_to(service: &Service) -> Option<&String> {
    service.labels().get("serving.kserve.io/inferenceservice")
}

#[tokio::test]
async fn a_service_named_like_anothers_revision_does_not_affect_it() {
    let (world, _controller) = World::controlled("names-revision").await;
    world.roll_out("digits", "1", 1).await;
    let before = world.made().await;
    world.serve("digits-predictor-00001", "1", json!({})).await;
    let refused = world
        .until("digits-predictor-00001", "refused", |object| condition(object, "Ready")["reason"] == "Refused")
        .await;
    let message = condition(&refused, "Ready")["message"].as_str().unwrap();
    assert!(message.contains(r#"is that of the InferenceService "digits": rename one of them"#), "{message}");
    let after = world.made().await;
    for (name, object) in &before {
        assert_eq!(after.get(name), Some(object), "{name}");
    }
    // The reverse case: a new revision needs the name of a service.
    world.roll_out("digits-predictor-00002", "1", 1).await;
    world.serve("digits", "2", json!({})).await;
    let held = world
        .until("digits", "kept from its next revision", |object| {
            condition(object, "RolloutComplete")["status"] != "True"
                || condition(object, "Ready")["reason"] == "Refused"
        })
        .await;
    assert!(held.to_string().contains("digits-predictor-00002"), "{held}");
    until(&world, "digits-predictor-00002", "left alone", |service| {
        service.spec.as_ref().unwrap().type_.as_deref() == Some("ExternalName")
    })
    .await;
    world.delete("digits-predictor-00002").await;
    world.until_rolled_out("digits", 2).await;
}

#[tokio::test]
async fn a_services_own_name_wins_over_anothers_alias() {
    let (world, _controller) = World::controlled("names-alias").await;
    world.roll_out("digits", "1", 1).await;
    world.roll_out("digits-predictor", "1", 1).await;
    let is_routed = |service: &Service| {
        leads_to(service).is_some_and(|name| name == "digits-predictor")
            && service.annotations().contains_key("weir.dev/route")
    };
    until(&world, "digits-predictor", "the younger's", is_routed).await;
    // The younger service keeps its route, whatever the older one does.
    world.roll_out("digits", "2", 2).await;
    let alias = services(&world).get("digits-predictor").await.unwrap();
    assert!(is_routed(&alias), "{alias:#?}");
    world.delete("digits-predictor").await;
    let is_back = |service: &Service| leads_to(service).is_some_and(|name| name == "digits");
    until(&world, "digits-predictor", "the older's again", is_back).await;
    world.serve("digits-predictor", "1", json!({})).await;
    until(&world, "digits-predictor", "the younger's", is_routed).await;
    world.delete("digits").await;
    until(&world, "digits-predictor", "the younger's still", is_routed).await;
    world.until_rolled_out("digits-predictor", 1).await;
}

#[tokio::test]
async fn a_service_begins_once_its_name_is_free() {
    let world = World::new("names-freed").await;
    let theirs = json!({"metadata": {"name": "digits"}, "spec": {"ports": [{"port": 80}]}});
    let theirs = serde_json::from_value(theirs).unwrap();
    let params = PostParams::default();
    services(&world).create(&params, &theirs).await.unwrap();
    let _controller = world.controller(ANY).await;
    world.serve("digits", "1", json!({})).await;
    world.until("digits", "refused", |object| condition(object, "Ready")["reason"] == "Refused").await;
    let params = DeleteParams::background();
    services(&world).delete("digits", &params).await.unwrap();
    world.until_rolled_out("digits", 1).await;
}
