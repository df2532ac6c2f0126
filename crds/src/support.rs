//! Fields of KServe that Weir does not honour, so that none is ignored silently. Implementing a feature removes its
//! line here.

use crate::constants::SERVING_CONTAINER;
use crate::inference_service::{
    AutoScaling, Component, Framework, InferenceService, MetricKind, Predictor, ScaleMetric,
};
use crate::serving_runtime::ServingRuntimeSpec;

/// A given field that Weir does not honour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Path of the field, as in `spec.explainer`.
    pub field: String,
    /// Consequence for the service.
    pub effect: Effect,
    /// Reason, or what happens instead.
    pub reason: &'static str,
}

/// Consequence of an unsupported field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The service is refused, because it could not behave as specified.
    Refused,
    /// The service runs without the field, and its status lists it.
    Ignored,
}

use Effect::{Ignored, Refused};

/// Annotations that Weir ignores.
const ANNOTATIONS: [(&str, Effect, &str); 13] = [
    ("autoscaling.knative.dev/class", Ignored, "Weir uses its own autoscaling algorithm"),
    ("autoscaling.knative.dev/metric-aggregation-algorithm", Ignored, "Weir uses its own autoscaling algorithm"),
    ("autoscaling.knative.dev/panic-threshold-percentage", Ignored, "Weir uses its own autoscaling algorithm"),
    ("autoscaling.knative.dev/panic-window-percentage", Ignored, "Weir uses its own autoscaling algorithm"),
    ("autoscaling.knative.dev/target-burst-capacity", Ignored, "the gateway is always in the path"),
    ("serving.knative.dev/rollout-duration", Ignored, "traffic moves in the steps of weir.dev/rollout-steps"),
    ("serving.kserve.io/disable-localmodel", Ignored, "models are not cached by node groups"),
    ("serving.kserve.io/enable-metric-aggregation", Ignored, "there is no sidecar with metrics to merge"),
    (
        "serving.kserve.io/enable-prometheus-scraping",
        Ignored,
        "pods have the prometheus.io annotations of their runtime and of spec.predictor.annotations",
    ),
    ("serving.kserve.io/enable-tag-routing", Ignored, "every tag has a host by default"),
    (
        "serving.kserve.io/gke-accelerator",
        Ignored,
        "write cloud.google.com/gke-accelerator into spec.predictor.nodeSelector",
    ),
    ("serving.kserve.io/nodegroup", Ignored, "models are not cached by node groups"),
    ("serving.kserve.io/storage-initializer-uid", Ignored, "models are fetched by the pod's own user"),
];

/// Lists the given fields of a service that Weir does not honour, in the order of the manifest.
#[must_use]
pub fn unsupported(service: &InferenceService) -> Vec<Unsupported> {
    let mut found = Found::default();
    found.annotations(service);
    let spec = &service.spec;
    found.predictor("spec.predictor", &spec.predictor);
    for (i, canary) in spec.canary.iter().enumerate() {
        let path = format!("spec.canary[{i}].predictor");
        found.predictor(&path, &canary.predictor);
        found.of_all_variants(&path, &canary.predictor.component);
    }
    if let Some(art) = spec.explainer.as_ref().and_then(|explainer| explainer.art.as_ref()) {
        found.given(&art.storage, "spec.explainer.art.storage", Refused, "write storageUri instead");
    }
    found.list
}

/// Lists the given fields of a runtime that Weir does not honour.
#[must_use]
pub fn unsupported_in_runtime(runtime: &ServingRuntimeSpec) -> Vec<Unsupported> {
    let mut found = Found::default();
    if runtime.multi_model == Some(true) {
        found.add("spec.multiModel", Refused, "each service has its own pods");
    }
    found.given(&runtime.worker_spec, "spec.workerSpec", Refused, ONE_POD);
    for (field, given) in [
        ("spec.grpcEndpoint", runtime.grpc_endpoint.is_some()),
        ("spec.grpcDataEndpoint", runtime.grpc_data_endpoint.is_some()),
        ("spec.httpDataEndpoint", runtime.http_data_endpoint.is_some()),
        ("spec.replicas", runtime.replicas.is_some()),
        ("spec.storageHelper", runtime.storage_helper.is_some()),
        ("spec.builtInAdapter", runtime.built_in_adapter.is_some()),
    ] {
        if given {
            found.add(field, Ignored, "it is for ModelMesh only");
        }
    }
    found.list
}

