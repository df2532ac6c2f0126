//! Services with a transformer or an explainer.

use serde_json::{Value, json};

use crate::world::{World, condition, service};

/// Returns a service with a transformer.
fn composed(name: &str) -> Value {
    let mut object = service(name, "", json!({}));
    object["spec"]["transformer"] = json!({"containers": [{"name": "t", "image": "example/t:1"}]});
    object
}

/// Returns the names of the objects that exist beside the predictor's.
async fn of_transformer(world: &World) -> Vec<String> {
    let made = world.made().await;
    made.keys().filter(|name| name.contains("transformer")).cloned().collect()
}

#[tokio::test]
async fn a_transformer_has_objects_of_its_own_that_end_with_the_service() {
    let (world, _controller) = World::controlled("composed").await;
    world.apply(composed("digits")).await;
    let object = world
        .until("digits", "planned", |object| {
            object["status"]["components"]["transformer"]["latestCreatedRevision"].is_string()
                && object["status"]["components"]["predictor"]["latestCreatedRevision"].is_string()
        })
        .await;
    for kind in ["PredictorReady", "TransformerReady"] {
        assert!(condition(&object, kind)["status"].is_string(), "{kind}: {object}");
    }
    assert_eq!(object["status"]["url"], "http://digits-composed.example.com");
    let url = &object["status"]["components"]["predictor"]["url"];
    assert_eq!(url, "http://digits-predictor.composed.svc.cluster.local");
    let made = world.settled().await;
    let expected = [
        "ControllerRevision digits-rollout-transformer",
        "ControllerRevision digits-transformer-00001",
        "Deployment digits-transformer-00001",
        "Service digits-transformer",
        "Service digits-transformer-00001",
    ];
    assert_eq!(of_transformer(&world).await, expected);
    assert!(made.contains_key("Deployment digits-predictor-00001"));
    for (name, object) in &made {
        assert!(object.contains(r#""owners":["digits"]"#), "{name}: {object}");
    }
    world.delete("digits").await;
    world.until_nothing().await;
}

#[tokio::test]
async fn a_removed_transformer_leaves_the_predictor_as_it_is() {
    let (world, _controller) = World::controlled("uncomposed").await;
    world.apply(composed("digits")).await;
    world.until("digits", "composed", |object| condition(object, "TransformerReady")["status"].is_string()).await;
    let before = world.settled().await;
    world.serve("digits", "", json!({})).await;
    world.until("digits", "without a transformer", |object| condition(object, "TransformerReady").is_null()).await;
    let object = world.until_rolled_out("digits", 1).await;
    assert!(object["status"]["components"]["transformer"].is_null(), "{object}");
    let after = world.settled().await;
    let deployment = "Deployment digits-predictor-00001";
    assert_eq!(before[deployment], after[deployment]);
    assert_eq!(of_transformer(&world).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_service_with_the_name_of_a_component_is_refused() {
    let (world, _controller) = World::controlled("collision").await;
    world.apply(composed("digits")).await;
    world.until("digits", "composed", |object| condition(object, "TransformerReady")["status"].is_string()).await;
    world.serve("digits-transformer", "", json!({})).await;
    let refused = world
        .until("digits-transformer", "refused", |object| condition(object, "Ready")["reason"] == "InvalidSpec")
        .await;
    let message = condition(&refused, "Ready")["message"].as_str().unwrap();
    assert!(message.contains("already uses the name digits-transformer"), "{message}");
}
