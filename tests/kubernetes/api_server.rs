//! Access to the control plane under test, shared by every test binary named `kubernetes`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Longest wait for anything, on a machine that is busy with other tests.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the path of the kubeconfig file of the control plane, from `WEIR_TEST_KUBECONFIG`.
pub(crate) fn kubeconfig() -> String {
    #[expect(clippy::disallowed_methods, reason = "`make test-kube` passes the path in this variable")]
    let path = std::env::var("WEIR_TEST_KUBECONFIG");
    path.unwrap_or_else(|_| panic!("no API server to test with: run `make test-kube`"))
}

/// Returns a client configuration with cluster-admin rights.
pub(crate) async fn config() -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.unwrap()
}

/// Creates a namespace and waits for its default service account, without which no pod can be created in it. An
/// existing namespace is no error.
pub(crate) async fn make_namespace(client: &Client, name: &str) {
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

/// Panics on any error except 409 Conflict: test binaries run in parallel, and another may have created the object
/// first.
pub(crate) fn unless_there<K>(made: Result<K, kube::Error>) {
    match made {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}"),
    }
}