const ONE_POD: &str = "multi-pod replicas are not supported";
/// Reason why a canary's own value has no effect.
pub const SET_FOR_ALL_VARIANTS: &str = "spec.predictor sets it for all variants";
const QUEUE_DELAY: &str = "replicas are scaled by queue delay";

/// The unsupported fields found so far.
#[derive(Default)]
struct Found {
    list: Vec<Unsupported>,
}

impl Found {
    fn add(&mut self, field: impl Into<String>, effect: Effect, reason: &'static str) {
        self.list.push(Unsupported { field: field.into(), effect, reason });
    }

    fn given<T>(&mut self, value: &Option<T>, field: &str, effect: Effect, reason: &'static str) {
        if value.is_some() {
            self.add(field, effect, reason);
        }
    }

    fn annotations(&mut self, service: &InferenceService) {
        let Some(annotations) = &service.metadata.annotations else {
            return;
        };
        let mode = "serving.kserve.io/deploymentMode";
        if annotations.get(mode).is_some_and(|mode| mode == "ModelMesh") {
            let field = format!("metadata.annotations[{mode}]");
            self.add(field, Refused, "each service has its own pods");
        }
        for (name, effect, reason) in ANNOTATIONS {
            if annotations.contains_key(name) {
                self.add(format!("metadata.annotations[{name}]"), effect, reason);
            }
        }
    }

    fn predictor(&mut self, path: &str, predictor: &Predictor) {
        for (name, framework) in predictor.frameworks() {
            self.framework(&format!("{path}.{name}"), framework);
        }
        self.given(&predictor.worker_spec, &format!("{path}.workerSpec"), Refused, ONE_POD);
        self.component(path, &predictor.component);
    }

    fn framework(&mut self, path: &str, framework: &Framework) {
        if let Some(storage) = &framework.storage {
            let reason = "it is for ModelMesh only";
            self.given(&storage.schema_path, &format!("{path}.storage.schemaPath"), Ignored, reason);
        }
        if framework.confidential.as_ref().is_some_and(|model| model.enabled) {
            let reason = "encrypted models are not supported";
            self.add(format!("{path}.confidential"), Refused, reason);
        }
        if !matches!(&*framework.container.name, "" | SERVING_CONTAINER) {
            let reason =
                "the serving container is always called kserve-container, and the model has the service's name";
            self.add(format!("{path}.name"), Ignored, reason);
        }
    }

    fn component(&mut self, path: &str, component: &Component) {
        let reason = "requests are served and not logged";
        self.given(&component.logger, &format!("{path}.logger"), Ignored, reason);
        if let Some(batcher) = &component.batcher {
            let reason = "the service's timeout applies instead";
            self.given(&batcher.timeout, &format!("{path}.batcher.timeout"), Ignored, reason);
        }
        let field = format!("{path}.deploymentStrategy");
        let reason = "a revision's pods are replaced one by one";
        self.given(&component.deployment_strategy, &field, Ignored, reason);
        self.scaling(path, component);
    }

    /// Adds the fields of a canary that have no effect: `spec.predictor` sets them for all variants of a service.
    fn of_all_variants(&mut self, path: &str, canary: &Component) {
        for (field, is_set) in [
            ("timeout", canary.timeout.is_some()),
            ("containerConcurrency", canary.container_concurrency.is_some()),
            ("batcher", canary.batcher.is_some()),
            ("canaryTrafficPercent", canary.canary_traffic_percent.is_some()),
        ] {
            if is_set {
                self.add(format!("{path}.{field}"), Ignored, SET_FOR_ALL_VARIANTS);
            }
        }
    }

    fn scaling(&mut self, path: &str, component: &Component) {
        match component.scale_metric {
            Some(ScaleMetric::Cpu | ScaleMetric::Memory) => {
                self.add(format!("{path}.scaleMetric"), Ignored, QUEUE_DELAY);
            }
            Some(ScaleMetric::Concurrency | ScaleMetric::Rps) | None => {}
        }
        let field = format!("{path}.scaleMetricType");
        self.given(&component.scale_metric_type, &field, Ignored, QUEUE_DELAY);
        if let Some(scaling) = &component.auto_scaling {
            self.auto_scaling(&format!("{path}.autoScaling"), scaling);
        }
    }

    fn auto_scaling(&mut self, path: &str, scaling: &AutoScaling) {
        for (i, metric) in scaling.metrics.iter().enumerate() {
            let reason = match metric.kind {
                MetricKind::Resource => QUEUE_DELAY,
                MetricKind::External | MetricKind::PodMetric => "external metrics are not read",
            };
            self.add(format!("{path}.metrics[{i}]"), Ignored, reason);
        }
    }
}
