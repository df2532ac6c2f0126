//! The process: binds ports, loads models, serves and drains.
//!
//! Ports are bound first, so that a port in use is reported at once. Liveness and metrics answer while models load;
//! readiness follows when the models are warm.

mod build;
mod inspect;
mod metrics;
mod ports;
mod repositories;
mod watchdog;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_ops::drain::{Drain, Signals};
use weir_ops::telemetry;
use weir_serve::open_files;

use crate::args::{self, Config, DeviceChoice, Exit, OnLoadError};
use crate::backend::{Backend, LoadError, STACK_OF_MODELS};
use crate::repository::ControlMode;
use crate::server::{Phase, Server};
use ports::Ports;
use repositories::Repositories;
use watchdog::Watchdog;

pub use crate::echo::EchoBackend;
pub use crate::metrics::{GpuSample, Pool, ReadGpus};
pub use crate::repository::{Refresh, RefreshedModels, RemoteRepository};

/// Finds the GPUs that `--device` allows; an empty list means the CPU.
pub type FindGpus = fn(DeviceChoice) -> Result<Vec<usize>, LoadError>;

/// Opens the repository with this URI, whose copy is below the directory, without fetching it. The error is a sentence.
pub type OpenRemote = fn(&str, &Path) -> Result<Arc<dyn RemoteRepository>, String>;

/// The parts that differ between builds of the runtime: backends, GPU discovery and remote repositories.
pub struct Setup {
    /// Backends, the most specific first.
    pub backends: Vec<Arc<dyn Backend>>,
    /// Finds the GPUs at start.
    pub find_gpus: FindGpus,
    /// Reads the state of those GPUs, for the metrics.
    pub read_gpus: ReadGpus,
    /// Opens remote model repositories.
    pub open_remote: OpenRemote,
}

/// Runs the process, from parsing its flags to its exit code.
#[must_use]
pub fn main(setup: Setup) -> Exit {
    if let Some(exit) = inspect::main(&setup.backends, std::env::args_os()) {
        return exit;
    }
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
    open_files::raise_limit();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = config.threads {
        runtime.worker_threads(threads.get());
    }
    runtime.thread_stack_size(STACK_OF_MODELS);
    match runtime.enable_all().thread_name("weir-reactor").build() {
        Ok(runtime) => {
            let exit = runtime.block_on(run(config, setup, log));
            // A thread that still blocks, such as one with an abandoned load, runs on until the process exits.
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
    let repositories = match Repositories::open(&config, setup.open_remote) {
        Ok(repositories) => repositories,
        Err(reason) => {
            tracing::error!("{reason}");
            return Exit::Failed;
        }
    };
    let exit = match build::server(&config, setup, &repositories, (log, drain.closed().clone())) {
        Ok(server) => serve(&config, Arc::new(server), ports, &drain).await,
        Err(error) => {
            tracing::error!("{error}");
            Exit::Failed
        }
    };
    signals.abort();
    exit
}

/// Serves until a signal, then answers the accepted requests within the exit timeout.
async fn serve(config: &Config, server: Arc<Server>, ports: Ports, drain: &Drain) -> Exit {
    let _watchdog = match Watchdog::start(Arc::clone(&server)) {
        Ok(watchdog) => watchdog,
        Err(error) => return failed(&error),
    };
    let tasks = TaskTracker::new();
    let stop = drain.closed().clone();
    ports.spawn(config, &server, &tasks, &stop);
    tasks.spawn(keep_short_timer(stop.clone()));
    let lifecycle = async {
        let loaded = load(config, &server, drain).await;
        if loaded == Exit::Done {
            watch(config, &server, &tasks, &stop);
            drain.begun().cancelled().await;
            server.enter(Phase::Draining);
            server.repository().end_loads();
            drain.closed().cancelled().await;
            server.flush();
        } else {
            drain.close();
        }
        tasks.close();
        tasks.wait().await;
        server.repository().retire_all().await;
        loaded
    };
    match drain.serve(config.exit_timeout, lifecycle).await {
        Ok(exit) => {
            tracing::info!("ended");
            exit
        }
        Err(error) => {
            tracing::error!("{error}: exiting with unanswered requests");
            Exit::Failed
        }
    }
}

/// Makes the initial loads; a signal ends the wait for them.
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
        match config.model_name {
            // The server has only this model, so `--exit-on-error false` would serve nothing.
            Some(_) => tracing::info!("exiting: the model did not load"),
            None => tracing::error!("exiting: a model did not load. To serve the others, use --exit-on-error false"),
        }
        return Exit::Failed;
    }
    let models = server.models().len();
    if models == 0 && failures.is_empty() {
        warn_of_no_model(config);
    }
    server.enter(Phase::Serving);
    tracing::info!(models, "ready");
    Exit::Done
}

/// Warns that no model was found. In mode explicit this is normal, because clients load the models.
fn warn_of_no_model(config: &Config) {
    let paths: Vec<_> = config.repositories.iter().map(|path| path.display().to_string()).collect();
    match config.control {
        ControlMode::None | ControlMode::Poll(_) => tracing::warn!(
            "no model found in {}: a model is a file, a directory with config.pbtxt, numeric versions or \
             model.pt, or one directory below the given one with these",
            paths.join(", ")
        ),
        ControlMode::Explicit { .. } => {}
    }
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

/// Shorter than the default timeout of connections (75 s for the head of a request), and long enough to cost an idle
/// processor almost nothing.
const SHORT_TIMER: Duration = Duration::from_secs(1);

/// Keeps a timer set that is due before those of connections, until `stop` is cancelled. This saves a system call per
/// response.
///
/// When a new timer is due before all others, tokio wakes the thread that waits for timers with a system call, even if
/// that thread itself sets the timer. Over HTTP/1.1 each response sets a timer for the next request on its connection.
/// While an earlier timer exists, none of these needs the system call.
async fn keep_short_timer(stop: CancellationToken) {
    let mut timer = tokio::time::interval(SHORT_TIMER);
    let ticking = async {
        loop {
            timer.tick().await;
        }
    };
    stop.run_until_cancelled(ticking).await;
}
