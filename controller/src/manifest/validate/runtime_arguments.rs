//! Check for arguments that Weir's own runtime does not know, which would make it crash-loop.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use weir_cluster::{PodTemplate, check_runtime_arguments};

use super::error_list::ErrorList;
use crate::runtimes::Runtime;

/// Refuses arguments that a service adds to Weir's installed runtime and that this version does not know. An image of
/// another version may have other flags, and arguments of the runtime object itself are not the service's.
pub(super) fn check(path: &str, runtime: &Runtime, template: &PodTemplateSpec, errors: &mut ErrorList) {
    let Some(merged) = PodTemplate::container(template) else {
        return;
    };
    let own = runtime.serving().map_or(Ok(()), checked);
    if runtime.is_built_in()
        && runtime.runs_in(merged)
        && own.is_ok()
        && let Err(message) = checked(merged)
    {
        errors.add(format!("{path}.args"), message);
    }
}

fn checked(container: &Container) -> Result<(), String> {
    check_runtime_arguments(container.args.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::fixtures::{platform, service};
    use crate::manifest::validate::validate;
    use crate::runtimes::{Runtime, Runtimes, Scope};

    /// Returns the error of a service with these fields in its model, if the chart's runtime has these arguments.
    fn error(by_runtime: &[&str], model: &str) -> Option<String> {
        let spec = json!({
            "supportedModelFormats": [{"name": "pytorch", "autoSelect": true}],
            "containers": [{"name": "kserve-container", "image": "weir-runtime:1", "args": by_runtime}],
        });
        let runtimes = Runtimes::declared(vec![Runtime {
            name: "weir-libtorch".to_owned(),
            scope: Scope::Cluster,
            since: 0,
            server: None,
            spec: serde_json::from_value(spec).unwrap(),
        }]);
        let spec =
            format!("  predictor: {{model: {{modelFormat: {{name: pytorch}}, storageUri: pvc://a/b, {model}}}}}\n");
        let validated = validate(&service(&[], &spec), &runtimes, &platform());
        validated.err().map(|errors| errors.to_string())
    }

    #[test]
    fn an_unknown_flag_is_refused_with_the_one_that_was_probably_meant() {
        let charts = ["--model-repository=/mnt/models", "--http-port=8080"];
        assert_eq!(
            error(&charts, "args: [--max-batch-secs=30]").as_deref(),
            Some(
                "spec.predictor.model.args: weir-runtime has no flag --max-batch-secs; did you mean --max-batch-seconds?"
            )
        );
        assert_eq!(error(&charts, "args: [--max-batch-seconds, \"30\"]"), None);
    }

    #[test]
    fn arguments_of_other_programs_and_of_the_runtime_object_are_not_checked() {
        let charts = ["--model-repository=/mnt/models"];
        for other in ["command: [/serve]", "image: weir-runtime:next"] {
            let model = format!("{other}, args: [--of-tomorrow]");
            assert_eq!(error(&charts, &model), None, "{other}");
        }
        assert_eq!(error(&["--of-tomorrow"], "args: [--id=a]"), None);
    }
}
