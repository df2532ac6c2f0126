//! Arguments and variables by which a component finds its predictor, as KServe gives them.

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};
use weir_cluster::{ComponentKind, ContainerPorts, PodTemplate, ServiceName};

use crate::manifest::validate::Platform;

/// Variable with the name of the service, as in KServe.
const SERVICE_NAME: &str = "INFERENCE_SERVICE_NAME";

/// Variable with the predictor's host. The local cluster replaces it by an address of this machine.
const PREDICTOR_HOST: &str = "PREDICTOR_HOST";

/// Port of a container that declares none, as in KServe.
const DEFAULT_PORT: u16 = 8080;

/// Values for the arguments of a component.
pub(super) struct Arguments {
    model_name: String,
    predictor_host: String,
    /// Port on which the container has to listen; `None` for the port that its pod declares.
    http_port: Option<String>,
}

impl Arguments {
    /// Returns the values for the components of a service. On one machine the ports are chosen when a process starts.
    pub(super) fn of(service: &ServiceName, platform: &Platform) -> Self {
        let (predictor_host, http_port) = if platform.routes_model_names {
            (format!("$({PREDICTOR_HOST})"), Some("$(PORT)".to_owned()))
        } else {
            let predictor = format!("{}-{}", service.name(), ComponentKind::Predictor);
            (format!("{predictor}.{}", service.namespace()), None)
        };
        Self { model_name: service.name().to_owned(), predictor_host, http_port }
    }

    /// Adds arguments and variables to the container that serves. The manifest's own values are kept.
    pub(super) fn add_to_pod(&self, pod: &mut PodSpec) {
        if let Some(container) = PodTemplate::serving_mut(&mut pod.containers) {
            self.add_to(container);
        }
    }

    fn add_to(&self, container: &mut Container) {
        let port = self.http_port.clone().unwrap_or_else(|| {
            let declared = ContainerPorts::declared(container).and_then(|ports| ports.http);
            declared.unwrap_or(DEFAULT_PORT).to_string()
        });
        let flags =
            [("--model_name", &self.model_name), ("--predictor_host", &self.predictor_host), ("--http_port", &port)];
        let missing: Vec<_> = flags.into_iter().filter(|(flag, _)| !is_given(container, flag)).collect();
        let args = container.args.get_or_insert_default();
        args.extend(missing.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.clone()]));
        let variables = container.env.get_or_insert_default();
        for (name, value) in [(SERVICE_NAME, &self.model_name), (PREDICTOR_HOST, &self.predictor_host)] {
            if !variables.iter().any(|variable| variable.name == name) {
                variables.push(EnvVar { name: name.to_owned(), value: Some(value.clone()), value_from: None });
            }
        }
    }
}

/// Returns true if the command or the arguments contain a flag, as `--flag value` or `--flag=value`.
fn is_given(container: &Container, flag: &str) -> bool {
    let mut words = container.command.iter().flatten().chain(container.args.iter().flatten());
    words.any(|word| word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
}
