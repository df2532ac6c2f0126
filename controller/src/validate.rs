//! Whether a service can be what its manifest says, and what that is.

mod annotations;
mod canary;
mod component;
mod ignored;
mod predictor;
mod route;
mod runtime;
#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::{Batching, ClusterError, Host, Identity, ServiceName, Storage, Tag, Workload};
use weir_crds::inference_service::FailureReason;
use weir_crds::{InferenceService, with_defaults};

use crate::rollout::Strategy;
use crate::{Runtimes, Scaling, Scope, Service};

pub(crate) use annotations::LATEST;
pub(crate) use canary::PREVIOUS;
pub use runtime::validate_runtime;

/// What holds for every service of a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The domain of the hosts for callers outside, such as `example.com`.
    pub domain: String,
    /// Whether the V2 name of a model is enough to find its service.
    pub model_names: ModelNames,
}

/// Whether the V2 name of a model is enough to find its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelNames {
    /// It is: only one platform is served, as on one machine.
    Lead,
    /// It is not.
    DoNotLead,
}

/// Something that makes a service impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, as in `spec.predictor.minReplicas`.
    pub field: String,
    /// What is wrong with it, a sentence without its first capital and its full stop.
    pub because: String,
}

/// All that makes a service impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationErrors {
    /// The kind of the first, as the status has it.
    pub reason: FailureReason,
    /// At least one.
    pub list: Vec<FieldError>,
}

/// A field that is taken and has no effect, or less than it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredField {
    /// Path of the field.
    pub field: String,
    /// Why, or what happens instead.
    pub because: String,
}

/// A service that can be served: every choice is made, every default filled in, every text read.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    /// Which.
    pub service: ServiceName,
    /// When it was made, seconds since 1970.
    pub since: u64,
    /// `metadata.generation` of what was read.
    pub generation: Option<i64>,
    /// Whether anything of it runs.
    pub run: Run,
    /// The model that the manifest asks for.
    pub predictor: Variant,
    /// Others beside it, each with its share.
    pub canaries: Vec<CanaryVariant>,
    /// How a new model takes over.
    pub strategy: Strategy,
    /// How it is reached.
    pub exposure: Exposure,
    /// Requests in flight at one replica.
    pub concurrency: Option<NonZeroU32>,
    /// What has no effect.
    pub ignored_fields: Vec<IgnoredField>,
}

/// Whether anything of a service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// It does.
    Serving,
    /// It was told to stop.
    Stopped,
}

/// A pod with a model in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The pod.
    pub template: Arc<PodTemplateSpec>,
    /// The models.
    pub storage: Vec<Storage>,
    /// A hash of both.
    pub identity: Identity,
    /// The runtime that was chosen; none where the manifest brings its own containers.
    pub runtime: Option<(String, Scope)>,
    /// Its bounds.
    pub scaling: Scaling,
}

/// A canary of the manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryVariant {
    /// Its name.
    pub tag: Tag,
    /// Its share of the requests, 0..=100 percent; all of them together are no more than 100.
    pub percent: u8,
    /// What it is.
    pub variant: Variant,
}

/// How a service is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposure {
    /// The main host for callers outside, unless the service is kept from them.
    pub outside: Option<Host>,
    /// All hosts, that one included.
    pub hosts: Vec<Host>,
    /// The domain of the hosts of tags, unless it is kept from callers outside.
    pub tag_domain: Option<String>,
    /// The model name that leads to it.
    pub model: Option<Arc<str>>,
    /// The longest a request may take.
    pub timeout: Option<Duration>,
    /// The longest it waits for a revision to come up from zero.
    pub activation_timeout: Duration,
    /// Requests that wait for one revision at most.
    pub max_queue: u32,
    /// Batches that the gateway gathers.
    pub batching: Option<Batching>,
    /// Who gets copies of requests, and how many of a hundred.
    pub mirror: Option<(Tag, u8)>,
}

