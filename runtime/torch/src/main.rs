//! `weir-runtime`: the model server with the libtorch, onnxruntime and echo backends.

mod heap;

use std::sync::Arc;

use weir_ops::exit::exit_at_once;
use weir_runtime::app::{self, EchoBackend, Setup};
use weir_runtime_torch::{OnnxBackend, TorchBackend, find_gpus, open_remote, read_gpus};

fn main() {
    // The sandbox forks this process, which must have no other thread yet.
    let torch = Arc::new(TorchBackend::of_program());
    let onnx = OnnxBackend::new(Arc::clone(&torch));
    let setup =
        Setup { backends: vec![torch, Arc::new(onnx), Arc::new(EchoBackend)], find_gpus, read_gpus, open_remote };
    // A load that was given up, or a batch past the exit timeout, may still run in libtorch, whose exit handlers free
    // memory that the run uses. So the process ends without them.
    exit_at_once(app::main(setup).code())
}
