//! The field `instance_group` of a configuration.

use std::num::NonZeroUsize;

use weir_protocol::grpc::proto::model_instance_group::Kind;
use weir_protocol::grpc::proto::{ModelConfig, ModelInstanceGroup};

use super::ConfigError;
use crate::backend::Device;

/// Instances of a model on one kind of device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstanceGroup {
    /// The configured name, otherwise `MODEL_INDEX`; the model's name if no group is configured.
    pub name: String,
    /// The kind of device.
    pub kind: DeviceKind,
    /// Instances on each device.
    pub count: NonZeroUsize,
    /// GPU indices; empty for the CPU, and for all GPUs until [`super::ModelConfig::place`].
    pub gpus: Vec<usize>,
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    /// The GPU if there is one, otherwise the CPU; resolved by [`super::ModelConfig::place`].
    Auto,
    Gpu,
    Cpu,
}

impl InstanceGroup {
    /// Number of instances in the group; before placement, "all GPUs" counts as one device.
    fn instances(&self) -> usize {
        self.count.get() * self.gpus.len().max(1)
    }

    /// Returns the device of each instance, once the group is placed.
    pub(crate) fn devices(&self) -> impl Iterator<Item = Device> {
        let devices = match self.kind {
            DeviceKind::Gpu => self.gpus.iter().copied().map(Device::Cuda).collect(),
            DeviceKind::Auto | DeviceKind::Cpu => vec![Device::Cpu],
        };
        let count = self.count.get();
        devices.into_iter().flat_map(move |device| std::iter::repeat_n(device, count))
    }
}

/// Limit on the instances of a model in all its groups. Each instance has a thread, and is loaded and warmed up before
/// the model is ready. The limit allows several instances for each core of the largest machines, and ensures that an
/// excessive load ends.
const MAX_INSTANCES: usize = 1024;

/// Parses the groups of a normalised configuration.
pub(super) fn parse(config: &ModelConfig) -> Result<Vec<InstanceGroup>, ConfigError> {
    let groups = config.instance_group.iter().map(|group| parse_group(group, &config.name));
    let groups: Vec<_> = groups.collect::<Result<_, _>>()?;
    let instances: usize = groups.iter().map(InstanceGroup::instances).sum();
    if instances > MAX_INSTANCES {
        return Err(ConfigError::Invalid(format!(
            "model {} has {instances} instances in its groups, which is over {MAX_INSTANCES}: lower their count",
            config.name
        )));
    }
    Ok(groups)
}

fn parse_group(group: &ModelInstanceGroup, model: &str) -> Result<InstanceGroup, ConfigError> {
    let fail = |what: String| ConfigError::Invalid(format!("instance group {} of model {model} {what}", group.name));
    let kind = match group.kind() {
        Kind::Auto | Kind::Model => DeviceKind::Auto,
        Kind::Gpu => DeviceKind::Gpu,
        Kind::Cpu => DeviceKind::Cpu,
    };
    if kind == DeviceKind::Cpu && !group.gpus.is_empty() {
        return Err(fail("has kind KIND_CPU but specifies one or more GPUs".to_owned()));
    }
    let count = usize::try_from(group.count).ok().and_then(NonZeroUsize::new);
    let Some(count) = count else {
        return Err(fail(format!("has count {}, which must be at least 1", group.count)));
    };
    let mut gpus = Vec::with_capacity(group.gpus.len());
    for &gpu in &group.gpus {
        let index =
            usize::try_from(gpu).map_err(|_| fail(format!("specifies invalid or unsupported gpu id {gpu}.")))?;
        gpus.push(index);
    }
    Ok(InstanceGroup { name: group.name.clone(), kind, count, gpus })
}

/// Chooses the kinds and GPUs that the configuration leaves open, given the indices of the usable GPUs.
pub(super) fn place(config: &mut ModelConfig, gpus: &[usize]) -> Result<(), ConfigError> {
    for group in &mut config.instance_group {
        place_group(group, &config.name, gpus)?;
    }
    Ok(())
}

fn place_group(group: &mut ModelInstanceGroup, model: &str, gpus: &[usize]) -> Result<(), ConfigError> {
    if group.kind() == Kind::Auto {
        let kind = if gpus.is_empty() && group.gpus.is_empty() { Kind::Cpu } else { Kind::Gpu };
        group.set_kind(kind);
    }
    if group.kind() != Kind::Gpu {
        return Ok(());
    }
    let usable = || gpus.iter().filter_map(|&gpu| i32::try_from(gpu).ok());
    if gpus.is_empty() {
        return Err(ConfigError::Invalid(format!(
            "instance group {} of model {model} has kind KIND_GPU but no GPUs are available",
            group.name
        )));
    }
    if group.gpus.is_empty() {
        group.gpus = usable().collect();
    }
    match group.gpus.iter().find(|gpu| !usable().any(|usable| usable == **gpu)) {
        None => Ok(()),
        Some(gpu) => Err(ConfigError::Invalid(format!(
            "instance group {} of model {model} specifies invalid or unsupported gpu id {gpu}. \
             GPUs that can be used are: {}",
            group.name,
            usable().map(|gpu| gpu.to_string()).collect::<Vec<_>>().join(", ")
        ))),
    }
}
