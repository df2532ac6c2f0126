//! Namespace with a controller in it that can be killed, and the objects that it made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::client::ClientBuilder;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use weir_cluster::{Fake, Readiness};
use weir_cluster_kubernetes::{GpuNodes, Kubernetes, Options};
use weir_controller::{Controller, Platform};
use weir_controller_kubernetes::KubernetesSource;
use weir_crds::{InferenceService, ServingRuntime};

use crate::api_server::{DEADLINE as SOON, config, make_namespace};
use crate::connection::Connection;

/// Number of calls for a controller that is not cut off.
pub(crate) const ANY: i64 = i64::MAX;

/// Namespace of the API server.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Timeout of a wait for a service's state.
    pub(crate) limit: Duration,
}

/// Time without a request after which a controller counts as idle; its loop runs every second.
const IDLE: Duration = Duration::from_secs(3);

/// Checks that a condition holds and goes on to hold during the window.
pub(crate) async fn stays(window: Duration, what: &str, is_so: impl AsyncFn() -> bool) {
    let watch = async {
        loop {
            assert!(is_so().await, "no longer: {what}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let _: Result<(), _> = tokio::time::timeout(window, watch).await;
    assert!(is_so().await, "no longer: {what}");
}

/// Controller that runs until this is dropped, or until it is cut off.
pub(crate) struct Running {
    _stop: DropGuard,
    task: tokio::task::JoinHandle<()>,
    connection: Connection,
}

impl World {
    pub(crate) async fn new(namespace: &str) -> Self {
        let client = Client::try_from(config().await).unwrap();
        make_namespace(&client, namespace).await;
        let world = Self { client, namespace: namespace.to_owned(), limit: SOON };
        world.apply(runtime("example/server:1", json!({}))).await;
        world
    }

    /// Creates a world with a controller that is not cut off.
    pub(crate) async fn controlled(namespace: &str) -> (Self, Running) {
        let world = Self::new(namespace).await;
        let controller = world.controller(ANY).await;
        (world, controller)
    }

    /// Starts a controller whose calls get no answer after this many, counted from when it has connected.
    pub(crate) async fn controller(&self, calls: i64) -> Running {
        self.controller_with_class(calls, None).await
    }

    /// Starts a controller whose pods have this PriorityClass.
    pub(crate) async fn controller_with_class(&self, calls: i64, class: Option<&str>) -> Running {
        let connection = Connection::new(ANY);
        let builder = ClientBuilder::try_from(config().await).unwrap();
        let client = builder.with_layer(&connection).build();
        let (source, cluster) = self.connect(client, "test", class).await;
        let (source, cluster) = (Arc::new(source), Arc::new(cluster));
        // Reports and leases are in memory, so the next controller need not wait for a dead one's lease.
        let fake = Arc::new(Fake::new(Readiness::Immediate));
        let controller = Controller::new(source, cluster.clone(), cluster, fake.clone(), fake);
        connection.set_left(calls);
        let stop = CancellationToken::new();
        Running { task: tokio::spawn(controller.run(stop.clone())), _stop: stop.drop_guard(), connection }
    }

    /// Returns the source of the namespace's services for a process of this name.
    pub(crate) async fn source(&self, process: &str) -> KubernetesSource {
        let (source, _) = self.connect(self.client.clone(), process, None).await;
        source
    }

    async fn connect(&self, client: Client, process: &str, class: Option<&str>) -> (KubernetesSource, Kubernetes) {
        let priority_class = class.map(str::to_owned);
        let options = Options { priority_class, gpu_nodes: GpuNodes::Watched, ..Options::default() };
        self.connect_with(client, process, options).await
    }

    /// Connects a process that watches the namespace of this world, with these other options.
    pub(crate) async fn connect_with(
        &self,
        client: Client,
        process: &str,
        other: Options,
    ) -> (KubernetesSource, Kubernetes) {
        let options = Options { namespace: self.namespace.clone(), watched: Some(self.namespace.clone()), ..other };
        let cluster = Kubernetes::connect(client.clone(), options).await.unwrap();
        let source = KubernetesSource::connect(client, cluster.clone(), Platform::new("example.com"), process);
        (source.await.unwrap(), cluster)
    }

    fn api(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, kind)
    }

    pub(crate) fn services(&self) -> Api<DynamicObject> {
        self.api(&ApiResource::erase::<InferenceService>(&()))
    }

    /// Applies an object like a user.
    pub(crate) async fn apply(&self, object: Value) {
        self.try_apply(object).await.unwrap();
    }

    /// Applies an InferenceService; fails while there is no API server.
    pub(crate) async fn try_serve(&self, name: &str, more: Value) -> Result<(), kube::Error> {
        let params = PatchParams::apply("user").force();
        let object = Patch::Apply(service(name, "", more));
        self.services().patch(name, &params, &object).await?;
        Ok(())
    }

    /// Applies an object; the error is the API server's refusal.
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

    /// Applies an InferenceService whose predictor has a model at `path` and these further fields.
    pub(crate) async fn serve(&self, name: &str, path: &str, more: Value) {
        self.apply(service(name, path, more)).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        let gone = self.services().delete(name, &DeleteParams::default()).await;
        gone.unwrap();
    }

    /// Deletes the runtime that all services here use by default.
    pub(crate) async fn delete_runtime(&self) {
        let runtimes = self.api(&ApiResource::erase::<ServingRuntime>(&()));
        let params = DeleteParams::default();
        let gone = runtimes.delete("test-runtime", &params).await;
        gone.unwrap();
    }

    /// Waits for a state of a service's object.
    pub(crate) async fn until(&self, name: &str, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let services = self.services();
        let mut last = Value::Null;
        let wait = async {
            loop {
                // An API server that is restarting does not answer.
                if let Ok(object) = services.get(name).await {
                    last = serde_json::to_value(object).unwrap();
                    if is_it(&last) {
                        return;
                    }
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(self.limit, wait).await.is_err() {
            panic!("{name} never became: {what}\n{last:#}");
        }
        last
    }

    /// Waits until a service's predictor is ready for its latest generation, with this revision rolled out.
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

    /// Applies an InferenceService with a model at `path`, and waits until this revision is rolled out.
    pub(crate) async fn roll_out(&self, name: &str, path: &str, revision: u32) -> Value {
        self.serve(name, path, json!({})).await;
        self.until_rolled_out(name, revision).await
    }

    /// Returns everything of Weir's in the namespace by kind and name, without fields that differ between equal runs.
    pub(crate) async fn made(&self) -> BTreeMap<String, String> {
        let mut made = BTreeMap::new();
        for (group, kind) in [("", "Service"), ("apps", "Deployment"), ("apps", "ControllerRevision")] {
            let of_kind = kube::core::GroupVersionKind::gvk(group, "v1", kind);
            let ours = ListParams::default().labels("app.kubernetes.io/managed-by=weir");
            let objects = self.api(&ApiResource::from_gvk(&of_kind)).list(&ours).await;
            for object in objects.unwrap() {
                let comparable = comparable(&object).to_string();
                let comparable = comparable.replace(&self.namespace, "NAMESPACE");
                made.insert(format!("{kind} {}", object.name_any()), comparable);
            }
        }
        made
    }

    /// Waits until the objects of [`Self::made`] have not changed for two seconds, and returns them.
    pub(crate) async fn settled(&self) -> BTreeMap<String, String> {
        let mut last = self.made().await;
        let wait = async {
            loop {
                tokio::time::sleep(Duration::from_secs(2)).await;
                let now = self.made().await;
                if now == last {
                    return;
                }
                last = now;
            }
        };
        if tokio::time::timeout(SOON, wait).await.is_err() {
            panic!("the objects go on changing: {:?}", last.keys());
        }
        last
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
    /// Waits until the controller is cut off, or for `limit`.
    pub(crate) async fn dies(&self, limit: Duration) {
        let dead = async {
            while !self.connection.is_dead() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(limit, dead).await;
    }

    /// Waits until the controller has sent no request for a while.
    pub(crate) async fn until_idle(&self) {
        let wait = async {
            let mut known = self.calls().len();
            loop {
                tokio::time::sleep(IDLE).await;
                let now = self.calls().len();
                if now == known {
                    return;
                }
                known = now;
            }
        };
        if tokio::time::timeout(SOON, wait).await.is_err() {
            panic!("the controller goes on sending requests: {:#?}", self.calls());
        }
    }

    /// Returns the calls that the controller has made since it connected, such as `GET /api/v1/services`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.connection.calls()
    }

    /// Returns the calls since the last call of this function.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        self.connection.take_calls()
    }

    /// Ends the controller without a clean shutdown.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Returns the condition of this type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Returns a service with a model at this path; an empty path means no model.
pub(crate) fn service(name: &str, path: &str, more: Value) -> Value {
    let mut predictor = json!({
        "model": {"modelFormat": {"name": "pytorch"}, "storageUri": format!("file:///models/{path}")},
    });
    if path.is_empty() {
        predictor["model"].as_object_mut().unwrap().remove("storageUri");
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

/// Returns a runtime of the namespace with this image, and with the further fields of `more`.
pub(crate) fn runtime(image: &str, more: Value) -> Value {
    let mut runtime = json!({
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "test-runtime"},
        "spec": {
            "supportedModelFormats": [{"name": "pytorch", "autoSelect": true}],
            "protocolVersions": ["v2"],
            "containers": [{"name": "kserve-container", "image": image}],
        },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        runtime["spec"][field] = value.clone();
    }
    runtime
}

/// Returns the comparable parts of an object, without times, versions and fields of other writers.
fn comparable(object: &DynamicObject) -> Value {
    let mut owners: Vec<_> = object.owner_references().iter().map(|o| o.name.clone()).collect();
    owners.sort();
    let annotations: Vec<_> = object.annotations().keys().cloned().collect();
    let mut spec = object.data.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        // The API server assigns the addresses.
        spec.retain(|field, _| !field.starts_with("clusterIP"));
    }
    json!({"labels": object.labels(), "owners": owners, "annotations": annotations, "spec": spec,
        "data": object.data.get("data")})
}
