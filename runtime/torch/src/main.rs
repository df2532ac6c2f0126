//! `weir-runtime`: the model server with the libtorch and echo backends.

mod allocator;
mod heap;

use std::process::ExitCode;
use std::sync::Arc;

use weir_runtime::app::{self, EchoBackend, Setup};
use weir_runtime_torch::{TorchBackend, find_gpus, read_gpus};

fn main() -> ExitCode {
    let setup = Setup {
        backends: vec![Arc::new(TorchBackend), Arc::new(EchoBackend)],
        find_gpus,
        read_gpus,
    };
    app::main(setup).into()
}
