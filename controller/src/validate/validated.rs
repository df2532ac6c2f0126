//! A service without errors: every choice made, every default filled in, every text parsed.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::{
    Batching, ClusterError, ControlRoutes, Host, Identity, PodTemplate, ReadyCall, ServiceName, Storage, Tag, Workload,
};

use super::UrlScheme;
use crate::field_error::IgnoredField;
use crate::rollout::Strategy;
use crate::runtimes::Scope;
use crate::scaling::Scaling;

/// A service without errors: every choice made, every default filled in, every text parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    /// Namespace and name of the service.
    pub service: ServiceName,
    /// Creation time in seconds since 1970.
    pub since: u64,
    /// `metadata.generation` of the validated object.
    pub generation: Option<i64>,
    /// True while the annotation `serving.kserve.io/stop` keeps the service from running.
    pub is_stopped: bool,
    /// The predictor of the manifest.
    pub predictor: Variant,
    /// The canaries of `spec.canary`.
    pub canaries: Vec<CanaryVariant>,
    /// How traffic moves to a new revision.
    pub strategy: Strategy,
    /// Time for which a replaced revision keeps its replicas; `None` is the default.
    pub rollback_window: Option<Duration>,
    /// Effect of a changed runtime on the service.
    pub auto_update: AutoUpdate,
    /// How the service is reached.
    pub exposure: Exposure,
    /// Most requests in flight at one replica; `None` is no limit.
    pub concurrency: Option<NonZeroU32>,
    /// Fields of the manifest without effect.
    pub ignored_fields: Vec<IgnoredField>,
}

/// Effect of a changed runtime on a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoUpdate {
    /// The service gets a new revision.
    #[default]
    Enabled,
    /// What serves keeps the runtime that it was made with, until the manifest changes.
    Disabled,
}

/// The pod and models of a predictor or canary.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Template of the pods.
    pub template: PodTemplate,
    /// Models mounted into the pods.
    pub storage: Vec<Storage>,
    /// Hash of template and storage.
    pub identity: Identity,
    /// Identity of the manifest's part in the pods, without the runtime's.
    pub manifest: ManifestIdentity,
    /// The way in which a replica is found ready, as its runtime declares it.
    pub ready_call: Option<ReadyCall>,
    /// Name and scope of the chosen runtime; `None` where the manifest brings its own containers.
    pub runtime: Option<(String, Scope)>,
    /// Bounds and targets of the replicas.
    pub scaling: Scaling,
    /// False where its pods cannot be made now, as its runtime is gone or does not fit: then a revision that was made of the
    /// same manifest goes on with those that it has.
    pub has_pods: bool,
}

/// A canary of the manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryVariant {
    /// Name of the canary's predictor.
    pub tag: Tag,
    /// Share of the requests, 0..=100 percent; all canaries together have at most 100.
    pub percent: u8,
    /// Pod and models of the canary.
    pub variant: Variant,
}

/// How a service is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposure {
    /// Main host for external callers; `None` when the service is cluster-local.
    pub external_host: Option<Host>,
    /// Scheme of the URLs for external callers.
    pub scheme: UrlScheme,
    /// All hosts, the external one included.
    pub hosts: Vec<Host>,
    /// Domain of the tags' hosts; `None` when the service is cluster-local.
    pub tag_domain: Option<String>,
    /// Domain of the hosts for callers inside the cluster.
    pub cluster_domain: String,
    /// V2 model name that leads to the service.
    pub model: Option<Arc<str>>,
    /// Longest duration of a request; `None` is no limit of the service's own.
    pub timeout: Option<Duration>,
    /// Longest wait for a revision to scale up from zero.
    pub activation_timeout: Duration,
    /// Most requests queued for one revision.
    pub max_queue: u32,
    /// Batching in the gateway; `None` without a batcher.
    pub batching: Option<Batching>,
    /// Tag that receives mirrored requests, and the share mirrored, 1..=100 percent.
    pub mirror: Option<(Tag, u8)>,
    /// What clients may ask of the service's servers beside inference.
    pub control: ControlRoutes,
}

/// Hashes of what a manifest says of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestIdentity {
    /// Hash of the meaning, by which revisions are kept.
    pub meaning: Identity,
    /// Hash of the text, by which versions of Weir before this one kept revisions.
    pub text: Identity,
}

impl Variant {
    /// Tells whether a hash that was kept is of this manifest.
    #[must_use]
    pub fn is_of_manifest(&self, kept: &Identity) -> bool {
        *kept == self.manifest.meaning || *kept == self.manifest.text
    }

    /// A variant with default bounds.
    ///
    /// # Errors
    /// None in practice: every service name allows a first revision.
    pub(super) fn new(
        service: &ServiceName,
        template: PodTemplateSpec,
        storage: Vec<Storage>,
        runtime: Option<(String, Scope)>,
        manifest: ManifestIdentity,
    ) -> Result<Self, ClusterError> {
        let workload = Workload {
            ready_call: None,
            revision: service.revision(1)?,
            template: template.into(),
            storage,
            replicas: 0,
            concurrency: None,
            scaling: None,
        };
        Ok(Self {
            identity: workload.identity(),
            template: workload.template,
            storage: workload.storage,
            manifest,
            ready_call: None,
            runtime,
            scaling: Scaling::default(),
            has_pods: true,
        })
    }

    /// A variant whose pods cannot be made now.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn without_pods(service: &ServiceName, manifest: ManifestIdentity) -> Result<Self, ClusterError> {
        let template = PodTemplateSpec::default();
        let variant = Self::new(service, template, Vec::new(), None, manifest)?;
        Ok(Self { has_pods: false, ..variant })
    }
}
