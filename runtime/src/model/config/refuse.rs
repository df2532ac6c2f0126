//! Refuses fields that Weir does not support.
//!
//! The rule: a field that would change answers is refused; a field that can only affect speed is a hint and is
//! accepted. `docs/model-configuration.md` lists both.

use weir_protocol::grpc::proto::model_config::SchedulingChoice;
use weir_protocol::grpc::proto::model_instance_group::Kind;
use weir_protocol::grpc::proto::{ModelConfig, ModelInput, ModelInstanceGroup, ModelOutput};

use super::ConfigError;
use super::normalise::PYTORCH;

/// Triton's default value of `runtime`.
const LIBTORCH_RUNTIME: &str = "libtriton_pytorch.so";

/// Refuses the first unsupported field.
pub(super) fn check(config: &ModelConfig) -> Result<(), ConfigError> {
    let unsupported = platform_or_runtime(config)
        .or_else(|| model_field(config))
        .or_else(|| config.input.iter().find_map(input))
        .or_else(|| config.output.iter().find_map(output))
        .or_else(|| config.instance_group.iter().find_map(group));
    match unsupported {
        None => Ok(()),
        Some(feature) => Err(ConfigError::Unsupported { model: config.name.clone(), feature }),
    }
}

/// Returns an unsupported value of `platform` or `runtime`.
fn platform_or_runtime(config: &ModelConfig) -> Option<String> {
    let ModelConfig { platform, runtime, .. } = config;
    if ["ensemble", "torch_aoti"].contains(&platform.as_str()) {
        return Some(format!("platform '{platform}'"));
    }
    let known = ["", LIBTORCH_RUNTIME].contains(&runtime.as_str());
    (!known).then(|| format!("runtime '{runtime}'"))
}

fn model_field(config: &ModelConfig) -> Option<String> {
    let scheduling = match config.scheduling_choice {
        None | Some(SchedulingChoice::DynamicBatching(_)) => None,
        Some(SchedulingChoice::SequenceBatching(_)) => Some("sequence_batching"),
        Some(SchedulingChoice::EnsembleScheduling(_)) => Some("ensemble_scheduling"),
    };
    let transactions = config.model_transaction_policy;
    let agents = config.model_repository_agents.as_ref();
    let operations = config.model_operations.as_ref();
    let fields = [
        (transactions.is_some_and(|policy| policy.decoupled), "model_transaction_policy.decoupled"),
        (!config.batch_input.is_empty(), "batch_input"),
        (!config.batch_output.is_empty(), "batch_output"),
        (!config.cc_model_filenames.is_empty(), "cc_model_filenames"),
        (agents.is_some_and(|some| !some.agents.is_empty()), "model_repository_agents"),
        (
            config.backend != PYTORCH && operations.is_some_and(|some| !some.op_library_filename.is_empty()),
            "model_operations.op_library_filename of another backend than pytorch",
        ),
    ];
    scheduling.or_else(|| first_set(&fields)).map(str::to_owned)
}

fn input(input: &ModelInput) -> Option<String> {
    let fields = [
        (input.allow_ragged_batch, "allow_ragged_batch"),
        (input.is_shape_tensor, "is_shape_tensor"),
        (input.is_non_linear_format_io, "is_non_linear_format_io"),
    ];
    first_set(&fields).map(|field| format!("{field} of input '{}'", input.name))
}

fn output(output: &ModelOutput) -> Option<String> {
    let fields =
        [(output.is_shape_tensor, "is_shape_tensor"), (output.is_non_linear_format_io, "is_non_linear_format_io")];
    first_set(&fields).map(|field| format!("{field} of output '{}'", output.name))
}

fn group(group: &ModelInstanceGroup) -> Option<String> {
    let fields = [
        (group.kind() == Kind::Model, "kind KIND_MODEL"),
        (group.passive, "passive"),
        (!group.secondary_devices.is_empty(), "secondary_devices"),
    ];
    first_set(&fields).map(|field| format!("{field} of instance_group '{}'", group.name))
}

/// Returns the first field that is set.
fn first_set(fields: &[(bool, &'static str)]) -> Option<&'static str> {
    fields.iter().find(|(is_set, _)| *is_set).map(|(_, field)| *field)
}
