//! A HorizontalPodAutoscaler of the real control plane that scales a revision of Weir.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use weir_cluster::{Apply, Desired, Directory, Revision, ScalingPolicy, ServiceName, Workload};
use weir_cluster_kubernetes::{Kubernetes, WatchScope};

use crate::server;

/// Applies a service with 1 to 3 replicas that Weir's autoscaler scales.
async fn apply(cluster: &Kubernetes, namespace: &str) -> Workload {
    server::namespace(&server::client().await, namespace).await;
    let service = ServiceName::new(namespace, "digits").unwrap();
    let policy = ScalingPolicy { max: Some(3), ..ScalingPolicy::default() };
    let workload = Workload {
        scaling: Some(Arc::new(policy)),
        ..Workload::new(service.revision(1).unwrap(), server::template(), 1)
    };
    let desired = Desired::new(service, vec![workload.clone()], None).unwrap();
    cluster.apply(desired).await.unwrap();
    workload
}

async fn see(cluster: &Kubernetes, workload: &Workload, what: &str, is_so: impl Fn(&Revision) -> bool) {
    let mut snapshots = cluster.watch();
    let wait = snapshots.wait_for(|seen| seen.revision(&workload.revision).is_some_and(|r| is_so(r)));
    let seen = tokio::time::timeout(server::DEADLINE, wait).await.is_ok();
    let revision = cluster.watch().borrow().revision(&workload.revision).cloned();
    assert!(seen, "waited for {what}: {revision:#?}");
}

fn autoscalers(client: &Client, namespace: &str) -> Api<HorizontalPodAutoscaler> {
    Api::namespaced(client.clone(), namespace)
}

fn autoscaler(workload: &Workload) -> HorizontalPodAutoscaler {
    let name = workload.revision.as_str();
    serde_json::from_value(json!({
        "metadata": { "name": "mine" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "minReplicas": 2,
            "maxReplicas": 5,
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn weirs_autoscaler_leaves_a_revision_to_an_hpa_until_it_is_deleted() {
    let cluster = server::cluster().await;
    let workload = apply(&cluster, "other-autoscaler").await;
    see(&cluster, &workload, "its policy", |r| r.scaling.is_some()).await;
    let autoscalers = autoscalers(&server::client().await, "other-autoscaler");
    let params = PostParams::default();
    autoscalers.create(&params, &autoscaler(&workload)).await.unwrap();
    see(&cluster, &workload, "the HPA's two", |revision| {
        let other = revision.scaled_by.as_ref();
        let is_named = other.is_some_and(|other| &*other.name == "HorizontalPodAutoscaler mine");
        is_named && revision.scaling.is_none() && revision.desired == 2
    })
    .await;
    let later = server::cluster().await;
    let first = later.watch().borrow().revision(&workload.revision).cloned();
    assert!(first.unwrap().scaled_by.is_some(), "known from the first snapshot on");
    let params = DeleteParams::default();
    autoscalers.delete("mine", &params).await.unwrap();
    see(&cluster, &workload, "its policy again", |revision| revision.scaling.is_some() && revision.scaled_by.is_none())
        .await;
}

#[tokio::test]
async fn without_the_right_to_watch_autoscalers_everything_else_is_visible() {
    let workload = apply(&server::cluster().await, "other-autoscaler-unseen").await;
    let rule = |group: &str, resources: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|&name| name.to_owned()).collect()),
        verbs: ["list", "watch"].map(str::to_owned).to_vec(),
        ..PolicyRule::default()
    };
    let rules = vec![
        rule("", &["pods", "services"]),
        rule("apps", &["deployments"]),
        rule("discovery.k8s.io", &["endpointslices"]),
    ];
    let client = server::client_with("before-autoscalers", rules).await;
    let cluster = server::connect(client, WatchScope::Control).await;
    let autoscalers = autoscalers(&server::client().await, "other-autoscaler-unseen");
    let params = PostParams::default();
    autoscalers.create(&params, &autoscaler(&workload)).await.unwrap();
    see(&cluster, &workload, "the HPA's two, as any", |revision| {
        revision.desired == 2 && revision.scaling.is_some() && revision.scaled_by.is_none()
    })
    .await;
}
