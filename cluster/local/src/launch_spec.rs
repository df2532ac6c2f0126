//! The command, environment and probes with which a pod's container runs as a process.

mod command;
mod pod;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use weir_cluster::{ClusterError, ContainerPorts, PodTemplate, ReadyCall, Workload};
use weir_fetch::Limits;

use self::command::{Invocation, Program};
use crate::options::Options;
use crate::ports::{PortPlan, Ports};
use crate::probe::{Probe, ServerKind};
use crate::program;
use crate::storage::{ModelFiles, Origin};

/// The time from SIGTERM to SIGKILL where a pod does not say: Kubernetes' default.
const GRACE: Duration = Duration::from_secs(30);

/// The time from leaving the snapshot to SIGTERM where a pod does not say: gateways in this process hear
/// of it within a millisecond, and what they send until then should still be taken.
const PRE_STOP_DELAY: Duration = Duration::from_millis(200);

/// Text that names the replicas which a command on fixed ports cannot have.
const BEYOND_ONE: &str = "replicas beyond one, as the command uses neither $(PORT) nor $(GRPC_PORT)";

/// A revision's command, decided but for its ports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LaunchSpec {
    /// The program and its arguments, not expanded yet.
    words: Vec<String>,
    /// The container's own variables, not expanded yet, in order: later ones may use earlier ones.
    env: Vec<(String, String)>,
    /// Environment that the command inherits.
    inherited: Arc<BTreeMap<String, String>>,
    /// Its working directory; unset: ours.
    pub(crate) directory: Option<PathBuf>,
    /// Models that it needs.
    pub(crate) models: Vec<ModelFiles>,
    /// Bounds of their downloads.
    pub(crate) fetch: Limits,
    pub(crate) ports: PortPlan,
    pub(crate) server: ServerKind,
    pub(crate) probe: Probe,
    /// The probe that finds a replica that hangs; `None` where the pod has none.
    pub(crate) liveness: Option<Probe>,
    /// Fields of the pod that have no effect on a process.
    pub(crate) ignored_fields: Vec<&'static str>,
    /// Time from leaving the snapshot to SIGTERM.
    pub(crate) pre_stop_delay: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
}

/// What can be said of a workload that could run here, before it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Fields of the pod that have no effect on a process.
    pub ignored_fields: Vec<&'static str>,
    /// What is not where it should be, a sentence each: models, the program, its directory.
    pub missing: Vec<String>,
    /// Paths of models on this machine that Weir's own runtime would load.
    pub models: Vec<PathBuf>,
    /// Ports at which the command always listens, so that no other server can.
    pub fixed_ports: Vec<u16>,
}

/// Inspects a workload. Nothing is started.
///
/// # Errors
/// [`ClusterError::Refused`] when its pod or its storage needs what a process cannot have.
pub fn inspect(workload: &Workload, options: &Options) -> Result<Inspection, ClusterError> {
    let spec = LaunchSpec::of(workload, options)?;
    let mut missing: Vec<_> = spec.models.iter().filter_map(ModelFiles::missing).collect();
    let runs_weir = spec.runs_weir(options);
    if runs_weir && spec.needs_model() {
        missing.extend(spec.models.iter().filter_map(ModelFiles::without_model));
    }
    missing.extend(spec.missing_program());
    let models = spec.models.iter();
    let models = models.filter(|model| runs_weir && model.is_here());
    Ok(Inspection {
        models: models.map(|model| model.repository.clone()).collect(),
        fixed_ports: spec.ports.fixed(),
        missing,
        ignored_fields: spec.ignored_fields,
    })
}

