//! Builds a server from the configuration, without starting it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_ops::telemetry;
use weir_serve::byte_budget::ByteBudget;

use super::Setup;
use super::repositories::Repositories;
use crate::args::Config;
use crate::incoming::shared_memory::SharedMemory;
use crate::launch::{LaunchOptions, Launcher};
use crate::metrics::{GpuMeter, ReadGpus};
use crate::repository::{Repository, RepositoryOptions};
use crate::server::{EXTENSIONS, Identity, Parts, Server};
use crate::settings::log::{LogSettings, LogStore};
use crate::settings::trace::TraceStore;

/// Time for measuring batch sizes, per instance. A tenth of it is enough to measure every size of a small model; of a
/// large model, sizes up to those that fill the caches are measured. The measurement adds hardly more to a cold start
/// than reading the weights.
const WARM_UP: Duration = Duration::from_secs(1);

/// Limit on the files uploaded in one load call, in bytes: Triton's limit on a body.
const MAX_UPLOAD: usize = i32::MAX as usize;

pub(super) fn server(
    config: &Config,
    setup: Setup,
    repositories: &Repositories,
    (log, stop): (telemetry::Handle, CancellationToken),
) -> Result<Server, Box<dyn std::error::Error>> {
    let gpus = (setup.find_gpus)(config.device)?;
    let gpu_meter = gpu_meter(config, setup.read_gpus, &gpus)?;
    let launch = LaunchOptions {
        gpus,
        max_queued: config.max_queue.get(),
        warm_up: WARM_UP,
        batch_limit: config.batch_limit,
        warm_up_failures: config.warm_up_failures,
        unguarded_operators: config.unguarded_operators.clone(),
        model_code: config.model_code,
        example: config.example.clone(),
    };
    let launcher = Launcher::new(setup.backends, launch);
    let name = config.model_name.clone();
    let repository = Repository::new(&repositories.paths, name, options(config, repositories), launcher)?;
    let apply = move |levels| log.set(levels).map_err(|error| error.to_string());
    Ok(Server::new(Parts {
        identity: Identity {
            name: config.id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: EXTENSIONS,
        },
        repository: Arc::new(repository),
        memory: SharedMemory::new(config.shared_memory, ByteBudget::new(config.max_inflight)),
        trace: TraceStore::new(config.trace),
        log: LogStore::new(LogSettings::at_start(&config.logs), Arc::new(apply)),
        gpu_meter,
        stop,
    }))
}

/// Starts reading the state of the GPUs if their metrics are printed.
fn gpu_meter(config: &Config, read: ReadGpus, gpus: &[usize]) -> std::io::Result<GpuMeter> {
    let is_printed = config.metrics.as_ref().is_some_and(|metrics| metrics.options.gpu);
    let metered = if is_printed { gpus.to_vec() } else { Vec::new() };
    GpuMeter::start(read, metered)
}

fn options(config: &Config, repositories: &Repositories) -> RepositoryOptions {
    RepositoryOptions {
        control: config.control.clone(),
        readiness: config.readiness,
        load_threads: config.load_threads,
        retries: config.load_retries,
        auto_complete: config.auto_complete,
        example: config.example.clone(),
        config_name: config.config_name.clone(),
        max_upload: MAX_UPLOAD,
        retire_limit: config.exit_timeout,
        remotes: repositories.remotes.clone(),
    }
}
