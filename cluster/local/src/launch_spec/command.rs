//! The command line of a container.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use weir_cluster::{Storage, check_runtime_arguments, image_name};

use super::LaunchSpec;
use crate::expand::expand;
use crate::options::Options;
use crate::ports::{GRPC_PORT, METRICS_PORT, PORT, Ports};
use crate::predictor_addresses::PredictorAddress;
use crate::probe::ServerKind;
use crate::storage::ModelFiles;

/// Flags of Weir's runtime that set its listen addresses. They are replaced, because Weir chooses the ports of local
/// processes.
const LISTEN_FLAGS: [&str; 6] =
    ["http-address", "http-port", "grpc-address", "grpc-port", "metrics-address", "metrics-port"];

/// Variable with the address at which a transformer or an explainer reaches its predictor.
const PREDICTOR_HOST: &str = "PREDICTOR_HOST";

/// Last component of the runtime image's name, and name of the program in it.
const RUNTIME: &str = "weir-runtime";

/// Another name of the runtime in its own image, for manifests written for Triton.
const TRITONS_NAME: &str = "tritonserver";

/// Flags of Weir's runtime that set the model repository.
const REPOSITORY_FLAGS: [&str; 2] = ["--model-repository", "--model-store"];

/// Refusal of Weir's runtime without a model.
const NO_MODEL: &str = "nothing says where the model is: write its storageUri, such as pvc://CLAIM/path for CLAIM/path \
     beside the YAML file, or give weir-runtime the argument --model-repository=PATH";

/// The program that a container runs.
pub(super) enum Program {
    /// Weir's own runtime, at this path.
    Ours(PathBuf),
    /// The command of the container.
    Foreign(Vec<String>),
}

/// A fully expanded command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// The complete environment of the process.
    pub(crate) env: BTreeMap<String, String>,
}

impl Program {
    /// Determines the program of a container. Without Kubernetes no image can be run, so the container needs a command,
    /// unless its image is Weir's runtime.
    pub(super) fn of(container: &Container, options: &Options) -> Result<Self, String> {
        let command = container.command.clone().unwrap_or_default();
        let image = container.image.as_deref().unwrap_or_default();
        let has_our_image = image_name(image) == RUNTIME;
        let ours = match command.first().map(Path::new) {
            Some(first) => first.ends_with(RUNTIME) || (has_our_image && first.ends_with(TRITONS_NAME)),
            None => has_our_image,
        };
        match (ours, &options.runtime) {
            (true, Some(path)) => Ok(Self::Ours(path.clone())),
            (true, None) => Err(format!("needs {RUNTIME}, but its path is not set")),
            (false, _) if command.is_empty() => {
                Err(format!("cannot run the image {image:?} without Kubernetes; give the container a command"))
            }
            (false, _) => Ok(Self::Foreign(command)),
        }
    }

    pub(super) fn server(&self) -> ServerKind {
        match self {
            Self::Ours(_) => ServerKind::Weir,
            Self::Foreign(_) => ServerKind::Foreign,
        }
    }

    /// Returns the program and its arguments. `name` is the model's name.
    ///
    /// # Errors
    /// A sentence when Weir's runtime has no model repository or an unknown argument: it would exit at every start.
    pub(super) fn words(
        &self,
        container: &Container,
        name: &str,
        models: &[ModelFiles],
        relocate: impl Fn(&str) -> String,
    ) -> Result<Vec<String>, String> {
        let args = container.args.as_deref().unwrap_or_default();
        match self {
            Self::Foreign(command) => {
                let words = command.iter().chain(args);
                Ok(words.map(|word| relocate(word)).collect())
            }
            Self::Ours(path) => {
                let command = container.command.as_deref().unwrap_or_default();
                let given: Vec<_> = command.iter().skip(1).chain(args).map(|word| relocate(word)).collect();
                check_runtime_arguments(&given)?;
                if models.is_empty() && !names_repository(&given) {
                    return Err(NO_MODEL.to_owned());
                }
                let mut words = vec![path.display().to_string()];
                words.extend(without_listen_flags(&given));
                words.extend(defaults(&given, name, models));
                words.extend(listen_flags());
                Ok(words)
            }
        }
    }
}

impl LaunchSpec {
    /// Expands the command and its environment for a run on these ports.
    pub(crate) fn invocation(&self, ports: Ports) -> Invocation {
        let mut own = BTreeMap::new();
        for (name, port) in [(PORT, ports.http), (GRPC_PORT, ports.grpc), (METRICS_PORT, ports.metrics)] {
            own.extend(port.map(|port| (name.to_owned(), port.to_string())));
        }
        let predictor = self.predictor.as_ref().and_then(PredictorAddress::get);
        own.extend(predictor.map(|address| (PREDICTOR_HOST.to_owned(), address.to_string())));
        for (name, value) in &self.env {
            let value = expand(value, |name| own.get(name).cloned());
            own.insert(name.clone(), value);
        }
        let mut words = self.words.iter().map(|word| expand(word, |name| own.get(name).cloned()));
        let program = words.next().unwrap_or_default();
        let args = words.collect();
        let mut env = BTreeMap::clone(&self.inherited);
        env.extend(own);
        Invocation { program, args, env }
    }
}

/// Replaces the models' paths in a container by their paths on this machine.
pub(super) fn relocate(text: &str, models: &[ModelFiles]) -> String {
    models.iter().fold(text.to_owned(), |text, model| {
        weir_cluster::relocate(&text, &model.mount_path, &model.path.display().to_string())
    })
}

/// Removes the listen flags from the arguments, `--flag=value` and `--flag value`.
fn without_listen_flags(args: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let flag = arg.strip_prefix("--").unwrap_or_default();
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        match (LISTEN_FLAGS.contains(&name), value) {
            (true, Some(_)) => {}
            (true, None) => {
                args.next();
            }
            (false, _) => kept.push(arg.clone()),
        }
    }
    kept
}

/// Returns arguments that set the model repository and the model name, except those that are given already.
fn defaults(args: &[String], name: &str, models: &[ModelFiles]) -> Vec<String> {
    let mut words = Vec::new();
    if !names_repository(args) {
        let model = served(models).map(|model| format!("--model-repository={}", model.repository.display()));
        words.extend(model);
    }
    if !is_given(args, "--model-name") && !words.is_empty() {
        words.push(format!("--model-name={name}"));
    }
    words
}

/// Returns the model that Weir's runtime serves: the one at the path that its arguments name on Kubernetes, or else the
/// first. The others are for the container's own arguments and variables.
pub(super) fn served(models: &[ModelFiles]) -> Option<&ModelFiles> {
    let is_default = |model: &&ModelFiles| model.mount_path == Storage::MOUNT_PATH;
    models.iter().find(is_default).or(models.first())
}

fn names_repository(args: &[String]) -> bool {
    REPOSITORY_FLAGS.iter().any(|flag| is_given(args, flag))
}

/// Returns true if a flag is among the arguments, as `--flag=value` or `--flag value`.
fn is_given(args: &[String], flag: &str) -> bool {
    let mut rests = args.iter().filter_map(|arg| arg.strip_prefix(flag));
    rests.any(|rest| rest.is_empty() || rest.starts_with('='))
}

fn listen_flags() -> [String; 5] {
    [
        "--http-address=127.0.0.1".to_owned(),
        "--grpc-address=127.0.0.1".to_owned(),
        format!("--http-port=$({PORT})"),
        format!("--grpc-port=$({GRPC_PORT})"),
        "--metrics-port=0".to_owned(),
    ]
}
