//! What weir does not do, refused by name.
//!
//! The rule: what would change answers is refused; what could only change speed is a hint and
//! passes. `docs/model-configuration.md` lists both.

use weir_protocol::grpc::proto::model_config::SchedulingChoice;
use weir_protocol::grpc::proto::model_instance_group::Kind;
use weir_protocol::grpc::proto::{ModelConfig, ModelInput, ModelInstanceGroup, ModelOutput};

use super::ConfigError;

/// What Triton fills in as `runtime` for models that need no other.
const LIBTORCH_RUNTIME: &str = "libtriton_pytorch.so";

/// Refuses the first thing that weir does not do.
pub(super) fn check(config: &ModelConfig) -> Result<(), ConfigError> {
    let asked = whole(config)
        .or_else(|| config.input.iter().find_map(input))
        .or_else(|| config.output.iter().find_map(output))
        .or_else(|| config.instance_group.iter().find_map(group));
    match asked {
        None => Ok(()),
        Some(feature) => Err(ConfigError::Unsupported {
            model: config.name.clone(),
            feature,
        }),
    }
}

fn whole(config: &ModelConfig) -> Option<String> {
    let decoupled = config.model_transaction_policy;
    let agents = config.model_repository_agents.as_ref();
    let libraries = config.model_operations.as_ref();
    let runtime = config.runtime.as_str();
    scheduling(config)
        .or_else(|| platform(config))
        .or_else(|| {
            (!runtime.is_empty() && runtime != LIBTORCH_RUNTIME)
                .then(|| format!("runtime '{runtime}'"))
        })
        .or_else(|| {
            name_if(
                decoupled.is_some_and(|policy| policy.decoupled),
                "model_transaction_policy.decoupled",
            )
        })
        .or_else(|| name_if(!config.batch_input.is_empty(), "batch_input"))
        .or_else(|| name_if(!config.batch_output.is_empty(), "batch_output"))
        .or_else(|| name_if(!config.cc_model_filenames.is_empty(), "cc_model_filenames"))
        .or_else(|| {
            name_if(
                agents.is_some_and(|agents| !agents.agents.is_empty()),
                "model_repository_agents",
            )
        })
        .or_else(|| {
            name_if(
                libraries.is_some_and(|some| !some.op_library_filename.is_empty()),
                "model_operations.op_library_filename",
            )
        })
}

fn scheduling(config: &ModelConfig) -> Option<String> {
    match config.scheduling_choice {
        None | Some(SchedulingChoice::DynamicBatching(_)) => None,
        Some(SchedulingChoice::SequenceBatching(_)) => Some("sequence_batching".to_owned()),
        Some(SchedulingChoice::EnsembleScheduling(_)) => Some("ensemble_scheduling".to_owned()),
    }
}

fn platform(config: &ModelConfig) -> Option<String> {
    let refused = ["ensemble", "torch_aoti"].contains(&config.platform.as_str());
    refused.then(|| format!("platform '{}'", config.platform))
}

fn input(input: &ModelInput) -> Option<String> {
    let of = |field: &str| format!("{field} of input '{}'", input.name);
    name_if(input.allow_ragged_batch, &of("allow_ragged_batch"))
        .or_else(|| name_if(input.is_shape_tensor, &of("is_shape_tensor")))
        .or_else(|| {
            name_if(
                input.is_non_linear_format_io,
                &of("is_non_linear_format_io"),
            )
        })
}

fn output(output: &ModelOutput) -> Option<String> {
    let of = |field: &str| format!("{field} of output '{}'", output.name);
    name_if(output.is_shape_tensor, &of("is_shape_tensor")).or_else(|| {
        name_if(
            output.is_non_linear_format_io,
            &of("is_non_linear_format_io"),
        )
    })
}

fn group(group: &ModelInstanceGroup) -> Option<String> {
    let of = |field: &str| format!("{field} of instance_group '{}'", group.name);
    name_if(group.kind() == Kind::Model, &of("kind KIND_MODEL"))
        .or_else(|| name_if(group.passive, &of("passive")))
        .or_else(|| {
            name_if(
                !group.secondary_devices.is_empty(),
                &of("secondary_devices"),
            )
        })
}

fn name_if(asked: bool, feature: &str) -> Option<String> {
    asked.then(|| feature.to_owned())
}
