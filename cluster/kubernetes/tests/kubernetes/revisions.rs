//! ControllerRevisions, which outlive the controller, and their owners.

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::json;
use weir_cluster::{Apply, ClusterError, Desired, ServiceName, Workload};
use weir_cluster_kubernetes::{Kubernetes, StoredRevision};

use crate::server;

/// Service in its own namespace.
struct Case {
    client: Client,
    cluster: Kubernetes,
    service: ServiceName,
}

impl Case {
    async fn new(namespace: &str) -> Self {
        let client = server::client().await;
        server::namespace(&client, namespace).await;
        Self { client, cluster: server::cluster().await, service: ServiceName::new(namespace, "digits").unwrap() }
    }

    fn workload(&self, number: u32) -> Workload {
        Workload::new(self.service.revision(number).unwrap(), server::template(), 0)
    }

    async fn revisions(&self) -> Vec<StoredRevision> {
        let history = self.cluster.history(&self.service).await.unwrap();
        history.revisions.into_values().collect()
    }

    async fn rollout(&self) -> Option<String> {
        let history = self.cluster.history(&self.service).await;
        history.unwrap().rollout
    }

    fn stored(&self, number: u32) -> StoredRevision {
        StoredRevision::of(&self.workload(number))
    }

    /// Returns a revision of this number with other pods.
    fn other(&self, number: u32) -> StoredRevision {
        let mut workload = self.workload(number);
        let mut template = server::template();
        template.spec.as_mut().unwrap().containers[0].image = Some("example/other".to_owned());
        workload.template = template.into();
        StoredRevision::of(&workload)
    }

    fn objects(&self) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), self.service.namespace())
    }

    /// Creates the InferenceService; returns its UID.
    async fn declare(&self) -> String {
        let kind = GroupVersionKind::gvk("serving.kserve.io", "v1beta1", "InferenceService");
        let resource = ApiResource::from_gvk_with_plural(&kind, "inferenceservices");
        let all: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), self.service.namespace(), &resource);
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
            "metadata": { "name": self.service.name() },
            "spec": { "predictor": { "containers": [{ "image": "example/server" }] } },
        }))
        .unwrap();
        let _ = all.delete(self.service.name(), &DeleteParams::default()).await;
        let made = all.create(&PostParams::default(), &object).await.unwrap();
        made.uid().unwrap()
    }

    async fn apply(&self, workloads: Vec<Workload>) -> Result<(), ClusterError> {
        let desired = Desired::new(self.service.clone(), workloads, None)?;
        self.cluster.apply(desired).await.map(|_| ())
    }
}

#[tokio::test]
async fn stored_revisions_are_read_in_order() {
    let case = Case::new("stored-order").await;
    for number in [2, 10, 1] {
        case.cluster.put_revision(&case.stored(number)).await.unwrap();
    }
    case.cluster.put_revision(&case.stored(2)).await.unwrap();
    case.cluster.put_rollout(&case.service, "stable").await.unwrap();
    let all = case.revisions().await;
    assert_eq!(all, [1, 2, 10].map(|number| case.stored(number)));
    let second = case.service.revision(2).unwrap();
    case.cluster.remove_revision(&second).await.unwrap();
    case.cluster.remove_revision(&second).await.unwrap();
    let left = case.revisions().await;
    assert_eq!(left, [1, 10].map(|number| case.stored(number)));
}

#[tokio::test]
async fn a_revision_number_can_be_stored_only_once() {
    let case = Case::new("stored-once").await;
    let (one, other) = (case.stored(1), case.other(1));
    let both = tokio::join!(case.cluster.put_revision(&one), case.cluster.put_revision(&other),);
    let results = [both.0, both.1];
    let denied = results.iter().find_map(|result| result.as_ref().err());
    assert!(matches!(denied, Some(ClusterError::Denied { .. })), "{results:?}");
    assert!(results.iter().any(Result::is_ok), "{results:?}");
    assert_eq!(case.revisions().await.len(), 1);
}

#[tokio::test]
async fn the_last_written_state_of_a_rollout_is_read() {
    let case = Case::new("stored-rollout").await;
    assert_eq!(case.rollout().await, None);
    for text in ["first", "second"] {
        case.cluster.put_rollout(&case.service, text).await.unwrap();
        let stored = case.rollout().await;
        assert_eq!(stored.as_deref(), Some(text));
    }
    assert_eq!(case.revisions().await, []);
}

