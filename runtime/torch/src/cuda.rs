//! Finds the devices to run on. libtorch_cuda is opened here, at start and only where there is a
//! driver, so that one binary serves machines with and without CUDA.

use weir_runtime::backend::{Device, LoadError};

use crate::process;

/// The driver's own library; it is there exactly where a driver is.
const DRIVER: &str = "libcuda.so.1";

/// Beside libtorch_cpu.so, where our run path looks, or where the loader finds it.
const LIBTORCH_CUDA: &str = "libtorch_cuda.so";

/// What `--device` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceRequest {
    /// CUDA where there is a driver and a visible device, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// Every visible CUDA device.
    AllCuda,
    /// The CUDA device of that index.
    Cuda(usize),
}

/// The devices to run on; at least one. To be called once, before anything else asks libtorch about
/// CUDA: libtorch remembers that it was absent.
///
/// # Errors
/// [`LoadError::Device`] for a device that was asked for and cannot be used, and for a driver without
/// a libtorch_cuda that loads: never a silent fall-back to the processor.
pub fn devices(request: DeviceRequest) -> Result<Vec<Device>, LoadError> {
    let found = match request {
        DeviceRequest::Cpu => return Ok(vec![Device::Cpu]),
        DeviceRequest::Auto | DeviceRequest::AllCuda | DeviceRequest::Cuda(_) => find(),
    };
    choose(request, found).map_err(LoadError::Device)
}

/// What a look for CUDA found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// No driver; the loader's words.
    NoDriver(String),
    /// A driver, but libtorch_cuda does not load or does not work; why.
    Unusable(String),
    /// That many devices are visible.
    Devices(usize),
}

fn find() -> Found {
    if let Err(complaint) = process::open_library(DRIVER) {
        return Found::NoDriver(complaint);
    }
    if let Err(complaint) = process::open_library(LIBTORCH_CUDA) {
        return Found::Unusable(complaint);
    }
    match process::cuda_devices() {
        Ok(count) => Found::Devices(count),
        Err(fault) => Found::Unusable(fault.to_string()),
    }
}

fn choose(request: DeviceRequest, found: Found) -> Result<Vec<Device>, String> {
    match (request, found) {
        (DeviceRequest::Cpu, _) | (DeviceRequest::Auto, Found::NoDriver(_) | Found::Devices(0)) => {
            Ok(vec![Device::Cpu])
        }
        (_, Found::Unusable(why)) => Err(format!(
            "this machine has a CUDA driver, but libtorch_cuda cannot be used: {why}; \
             install the CUDA libraries of libtorch 2.11 or choose --device cpu"
        )),
        (_, Found::NoDriver(why)) => {
            Err(format!("CUDA was asked for, but there is no driver: {why}"))
        }
        (_, Found::Devices(0)) => {
            Err("CUDA was asked for, but the driver shows no device".to_owned())
        }
        (DeviceRequest::Cuda(index), Found::Devices(count)) if index >= count => Err(format!(
            "CUDA device {index} was asked for, but the driver shows {count}, numbered from 0"
        )),
        (DeviceRequest::Cuda(index), Found::Devices(_)) => Ok(vec![Device::Cuda(index)]),
        (DeviceRequest::Auto | DeviceRequest::AllCuda, Found::Devices(count)) => {
            Ok((0..count).map(Device::Cuda).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_asked_for_is_replaced_in_silence() {
        let no_driver = || Found::NoDriver("libcuda.so.1: no such file".to_owned());
        let broken = || Found::Unusable("libcudnn.so.9: no such file".to_owned());
        assert_eq!(
            choose(DeviceRequest::Auto, no_driver()),
            Ok(vec![Device::Cpu])
        );
        assert_eq!(
            choose(DeviceRequest::Auto, Found::Devices(0)),
            Ok(vec![Device::Cpu])
        );
        let two = Ok(vec![Device::Cuda(0), Device::Cuda(1)]);
        assert_eq!(choose(DeviceRequest::Auto, Found::Devices(2)), two);
        assert_eq!(
            choose(DeviceRequest::Cuda(1), Found::Devices(2)),
            Ok(vec![Device::Cuda(1)])
        );
        for (request, found, reason) in [
            (DeviceRequest::Auto, broken(), "libcudnn"),
            (DeviceRequest::AllCuda, no_driver(), "libcuda.so.1"),
            (DeviceRequest::Cuda(0), broken(), "libcudnn"),
            (DeviceRequest::AllCuda, Found::Devices(0), "no device"),
            (DeviceRequest::Cuda(2), Found::Devices(2), "device 2"),
        ] {
            let error = choose(request, found).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
