//! Finds the GPUs to run on. libtorch_cuda is opened here, at start and only if a driver is installed, so that one
//! binary serves machines with and without CUDA.

use weir_runtime::args::DeviceChoice;
use weir_runtime::backend::{Device, LoadError};

use crate::libtorch::process;

/// The driver's library, present on every machine with a driver.
const DRIVER: &str = "libcuda.so.1";

/// libtorch's CUDA library, found beside libtorch_cpu.so by the run path, or where the loader searches.
const LIBTORCH_CUDA: &str = "libtorch_cuda.so";

/// Returns the indices of the GPUs to run on; none means the CPU. Must be called once, before any other use of CUDA in
/// libtorch, because libtorch caches the absence of its CUDA library.
///
/// # Errors
/// [`LoadError::Device`] if a requested device cannot be used, or if there is a driver but libtorch_cuda does not load.
/// The server never falls back to the CPU silently.
pub fn find_gpus(choice: DeviceChoice) -> Result<Vec<usize>, LoadError> {
    let found = match choice {
        DeviceChoice::Only(Device::Cpu) => return Ok(Vec::new()),
        DeviceChoice::Auto | DeviceChoice::AllCuda | DeviceChoice::Only(Device::Cuda(_)) => find(),
    };
    choose(choice, found).map_err(LoadError::Device)
}

/// The result of the search for CUDA devices.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// No driver; with the loader's error message.
    NoDriver(String),
    /// A driver, but libtorch_cuda does not load or work; with the reason.
    Unusable(String),
    /// Number of visible devices, which are numbered from 0.
    Devices(usize),
}

fn find() -> Found {
    if let Err(message) = process::open_library(DRIVER) {
        return Found::NoDriver(message);
    }
    if let Err(message) = process::open_library(LIBTORCH_CUDA) {
        return Found::Unusable(message);
    }
    match process::cuda_devices() {
        Ok(count) => Found::Devices(count),
        Err(fault) => Found::Unusable(fault.to_string()),
    }
}

fn choose(choice: DeviceChoice, found: Found) -> Result<Vec<usize>, String> {
    match (choice, found) {
        (DeviceChoice::Only(Device::Cpu), _) | (DeviceChoice::Auto, Found::NoDriver(_) | Found::Devices(0)) => {
            Ok(Vec::new())
        }
        (_, Found::Unusable(why)) => Err(format!(
            "this machine has a CUDA driver, but libtorch_cuda cannot be used: {why}; \
             run the image whose tag ends in -cuda, install the CUDA libraries of libtorch {}, or choose --device cpu",
            env!("LIBTORCH_VERSION")
        )),
        (_, Found::NoDriver(why)) => Err(format!(
            "--device asks for CUDA, but there is no driver: {why}; a pod needs `runtimeClassName: nvidia`, or a node \
             where the GPU Operator's toolkit is the default runtime; a machine needs NVIDIA's driver; or choose --device cpu"
        )),
        (_, Found::Devices(0)) => {
            Err("--device asks for CUDA, but the driver shows no device: a container needs one in its limits, such as \
                 `nvidia.com/gpu: 1`"
                .to_owned())
        }
        (DeviceChoice::Only(Device::Cuda(index)), Found::Devices(count)) if index >= count => {
            Err(format!("--device asks for CUDA device {index}, but the driver shows {count}, numbered from 0"))
        }
        (DeviceChoice::Only(Device::Cuda(index)), Found::Devices(_)) => Ok(vec![index]),
        (DeviceChoice::Auto | DeviceChoice::AllCuda, Found::Devices(count)) => Ok((0..count).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUDA_0: DeviceChoice = DeviceChoice::Only(Device::Cuda(0));
    const CUDA_2: DeviceChoice = DeviceChoice::Only(Device::Cuda(2));

    #[test]
    fn no_choice_is_replaced_silently() {
        let no_driver = || Found::NoDriver("libcuda.so.1: no such file".to_owned());
        let broken = || Found::Unusable("libcudnn.so.9: no such file".to_owned());
        for (choice, found, gpus) in [
            (DeviceChoice::Auto, no_driver(), vec![]),
            (DeviceChoice::Auto, Found::Devices(0), vec![]),
            (DeviceChoice::Auto, Found::Devices(2), vec![0, 1]),
            (DeviceChoice::Only(Device::Cpu), Found::Devices(2), vec![]),
            (CUDA_2, Found::Devices(3), vec![2]),
        ] {
            assert_eq!(choose(choice, found), Ok(gpus));
        }
        for (choice, found, reason) in [
            (DeviceChoice::Auto, broken(), "libcudnn"),
            (DeviceChoice::AllCuda, no_driver(), "libcuda.so.1"),
            (DeviceChoice::AllCuda, no_driver(), "`runtimeClassName: nvidia`"),
            (DeviceChoice::AllCuda, broken(), "-cuda"),
            (CUDA_0, broken(), "libcudnn"),
            (DeviceChoice::AllCuda, Found::Devices(0), "no device"),
            (CUDA_2, Found::Devices(2), "device 2"),
        ] {
            let error = choose(choice, found).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
