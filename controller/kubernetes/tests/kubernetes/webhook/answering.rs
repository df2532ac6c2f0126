//! Answers that users see when they apply objects.

use kube::api::{Api, DynamicObject};
use serde_json::json;
use weir_controller::Leadership;
use weir_crds::ServingRuntime;

use crate::api_server::until;
use crate::world::{World, condition, service};

use super::wrong;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_refused_when_objects_are_applied() {
    let world = World::new("webhook-refuses").await;
    let webhook = world.webhook(0, Leadership::Leading, world.webhook_options()).await;
    world.configure_webhook(webhook.port).await;
    world.until_checked().await;
    let mut bad = wrong("digits");
    bad["metadata"]["annotations"] = json!({"weir.dev/max-queue": "many"});
    let refused = world.try_apply(bad.clone()).await.unwrap_err();
    let sentence = "spec.predictor.affinity.nodeAfinity: unknown field; did you mean `nodeAffinity`?";
    assert!(refused.contains(sentence), "{refused}");
    bad["spec"]["predictor"].as_object_mut().unwrap().remove("affinity");
    let output = world.kubectl(&["apply"], &bad);
    assert!(output.contains("The InferenceService \"digits\" is invalid"), "{output}");
    assert!(output.contains("metadata.annotations[weir.dev/max-queue]: "), "{output}");
    let output = world.kubectl(&["apply"], &service("digits", "", json!({})));
    assert_eq!(output, "");
    let output = world.kubectl(&["apply"], &wrong("digits"));
    assert!(output.contains("nodeAfinity"), "{output}");
    world.delete("digits").await;
    let runtimes: Api<DynamicObject> = Api::namespaced_with(
        world.client.clone(),
        &world.namespace,
        &kube::api::ApiResource::erase::<ServingRuntime>(&()),
    );
    let runtime = json!({
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "many"},
        "spec": {"multiModel": true, "containers": [{"name": "kserve-container", "image": "a"}]},
    });
    let refused = world.try_apply(runtime).await.unwrap_err();
    assert!(refused.contains("spec.multiModel: not supported"), "{refused}");
    assert!(runtimes.get_opt("many").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_runtimes_and_fields_without_effect_are_warnings() {
    let world = World::new("webhook-warns").await;
    let webhook = world.webhook(0, Leadership::Leading, world.webhook_options()).await;
    world.configure_webhook(webhook.port).await;
    world.until_checked().await;
    let mut service = service("digits", "", json!({}));
    service["spec"]["predictor"]["model"]["modelFormat"]["name"] = "pmml".into();
    let output = world.kubectl(&["apply"], &service);
    assert!(output.starts_with("Warning: spec.predictor.model.modelFormat: no runtime serves"), "{output}");
    service["spec"]["predictor"]["model"]["modelFormat"]["name"] = "pytorch".into();
    service["metadata"]["annotations"] = json!({"serving.kserve.io/nodegroup": "a"});
    let output = world.kubectl(&["apply", "--server-side", "--dry-run=server"], &service);
    assert!(output.contains("Warning: metadata.annotations[serving.kserve.io/nodegroup] is ignored"), "{output}");
    let stored = world.services().get("digits").await.unwrap();
    assert_eq!(stored.data["spec"]["predictor"]["model"]["modelFormat"]["name"], "pmml");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_webhook_objects_are_admitted_and_a_condition_reports_errors() {
    let (world, _controller) = World::controlled("webhook-absent").await;
    let webhook = world.webhook(0, Leadership::Leading, world.webhook_options()).await;
    let port = webhook.port;
    world.configure_webhook(port).await;
    world.until_checked().await;
    drop(webhook);
    until("an object that passes", async || world.try_apply(wrong("digits")).await.is_ok()).await;
    let object =
        world.until("digits", "not ready", |object| condition(object, "Ready")["reason"] == "InvalidSpec").await;
    let message = condition(&object, "Ready")["message"].as_str().unwrap();
    assert!(message.contains("spec.predictor.affinity.nodeAfinity: unknown field"), "{message}");
    let _again = world.webhook(port, Leadership::Leading, world.webhook_options()).await;
    world.until_checked().await;
    // A stored service with an error can be labelled and stopped, but its spec cannot be changed to another invalid
    // one.
    let mut stopped = wrong("digits");
    stopped["metadata"]["annotations"] = json!({"serving.kserve.io/stop": "true"});
    stopped["metadata"]["labels"] = json!({"team": "a"});
    let output = world.kubectl(&["apply", "--server-side", "--force-conflicts"], &stopped);
    assert!(output.starts_with("Warning: spec.predictor.affinity.nodeAfinity"), "{output}");
    stopped["spec"]["predictor"]["minReplicas"] = 2.into();
    let refused = world.try_apply(stopped).await.unwrap_err();
    assert!(refused.contains("nodeAfinity"), "{refused}");
    world.try_apply(service("digits", "", json!({}))).await.unwrap();
    world.delete("digits").await;
    world.until_nothing().await;
}
