//! Life of a service, from its first object to its last.

use serde_json::json;

use crate::world::{World, condition};

#[tokio::test]
async fn a_service_is_created_rolled_out_and_deleted() {
    let (world, _controller) = World::controlled("lifecycle").await;
    let object = world.roll_out("digits", "", 1).await;
    assert_eq!(object["status"]["url"], "http://digits-lifecycle.example.com");
    let made = world.made().await;
    let names: Vec<_> = made.keys().map(String::as_str).collect();
    let expected = [
        "ControllerRevision digits-predictor-00001",
        "ControllerRevision digits-rollout",
        "Deployment digits-predictor-00001",
        "Service digits",
        "Service digits-predictor",
        "Service digits-predictor-00001",
    ];
    assert_eq!(names, expected);
    for (name, object) in &made {
        assert!(object.contains(r#""owners":["digits"]"#), "{name}: {object}");
    }
    world.serve("digits", "", json!({"labels": {"team": "a"}})).await;
    world.until_rolled_out("digits", 2).await;
    assert!(world.made().await.contains_key("Deployment digits-predictor-00002"));
    world.delete("digits").await;
    world.until_nothing().await;
}

#[tokio::test]
async fn a_stopped_service_continues_with_its_revision() {
    let (world, _controller) = World::controlled("stopping").await;
    world.roll_out("digits", "", 1).await;
    let mut stopped = crate::world::service("digits", "", json!({}));
    stopped["metadata"]["annotations"] = json!({"serving.kserve.io/stop": "true"});
    world.apply(stopped).await;
    world.until("digits", "stopped", |object| condition(object, "Stopped")["status"] == "True").await;
    world.roll_out("digits", "", 1).await;
}
