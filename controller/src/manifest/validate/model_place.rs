//! Check for a missing model location, for Weir's own runtime on Kubernetes.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use weir_cluster::{PodTemplate, Storage};
use weir_crds::inference_service::Predictor;

use super::error_list::ErrorList;
use crate::runtimes::Runtime;

/// Flags of Weir's runtime that name a model repository.
const FLAGS: [&str; 2] = ["--model-repository", "--model-store"];

const NO_MODEL: &str = "nothing says where the model is: write its storageUri, such as pvc://CLAIM/path";

/// Refuses a service that leaves Weir's installed runtime with an empty directory, so that it would crash-loop. Another
/// server may have its model in its image, or load it on request.
pub(super) fn check(
    path: &str,
    runtime: &Runtime,
    predictor: &Predictor,
    template: &PodTemplateSpec,
    errors: &mut ErrorList,
) {
    let serving = PodTemplate::container(template);
    let is_empty = || serving.is_some_and(|serving| serves_nothing(runtime, serving));
    if runtime.is_built_in() && !is_stored(predictor) && is_empty() {
        errors.add(path, NO_MODEL);
    }
}

/// Returns true if the service names a model in any way, supported or not.
fn is_stored(predictor: &Predictor) -> bool {
    let mut models = predictor.frameworks();
    !predictor.storage_uris.is_empty()
        || models.any(|(_, model)| model.storage_uri.is_some() || model.storage.is_some())
}

/// Returns true if the container runs the runtime's own program, gets no repository except the storage's mount path,
/// and has no volume mounted there.
fn serves_nothing(runtime: &Runtime, serving: &Container) -> bool {
    let Some(own) = runtime.serving() else {
        return false;
    };
    let is_same = runtime.runs_in(serving);
    let (paths, by_runtime) = (repositories(serving), repositories(own));
    let has_own_path = paths.len() > by_runtime.len();
    let in_storage = |place: &&str| is_within(place, Storage::MOUNT_PATH);
    let mut mounts = serving.volume_mounts.iter().flatten();
    let is_mounted = mounts.any(|mount| {
        is_within(&mount.mount_path, Storage::MOUNT_PATH) || is_within(Storage::MOUNT_PATH, &mount.mount_path)
    });
    is_same && !has_own_path && !paths.is_empty() && paths.iter().all(in_storage) && !is_mounted
}

/// Returns the paths that a container's arguments name as model repositories.
fn repositories(container: &Container) -> Vec<&str> {
    let args = container.args.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        let rest = FLAGS.iter().find_map(|flag| arg.strip_prefix(flag));
        match rest {
            Some("") => found.extend(args.get(i + 1).map(String::as_str)),
            Some(rest) => found.extend(rest.strip_prefix('=')),
            None => {}
        }
    }
    found
}

fn is_within(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::fixtures::{platform, service};
    use crate::manifest::validate::validate;
    use crate::runtimes::{Runtime, Runtimes, Scope};

    /// Returns a runtime of this name with these arguments, like the one that the chart installs.
    fn installed(name: &str, args: &[&str]) -> Runtimes {
        let spec = json!({
            "supportedModelFormats": [{"name": "pytorch", "autoSelect": true, "priority": 4}],
            "protocolVersions": ["v2"],
            "containers": [{"name": "kserve-container", "image": "example/weir-runtime:1", "args": args}],
        });
        Runtimes::declared(vec![Runtime {
            name: name.to_owned(),
            scope: Scope::Cluster,
            since: 0,
            server: None,
            spec: serde_json::from_value(spec).unwrap(),
        }])
    }

    /// Returns the errors of a service with these fields in its model and in its predictor.
    fn errors(runtimes: &Runtimes, model: &str, predictor: &str) -> Vec<String> {
        let model = format!("model: {{modelFormat: {{name: pytorch}}{model}}}");
        let spec = format!("  predictor: {{{predictor}{model}}}\n");
        let validated = validate(&service(&[], &spec), runtimes, &platform());
        let errors = validated.err().map(|errors| errors.list);
        let errors = errors.into_iter().flatten();
        errors.map(|error| error.to_string()).collect()
    }

    const CHARTS: [&str; 2] = ["--model-repository=/mnt/models", "--model-name={{.Name}}"];

    #[test]
    fn a_service_without_a_model_is_refused_with_what_to_write() {
        let charts = installed("weir-libtorch", &CHARTS);
        let expected = format!("spec.predictor.model: {}", super::NO_MODEL);
        assert_eq!(errors(&charts, "", ""), std::slice::from_ref(&expected));
        assert_eq!(errors(&charts, ", args: [--id=a]", ""), std::slice::from_ref(&expected));
        let below = installed("weir-libtorch", &["--model-store", "/mnt/models/one"]);
        assert_eq!(errors(&below, "", ""), [expected]);
    }

    #[test]
    fn a_model_in_another_place_is_accepted() {
        let charts = installed("weir-libtorch", &CHARTS);
        let none = Vec::<String>::new();
        for model in [
            ", storageUri: pvc://models/a",
            ", image: example/weir-runtime:with-model",
            ", command: [/serve]",
            ", args: [--model-repository=/models]",
            ", args: [--model-store, /models]",
        ] {
            assert_eq!(errors(&charts, model, ""), none, "{model}");
        }
        for place in ["/mnt/models", "/mnt"] {
            let mount = format!(", volumeMounts: [{{name: mine, mountPath: {place}}}]");
            let volume = "volumes: [{name: mine, emptyDir: {}}], ";
            assert_eq!(errors(&charts, &mount, volume), none, "{place}");
        }
        let listed = "storageUris: [{uri: pvc://models/a}], ";
        assert_eq!(errors(&charts, "", listed), none);
        let others = installed("kserve-tritonserver", &CHARTS);
        assert_eq!(errors(&others, "", ""), none);
        let elsewhere = installed("weir-libtorch", &["--model-repository=/models"]);
        assert_eq!(errors(&elsewhere, "", ""), none);
        assert_eq!(errors(&installed("weir-libtorch", &[]), "", ""), none);
    }
}
