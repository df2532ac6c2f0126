//! `weir`: runs the platform on one machine, calls it as a client, and runs its processes on Kubernetes.
//!
//! ```text
//!   weir up ──► gateway + controller + autoscaler over child processes ──admin port──► weir status
//!                  ▲
//!   weir infer ────┘
//!
//!   weir gateway, weir controller, weir autoscaler, weir model-cache ◄──► API server
//! ```

mod access;
mod args;
mod authority;
mod certificate_secret;
mod client;
mod commands;
#[cfg(test)]
mod docs;
mod error;
mod output;
mod peers;
mod pem;
mod ports;
mod replica_certificate;
mod service_name;
mod state;
mod tls;
mod watched_files;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use error::{CliError, Exit};

/// The memory allocator is jemalloc. All threads allocate and free request bodies; jemalloc reuses the buffer that was
/// freed last, which is still in the processor's cache, and returns the memory of a burst to the system.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    weir_serve::open_files::raise_limit();
    match run(args.command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::print_note(&error.report());
            error.exit().into()
        }
    }
}

fn run(command: Command) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::io("cannot start threads", source))?;
    let exit = runtime.block_on(async {
        match command {
            Command::Up(args) => commands::up::run(args).await,
            Command::Check(args) => commands::check::run(&args).await,
            Command::Logs(args) => commands::logs::run(args).await,
            Command::Status(args) => commands::status::run(args).await,
            Command::Infer(args) => commands::infer::run(args).await,
            Command::Key(args) => commands::key::run(args).await,
            Command::Simulate(args) => commands::simulate::run(*args).await,
            Command::Gateway(args) => commands::kubernetes::gateway(args).await,
            Command::Controller(args) => commands::kubernetes::controller(args).await,
            Command::Autoscaler(args) => commands::kubernetes::autoscaler(args).await,
            Command::Fetch(args) => commands::fetch::run(args).await,
            Command::ModelCache(args) => commands::kubernetes::model_cache(args).await,
        }
    });
    // A thread that still blocks, for instance in a read, ends with the process.
    runtime.shutdown_background();
    exit
}
