//! `weir-runtime`: the model server with the libtorch and echo backends.

mod allocator;
mod heap;

use std::sync::Arc;

use weir_ops::exit::exit_at_once;
use weir_runtime::app::{self, EchoBackend, Setup};
use weir_runtime_torch::{TorchBackend, find_gpus, open_remote, read_gpus};

fn main() {
    // The sandbox forks this process, which must have no other thread yet.
    let torch = TorchBackend::of_program();
    let setup = Setup { backends: vec![Arc::new(torch), Arc::new(EchoBackend)], find_gpus, read_gpus, open_remote };
    // A load that was given up, or a batch past the exit timeout, may still run in libtorch, whose exit handlers free
    // memory that the run uses. So the process ends without them.
    exit_at_once(app::main(setup).code())
}
