//! What a pod means for a process.

mod command;
mod pod;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use weir_cluster::{ClusterError, ContainerPorts, ReadyCall, Workload};
use weir_fetch::Limits;

use self::command::Program;
use crate::options::Options;
use crate::ports::PortPlan;
use crate::probe::{Liveness, Probe};
use crate::storage::Model;

/// The time from SIGTERM to SIGKILL where a pod does not say: Kubernetes' default.
const GRACE: Duration = Duration::from_secs(30);

/// The time from leaving the snapshot to SIGTERM where a pod does not say: gateways in this process hear
/// of it within a millisecond, and what they send until then should still be taken.
const NOTICE: Duration = Duration::from_millis(200);

/// A revision's command, decided but for its ports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recipe {
    /// The program and its arguments, not expanded yet.
    words: Vec<String>,
    /// The container's own variables, not expanded yet, in order: later ones may use earlier ones.
    env: Vec<(String, String)>,
    /// What the command inherits.
    inherited: Arc<BTreeMap<String, String>>,
    /// Where it runs.
    pub(crate) directory: Option<PathBuf>,
    /// The files it needs.
    pub(crate) models: Vec<Model>,
    /// Bounds of downloading them.
    pub(crate) fetch: Limits,
    pub(crate) ports: PortPlan,
    pub(crate) probe: Probe,
    pub(crate) liveness: Liveness,
    /// Fields of the pod that mean nothing to a process.
    pub(crate) ignored_fields: Vec<&'static str>,
    /// From leaving the snapshot to SIGTERM.
    pub(crate) notice: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
}

/// Whether a workload could run here. Nothing is started.
///
/// # Errors
/// [`ClusterError::Refused`] when its pod or its storage needs what a process cannot have.
pub fn check(workload: &Workload, options: &Options) -> Result<(), ClusterError> {
    Recipe::of(workload, options).map(drop)
}

impl Recipe {
    /// Reads a workload.
    ///
    /// # Errors
    /// [`ClusterError::Refused`], naming the revision, when its pod needs what a process cannot have.
    pub(crate) fn of(workload: &Workload, options: &Options) -> Result<Self, ClusterError> {
        let revision = &workload.revision;
        let refused = |because: String| ClusterError::refused(revision, because);
        let pod = workload.template.spec.as_ref();
        let Some((pod, container)) = pod.zip(workload.container()) else {
            return Err(refused("its pod has no container".to_owned()));
        };
        pod::check(pod, container).map_err(refused)?;
        let models = models(workload, options)?;
        Self::read(revision.service().name(), pod, container, models, options).map_err(refused)
    }

    fn read(
        name: &str,
        pod: &PodSpec,
        container: &Container,
        models: Vec<Model>,
        options: &Options,
    ) -> Result<Self, String> {
        let program = Program::of(container, options)?;
        let relocate = |text: &str| command::relocate(text, &models);
        let words = program.words(container, name, &models, relocate);
        let env = pod::variables(container, relocate)?;
        Ok(Self {
            ports: PortPlan::of(&words, &env, ContainerPorts::of(container))?,
            probe: Probe::of(container, program.server())?,
            liveness: Liveness::of(container, program.server())?,
            ignored_fields: pod::ignored_fields(pod, container),
            notice: pod::notice(container).unwrap_or(NOTICE),
            grace: pod::grace(pod).unwrap_or(GRACE),
            directory: container
                .working_dir
                .as_deref()
                .map(relocate)
                .map(PathBuf::from),
            inherited: options.environment.clone(),
            fetch: options.fetch,
            words,
            env,
            models,
        })
    }

    /// Who may find out that a replica is ready.
    pub(crate) fn ready_call(&self) -> ReadyCall {
        match self.probe.is_v2() {
            true => ReadyCall::V2,
            false => ReadyCall::Platform,
        }
    }
}

fn models(workload: &Workload, options: &Options) -> Result<Vec<Model>, ClusterError> {
    let folder = options.models();
    let each = workload.storage.iter();
    each.map(|storage| Model::of(storage, &folder)).collect()
}
