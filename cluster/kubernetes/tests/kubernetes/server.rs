//! API server of the test run, and namespaces on it.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::AuthInfo;
use serde_json::json;
use weir_cluster_kubernetes::{Kubernetes, Options, WatchScope};

pub(crate) use crate::api_server::{DEADLINE, make_namespace as namespace, until};
use crate::api_server::{config, unless_there};

/// Namespace of the gateways and leases of all tests.
pub(crate) const SYSTEM: &str = "weir-system";

/// Returns a client of the API server with all rights.
pub(crate) async fn client() -> Client {
    Client::try_from(config().await).unwrap()
}

/// Returns the cluster behind the API server.
pub(crate) async fn cluster() -> Kubernetes {
    let client = client().await;
    namespace(&client, SYSTEM).await;
    connect(client, WatchScope::Control).await
}

/// Returns the cluster as this client sees it.
pub(crate) async fn connect(client: Client, scope: WatchScope) -> Kubernetes {
    let options = Options { process: "test".to_owned(), scope, ..Options::default() };
    Kubernetes::connect(client, options).await.unwrap()
}

/// Returns a client of the API server with exactly these rights, in all namespaces.
pub(crate) async fn client_with(name: &str, rules: Vec<PolicyRule>) -> Client {
    let admin = client().await;
    namespace(&admin, SYSTEM).await;
    let params = PostParams::default();
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(name.to_owned());
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), SYSTEM);
    unless_there(accounts.create(&params, &account).await);
    let mut role = ClusterRole { rules: Some(rules), ..ClusterRole::default() };
    role.metadata.name = Some(name.to_owned());
    unless_there(Api::all(admin.clone()).create(&params, &role).await);
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": SYSTEM }],
    }))
    .unwrap();
    unless_there(Api::all(admin).create(&params, &binding).await);
    let request = TokenRequest::default();
    let token = accounts.create_token_request(name, &params, &request);
    let token = token.await.unwrap().status.unwrap().token.unwrap();
    let mut config = config().await;
    config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
    Client::try_from(config).unwrap()
}

/// Returns a pod that becomes ready as soon as it has a node.
pub(crate) fn template() -> PodTemplateSpec {
    let container = Container {
        name: "kserve-container".to_owned(),
        image: Some("example/server".to_owned()),
        ..Container::default()
    };
    PodTemplateSpec {
        spec: Some(PodSpec {
            containers: vec![container],
            termination_grace_period_seconds: Some(0),
            ..PodSpec::default()
        }),
        ..PodTemplateSpec::default()
    }
}
