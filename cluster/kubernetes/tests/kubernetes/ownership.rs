//! Ownership of objects and of their fields.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use weir_cluster::{Apply, ClusterError, Desired, Destination, Route, Scale, ServiceName, Split, Workload};
use weir_cluster_kubernetes::Kubernetes;

use crate::server;

/// Service with one revision, in its own namespace.
struct Case {
    client: Client,
    cluster: Kubernetes,
    workload: Workload,
}

impl Case {
    async fn new(name: &str) -> Self {
        let client = server::client().await;
        server::namespace(&client, name).await;
        let service = ServiceName::new(name, "digits").unwrap();
        Self {
            client,
            cluster: server::cluster().await,
            workload: Workload::new(service.revision(1).unwrap(), server::template(), 2),
        }
    }

    fn service(&self) -> &ServiceName {
        self.workload.revision.service()
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), self.service().namespace())
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), self.service().namespace())
    }

    async fn apply(&self) -> Result<u64, ClusterError> {
        let split = Split::all(self.workload.revision.clone());
        let route = Route::new(self.service().clone(), Destination::Split(split));
        let workloads = vec![self.workload.clone()];
        let desired = Desired::new(self.service().clone(), workloads, Some(route))?;
        Ok(self.cluster.apply(desired).await?.routes)
    }

    async fn deployment(&self) -> Deployment {
        self.deployments().get(self.workload.revision.as_str()).await.unwrap()
    }
}

/// Returns the managers that own a field below `spec`.
fn managers(deployment: &Deployment, field: &str) -> Vec<String> {
    let holds = |fields: &serde_json::Value| fields["f:spec"].get(format!("f:{field}")).is_some();
    let entries = deployment.managed_fields().iter();
    let entries = entries.filter(|entry| entry.fields_v1.as_ref().is_some_and(|f| holds(&f.0)));
    entries.filter_map(|entry| entry.manager.clone()).collect()
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref().unwrap().replicas
}

#[tokio::test]
async fn the_controller_never_owns_the_number_of_replicas() {
    let case = Case::new("owned-replicas").await;
    case.apply().await.unwrap();
    let made = case.deployment().await;
    assert_eq!(replicas(&made), Some(2));
    assert_eq!(managers(&made, "replicas"), ["weir-autoscaler"]);
    assert_eq!(managers(&made, "template"), ["weir-controller"]);
    case.cluster.scale(&case.workload.revision, 5).await.unwrap();
    case.apply().await.unwrap();
    let scaled = case.deployment().await;
    assert_eq!(replicas(&scaled), Some(5));
    assert!(!managers(&scaled, "replicas").contains(&"weir-controller".to_owned()));
}

#[tokio::test]
async fn a_number_set_while_the_deployment_is_created_is_kept() {
    let case = Case::new("owned-while-made").await;
    for name in ["a", "b", "c", "d", "e", "f"] {
        let service = ServiceName::new("owned-while-made", name).unwrap();
        let revision = service.revision(1).unwrap();
        let workload = Workload { revision: revision.clone(), ..case.workload.clone() };
        let desired = Desired::new(service, vec![workload], None).unwrap();
        let scaled = async { while case.cluster.scale(&revision, 5).await.is_err() {} };
        let (applied, ()) = tokio::join!(case.cluster.apply(desired), scaled);
        applied.unwrap();
        let made = case.deployments().get(revision.as_str()).await.unwrap();
        assert_eq!(replicas(&made), Some(5), "{name}");
        assert_eq!(managers(&made, "template"), ["weir-controller"]);
    }
}

#[tokio::test]
async fn applying_the_same_writes_nothing() {
    let case = Case::new("owned-steady").await;
    let first = case.apply().await.unwrap();
    let version = async || {
        let stored = case.services().get("digits").await.unwrap();
        (case.deployment().await.metadata.generation, stored.resource_version())
    };
    let before = version().await;
    assert_eq!(case.apply().await.unwrap(), first);
    assert_eq!(version().await, before);
}

#[tokio::test]
async fn changed_and_deleted_objects_are_restored() {
    let case = Case::new("owned-edited").await;
    case.apply().await.unwrap();
    let name = case.workload.revision.as_str();
    let edit = json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "kserve-container", "image": "example/other" }
    ] } } } });
    let params = PatchParams::default();
    case.deployments().patch(name, &params, &Patch::Strategic(edit)).await.unwrap();
    case.services().delete("digits", &Default::default()).await.unwrap();
    // The loop applies repeatedly, because a change is only undone once a watch has shown it.
    let put_back = async {
        loop {
            case.apply().await.unwrap();
            let pod = case.deployment().await.spec.unwrap().template.spec.unwrap();
            let service = case.services().get_opt("digits").await.unwrap();
            if pod.containers[0].image.as_deref() == Some("example/server") && service.is_some() {
                return;
            }
        }
    };
    tokio::time::timeout(server::DEADLINE, put_back).await.unwrap();
}

#[tokio::test]
async fn an_object_of_another_owner_is_left_alone_and_reported() {
    let case = Case::new("owned-by-others").await;
    let theirs: Service = serde_json::from_value(json!({
        "metadata": { "name": "digits" },
        "spec": { "ports": [{ "port": 80 }] },
    }))
    .unwrap();
    let theirs = case.services().create(&PostParams::default(), &theirs).await.unwrap();
    let refused = case.apply().await.unwrap_err();
    assert!(matches!(refused, ClusterError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("is not Weir's"), "{refused}");
    case.cluster.forget(case.service()).await.unwrap();
    let still = case.services().get("digits").await.unwrap();
    assert_eq!(still.resource_version(), theirs.resource_version());
}

#[tokio::test]
async fn nothing_is_left_of_a_forgotten_service() {
    let case = Case::new("owned-forgotten").await;
    case.apply().await.unwrap();
    case.cluster.forget(case.service()).await.unwrap();
    let all = ListParams::default();
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), case.service().namespace());
    server::until("no pods", async || pods.list(&all).await.unwrap().items.is_empty()).await;
    assert!(case.deployments().list(&all).await.unwrap().items.is_empty());
    assert!(case.services().list(&all).await.unwrap().items.is_empty());
}
