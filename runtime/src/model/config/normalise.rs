//! Fills in the defaults of a configuration, so that it is reported as it is applied.

use std::path::{Component, Path};

use weir_protocol::grpc::proto::model_config::SchedulingChoice;
use weir_protocol::grpc::proto::model_instance_group::Kind;
use weir_protocol::grpc::proto::model_optimization_policy::PinnedMemoryBuffer;
use weir_protocol::grpc::proto::model_version_policy::{All, Latest, PolicyChoice};
use weir_protocol::grpc::proto::{ModelConfig, ModelInstanceGroup, ModelVersionPolicy};

use super::{ConfigError, Origin};

/// The name of libtorch's backend.
pub(super) const PYTORCH: &str = "pytorch";

/// A backend for which Triton has two names: one as backend and one as platform.
struct Names {
    backend: &'static str,
    platform: &'static str,
    default_filename: &'static str,
}

const NAMES: [Names; 2] = [
    Names { backend: PYTORCH, platform: "pytorch_libtorch", default_filename: "model.pt" },
    Names { backend: "onnxruntime", platform: "onnxruntime_onnx", default_filename: "model.onnx" },
];

/// Returns the names of the backend that has this name as its backend or its platform.
fn names(name: &str) -> Option<&'static Names> {
    NAMES.iter().find(|names| names.backend == name || names.platform == name)
}

/// Fills in the name and the backend.
pub(super) fn identity(config: &mut ModelConfig, origin: Origin<'_>) -> Result<(), ConfigError> {
    if config.name.is_empty() {
        origin.model.clone_into(&mut config.name);
    }
    if config.backend.is_empty() {
        config.backend = match (config.platform.as_str(), origin.backend) {
            ("", Some(found)) => found.to_owned(),
            ("", None) => {
                return Err(ConfigError::Invalid(format!(
                    "must specify 'platform' or 'backend' for '{}'",
                    config.name
                )));
            }
            (platform, _) => platform.to_owned(),
        };
    }
    if let Some(names) = names(&config.backend) {
        names.backend.clone_into(&mut config.backend);
    }
    Ok(())
}

/// Refuses a platform that does not belong to the backend, in Triton's words.
pub(super) fn check_pair(config: &ModelConfig) -> Result<(), ConfigError> {
    let (platform, backend) = (config.platform.as_str(), config.backend.as_str());
    match names(backend) {
        Some(names) if !["", backend, names.platform].contains(&platform) => Err(ConfigError::Invalid(format!(
            "unexpected 'platform' and 'backend' pair, got: {platform}, {backend} for model '{}'",
            config.name
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Fills in all other defaults; idempotent.
pub(super) fn defaults(config: &mut ModelConfig, max_batch_size: Option<usize>) {
    if let Some(names) = names(&config.backend) {
        default_text(&mut config.platform, names.platform);
        default_text(&mut config.default_model_filename, names.default_filename);
    }
    version_policy(config);
    preferred_batch_size(config, max_batch_size);
    instance_groups(config);
    let optimization = config.optimization.get_or_insert_default();
    let pinned = PinnedMemoryBuffer { enable: true };
    optimization.input_pinned_memory.get_or_insert(pinned);
    optimization.output_pinned_memory.get_or_insert(pinned);
}

fn default_text(field: &mut String, default: &str) {
    if field.is_empty() {
        default.clone_into(field);
    }
}

fn version_policy(config: &mut ModelConfig) {
    let newest = PolicyChoice::Latest(Latest { num_versions: 1 });
    let policy = config.version_policy.get_or_insert(ModelVersionPolicy { policy_choice: Some(newest) });
    // A policy that is present but empty means all versions, as in Triton.
    let all = PolicyChoice::All(All {});
    if let PolicyChoice::Latest(latest) = policy.policy_choice.get_or_insert(all) {
        latest.num_versions = latest.num_versions.max(1);
    }
}

/// Without preferred sizes, the largest batch is the only size worth waiting for.
fn preferred_batch_size(config: &mut ModelConfig, max_batch_size: Option<usize>) {
    let Some(max @ 1..) = max_batch_size else {
        return;
    };
    if let Some(SchedulingChoice::DynamicBatching(batching)) = &mut config.scheduling_choice
        && batching.preferred_batch_size.is_empty()
    {
        let max = i32::try_from(max).unwrap_or(i32::MAX);
        batching.preferred_batch_size.push(max);
    }
}

fn instance_groups(config: &mut ModelConfig) {
    if config.instance_group.is_empty() {
        config.instance_group.push(ModelInstanceGroup {
            name: config.name.clone(),
            kind: Kind::Auto.into(),
            ..ModelInstanceGroup::default()
        });
    }
    for (i, group) in config.instance_group.iter_mut().enumerate() {
        if group.name.is_empty() {
            group.name = format!("{}_{i}", config.name);
        }
        if group.count == 0 {
            group.count = 1;
        }
    }
}

/// Returns the name of the model file, which must be inside the version directory.
pub(super) fn filename(config: &ModelConfig) -> Result<Option<String>, ConfigError> {
    let name = &config.default_model_filename;
    check_inside(name, "default_model_filename", config)?;
    Ok((!name.is_empty()).then(|| name.clone()))
}

/// Checks that operator libraries are inside the model's directory.
pub(super) fn op_libraries(config: &ModelConfig) -> Result<(), ConfigError> {
    let mut names = config.model_operations.iter().flat_map(|operations| &operations.op_library_filename);
    names.try_for_each(|name| check_inside(name, "op_library_filename", config))
}

/// Refuses file names that leave the directory in which they are looked up.
pub(super) fn check_inside(name: &str, field: &str, config: &ModelConfig) -> Result<(), ConfigError> {
    let inside = Path::new(name).components().all(|component| matches!(component, Component::Normal(_)));
    if inside && !name.contains('\0') {
        return Ok(());
    }
    Err(ConfigError::Invalid(format!(
        "model '{}': {field} '{}' must be a relative path without '..'",
        config.name,
        name.escape_debug()
    )))
}
