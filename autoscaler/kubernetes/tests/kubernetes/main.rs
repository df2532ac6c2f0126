//! A HorizontalPodAutoscaler of a real control plane scales a service by Weir's metrics API.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

#[path = "../../../../tests/kubernetes/api_server.rs"]
mod api_server;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use weir_autoscaler_kubernetes::{Loads, ProvidedApi, metrics_certificates, serve_metrics};
use weir_cluster::{
    Activity, Histogram, LatestReports, Report, Revision, RevisionName, ServiceName, Snapshot, Workload,
};
use weir_cluster_tls_port::CertificateOptions;

use crate::api_server::{DEADLINE, make_namespace};

const NAMESPACE: &str = "scaled-by-hpa";

/// The service `digits`, a gateway that reports on it, and the port of the metrics API.
struct World {
    client: Client,
    reports: watch::Sender<Arc<LatestReports>>,
    _snapshots: watch::Sender<Arc<Snapshot>>,
    port: u16,
    _stop: DropGuard,
}

impl World {
    async fn new() -> Self {
        let client = Client::try_from(api_server::config().await).unwrap();
        make_namespace(&client, NAMESPACE).await;
        let (reports, latest) = watch::channel(Arc::default());
        let (snapshots, seen) = watch::channel(Arc::new(snapshot()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let certificates = CertificateOptions {
            settle: Duration::from_secs(1),
            ..metrics_certificates(NAMESPACE, &[ProvidedApi::Custom])
        };
        let stop = CancellationToken::new();
        let loads = Loads::follow(latest, seen);
        let metrics = serve_metrics(client.clone(), loads, certificates, listener, stop.clone());
        tokio::spawn(metrics);
        Self { client, reports, _snapshots: snapshots, port, _stop: stop.drop_guard() }
    }

    /// Applies an object as a user does.
    async fn apply(&self, object: Value) {
        let api = self.api(&object);
        let name = object["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("user").force();
        api.patch(name, &params, &Patch::Apply(&object)).await.unwrap();
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        if object["metadata"]["namespace"].is_string() {
            Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    /// Waits until an object has a state.
    async fn until(&self, object: &Value, what: &str, is_it: impl Fn(&Value) -> bool) {
        let (api, name) = (self.api(object), object["metadata"]["name"].as_str());
        let mut last = Value::Null;
        let wait = async {
            loop {
                last = serde_json::to_value(api.get(name.unwrap()).await.unwrap()).unwrap();
                if is_it(&last) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        if tokio::time::timeout(DEADLINE, wait).await.is_err() {
            panic!("never: {what}\n{last:#}");
        }
    }

    /// Reports from now on, with a new start each time, that the gateway's requests waited this long.
    fn waits(&self, wait: Duration) -> tokio::task::AbortHandle {
        let reports = self.reports.clone();
        let repeat = async move {
            for started in 1.. {
                let mut queue_delay = Histogram::default();
                (0..50).for_each(|_| queue_delay.record(wait));
                let activity = Activity { arrivals: 50, queue_delay, ..Activity::default() };
                let report = Report {
                    started,
                    age_us: 10_000_000,
                    routes: 1,
                    revisions: [(revision(), Arc::new(activity))].into(),
                };
                let latest: LatestReports = [("a".into(), Arc::new(report))].into();
                reports.send_replace(Arc::new(latest));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::spawn(repeat).abort_handle()
    }
}

fn revision() -> RevisionName {
    let service = ServiceName::new(NAMESPACE, "digits").unwrap();
    service.revision(1).unwrap()
}

fn snapshot() -> Snapshot {
    let workload = Workload::new(revision(), PodTemplateSpec::default(), 3);
    let running = Revision::new(&workload, 3);
    Snapshot { revisions: Arc::new([(revision(), Arc::new(running))].into()), ..Snapshot::default() }
}

fn pods() -> Value {
    let labels = json!({
        "serving.kserve.io/inferenceservice": "digits",
        "weir.dev/revision": revision().as_str(),
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "digits", "namespace": NAMESPACE},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": "server", "image": "server"}],
                    "tolerations": [{"operator": "Exists"}],
                },
            },
        },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": "digits",
            "namespace": NAMESPACE,
            "annotations": {"serving.kserve.io/autoscalerClass": "none"},
        },
        "spec": {"predictor": {"minReplicas": 3, "model": {"modelFormat": {"name": "pytorch"}, "storageUri": "pvc://models/digits"}}},
    })
}

/// Status that a controller would write; this test runs none.
fn status() -> Value {
    json!({
        "status": {
            "labelSelector": "serving.kserve.io/inferenceservice=digits",
            "modelStatus": {
                "transitionStatus": "UpToDate",
                "copies": {"failedCopies": 0, "totalCopies": 3},
            },
        },
    })
}

fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "digits", "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "digits"},
            "minReplicas": 3,
            "maxReplicas": 20,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            "metrics": [{
                "type": "Pods",
                "pods": {
                    "metric": {"name": "nv_inference_queue_duration_us"},
                    "target": {"type": "AverageValue", "averageValue": "50000"},
                },
            }],
        },
    })
}

/// Objects by which the API server reaches the port: a Service that points to this machine, and an APIService.
fn aggregated(port: u16) -> [Value; 2] {
    [
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "weir-metrics", "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        }),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta2.custom.metrics.k8s.io"},
            "spec": {
                "group": "custom.metrics.k8s.io",
                "version": "v1beta2",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"namespace": NAMESPACE, "name": "weir-metrics", "port": port},
            },
        }),
    ]
}

fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == kind && c["status"] == "True")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hpa_scales_a_service_out_and_back() {
    let world = World::new().await;
    for object in [pods(), service()] {
        world.apply(object).await;
    }
    let params = PatchParams::default();
    let services = world.api(&service());
    services.patch_status("digits", &params, &Patch::Merge(status())).await.unwrap();
    let [way, api] = aggregated(world.port);
    world.apply(way).await;
    world.apply(api.clone()).await;
    world.until(&api, "available", |o| is_true(o, "Available")).await;
    let busy = world.waits(Duration::from_millis(200));
    world.until(&pods(), "three ready", |o| o["status"]["readyReplicas"] == 3).await;
    world.apply(autoscaler()).await;
    let replicas = |o: &Value| o["spec"]["predictor"]["minReplicas"].as_i64().unwrap();
    world.until(&autoscaler(), "active", |o| is_true(o, "ScalingActive")).await;
    world.until(&service(), "scaled out", |o| replicas(o) > 3).await;
    busy.abort();
    let _calm = world.waits(Duration::ZERO);
    world.until(&service(), "scaled in", |o| replicas(o) == 3).await;
}
