//! The devices that models may use.

use crate::backend::Device;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Device")]
pub(super) struct DeviceArgs {
    /// Device for the models: auto = all GPUs, or the CPU if there is none; cpu; cuda = all GPUs; cuda:N = one GPU. It
    /// is an error if a requested device cannot be used
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = choice)]
    pub(super) device: DeviceChoice,
}

/// The value of `--device`. A model's `instance_group` takes precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// All GPUs if there is a driver; otherwise the CPU.
    Auto,
    /// All GPUs. An error if there is none.
    AllCuda,
    /// One device. An error if it cannot be used.
    Only(Device),
}

fn choice(text: &str) -> Result<DeviceChoice, String> {
    let wrong = || "expected auto, cpu, cuda or cuda:N".to_owned();
    match text {
        "auto" => Ok(DeviceChoice::Auto),
        "cpu" => Ok(DeviceChoice::Only(Device::Cpu)),
        "cuda" => Ok(DeviceChoice::AllCuda),
        other => {
            let index = other.strip_prefix("cuda:").ok_or_else(wrong)?;
            let index = index.parse().map_err(|_| wrong())?;
            Ok(DeviceChoice::Only(Device::Cuda(index)))
        }
    }
}