#[tokio::test]
async fn an_unreadable_revision_is_left_out_of_lists_and_refused() {
    let case = Case::new("stored-unread").await;
    case.cluster.put_revision(&case.stored(1)).await.unwrap();
    let unread: ControllerRevision = serde_json::from_value(json!({
        "metadata": {
            "name": "digits-predictor-00002",
            "labels": {
                "app.kubernetes.io/managed-by": "weir",
                "serving.kserve.io/inferenceservice": "digits",
                "weir.dev/revision": "digits-predictor-00002",
            },
        },
        "revision": 2, "data": { "identity": 7 },
    }))
    .unwrap();
    let params = PostParams::default();
    case.objects().create(&params, &unread).await.unwrap();
    let all = case.revisions().await;
    assert_eq!(all, [case.stored(1)]);
    let refused = case.cluster.put_revision(&case.stored(2)).await.unwrap_err();
    assert!(refused.to_string().contains("delete that object"), "{refused}");
}

#[tokio::test]
async fn an_object_of_another_owner_keeps_its_name() {
    let case = Case::new("stored-theirs").await;
    let theirs: ControllerRevision = serde_json::from_value(json!({
        "metadata": { "name": "digits-predictor-00001" }, "revision": 1, "data": {},
    }))
    .unwrap();
    let params = PostParams::default();
    case.objects().create(&params, &theirs).await.unwrap();
    for refused in [
        case.cluster.put_revision(&case.stored(1)).await,
        case.apply(vec![case.workload(1)]).await,
        case.cluster.remove_revision(&case.service.revision(1).unwrap()).await,
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("is not Weir's"), "{error}");
    }
    assert!(case.objects().get_opt("digits-predictor-00001").await.unwrap().is_some());
}

/// A Deployment has the pod that was stored, even if the Deployment is edited, or if this version would complete the
/// pod differently.
#[tokio::test]
async fn a_deployment_follows_what_was_stored() {
    let mut case = Case::new("stored-followed").await;
    case.cluster.put_revision(&case.stored(1)).await.unwrap();
    let name = "digits-predictor-00001";
    let mut older = case.objects().get(name).await.unwrap();
    case.objects().delete(name, &DeleteParams::default()).await.unwrap();
    older.metadata.resource_version = None;
    older.metadata.uid = None;
    older.data.as_mut().unwrap().0["pod"]["spec"]["terminationGracePeriodSeconds"] = 7.into();
    let params = PostParams::default();
    case.objects().create(&params, &older).await.unwrap();
    // Another process must find the revision, because a process does not read again what it has stored itself.
    case.cluster = server::cluster().await;
    case.apply(vec![case.workload(1)]).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(case.client.clone(), case.service.namespace());
    let grace = async || {
        let stored = deployments.get(name).await.unwrap();
        let pod = stored.spec.unwrap().template.spec.unwrap();
        pod.termination_grace_period_seconds
    };
    assert_eq!(grace().await, Some(7));
    let edit = json!({ "spec": { "template": { "spec": { "terminationGracePeriodSeconds": 9 } } } });
    let params = PatchParams::default();
    deployments.patch(name, &params, &Patch::Merge(edit)).await.unwrap();
    // The loop applies repeatedly, because a change is only undone once a watch has shown it.
    let put_back = async {
        while grace().await != Some(7) {
            case.apply(vec![case.workload(1)]).await.unwrap();
        }
    };
    tokio::time::timeout(server::DEADLINE, put_back).await.unwrap();
}

#[tokio::test]
async fn an_inference_service_owns_all_objects_of_its_service() {
    let case = Case::new("stored-owned").await;
    case.apply(vec![case.workload(1)]).await.unwrap();
    for _ in 0..2 {
        // The second iteration creates another object of the same name.
        let uid = case.declare().await;
        // Kubernetes deletes the former owner's objects at the same time, so applying may fail at first.
        while case.apply(vec![case.workload(1)]).await.is_err() {}
        case.cluster.put_rollout(&case.service, "stable").await.unwrap();
        let owned = |owners: &[String]| assert_eq!(owners, std::slice::from_ref(&uid));
        for object in case.objects().list(&ListParams::default()).await.unwrap() {
            owned(&uids(&object));
        }
        let deployments: Api<Deployment> = Api::namespaced(case.client.clone(), case.service.namespace());
        let deployment = deployments.get("digits-predictor-00001").await.unwrap();
        owned(&uids(&deployment));
    }
    case.cluster.forget(&case.service).await.unwrap();
    let left = case.objects().list(&ListParams::default()).await.unwrap();
    assert_eq!(left.items.len(), 0, "{left:?}");
}

fn uids(object: &impl ResourceExt) -> Vec<String> {
    let owners = object.owner_references().iter();
    owners.map(|owner| owner.uid.clone()).collect()
}
