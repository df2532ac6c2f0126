//! Services that KServe managed before.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{ANY, World, condition, service};

/// Returns the status of a service that KServe managed by Knative.
fn status_of_kserve() -> Value {
    json!({"status": {
        "deploymentMode": "Serverless",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "LatestDeploymentReady", "status": "False", "severity": "Info"},
            {"type": "example.com/Approved", "status": "True"},
        ],
        "components": {
            "predictor": {"previousRolledoutRevision": "digits-predictor-00007"},
            "transformer": {"url": "http://digits-transformer.example.com"},
        },
        "modelStatus": {
            "transitionStatus": "BlockedByFailedLoad",
            "lastFailureInfo": {"reason": "ModelLoadFailed", "message": "long ago"},
        },
    }})
}

/// Returns the Service that KServe makes for an InferenceService without Knative.
fn service_of_kserve(uid: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "digits-predictor",
            "labels": {
                "app": "isvc.digits-predictor", "component": "predictor",
                "serving.kserve.io/inferenceservice": "digits",
            },
            "ownerReferences": [{
                "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "digits", "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "selector": {"app": "isvc.digits-predictor"},
            "ports": [{"name": "digits-predictor", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    })
}

/// Makes the objects that remain after KServe is removed.
async fn leave(world: &World) {
    let mut left = service("digits", "", json!({}));
    left["metadata"]["finalizers"] = json!(["inferenceservice.finalizers"]);
    left["metadata"]["annotations"] = json!({"serving.kserve.io/deploymentMode": "Serverless"});
    world.apply(left).await;
    let (services, params) = (world.services(), PatchParams::default());
    let status = Patch::Merge(status_of_kserve());
    let written = services.patch_status("digits", &params, &status).await;
    let uid = json!(written.unwrap().metadata.uid);
    world.apply(service_of_kserve(&uid)).await;
}

#[tokio::test]
async fn a_service_of_kserve_is_taken_over_without_leftovers_in_its_status() {
    let world = World::new("kserve-left").await;
    leave(&world).await;
    let _controller = world.controller(ANY).await;
    let object = world.until_rolled_out("digits", 1).await;
    let status = &object["status"];
    assert!(condition(&object, "LatestDeploymentReady").is_null());
    assert_eq!(condition(&object, "example.com/Approved")["status"], "True");
    let components = &status["components"];
    assert!(components["transformer"].is_null(), "{components}");
    assert!(components["predictor"]["previousRolledoutRevision"].is_null());
    assert!(status["modelStatus"]["lastFailureInfo"].is_null());
    assert_eq!(status["deploymentMode"], "Standard");
    let ignored = condition(&object, "FieldsIgnored")["message"].as_str();
    assert!(ignored.unwrap().contains("inferenceservice.finalizers"));
    let services: Api<Service> = Api::namespaced(world.client.clone(), &world.namespace);
    let alias = services.get("digits-predictor").await.unwrap();
    let alias = alias.spec.unwrap();
    assert_eq!(alias.type_.as_deref(), Some("ExternalName"));
}

#[tokio::test]
async fn a_service_with_kserves_finalizer_is_removed_except_for_its_object() {
    let world = World::new("kserve-finalizer").await;
    leave(&world).await;
    let _controller = world.controller(ANY).await;
    world.until_rolled_out("digits", 1).await;
    world.delete("digits").await;
    world.until_nothing().await;
    let services = world.services();
    let kept = services.get("digits").await.unwrap();
    assert!(kept.metadata.deletion_timestamp.is_some());
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    services.patch("digits", &params, &none).await.unwrap();
    assert!(services.get_opt("digits").await.unwrap().is_none());
}
