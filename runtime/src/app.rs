//! The process: ports, models, an orderly end.
//!
//! Ports are bound first, so that a taken one is known at once; liveness and metrics answer while
//! models load; readiness follows when they are warm.

mod build;
mod metrics;
mod ports;
mod pulse;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_ops::drain::{Drain, Signals};
use weir_ops::telemetry;

use crate::args::{self, Config, DeviceChoice, Exit, OnLoadError};
use crate::backend::{Backend, LoadError};
use crate::repository::ControlMode;
use crate::server::{Phase, Server};
use ports::Ports;

/// Finds the GPUs that `--device` allows; empty means the processor.
pub type FindGpus = fn(DeviceChoice) -> Result<Vec<usize>, LoadError>;

/// What a build of the runtime brings.
pub struct Setup {
    /// The libraries that load models, the most specific first.
    pub backends: Vec<Arc<dyn Backend>>,
    /// Finds the GPUs.
    pub find_gpus: FindGpus,
}

/// Runs the process from its flags to its exit code.
#[must_use]
pub fn main(setup: Setup) -> Exit {
    let config = match args::parse(std::env::args_os()) {
        Ok(config) => config,
        Err(error) => {
            error.print();
            return error.exit();
        }
    };
    let log = match telemetry::install(&config.logs) {
        Ok(log) => log,
        Err(error) => return failed(&error),
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = config.threads {
        runtime.worker_threads(threads.get());
    }
    match runtime.enable_all().thread_name("weir-reactor").build() {
        Ok(runtime) => {
            let exit = runtime.block_on(run(config, setup, log));
            // What still blocks a thread, such as a load that nobody waits for, ends with the process.
            runtime.shutdown_background();
            exit
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> Exit {
    eprintln!("error: {error}");
    Exit::Failed
}

async fn run(config: Config, setup: Setup, log: telemetry::Handle) -> Exit {
    let ports = match Ports::bind(&config) {
        Ok(ports) => ports,
        Err(error) => {
            eprintln!("error: {error}");
            return error.exit();
        }
    };
    for note in &config.notes {
        tracing::info!("{note}");
    }
    let drain = Drain::new();
    let signals = match Signals::install() {
        Ok(signals) => tokio::spawn(signals.run(drain.clone(), config.drain_delay)),
        Err(error) => return failed(&error),
    };
    let exit = match build::server(&config, setup, log, drain.closed().clone()) {
        Ok(server) => serve(&config, Arc::new(server), ports, &drain).await,
        Err(error) => {
            tracing::error!("{error}");
            Exit::Failed
        }
    };
    signals.abort();
    exit
}

/// Serves until told to end; then answers what was accepted, within the exit timeout.
async fn serve(config: &Config, server: Arc<Server>, ports: Ports, drain: &Drain) -> Exit {
    let tasks = TaskTracker::new();
    let stop = drain.closed().clone();
    ports.spawn(config, &server, &tasks, &stop);
    tasks.spawn(pulse::beat(stop.clone()));
    let life = async {
        let loaded = load(config, &server, drain).await;
        if loaded == Exit::Done {
            watch(config, &server, &tasks, &stop);
            drain.begun().cancelled().await;
            server.enter(Phase::Draining);
            drain.closed().cancelled().await;
        } else {
            drain.close();
        }
        tasks.close();
        tasks.wait().await;
        server.repository().retire_all().await;
        loaded
    };
    match drain.serve(config.exit_timeout, life).await {
        Ok(exit) => {
            tracing::info!("ended");
            exit
        }
        Err(error) => {
            tracing::error!("{error}: ending with requests unanswered");
            Exit::Failed
        }
    }
}

/// Makes the initial loads. A signal meanwhile ends them.
async fn load(config: &Config, server: &Server, drain: &Drain) -> Exit {
    let loads = tokio::select! {
        loads = server.repository().start() => loads,
        () = drain.begun().cancelled() => return Exit::Done,
    };
    let failures = loads.err().unwrap_or_default();
    for failure in &failures {
        tracing::error!("{failure}");
    }
    if !failures.is_empty() && config.on_load_error == OnLoadError::Exit {
        tracing::error!(
            "ending, because a model did not load; --exit-on-error false would serve the others"
        );
        return Exit::Failed;
    }
    server.enter(Phase::Serving);
    tracing::info!(models = server.models().len(), "ready");
    Exit::Done
}

/// Polls the repository for changed models, in mode poll.
fn watch(config: &Config, server: &Arc<Server>, tasks: &TaskTracker, stop: &CancellationToken) {
    match config.control {
        ControlMode::Poll(_) => {
            let repository = Arc::clone(server.repository());
            tasks.spawn(repository.poll(stop.clone()));
        }
        ControlMode::None | ControlMode::Explicit { .. } => {}
    }
}
