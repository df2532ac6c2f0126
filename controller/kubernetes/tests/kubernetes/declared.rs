//! Objects that the API server accepts and Weir does not.

use std::time::Duration;

use serde_json::json;

use crate::world::{World, condition, stays};

#[tokio::test]
async fn an_object_with_an_error_keeps_its_last_valid_state_and_affects_no_other() {
    let (world, _controller) = World::controlled("unreadable").await;
    world.roll_out("digits", "", 1).await;
    let before = world.made().await;
    // The schema leaves parts of pods unchecked, so the API server accepts the unknown field.
    let affinity = json!({"nodeAfinity": {}});
    world.serve("digits", "", json!({"affinity": affinity})).await;
    let object = world.until("digits", "refused", |object| condition(object, "Ready")["reason"] == "InvalidSpec").await;
    let message = condition(&object, "Ready")["message"].as_str().unwrap();
    assert!(message.contains("nodeAfinity"), "{message}");
    assert!(message.contains("nodeAffinity"), "{message}");
    assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"]);
    assert_eq!(world.made().await, before);
    world.roll_out("other", "", 1).await;
    world.roll_out("digits", "", 1).await;
}

#[tokio::test]
async fn an_object_that_fits_no_type_is_reported_once_and_then_left_alone() {
    let (world, controller) = World::controlled("untyped").await;
    // YAML 1.1 reads a bare `y` as true, and the schema accepts it.
    let containers = json!([{"name": "kserve-container", "image": "x"}, {"name": "other", "image": true}]);
    let mut service = crate::world::service("digits", "", json!({"containers": containers}));
    let predictor = service["spec"]["predictor"].as_object_mut().unwrap();
    predictor.remove("model");
    world.apply(service).await;
    let object = world.until("digits", "refused", |object| condition(object, "Ready")["reason"] == "InvalidSpec").await;
    let message = condition(&object, "Ready")["message"].as_str().unwrap();
    assert!(message.contains("containers[1].image"), "{message}");
    controller.until_idle().await;
    controller.take_calls();
    let is_alone = async || !controller.calls().iter().any(|call| call.starts_with("PATCH"));
    stays(Duration::from_secs(4), "the object is left alone", is_alone).await;
}

#[tokio::test]
async fn a_service_without_a_runtime_starts_when_one_is_added() {
    let (world, _controller) = World::controlled("no-runtime").await;
    let mut service = crate::world::service("pmml", "", json!({}));
    service["spec"]["predictor"]["model"]["modelFormat"]["name"] = "pmml".into();
    world.apply(service).await;
    let object = world.until("pmml", "refused", |object| condition(object, "Ready")["status"] == "False").await;
    let failure = &object["status"]["modelStatus"]["lastFailureInfo"];
    assert_eq!(failure["reason"], "NoSupportingRuntime", "{failure}");
    world
        .apply(json!({
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "ServingRuntime",
            "metadata": {"name": "pmml-runtime"},
            "spec": {
                "supportedModelFormats": [{"name": "pmml", "autoSelect": true}],
                "containers": [{"name": "kserve-container", "image": "example/pmml:1"}],
            },
        }))
        .await;
    world.until_rolled_out("pmml", 1).await;
}
