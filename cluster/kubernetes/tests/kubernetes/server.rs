//! The API server of the run, and namespaces on it.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Container, Namespace, PodSpec, PodTemplateSpec, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use kube::api::{Api, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use weir_cluster_kubernetes::{Kubernetes, Options, WatchScope};

/// How long anything may take, on a machine that is busy with other tests.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Namespace of the gateways and leases of all tests.
pub(crate) const SYSTEM: &str = "weir-system";

/// A client of the API server that may do everything.
pub(crate) async fn client() -> Client {
    Client::try_from(config().await).unwrap()
}

async fn config() -> Config {
    #[expect(
        clippy::disallowed_methods,
        reason = "that is how `make test-kube` tells it"
    )]
    let Ok(path) = std::env::var("WEIR_TEST_KUBECONFIG") else {
        panic!("no API server to test with: run `make test-kube`");
    };
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.unwrap()
}

/// The cluster behind it.
pub(crate) async fn cluster() -> Kubernetes {
    let client = client().await;
    namespace(&client, SYSTEM).await;
    connect(client, WatchScope::Control).await
}

/// What this client sees of the cluster.
pub(crate) async fn connect(client: Client, scope: WatchScope) -> Kubernetes {
    let options = Options {
        process: "test".to_owned(),
        scope,
        ..Options::default()
    };
    Kubernetes::connect(client, options).await.unwrap()
}

/// A client of the API server with nothing but these rights, in all namespaces.
pub(crate) async fn client_with(name: &str, rules: Vec<PolicyRule>) -> Client {
    let admin = client().await;
    namespace(&admin, SYSTEM).await;
    let params = PostParams::default();
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(name.to_owned());
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), SYSTEM);
    unless_there(accounts.create(&params, &account).await);
    let mut role = ClusterRole {
        rules: Some(rules),
        ..ClusterRole::default()
    };
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
    config.auth_info = AuthInfo {
        token: Some(token.into()),
        ..AuthInfo::default()
    };
    Client::try_from(config).unwrap()
}

/// Passes over that another test was faster.
fn unless_there<K>(made: Result<K, kube::Error>) {
    match made {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}"),
    }
}

/// Makes a namespace in which pods can be made, unless it is there.
pub(crate) async fn namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    unless_there(namespaces.create(&PostParams::default(), &namespace).await);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    let wait = async {
        while accounts.get_opt("default").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap();
}

/// A pod that becomes ready as soon as it has a node.
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
