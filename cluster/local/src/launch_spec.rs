//! Launch specification: command, environment, ports and probes of the process that runs a pod's container.

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
use crate::ports::{MetricsPlan, PortPlan, Ports};
use crate::predictor_addresses::PredictorAddress;
use crate::probe::{Probe, ServerKind};
use crate::program;
use crate::storage::{ModelFiles, Origin};

/// Default grace period, the same as in Kubernetes.
const GRACE: Duration = Duration::from_secs(30);

/// Default time from leaving the snapshot to SIGTERM. Gateways in this process see the new snapshot within a
/// millisecond, and the replica should still accept the requests they send until then.
const PRE_STOP_DELAY: Duration = Duration::from_millis(200);

/// Entry in the ignored fields: a command on fixed ports can have only one replica.
const BEYOND_ONE: &str = "replicas beyond one, as the command uses neither $(PORT) nor $(GRPC_PORT)";

/// Everything needed to start a revision's process, except the ports of the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LaunchSpec {
    /// The program and its arguments, before expansion of `$(NAME)`.
    words: Vec<String>,
    /// The container's own variables, before expansion and in order: later ones may refer to earlier ones.
    env: Vec<(String, String)>,
    /// Environment that the process inherits.
    inherited: Arc<BTreeMap<String, String>>,
    /// Working directory of the process; `None` is Weir's own.
    pub(crate) directory: Option<PathBuf>,
    /// Models that the process needs.
    pub(crate) models: Vec<ModelFiles>,
    /// Limits for downloads of the models.
    pub(crate) fetch: Limits,
    /// Maximum size of all downloaded models in bytes.
    pub(crate) max_models_bytes: u64,
    pub(crate) ports: PortPlan,
    pub(crate) metrics: MetricsPlan,
    pub(crate) server: ServerKind,
    pub(crate) probe: Probe,
    /// The probe that detects a hung replica; `None` if the replica has no liveness probe.
    pub(crate) liveness: Option<Probe>,
    /// The probe that must succeed once before the others run; `None` if the pod has none.
    pub(crate) startup: Option<Probe>,
    /// Fields of the pod that have no effect on a process.
    pub(crate) ignored_fields: Vec<&'static str>,
    /// Time from leaving the snapshot to SIGTERM.
    pub(crate) pre_stop_delay: Duration,
    /// Time from the end of `pre_stop_delay` to SIGKILL. For a server other than Weir's runtime, draining before
    /// SIGTERM uses part of it.
    pub(crate) grace: Duration,
    /// Address of the predictor that the process calls; `None` if the process is a predictor.
    pub(crate) predictor: Option<PredictorAddress>,
}

/// Findings about a workload before any of its processes starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Fields of the pod that have no effect on a process.
    pub ignored_fields: Vec<&'static str>,
    /// Missing models, program or working directory, one sentence each.
    pub missing: Vec<String>,
    /// Local paths of models that Weir's own runtime would load.
    pub models: Vec<PathBuf>,
    /// Fixed ports of the command, which no other server can use meanwhile.
    pub fixed_ports: Vec<u16>,
}

/// Inspects a workload without starting a process.
///
/// # Errors
/// [`ClusterError::Refused`] when the pod or its storage needs something that a local process cannot have.
pub fn inspect(workload: &Workload, options: &Options) -> Result<Inspection, ClusterError> {
    let spec = LaunchSpec::of(workload, options)?;
    let mut missing: Vec<_> = spec.models.iter().filter_map(ModelFiles::missing).collect();
    let served = command::served(&spec.models).filter(|_| spec.runs_weir(options));
    if spec.needs_model() {
        missing.extend(served.and_then(ModelFiles::without_model));
    }
    missing.extend(spec.missing_program());
    Ok(Inspection {
        models: served.filter(|model| model.is_here()).map(|model| model.repository.clone()).into_iter().collect(),
        fixed_ports: spec.ports.fixed(),
        missing,
        ignored_fields: spec.ignored_fields,
    })
}

impl LaunchSpec {
    /// Creates the launch specification of a workload.
    ///
    /// # Errors
    /// [`ClusterError::Refused`], naming the revision, when the pod needs something that a local process cannot have.
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
        let annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
        let declared = ContainerPorts::of(container).metrics(annotations);
        spec.metrics = MetricsPlan::of(&spec.words, &spec.env, declared);
        spec.predictor = options.predictors.of(revision.service());
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
            startup: Probe::startup(container),
            ignored_fields: pod::ignored_fields(pod, container, options.gpu),
            pre_stop_delay: pod::pre_stop_delay(container).unwrap_or(PRE_STOP_DELAY),
            grace: pod::grace(pod).unwrap_or(GRACE),
            directory: container.working_dir.as_deref().map(relocate).map(PathBuf::from),
            inherited: options.environment.clone(),
            fetch: options.fetch,
            max_models_bytes: options.max_models_bytes,
            words,
            env,
            models,
            predictor: None,
            metrics: MetricsPlan::WithHttp,
        })
    }

    /// Finds the program of a command, as a shell does from the working directory.
    ///
    /// # Errors
    /// A sentence that names the program or directory, when it is missing.
    pub(crate) fn program(&self, command: &Invocation) -> Result<PathBuf, String> {
        let directory = self.directory.as_deref();
        if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
            return Err(format!("no such directory: {}", directory.display()));
        }
        let search = command.env.get("PATH").map_or("", String::as_str);
        program::find(&command.program, directory, search)
    }

    /// Returns a sentence about a missing program or directory; `None` if nothing is missing or the path is part of a
    /// download.
    fn missing_program(&self) -> Option<String> {
        let command = self.invocation(Ports { http: None, grpc: None, metrics: None });
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

    /// Returns true if the command runs Weir's own runtime.
    fn runs_weir(&self, options: &Options) -> bool {
        let runtime = options.runtime.as_ref();
        runtime.is_some_and(|path| self.words.first() == Some(&path.display().to_string()))
    }

    /// Returns true if Weir's own runtime runs in the mode in which it exits at startup when there is no model.
    fn needs_model(&self) -> bool {
        let mut words = self.words.iter();
        !words.any(|word| word.starts_with("--model-control-mode"))
    }

    /// Returns the call by which a replica is found ready.
    pub(crate) fn ready_call(&self) -> ReadyCall {
        if self.probe.is_v2() { ReadyCall::V2 } else { ReadyCall::Platform }
    }
}

/// Returns true if the manifest requests more than one replica, or allows more than one by an explicit maximum.
fn allows_several(workload: &Workload) -> bool {
    let policy = workload.scaling.as_ref();
    let most = policy.map_or(0, |policy| policy.min.max(policy.max.unwrap_or(0)));
    workload.replicas.max(most) > 1
}

fn models(workload: &Workload, options: &Options) -> Result<Vec<ModelFiles>, ClusterError> {
    let folder = options.models();
    workload.storage.iter().map(|storage| ModelFiles::of(storage, &folder)).collect()
}
