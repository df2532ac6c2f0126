//! Loads a V2 server from one thread and records its responses.
//!
//! ```text
//!   args ──► Payload (bytes built once) ──► N connections, a task each ──► Tally ──► Report (JSON)
//!                                              └ closed loop: at once
//!                                              └ open loop: on a schedule
//! ```

mod args;
mod clock;
mod connection;
mod expectation;
mod grpc;
mod http1;
mod load;
mod payload;
mod processes;
mod report;
mod response;
mod schedule;
mod tally;
mod tensor;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::args::Args;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    // One thread uses one core in addition to the server's, and no measurement crosses threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let tasks = tokio::task::LocalSet::new();
    let report = tasks.block_on(&runtime, load::run(args))?;
    println!("{report}");
    Ok(())
}
