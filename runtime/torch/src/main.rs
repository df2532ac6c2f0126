//! `weir-runtime`: the model server with libtorch, and with the echo backend beside it.

use std::process::ExitCode;
use std::sync::Arc;

use weir_runtime::app::{self, Setup};
use weir_runtime::args::DeviceChoice;
use weir_runtime::backend::{Device, LoadError};
use weir_runtime::echo::EchoBackend;
use weir_runtime_torch::{DeviceRequest, TorchBackend, devices};

fn main() -> ExitCode {
    let setup = Setup {
        backends: vec![Arc::new(TorchBackend), Arc::new(EchoBackend)],
        find_gpus,
    };
    app::main(setup).into()
}

fn find_gpus(choice: DeviceChoice) -> Result<Vec<usize>, LoadError> {
    let request = match choice {
        DeviceChoice::Auto => DeviceRequest::Auto,
        DeviceChoice::AllCuda => DeviceRequest::AllCuda,
        DeviceChoice::Only(Device::Cpu) => DeviceRequest::Cpu,
        DeviceChoice::Only(Device::Cuda(index)) => DeviceRequest::Cuda(index),
    };
    let gpus = devices(request)?
        .into_iter()
        .filter_map(|device| match device {
            Device::Cpu => None,
            Device::Cuda(index) => Some(index),
        });
    Ok(gpus.collect())
}
