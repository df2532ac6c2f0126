//! OpenTelemetry variables that KServe sets in the servers of a service with `spec.tracing`.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use weir_cluster::{PodTemplate, ServiceName};
use weir_crds::inference_service::Tracing;

use super::variable::set_default;
use crate::runtimes::ServerType;

/// Default endpoint of KServe.
const ENDPOINT: &str = "http://otel-collector:4317";
const SAMPLER_ARG: &str = "0.05";
const EXPORTER: &str = "otlp";

/// Container that pre-processes requests in the predictor's pod.
pub(super) const TRANSFORMER: &str = "transformer-container";

/// Service and server that a pod belongs to.
pub(crate) struct Traced<'a> {
    pub(crate) service: &'a ServiceName,
    pub(crate) server: Option<ServerType>,
}

/// Sets the tracing variables in the servers of a pod. Variables that a container sets are kept.
pub(crate) fn trace(mut template: PodTemplateSpec, tracing: Option<&Tracing>, traced: &Traced<'_>) -> PodTemplateSpec {
    let (Some(tracing), Some(pod)) = (tracing, template.spec.as_mut()) else {
        return template;
    };
    if let Some(container) = PodTemplate::serving_mut(&mut pod.containers) {
        set_variables(container, tracing, traced, "predictor");
        if traced.server == Some(ServerType::MlServer) {
            set_default(container, "MLSERVER_TRACING_SERVER", endpoint(tracing));
        }
    }
    if let Some(container) = pod.containers.iter_mut().find(|one| one.name == TRANSFORMER) {
        set_variables(container, tracing, traced, "transformer");
    }
    template
}

fn set_variables(container: &mut Container, tracing: &Tracing, traced: &Traced<'_>, component: &str) {
    let (name, namespace) = (traced.service.name(), traced.service.namespace());
    let sampler = tracing.sampler.unwrap_or_default().label();
    let argument = tracing.sampler_arg.as_deref().unwrap_or(SAMPLER_ARG);
    let exporter = tracing.exporter.as_deref().unwrap_or(EXPORTER);
    // The canary role is left out, because a promoted canary keeps its pods.
    let attributes = format!("k8s.namespace.name={namespace},isvc.name={name},isvc.component={component}");
    for (variable, value) in [
        ("OTEL_SERVICE_NAME", &*format!("{name}-{component}")),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint(tracing)),
        ("OTEL_TRACES_EXPORTER", exporter),
        ("OTEL_TRACES_SAMPLER", sampler),
        ("OTEL_TRACES_SAMPLER_ARG", argument),
        ("OTEL_RESOURCE_ATTRIBUTES", &attributes),
    ] {
        set_default(container, variable, value);
    }
}

fn endpoint(tracing: &Tracing) -> &str {
    tracing.exporter_endpoint.as_deref().unwrap_or(ENDPOINT)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn traced(tracing: Value, pod: Value, server: Option<ServerType>) -> Value {
        let service = ServiceName::new("team", "digits").unwrap();
        let template = serde_json::from_value(json!({ "spec": pod })).unwrap();
        let tracing: Option<Tracing> = serde_json::from_value(tracing).unwrap();
        let of = Traced { service: &service, server };
        json!(trace(template, tracing.as_ref(), &of))["spec"]["containers"].take()
    }

    fn variables(container: &Value) -> Vec<(&str, &str)> {
        let text = |value: &'_ Value, field| value[field].as_str().unwrap().to_owned();
        let env = container["env"].as_array().into_iter().flatten();
        env.map(|one| (text(one, "name"), text(one, "value")))
            .map(|(name, value)| (&*name.leak(), &*value.leak()))
            .collect()
    }

    #[test]
    fn an_empty_tracing_object_means_the_defaults() {
        let pod = json!({"containers": [{"name": "proxy"}, {"name": "kserve-container"}]});
        let containers = traced(json!({}), pod, None);
        assert_eq!(variables(&containers[0]), []);
        let expected = [
            ("OTEL_SERVICE_NAME", "digits-predictor"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel-collector:4317"),
            ("OTEL_TRACES_EXPORTER", "otlp"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.05"),
            ("OTEL_RESOURCE_ATTRIBUTES", "k8s.namespace.name=team,isvc.name=digits,isvc.component=predictor"),
        ];
        assert_eq!(variables(&containers[1]), expected);
    }

    #[test]
    fn variables_of_the_manifest_are_kept() {
        let own = json!([{"name": "OTEL_SERVICE_NAME", "value": "mine"}]);
        let pod = json!({"containers": [{"name": "kserve-container", "env": own}]});
        let tracing = json!({"exporterEndpoint": "https://c:1", "sampler": "always_on"});
        let containers = traced(tracing, pod, Some(ServerType::MlServer));
        let variables = variables(&containers[0]);
        for expected in [
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:1"),
            ("OTEL_TRACES_SAMPLER", "always_on"),
            ("MLSERVER_TRACING_SERVER", "https://c:1"),
        ] {
            assert!(variables.contains(&expected), "{variables:?}");
        }
    }

    #[test]
    fn a_transformer_has_its_own_name_and_without_tracing_no_variable_is_set() {
        let pod = json!({"containers": [{"name": "kserve-container"}, {"name": "transformer-container"}]});
        let containers = traced(json!({}), pod.clone(), None);
        let names = variables(&containers[1]);
        assert!(names.contains(&("OTEL_SERVICE_NAME", "digits-transformer")));
        assert_eq!(variables(&traced(Value::Null, pod, None)[0]), []);
    }
}
