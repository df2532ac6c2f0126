//! A namespace with a controller in it that can be killed, and what it made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::{Layer, Service};
use weir_cluster::{Fake, Readiness};
use weir_cluster_kubernetes::{Kubernetes, Options};
use weir_controller::{Controller, Platform};
use weir_controller_kubernetes::KubernetesSource;
use weir_crds::InferenceService;

/// Longest wait for anything, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(60);

/// Writes that a controller may make that is not to be killed.
pub(crate) const ANY: i64 = i64::MAX;

/// A namespace of the API server.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

/// A controller that runs until this is dropped, or until it dies.
pub(crate) struct Running {
    _stop: DropGuard,
    task: tokio::task::JoinHandle<()>,
    left: WritesLeft,
}

impl World {
    pub(crate) async fn new(namespace: &str) -> Self {
        let client = Client::try_from(config().await).unwrap();
        make_namespace(&client, namespace).await;
        let world = Self {
            client,
            namespace: namespace.to_owned(),
        };
        world.apply(runtime()).await;
        world
    }

    /// Starts a controller that dies after so many writes: from then on its calls have no answer.
    pub(crate) async fn controller(&self, writes: i64) -> Running {
        let left = WritesLeft(Arc::new(AtomicI64::new(writes)));
        let builder = ClientBuilder::try_from(config().await).unwrap();
        let client = builder.with_layer(&left).build();
        let options = Options {
            namespace: self.namespace.clone(),
            watched: Some(self.namespace.clone()),
            ..Options::default()
        };
        let cluster = Kubernetes::connect(client.clone(), options).await.unwrap();
        let platform = Platform {
            domain: "example.com".to_owned(),
            routes_model_names: false,
        };
        let source = KubernetesSource::connect(client, cluster.clone(), platform, "test");
        let source = Arc::new(source.await.unwrap());
        let cluster = Arc::new(cluster);
        // Reports and leases in memory: the next controller need not wait for the lease of a dead one.
        let fake = Arc::new(Fake::new(Readiness::Immediate));
        let controller = Controller::new(source, cluster.clone(), cluster, fake.clone(), fake);
        let stop = CancellationToken::new();
        Running {
            task: tokio::spawn(controller.run(stop.clone())),
            _stop: stop.drop_guard(),
            left,
        }
    }

