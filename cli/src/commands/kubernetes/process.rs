//! Parts common to the processes on Kubernetes: logs, signals and admin port.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use weir_cluster_reports::TokenSource;
use weir_ops::admin::{Admin, Health, HealthCheck, TokenFile};
use weir_ops::drain::{Drain, Signals};
use weir_ops::registry::{self, Registry};
use weir_ops::telemetry::Levels;

use crate::args::ProcessArgs;
use crate::error::CliError;
use crate::error::Exit;
use crate::output::install_log;
use crate::ports;

/// File with the host's name, which in a pod is the pod's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Time for running tasks to finish their last step, such as a call to the API server.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A process with its logs, signals and admin port.
pub(super) struct Process {
    /// Name, unique among the processes of the same kind.
    pub(super) name: String,
    pub(super) drain: Drain,
    /// Tasks that run until `stop` is cancelled.
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    listener: TcpListener,
    /// Tokens of the admin ports of Weir's processes; `None` if they ask for none.
    token: Option<Arc<TokenFile>>,
    /// Cancelled when the process has connected to the cluster and its final admin port takes over.
    starting: CancellationToken,
    _signals: AbortOnDropHandle<()>,
}

impl Process {
    /// Starts the process: `/health` answers from now on, and `/ready` reports that the process is starting. After
    /// SIGTERM the process accepts requests for another `delay`.
    ///
    /// # Errors
    /// [`CliError::PortTaken`], [`CliError::PortRefused`], [`CliError::Io`], [`CliError::Usage`].
    pub(super) fn start(args: &ProcessArgs, delay: Duration) -> Result<Self, CliError> {
        install_log(log_levels(args.verbose))?;
        let token = ports::token(args.admin_token_file.as_deref())?;
        let address = SocketAddr::new(args.address, args.admin_port);
        let (listener, _) = ports::bind("--admin-port", address)?;
        let drain = Drain::new();
        let signals = Signals::install().map_err(|e| CliError::io("cannot install signal handlers", e))?;
        let process = Self {
            name: name(args)?,
            _signals: AbortOnDropHandle::new(tokio::spawn(signals.run(drain.clone(), delay))),
            drain,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            starting: CancellationToken::new(),
            listener,
            token,
        };
        let admin = process.admin(registry::with_process_metrics(), Arc::new(|| Health::Starting))?;
        process.tasks.spawn(admin.serve(process.starting.clone()));
        Ok(process)
    }

    /// Returns the final admin port, with the process's metrics and readiness.
    ///
    /// # Errors
    /// [`CliError::Io`] if the listener cannot be duplicated.
    pub(super) fn admin(&self, registry: Registry, ready: HealthCheck) -> Result<Admin, CliError> {
        let failed = |error| CliError::io("cannot share the admin port", error);
        let listener = ports::share(&self.listener).map_err(failed)?;
        let alive: HealthCheck = Arc::new(|| Health::Serving);
        Ok(Admin::new(listener, Arc::new(registry), alive).with_readiness(ready).with_token(self.token.clone()))
    }

    /// Returns the source of the token for the admin ports of gateways.
    pub(super) fn token_source(&self) -> TokenSource {
        let token = self.token.clone();
        Arc::new(move || token.as_ref().and_then(|token| token.first()))
    }

    /// Runs a task until the process stops.
    pub(super) fn run_until_stopped(&self, task: impl Future<Output: Send> + Send + 'static) {
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(task));
    }

    /// Serves the final admin port in place of the one used while starting.
    pub(super) fn serve(&self, admin: Admin) {
        self.tasks.spawn(admin.serve(self.stop.clone()));
        self.starting.cancel();
    }

    /// Returns a check that reports ready until the process drains.
    pub(super) fn until_drained(&self) -> HealthCheck {
        let begun = self.drain.begun().clone();
        Arc::new(move || if begun.is_cancelled() { Health::Draining } else { Health::Serving })
    }

    /// Stops all tasks and waits for them.
    pub(super) async fn end(self) -> Exit {
        self.stop.cancel();
        self.starting.cancel();
        self.tasks.close();
        match tokio::time::timeout(END_TIMEOUT, self.tasks.wait()).await {
            Ok(()) => Exit::Done,
            Err(_) => Exit::Failed,
        }
    }
}

/// Levels of the log: information always, and debug messages with `-v`.
fn log_levels(verbose: u8) -> Levels {
    Levels { info: true, verbose: u32::from(verbose), ..Levels::default() }
}

fn name(args: &ProcessArgs) -> Result<String, CliError> {
    if let Some(name) = &args.name {
        return Ok(name.clone());
    }
    let name = fs::read_to_string(HOST_NAME);
    let name = name.map_err(|error| CliError::io("cannot read the host's name: set --name", error))?;
    Ok(name.trim().to_owned())
}
