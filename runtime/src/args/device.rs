//! The devices that models run on.

use crate::backend::Device;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Device")]
pub(super) struct DeviceArgs {
    /// Where models run: auto = on the GPUs where there are any; cpu; cuda = on all GPUs; cuda:N = on that
    /// one. What is asked for and cannot be used is an error
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = choice)]
    pub(super) device: DeviceChoice,
}

/// The value of `--device`. A model's own `instance_group` comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// All GPUs if there is a driver, else the CPU.
    Auto,
    /// All GPUs; an error without one.
    AllCuda,
    /// One device; an error if it cannot be used.
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