    fn api(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, kind)
    }

    pub(crate) fn services(&self) -> Api<DynamicObject> {
        self.api(&ApiResource::erase::<InferenceService>(&()))
    }

    /// Writes an object as a user does.
    pub(crate) async fn apply(&self, object: Value) {
        self.try_apply(object).await.unwrap();
    }

    /// Writes an object, unless the API server refuses it.
    pub(crate) async fn try_apply(&self, object: Value) -> Result<(), String> {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
        let kind = kube::core::GroupVersionKind::gvk(group, version, &kind);
        let api = self.api(&ApiResource::from_gvk(&kind));
        let name = object["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("user").force();
        match api.patch(name, &params, &Patch::Apply(&object)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) => Err(status.message),
            Err(error) => panic!("{error}"),
        }
    }

    /// Writes an InferenceService whose predictor has these fields beside its model at `path`.
    pub(crate) async fn serve(&self, name: &str, path: &str, more: Value) {
        self.apply(service(name, path, more)).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        let gone = self.services().delete(name, &DeleteParams::default()).await;
        gone.unwrap();
    }

    /// Waits for a state of a service's object.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Value {
        let services = self.services();
        let mut last = Value::Null;
        let wait = async {
            loop {
                last = serde_json::to_value(services.get(name).await.unwrap()).unwrap();
                if is_it(&last) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(SOON, wait).await.is_err() {
            panic!("{name} never became: {what}\n{last:#}");
        }
        last
    }

    /// Waits until a service's predictor is ready as its latest generation asks, by this revision.
    pub(crate) async fn until_rolled_out(&self, name: &str, revision: u32) -> Value {
        let revision = format!("{name}-predictor-{revision:05}");
        self.until(name, &format!("rolled out as {revision}"), |object| {
            let predictor = &object["status"]["components"]["predictor"];
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
                && condition(object, "PredictorReady")["status"] == "True"
                && predictor["latestRolledoutRevision"] == revision.as_str()
        })
        .await
    }

    /// Everything of Weir's in the namespace by kind and name: what a user or another controller could tell apart.
    pub(crate) async fn made(&self) -> BTreeMap<String, String> {
        let mut made = BTreeMap::new();
        for (group, kind) in [
            ("", "Service"),
            ("apps", "Deployment"),
            ("apps", "ControllerRevision"),
        ] {
            let of_kind = kube::core::GroupVersionKind::gvk(group, "v1", kind);
            let ours = ListParams::default().labels("app.kubernetes.io/managed-by=weir");
            let objects = self.api(&ApiResource::from_gvk(&of_kind)).list(&ours).await;
            for object in objects.unwrap() {
                let told = told(&object).to_string();
                let told = told.replace(&self.namespace, "NAMESPACE");
                made.insert(format!("{kind} {}", object.name_any()), told);
            }
        }
        made
    }

    /// Waits until nothing of Weir's is left.
    pub(crate) async fn until_nothing(&self) {
        let wait = async {
            while !self.made().await.is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(SOON, wait).await.is_err() {
            panic!("left: {:?}", self.made().await.keys());
        }
    }
}

impl Running {
    /// Waits until it is dead, or for `limit`.
    pub(crate) async fn dies(&self, limit: Duration) {
        let dead = async {
            while self.left.0.load(Ordering::Relaxed) >= 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(limit, dead).await;
    }

    /// Ends it without a last word.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// The writes that are left to a client.
#[derive(Clone)]
struct WritesLeft(Arc<AtomicI64>);

/// A connection whose writes have no answer once none are left.
#[derive(Clone)]
struct Mortal<S> {
    inner: S,
    left: WritesLeft,
}

impl<S> Layer<S> for WritesLeft {
    type Service = Mortal<S>;

    fn layer(&self, inner: S) -> Mortal<S> {
        Mortal {
            inner,
            left: self.clone(),
        }
    }
}

impl<S, B> Service<Request<B>> for Mortal<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.method() != Method::GET && self.left.0.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Box::pin(std::future::pending());
        }
        Box::pin(self.inner.call(request))
    }
}

/// The condition of this type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}

/// A service with a model at this path.
pub(crate) fn service(name: &str, path: &str, more: Value) -> Value {
    let mut predictor = json!({
        "model": {"modelFormat": {"name": "pytorch"}, "storageUri": format!("file:///models/{path}")},
    });
    if path.is_empty() {
        predictor["model"]
            .as_object_mut()
            .unwrap()
            .remove("storageUri");
    }
    for (field, value) in more.as_object().into_iter().flatten() {
        predictor[field] = value.clone();
    }
    json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"predictor": predictor},
    })
}

/// A runtime of the namespace whose pods need nothing.
fn runtime() -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "test-runtime"},
        "spec": {
            "supportedModelFormats": [{"name": "pytorch", "autoSelect": true}],
            "protocolVersions": ["v2"],
            "containers": [{"name": "kserve-container", "image": "example/server:1"}],
        },
    })
}

/// What can be told of an object: no times, no versions, nothing that others write.
fn told(object: &DynamicObject) -> Value {
    let mut owners: Vec<_> = object
        .owner_references()
        .iter()
        .map(|o| o.name.clone())
        .collect();
    owners.sort();
    let annotations: Vec<_> = object.annotations().keys().cloned().collect();
    let mut spec = object.data.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        // Addresses are the API server's.
        spec.retain(|field, _| !field.starts_with("clusterIP"));
    }
    json!({"labels": object.labels(), "owners": owners, "annotations": annotations, "spec": spec,
        "data": object.data.get("data")})
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
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    config.await.unwrap()
}

/// Makes a namespace in which pods can be made.
async fn make_namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    let wait = async {
        while accounts.get_opt("default").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap();
}
