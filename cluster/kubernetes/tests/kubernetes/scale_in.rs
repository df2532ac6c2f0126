//! Choice of the pods that the real ReplicaSet controller ends when a revision is scaled in.

use k8s_openapi::api::core::v1::{Node, Pod, PodTemplateSpec};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use weir_cluster::{Apply, Desired, Directory, Scale, ServiceName, Workload};

use crate::server;

const NAMESPACE: &str = "scale-in";

/// Creates a simulated node with room for this many pods of this test, and for no other pods.
async fn node(client: &Client, name: &str, pods: &str) {
    let room = json!({ "cpu": "100", "memory": "1Ti", "pods": pods });
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": { "kwok.x-k8s.io/node": "fake" },
            "labels": { "pool": NAMESPACE, "kubernetes.io/hostname": name },
        },
        "spec": { "taints": [{ "key": "pool", "value": NAMESPACE, "effect": "NoSchedule" }] },
        "status": { "allocatable": room, "capacity": room },
    });
    let nodes: Api<Node> = Api::all(client.clone());
    let params = PatchParams::apply("test").force();
    nodes.patch(name, &params, &Patch::Apply(&node)).await.unwrap();
}

/// Returns the suite's pod, restricted to these nodes.
fn template() -> PodTemplateSpec {
    let mut template = server::template();
    let spec = template.spec.as_mut().unwrap();
    spec.node_selector = Some([("pool".to_owned(), NAMESPACE.to_owned())].into());
    let toleration = json!([{ "key": "pool", "operator": "Exists" }]);
    spec.tolerations = serde_json::from_value(toleration).unwrap();
    template
}

/// Returns the nodes of the existing pods, sorted.
async fn used(client: &Client) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    let nodes = pods.into_iter().filter_map(|pod| pod.spec?.node_name);
    let mut nodes: Vec<_> = nodes.collect();
    nodes.sort();
    nodes
}

/// If two pods share a node and a third is on another, Kubernetes by itself would end one of the two.
#[tokio::test]
async fn a_scale_in_ends_the_pod_that_frees_a_node() {
    let client = server::client().await;
    server::namespace(&client, NAMESPACE).await;
    node(&client, "scale-in-a", "2").await;
    node(&client, "scale-in-b", "1").await;
    let cluster = server::cluster().await;
    let service = ServiceName::new(NAMESPACE, "digits").unwrap();
    let workload = Workload::new(service.revision(1).unwrap(), template(), 3);
    let desired = Desired::new(service, vec![workload.clone()], None).unwrap();
    cluster.apply(desired).await.unwrap();
    let until = async |count: usize| {
        let mut snapshots = cluster.watch();
        let wait = snapshots.wait_for(|seen| {
            let revision = seen.revision(&workload.revision);
            revision.is_some_and(|r| r.ready().count() == count && r.replicas.len() == count)
        });
        let wait = tokio::time::timeout(server::DEADLINE, wait).await;
        assert!(wait.is_ok(), "waited for {count} replicas");
    };
    until(3).await;
    assert_eq!(used(&client).await, ["scale-in-a", "scale-in-a", "scale-in-b"]);
    cluster.scale(&workload.revision, 2).await.unwrap();
    until(2).await;
    assert_eq!(used(&client).await, ["scale-in-a", "scale-in-a"]);
}