/// Reads a service: all that its definition's rules say, and what they cannot.
///
/// # Errors
/// Every fault there is, with its field.
pub fn validate(
    declared: &Service,
    runtimes: &Runtimes,
    platform: &Platform,
) -> Result<Validated, ValidationErrors> {
    let mut found = Found::default();
    let ignored_fields = ignored::ignored_fields(&declared.object, &mut found);
    let object = with_defaults(InferenceService::clone(&declared.object));
    let context = Context {
        service: &declared.name,
        object: &object,
        claims: declared.claims.as_ref(),
        runtimes,
    };
    let valid = context.read(platform, ignored_fields, &mut found);
    match (valid, found.list.is_empty()) {
        (Some(valid), true) => Ok(valid),
        (Some(_) | None, _) => Err(found.faults()),
    }
}

/// What the parts are read with.
struct Context<'a> {
    service: &'a ServiceName,
    /// With defaults.
    object: &'a InferenceService,
    claims: Option<&'a PathBuf>,
    runtimes: &'a Runtimes,
}

impl Context<'_> {
    /// None, when there is a fault that leaves nothing to describe.
    fn read(
        &self,
        platform: &Platform,
        ignored_fields: Vec<IgnoredField>,
        found: &mut Found,
    ) -> Option<Validated> {
        let spec = &self.object.spec;
        let annotations = annotations::read(self.object, found);
        let predictor = predictor::read(self, "spec.predictor", &spec.predictor, found);
        let bounds = predictor
            .as_ref()
            .map(|predictor| predictor.scaling.clone());
        let canaries = canary::read(self, &bounds.unwrap_or_default(), found);
        let exposure = route::read(self, &annotations, platform, found);
        Some(Validated {
            service: self.service.clone(),
            since: created(self.object),
            generation: self.object.metadata.generation,
            run: annotations.run,
            predictor: predictor?,
            canaries,
            strategy: annotations.strategy,
            exposure: exposure?,
            concurrency: component::concurrency(&spec.predictor.component),
            ignored_fields,
        })
    }
}

/// ValidationErrors as they are found.
#[derive(Default)]
struct Found {
    list: Vec<FieldError>,
    reason: Option<FailureReason>,
}

impl Found {
    fn add(&mut self, field: impl Into<String>, because: impl Into<String>) {
        self.list.push(FieldError::new(field, because));
    }

    fn check(&mut self, is_right: Right, field: impl Into<String>, because: impl Into<String>) {
        match is_right {
            Right::Yes => {}
            Right::No => self.add(field, because),
        }
    }

    fn faults(self) -> ValidationErrors {
        ValidationErrors {
            reason: self.reason.unwrap_or(FailureReason::InvalidPredictorSpec),
            list: self.list,
        }
    }
}

/// Whether a rule is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Right {
    Yes,
    No,
}

fn right(rule: bool) -> Right {
    match rule {
        true => Right::Yes,
        false => Right::No,
    }
}

fn created(object: &InferenceService) -> u64 {
    let created = object.metadata.creation_timestamp.as_ref();
    created.map_or(0, |time| u64::try_from(time.0.as_second()).unwrap_or(0))
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, because: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            because: because.into(),
        }
    }
}

impl Variant {
    /// A variant with bounds by default.
    ///
    /// # Errors
    /// None in practice: every service has a first revision.
    fn new(
        service: &ServiceName,
        template: PodTemplateSpec,
        storage: Vec<Storage>,
        runtime: Option<(String, Scope)>,
    ) -> Result<Self, ClusterError> {
        let workload = Workload {
            revision: service.revision(1)?,
            template: Arc::new(template),
            storage,
            replicas: 0,
            concurrency: None,
            scaling: None,
        };
        Ok(Self {
            identity: workload.identity(),
            template: workload.template,
            storage: workload.storage,
            runtime,
            scaling: Scaling::default(),
        })
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.because)
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<_> = self.list.iter().map(ToString::to_string).collect();
        f.write_str(&list.join("; "))
    }
}
