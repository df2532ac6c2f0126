//! The API server of the run, and namespaces on it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Namespace, PodSpec, PodTemplateSpec, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use weir_cluster_kubernetes::{Kubernetes, Options};

/// How long anything may take, on a machine that is busy with other tests.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Namespace of the gateways and leases of all tests.
pub(crate) const SYSTEM: &str = "weir-system";

/// A client of the API server.
pub(crate) async fn client() -> Client {
    #[expect(
        clippy::disallowed_methods,
        reason = "that is how `make test-kube` tells it"
    )]
    let Ok(path) = std::env::var("WEIR_TEST_KUBECONFIG") else {
        panic!("no API server to test with: run `make test-kube`");
    };
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// The cluster behind it.
pub(crate) async fn cluster() -> Kubernetes {
    let client = client().await;
    namespace(&client, SYSTEM).await;
    let options = Options {
        process: "test".to_owned(),
        ..Options::default()
    };
    Kubernetes::connect(client, options).await.unwrap()
}

/// Makes a namespace in which pods can be made, unless it is there.
pub(crate) async fn namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    match namespaces.create(&PostParams::default(), &namespace).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}"),
    }
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
