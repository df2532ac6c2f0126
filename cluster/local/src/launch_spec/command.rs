//! The command line of a container.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use weir_cluster::check_runtime_arguments;

use super::LaunchSpec;
use crate::expand::expand;
use crate::names::{GRPC_PORT, PORT, RUNTIME};
use crate::options::Options;
use crate::ports::Ports;
use crate::probe::ServerKind;
use crate::storage::ModelFiles;

/// Flags of our runtime that say where it listens: here we do.
const LISTEN_FLAGS: [&str; 6] =
    ["http-address", "http-port", "grpc-address", "grpc-port", "metrics-address", "metrics-port"];

/// Name of the same program in our runtime's image, for manifests that were written for Triton.
const TRITONS_NAME: &str = "tritonserver";

/// Flags of our runtime that say what it serves.
const REPOSITORY_FLAGS: [&str; 2] = ["--model-repository", "--model-store"];

/// Sentence about our runtime without a model.
const NO_MODEL: &str = "nothing says where the model is: write its storageUri, such as pvc://CLAIM/path for CLAIM/path \
     beside the YAML file, or give weir-runtime the argument --model-repository=PATH";

/// The program that a container runs.
pub(super) enum Program {
    /// Weir's own runtime, at this path.
    Ours(PathBuf),
    /// A command, as the container gives it.
    Foreign(Vec<String>),
}

/// A command, ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// All of its environment.
    pub(crate) env: BTreeMap<String, String>,
}

impl Program {
    /// Reads what a container runs. An image is not run, so a container needs a command, unless it is
    /// our runtime.
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
            (true, None) => Err(format!("needs {RUNTIME}, and the path to it is not set")),
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

    /// The program and its arguments. `name` is the model's.
    ///
    /// # Errors
    /// Nothing says what our runtime serves, or it is told what it does not know: it would end at once, again and again.
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
                let given = command.iter().skip(1).chain(args);
                let given: Vec<_> = given.map(|word| relocate(word)).collect();
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
    /// The command on these ports.
    pub(crate) fn invocation(&self, ports: Ports) -> Invocation {
        let mut own = BTreeMap::new();
        for (name, port) in [(PORT, ports.http), (GRPC_PORT, ports.grpc)] {
            own.extend(port.map(|port| (name.to_owned(), port.to_string())));
        }
        for (name, value) in &self.env {
            let value = expand(value, |name| own.get(name).cloned());
            own.insert(name.clone(), value);
        }
        let words = self.words.iter();
        let mut words = words.map(|word| expand(word, |name| own.get(name).cloned()));
        let program = words.next().unwrap_or_default();
        let args = words.collect();
        let mut env = BTreeMap::clone(&self.inherited);
        env.extend(own);
        Invocation { program, args, env }
    }
}

/// Replaces the paths at which a container would find its models by where they are.
pub(super) fn relocate(text: &str, models: &[ModelFiles]) -> String {
    models.iter().fold(text.to_owned(), |text, model| {
        weir_cluster::relocate(&text, &model.mount_path, &model.path.display().to_string())
    })
}

/// The last part of an image's name, without tag and digest.
fn image_name(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

/// The arguments without those that say where to listen, `--flag=value` and `--flag value`.
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

/// Arguments that name the model, unless the given ones do.
fn defaults(args: &[String], name: &str, models: &[ModelFiles]) -> Vec<String> {
    let mut words = Vec::new();
    if !names_repository(args) {
        for model in models {
            words.push(format!("--model-repository={}", model.repository.display()));
        }
    }
    if !is_given(args, "--model-name") && !words.is_empty() {
        words.push(format!("--model-name={name}"));
    }
    words
}

fn names_repository(args: &[String]) -> bool {
    REPOSITORY_FLAGS.iter().any(|flag| is_given(args, flag))
}

/// Whether a flag is among the arguments, as `--flag=value` or `--flag value`.
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
