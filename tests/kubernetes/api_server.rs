//! The API server of the run, for every test binary named `kubernetes`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Longest wait for anything, on a machine that is busy with other tests.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// File with the way to the API server.
pub(crate) fn kubeconfig() -> String {
    #[expect(clippy::disallowed_methods, reason = "that is how `make test-kube` tells it")]
    let path = std::env::var("WEIR_TEST_KUBECONFIG");
    path.unwrap_or_else(|_| panic!("no API server to test with: run `make test-kube`"))
}

/// The way to it for somebody who may do everything.
pub(crate) async fn config() -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.unwrap()
}

/// Makes a namespace in which pods can be made, unless it is there.
pub(crate) async fn make_namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    unless_there(namespaces.create(&PostParams::default(), &namespace).await);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    until("the default account", async || accounts.get_opt("default").await.unwrap().is_some()).await;
}

/// Waits until a condition holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, wait).await.is_ok(), "never: {what}");
}

/// Passes over that another test was faster.
pub(crate) fn unless_there<K>(made: Result<K, kube::Error>) {
    match made {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}"),
    }
}
