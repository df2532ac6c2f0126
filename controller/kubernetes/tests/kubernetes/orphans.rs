//! Services deleted with `--cascade=orphan`, so that their objects stay.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PropagationPolicy};

use crate::api_server::until;
use crate::world::{ANY, World};

/// Returns the objects of the service `digits`: the UID of each, which distinguishes it from a later one of its name,
/// and the UIDs of its owners.
async fn objects(world: &World) -> Vec<(String, Vec<String>)> {
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    let services: Api<Service> = Api::namespaced(world.client.clone(), &world.namespace);
    let deployment = deployments.get("digits-predictor-00001").await.unwrap();
    let mut objects = vec![described(&deployment)];
    for name in ["digits", "digits-predictor", "digits-predictor-00001"] {
        objects.push(described(&services.get(name).await.unwrap()));
    }
    objects
}

fn described(object: &impl ResourceExt) -> (String, Vec<String>) {
    let owners = object.owner_references().iter();
    let owners = owners.map(|owner| owner.uid.clone()).collect();
    (object.uid().unwrap(), owners)
}

fn uids(objects: &[(String, Vec<String>)]) -> Vec<&str> {
    objects.iter().map(|(uid, _)| &**uid).collect()
}

/// Waits until the controller has made another service, so that everything due before is done.
async fn after_another(world: &World, name: &str) {
    world.roll_out(name, "1", 1).await;
}

async fn delete_as_orphan(world: &World) {
    let params = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    world.services().delete("digits", &params).await.unwrap();
    until("no service", async || world.services().get_opt("digits").await.unwrap().is_none()).await;
}

#[tokio::test]
async fn orphans_keep_serving_until_the_next_service_of_their_name_adopts_them() {
    let (world, controller) = World::controlled("orphans").await;
    world.roll_out("digits", "1", 1).await;
    let before = objects(&world).await;
    delete_as_orphan(&world).await;
    after_another(&world, "second").await;
    let orphaned = objects(&world).await;
    assert_eq!(uids(&orphaned), uids(&before));
    assert!(orphaned.iter().all(|(_, owners)| owners.is_empty()));
    controller.kill().await;
    let _controller = world.controller(ANY).await;
    after_another(&world, "third").await;
    assert_eq!(objects(&world).await, orphaned, "the next controller leaves them too");
    world.roll_out("digits", "1", 1).await;
    let adopted = objects(&world).await;
    assert_eq!(uids(&adopted), uids(&before));
    let owner = world.services().get("digits").await.unwrap().uid().unwrap();
    assert!(adopted.iter().all(|(_, owners)| *owners == [owner.clone()]));
    for name in ["digits", "second", "third"] {
        world.delete(name).await;
    }
    world.until_nothing().await;
}

#[tokio::test]
async fn a_service_deleted_while_no_controller_runs_leaves_nothing() {
    let (world, controller) = World::controlled("no-orphans").await;
    world.roll_out("digits", "1", 1).await;
    controller.kill().await;
    world.delete("digits").await;
    let _controller = world.controller(ANY).await;
    world.until_nothing().await;
}
