//! Leases that other writers change too.

use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use weir_cluster::Lease;

use crate::server;

/// Returns the lease as the API server stores it.
async fn stored(leases: &Api<LeaseObject>) -> LeaseObject {
    leases.get("annotated").await.unwrap()
}

#[tokio::test]
async fn a_holder_keeps_its_lease_when_another_writer_annotates_it() {
    let cluster = server::cluster().await;
    let held = cluster.acquire("annotated").await.unwrap();
    let leases: Api<LeaseObject> = Api::namespaced(server::client().await, server::SYSTEM);
    let note = Patch::Merge(json!({"metadata": {"annotations": {"note": "theirs"}}}));
    let defaults = PatchParams::default();
    let noted = leases.patch("annotated", &defaults, &note);
    let noted = noted.await.unwrap().spec.unwrap();
    let renewed = async {
        loop {
            let now = stored(&leases).await.spec.unwrap();
            if now.renew_time > noted.renew_time {
                return now;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let renewed = tokio::time::timeout(server::DEADLINE, renewed).await;
    assert_eq!(renewed.unwrap().holder_identity, noted.holder_identity);
    assert!(!held.is_lost());
}
