//! Entries of Secrets: changes by several writers at once, and a watch with the rights of the chart.

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::Api;
use weir_cluster::ClusterError;
use weir_cluster_kubernetes::{DataKind, DataObject, Entries, SecretEntry, watch_entries};

use crate::server::{self, DEADLINE};

/// Entry of a Secret in the namespace of the gateways; each test has its own Secret.
fn entry(secret: &str) -> SecretEntry {
    SecretEntry { namespace: server::SYSTEM.to_owned(), name: secret.to_owned(), entry: "keys.yaml".to_owned() }
}

fn appended(before: &str, line: &str) -> Result<String, ClusterError> {
    Ok(format!("{before}{line}\n"))
}

#[tokio::test]
async fn writers_at_one_time_lose_nothing() {
    let admin = server::client().await;
    server::namespace(&admin, server::SYSTEM).await;
    let entry = entry("written-at-once");
    let writers = (0..8).map(|number| {
        let (admin, entry) = (admin.clone(), entry.clone());
        tokio::spawn(async move { entry.change(&admin, |before| appended(before, &number.to_string())).await })
    });
    for written in futures_util::future::join_all(writers).await {
        written.unwrap().unwrap();
    }
    let text = entry.read(&admin).await.unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    // Other entries of the Secret stay.
    let other = SecretEntry { entry: "other.yaml".to_owned(), ..entry.clone() };
    other.change(&admin, |before| appended(before, "mine")).await.unwrap();
    assert_eq!(entry.read(&admin).await.unwrap(), text);
}

#[tokio::test]
async fn a_change_that_fails_or_is_too_large_leaves_the_secret_as_it_is() {
    let admin = server::client().await;
    server::namespace(&admin, server::SYSTEM).await;
    let entry = entry("left-as-it-is");
    entry.change(&admin, |before| appended(before, "a")).await.unwrap();
    let refused = entry.change(&admin, |_| Err(ClusterError::refused("keys", "no".to_owned()))).await;
    assert!(matches!(refused, Err(ClusterError::Refused { .. })), "{refused:?}");
    let too_large = entry.change(&admin, |_| Ok::<_, ClusterError>("a".repeat((1 << 20) + 1))).await.unwrap_err();
    assert!(too_large.to_string().contains("1048576 bytes"), "{too_large}");
    assert_eq!(entry.read(&admin).await.unwrap(), "a\n");
    let elsewhere = SecretEntry { namespace: "no-such-namespace".to_owned(), ..entry };
    let missing = elsewhere.change(&admin, |before| appended(before, "a")).await.unwrap_err();
    assert!(missing.to_string().contains("no-such-namespace"), "{missing}");
}

/// Returns the right to read one Secret, as the chart gives it to gateways.
fn right_to_read(name: &str) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["secrets".to_owned()]),
        resource_names: Some(vec![name.to_owned()]),
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        ..PolicyRule::default()
    }
}

#[tokio::test]
async fn a_watch_of_one_secret_needs_the_rights_of_that_secret_alone() {
    let admin = server::client().await;
    server::namespace(&admin, server::SYSTEM).await;
    let entry = entry("watched-keys");
    let gateway = server::client_with("watcher-of-keys", vec![right_to_read("watched-keys")]).await;
    let object =
        |name: &str| DataObject { kind: DataKind::Secret, namespace: server::SYSTEM.to_owned(), name: name.to_owned() };
    let mut states = watch_entries(&gateway, &object("watched-keys"), || {});
    let mut next = async || tokio::time::timeout(DEADLINE, states.next()).await.unwrap().unwrap();
    assert_eq!(next().await, Entries::new());
    entry.change(&admin, |before| appended(before, "a")).await.unwrap();
    assert_eq!(next().await["keys.yaml"], b"a\n");
    entry.change(&admin, |before| appended(before, "b")).await.unwrap();
    assert_eq!(next().await["keys.yaml"], b"a\nb\n");
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), server::SYSTEM);
    secrets.delete("watched-keys", &kube::api::DeleteParams::default()).await.unwrap();
    assert_eq!(next().await, Entries::new());
    // Without the right, the watch has no state and reports its failures.
    let (failed, mut failures) = tokio::sync::mpsc::unbounded_channel();
    let mut denied = watch_entries(&gateway, &object("other-keys"), move || {
        let _ = failed.send(());
    });
    tokio::select! {
        state = denied.next() => panic!("{state:?}"),
        failure = tokio::time::timeout(DEADLINE, failures.recv()) => assert_eq!(failure.unwrap(), Some(())),
    }
    let unread = self::entry("other-keys").read(&gateway).await.unwrap_err();
    assert!(matches!(unread, ClusterError::Denied { .. }), "{unread}");
}