impl LaunchSpec {
    /// Reads a workload.
    ///
    /// # Errors
    /// [`ClusterError::Refused`], naming the revision, when its pod needs what a process cannot have.
    pub(crate) fn of(workload: &Workload, options: &Options) -> Result<Self, ClusterError> {
        let revision = &workload.revision;
        let refused = |reason: String| ClusterError::refused(revision, reason);
        let template = workload.template.read();
        let pod = template.spec.as_ref();
        let Some((pod, container)) = pod.zip(PodTemplate::container(&template)) else {
            return Err(refused("the pod has no container".to_owned()));
        };
        pod::check(pod, container).map_err(refused)?;
        let models = models(workload, options)?;
        let name = revision.service().name();
        let mut spec = Self::read(name, pod, container, models, options).map_err(refused)?;
        if spec.ports.max_replicas() == 1 && allows_several(workload) {
            spec.ignored_fields.push(BEYOND_ONE);
        }
        Ok(spec)
    }

    fn read(
        name: &str,
        pod: &PodSpec,
        container: &Container,
        models: Vec<ModelFiles>,
        options: &Options,
    ) -> Result<Self, String> {
        let program = Program::of(container, options)?;
        let relocate = |text: &str| command::relocate(text, &models);
        let words = program.words(container, name, &models, relocate)?;
        let env = pod::variables(container, relocate)?;
        Ok(Self {
            ports: PortPlan::of(&words, &env, ContainerPorts::of(container))?,
            server: program.server(),
            probe: Probe::of(container, program.server())?,
            liveness: Probe::liveness(container, program.server()),
            ignored_fields: pod::ignored_fields(pod, container, options.gpu),
            pre_stop_delay: pod::pre_stop_delay(container).unwrap_or(PRE_STOP_DELAY),
            grace: pod::grace(pod).unwrap_or(GRACE),
            directory: container.working_dir.as_deref().map(relocate).map(PathBuf::from),
            inherited: options.environment.clone(),
            fetch: options.fetch,
            words,
            env,
            models,
        })
    }

    /// The program of a command, as a shell finds it from the working directory.
    ///
    /// # Errors
    /// A sentence that names what is not there.
    pub(crate) fn program(&self, command: &Invocation) -> Result<PathBuf, String> {
        let directory = self.directory.as_deref();
        if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
            return Err(format!("no such directory: {}", directory.display()));
        }
        let search = command.env.get("PATH").map_or("", String::as_str);
        program::find(&command.program, directory, search)
    }

    /// A sentence about a program or directory that is not there; `None` for what comes with a download.
    fn missing_program(&self) -> Option<String> {
        let command = self.invocation(Ports { http: None, grpc: None });
        let mut paths = self.directory.iter().map(PathBuf::as_path);
        let program = Path::new(&command.program);
        if self.is_downloaded(program) || paths.any(|path| self.is_downloaded(path)) {
            return None;
        }
        self.program(&command).err()
    }

    fn is_downloaded(&self, path: &Path) -> bool {
        let mut models = self.models.iter();
        models.any(|model| model.origin == Origin::Remote && path.starts_with(&model.path))
    }

    /// True if the command runs Weir's own runtime.
    fn runs_weir(&self, options: &Options) -> bool {
        let runtime = options.runtime.as_ref();
        runtime.is_some_and(|path| self.words.first() == Some(&path.display().to_string()))
    }

    /// True if Weir's own runtime runs in the mode that exits at its start when there is no model.
    fn needs_model(&self) -> bool {
        let mut words = self.words.iter();
        !words.any(|word| word.starts_with("--model-control-mode"))
    }

    /// The way in which a replica is found ready.
    pub(crate) fn ready_call(&self) -> ReadyCall {
        if self.probe.is_v2() { ReadyCall::V2 } else { ReadyCall::Platform }
    }
}

/// True if its manifest asks for more than one replica, or allows them by a number.
fn allows_several(workload: &Workload) -> bool {
    let policy = workload.scaling.as_ref();
    let most = policy.map_or(0, |policy| policy.min.max(policy.max.unwrap_or(0)));
    workload.replicas.max(most) > 1
}

fn models(workload: &Workload, options: &Options) -> Result<Vec<ModelFiles>, ClusterError> {
    let folder = options.models();
    let each = workload.storage.iter();
    each.map(|storage| ModelFiles::of(storage, &folder)).collect()
}
