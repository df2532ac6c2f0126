//! Result of a validation without errors: every choice made, every default filled in, every text parsed.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_access::ServiceRules;
use weir_cluster::{
    Batching, ClusterError, ControlRoutes, Entrance, Host, Identity, OpenAiApi, PodTemplate, ReadyCall, ServiceName,
    Storage, Tag, Workload,
};

use super::UrlScheme;
use crate::manifest::field_error::IgnoredField;
use crate::manifest::scaling::Scaling;
use crate::rollout::Strategy;
use crate::runtimes::Scope;

/// Service without errors: every choice made, every default filled in, every text parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    /// Namespace and name of the service.
    pub service: ServiceName,
    /// Creation time in seconds since 1970.
    pub since: u64,
    /// `metadata.generation` of the validated object.
    pub generation: Option<i64>,
    /// True while the annotation `serving.kserve.io/stop` stops the service.
    pub is_stopped: bool,
    /// Predictor of the manifest.
    pub predictor: Variant,
    /// Canaries declared in `spec.canary`.
    pub canaries: Vec<CanaryVariant>,
    /// Way in which traffic moves to a new revision.
    pub strategy: Strategy,
    /// Time for which a replaced revision keeps its replicas; None for the default.
    pub rollback_window: Option<Duration>,
    /// Effect of a changed runtime on the service.
    pub auto_update: AutoUpdate,
    /// Hosts, timeouts and limits with which the service is exposed.
    pub exposure: Exposure,
    /// Most requests in flight at one replica; None for no limit.
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
    /// Running revisions keep the runtime with which they were made, until the manifest changes.
    Disabled,
}

/// Pod and models of a predictor or canary.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Template of the pods.
    pub template: PodTemplate,
    /// Models mounted into the pods.
    pub storage: Vec<Storage>,
    /// Hash of the template and the storage.
    pub identity: Identity,
    /// Identity of the manifest's part in the pods, without the runtime's.
    pub manifest: ManifestIdentity,
    /// Readiness check of a replica, as its runtime declares it.
    pub ready_call: Option<ReadyCall>,
    /// Name and scope of the chosen runtime; None if the manifest brings its own containers.
    pub runtime: Option<(String, Scope)>,
    /// Bounds and targets of the replicas.
    pub scaling: Scaling,
    /// False if the pods cannot be made now, because the runtime is gone or does not fit. A revision that was made from
    /// the same manifest then keeps its pods.
    pub has_pods: bool,
}

/// Canary of the manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryVariant {
    /// Name of the canary's predictor.
    pub tag: Tag,
    /// Share of the requests, 0..=100 percent; all canaries together have at most 100.
    pub percent: u8,
    /// Pod and models of the canary.
    pub variant: Variant,
}

/// Hosts, timeouts and limits with which a service is exposed.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposure {
    /// Main host for clients outside the cluster; None if the service is cluster-local.
    pub external_host: Option<Host>,
    /// Scheme of the URLs for clients outside the cluster.
    pub scheme: UrlScheme,
    /// All hosts, including the external one.
    pub hosts: Vec<Host>,
    /// Domain of the tags' hosts; None if the service is cluster-local.
    pub tag_domain: Option<String>,
    /// Domain of the hosts inside the cluster.
    pub cluster_domain: String,
    /// V2 model name by which requests are routed to the service.
    pub model: Option<Arc<str>>,
    /// Longest duration of a request; None if the service sets no limit.
    pub timeout: Option<Duration>,
    /// Longest wait for a revision to scale up from zero.
    pub activation_timeout: Duration,
    /// Most requests queued for one revision.
    pub max_queue: u32,
    /// Batching in the gateway; None without a batcher.
    pub batching: Option<Batching>,
    /// Tag that receives mirrored requests, and the share mirrored, 1..=100 percent.
    pub mirror: Option<(Tag, u8)>,
    /// Access of clients to the servers' control routes.
    pub control: ControlRoutes,
    /// Rules by which clients may use the service.
    pub access: ServiceRules,
    /// Support of OpenAI's API by the servers.
    pub openai: OpenAiApi,
    /// Requests that the component receives beside those to its hosts.
    pub entrance: Entrance,
}

/// Hashes of the manifest's part in the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestIdentity {
    /// Hash of the canonical form, which ignores order, defaults and the notation of quantities. Revisions are
    /// recognised by it.
    pub meaning: Identity,
    /// Hash of the text as written, by which earlier versions of Weir recognised revisions.
    pub text: Identity,
}

impl Variant {
    /// Returns true if a stored hash belongs to this manifest.
    #[must_use]
    pub fn is_of_manifest(&self, kept: &Identity) -> bool {
        *kept == self.manifest.meaning || *kept == self.manifest.text
    }

    /// Returns a variant with default bounds.
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
        let workload = Workload { storage, ..Workload::new(service.revision(1)?, template, 0) };
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

    /// Returns a variant whose pods cannot be made now.
    ///
    /// # Errors
    /// The same errors as [`Self::new`].
    pub(super) fn without_pods(service: &ServiceName, manifest: ManifestIdentity) -> Result<Self, ClusterError> {
        let template = PodTemplateSpec::default();
        let variant = Self::new(service, template, Vec::new(), None, manifest)?;
        Ok(Self { has_pods: false, ..variant })
    }
}
