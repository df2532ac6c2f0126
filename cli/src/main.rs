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
mod allocator;
mod args;
mod authority;
mod check;
mod client;
#[cfg(test)]
mod docs;
mod error;
mod exit;
mod fetch;
mod infer;
mod key;
mod kubernetes;
mod log_output;
mod logs;
mod output;
mod peers;
mod pem;
mod ports;
mod service_name;
mod simulate;
mod state;
mod status;
mod status_table;
mod tls;
mod up;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use error::CliError;
use exit::Exit;

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
            Command::Up(args) => up::run(args).await,
            Command::Check(args) => check::run(&args).await,
            Command::Logs(args) => logs::run(args).await,
            Command::Status(args) => status::run(args).await,
            Command::Infer(args) => infer::run(args).await,
            Command::Key(args) => key::run(args).await,
            Command::Simulate(args) => simulate::run(*args).await,
            Command::Gateway(args) => kubernetes::gateway(args).await,
            Command::Controller(args) => kubernetes::controller(args).await,
            Command::Autoscaler(args) => kubernetes::autoscaler(args).await,
            Command::Fetch(args) => fetch::run(args).await,
            Command::ModelCache(args) => kubernetes::model_cache(args).await,
        }
    });
    // A thread that still blocks, for instance in a read, ends with the process.
    runtime.shutdown_background();
    exit
}
