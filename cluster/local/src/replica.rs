//! The task of one replica: fetches its model, and starts, probes, restarts and stops its process.

mod loader_error;
mod models;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{Endpoints, Failure, FailureReason, LatestReports, Phase, Replica, RevisionName};
use weir_fetch::DownloadReport;

use crate::clock;
use crate::drain::drained;
use crate::launch_spec::LaunchSpec;
use crate::lifecycle::liveness::{Liveness, Verdict};
use crate::lifecycle::{Lifecycle, ProbeResult, Thresholds};
use crate::log::{Echo, Log};
use crate::ports::{LeasedPorts, PortPool};
use crate::probe::{ServerKind, Success};
use crate::process::{self, Ending, Output, Process};
use crate::storage::cache::ModelLock;

/// Time after which a replica that still starts is reported as failed, with the cause from its probe. Most models load
/// faster, and a user who waits for a slower one wants to know the reason.
const SLOW_START: Duration = Duration::from_secs(10);

/// Part of the grace period reserved for the server after SIGTERM; draining may use the rest.
const END_RESERVE: Duration = Duration::from_secs(5);

/// Maximum time to read the last lines after a process ended; they are already in the pipe.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Minimum interval between two log messages about failed runs with the same reason.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Event from a replica's task to the actor.
#[derive(Debug)]
pub(crate) enum Event {
    /// The replica's state has changed to this one.
    Changed(RevisionName, Box<Replica>),
    /// The replica has ended for good.
    Ended(RevisionName, Arc<str>),
}

/// Channels and the port pool that a replica's task shares with the actor.
pub(crate) struct TaskContext {
    /// Channel for the task's events.
    pub(crate) events: mpsc::Sender<Event>,
    /// Cancelled when the replica must stop.
    pub(crate) stop: CancellationToken,
    /// Pool for the replica's ports.
    pub(crate) pool: PortPool,
    /// Reports of the gateways, with their requests at the replica.
    pub(crate) reports: watch::Receiver<Arc<LatestReports>>,
}

/// The task of one replica.
pub(crate) struct Task {
    revision: RevisionName,
    spec: Arc<LaunchSpec>,
    events: mpsc::Sender<Event>,
    stop: CancellationToken,
    pool: PortPool,
    reports: watch::Receiver<Arc<LatestReports>>,
    log: Log,
    /// Reason and time of the last failed run that was logged; None before the first.
    logged: Option<(FailureReason, Instant)>,
    lifecycle: Lifecycle,
    /// Liveness state; `None` for a server without a liveness probe.
    liveness: Option<Liveness>,
    /// Locks on the downloaded models that the replica uses.
    models: Vec<Arc<ModelLock>>,
    /// Record of this task that the models were loaded.
    loaded: Loaded,
    /// Result of the last successful readiness probe of this run.
    success: Option<Success>,
    began: Instant,
    replica: Replica,
    published: Option<Replica>,
}

/// Record that a replica was ready with its models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loaded {
    No,
    Recorded,
}

/// One run of the replica's process.
struct Run {
    process: Process,
    printing: AbortOnDropHandle<()>,
    started: Instant,
    /// Leased during the run, so that no other replica gets the same ports.
    _ports: LeasedPorts,
}

impl Task {
    /// Creates the task of a replica that is not started yet.
    pub(crate) fn new(
        revision: RevisionName,
        replica: Replica,
        spec: Arc<LaunchSpec>,
        log: Log,
        context: TaskContext,
    ) -> Self {
        let TaskContext { events, stop, pool, reports } = context;
        Self {
            revision,
            lifecycle: Lifecycle::new(Thresholds {
                failures: spec.probe.failure_threshold,
                successes: spec.probe.success_threshold,
                period: spec.probe.period,
            }),
            liveness: spec
                .liveness
                .as_ref()
                .map(|probe| Liveness::new(probe.period, probe.failure_threshold, probe.initial_delay)),
            models: Vec::new(),
            loaded: Loaded::No,
            success: None,
            spec,
            events,
            stop,
            pool,
            reports,
            log,
            logged: None,
            began: clock::now(),
            replica,
            published: None,
        }
    }

    /// Runs the replica until it is stopped.
    pub(crate) async fn run(mut self) {
        while !self.stop.is_cancelled() {
            if let Some(failure) = self.run_once().await {
                self.back_off(failure).await;
            }
        }
        let ended = Event::Ended(self.revision.clone(), self.replica.name.clone());
        // An error means that the cluster is gone, and the event with it.
        let _ = self.events.send(ended).await;
    }

    /// Runs the process once: fetches the model's files, starts the process and supervises it until it ends. Returns
    /// `None` if the replica was stopped.
    async fn run_once(&mut self) -> Option<Failure> {
        let stop = self.stop.clone();
        let spec = self.spec.clone();
        let fetching = self.fetch(&spec);
        if let Err(cause) = stop.run_until_cancelled(fetching).await? {
            return Some(self.cannot_start(FailureReason::StorageFailed, &cause));
        }
        if let Some(predictor) = &spec.predictor
            && let Err(cause) = stop.run_until_cancelled(predictor.wait()).await?
        {
            return Some(self.cannot_start(FailureReason::NotStarted, &cause));
        }
        match self.start() {
            Ok(run) => self.supervise(run).await,
            Err(cause) => Some(self.cannot_start(FailureReason::NotStarted, &cause)),
        }
    }

    /// Fetches the model's files. Failed attempts are published meanwhile, because an unreachable host is retried for a
    /// long time.
    async fn fetch(&mut self, spec: &LaunchSpec) -> Result<(), String> {
        let (sender, mut reports) = watch::channel(DownloadReport::default());
        let observe = move |attempt| sender.send_modify(|report| report.observe(attempt));
        let mut fetching = pin!(models::ensure(spec, observe));
        loop {
            tokio::select! {
                biased;
                Ok(()) = reports.changed() => {
                    let report = reports.borrow_and_update().clone();
                    self.record(&report).await;
                }
                fetched = &mut fetching => {
                    self.replica.download = None;
                    self.models = fetched?;
                    self.loaded = Loaded::No;
                    return Ok(());
                }
            }
        }
    }

    /// Publishes the state of the download. A failure stays until the server sends again.
    async fn record(&mut self, report: &DownloadReport) {
        self.replica.download = report.is_listed().then(|| report.to_string().into());
        let known = self.replica.failure.take();
        self.replica.failure = report.retrying().map(|cause| {
            let same = known.filter(|known| known.message.contains(cause));
            same.unwrap_or_else(|| self.waits_for_model(cause))
        });
        self.publish().await;
    }

    fn waits_for_model(&self, cause: &str) -> Failure {
        let (replica, at) = (&self.replica.name, Timestamp::now().strftime("%H:%M:%S"));
        let message = format!("{replica} waits for its model: {cause} (last tried at {at} UTC; retrying)");
        failed(FailureReason::StorageFailed, message)
    }

    fn cannot_start(&self, reason: FailureReason, cause: &str) -> Failure {
        let message = format!("{} cannot start: {cause}", self.replica.name);
        failed(reason, message)
    }

    fn start(&mut self) -> Result<Run, String> {
        let leased = self.spec.ports.assign(self.spec.metrics, &self.pool)?;
        self.replica.endpoints = leased.ports.endpoints();
        self.spawn(leased)
    }

    fn spawn(&self, leased: LeasedPorts) -> Result<Run, String> {
        let command = self.spec.invocation(leased.ports);
        let directory = self.spec.directory.as_deref();
        let program = self.spec.program(&command)?;
        let started = Process::start(&program, &command.args, &command.env, directory);
        let (process, output) = started.map_err(|error| error.to_string())?;
        self.log.begin_run();
        Ok(Run {
            process,
            printing: AbortOnDropHandle::new(tokio::spawn(print(self.log.clone(), output))),
            started: clock::now(),
            _ports: leased,
        })
    }

    /// Supervises a run until it ends. Returns the failure if the process ended by itself or hung, `None` if the
    /// replica was stopped.
    async fn supervise(&mut self, mut run: Run) -> Option<Failure> {
        self.lifecycle.started();
        let began = self.began.elapsed();
        self.liveness.iter_mut().for_each(|liveness| liveness.started(began));
        self.success = None;
        self.publish().await;
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            status = run.process.wait() => return Some(self.ended(run, status).await),
            cause = self.probe_until_hung(run.started) => return Some(self.kill_hung(run, &cause).await),
        }
        self.end(run.process).await;
        None
    }

    /// Probes the start, then readiness and liveness until the replica hangs. Returns the cause as a clause.
    async fn probe_until_hung(&mut self, started: Instant) -> String {
        let endpoints = self.replica.endpoints.clone();
        if let Some(cause) = self.probe_startup(&endpoints, started).await {
            return cause;
        }
        tokio::time::sleep(self.spec.probe.initial_delay.saturating_sub(started.elapsed())).await;
        loop {
            let answer = self.probe_readiness(&endpoints).await;
            self.record_readiness(answer, started.elapsed());
            self.publish().await;
            self.record_loaded().await;
            if let Some(cause) = self.probe_liveness(&endpoints).await {
                return cause;
            }
            tokio::time::sleep(self.lifecycle.next_probe()).await;
        }
    }

    /// Probes until the startup probe succeeds. Returns the cause as a clause if the program did not start in time.
    async fn probe_startup(&mut self, endpoints: &Endpoints, started: Instant) -> Option<String> {
        let spec = self.spec.clone();
        let probe = spec.startup.as_ref()?;
        tokio::time::sleep(probe.initial_delay.saturating_sub(started.elapsed())).await;
        while let Err(cause) = probe.run(endpoints).await {
            let age = started.elapsed();
            if age >= probe.start_limit() {
                return Some(format!("failed its startup probe for {:.0} s ({cause})", age.as_secs_f64()));
            }
            self.record_readiness(Err(cause), age);
            self.publish().await;
            tokio::time::sleep(self.lifecycle.next_probe()).await;
        }
        let now = self.began.elapsed();
        self.liveness.iter_mut().for_each(|liveness| liveness.begin(now));
        None
    }

    /// Probes readiness. A ready server that does not implement the V2 ready call stays ready while it accepts
    /// connections but does not answer: it is busy, and Kubernetes would only check that it listens.
    async fn probe_readiness(&mut self, endpoints: &Endpoints) -> Result<(), String> {
        let probe = &self.spec.probe;
        match (probe.run(endpoints).await, self.success) {
            (Ok(success), _) => {
                self.success = Some(success);
                Ok(())
            }
            (Err(_), Some(Success::NoSuchCall)) if self.lifecycle.phase() == Phase::Ready => {
                probe.connect(endpoints).await
            }
            (Err(cause), None | Some(Success::Answered | Success::NoSuchCall)) => Err(cause),
        }
    }

    /// Probes liveness if the probe is due. Returns the cause as a clause if the replica hangs.
    async fn probe_liveness(&mut self, endpoints: &Endpoints) -> Option<String> {
        let (Some(liveness), Some(probe)) = (&mut self.liveness, &self.spec.liveness) else {
            return None;
        };
        if !liveness.is_due(self.began.elapsed()) {
            return None;
        }
        let answer = probe.run(endpoints).await;
        let result = match answer {
            Ok(_) => ProbeResult::Success,
            Err(_) => ProbeResult::Failure,
        };
        match liveness.probed(result, self.began.elapsed()) {
            Verdict::Alive => None,
            Verdict::Hung(silence) => Some(format!(
                "failed its liveness probe for {:.0} s ({})",
                silence.as_secs_f64(),
                answer.err().unwrap_or_default()
            )),
        }
    }

    fn record_readiness(&mut self, answer: Result<(), String>, age: Duration) {
        let now = self.began.elapsed();
        let Err(cause) = answer else {
            self.lifecycle.probed(ProbeResult::Success, now);
            if self.lifecycle.phase() != Phase::Ready {
                return;
            }
            self.log.set_echo(Echo::On);
            self.liveness.iter_mut().for_each(|liveness| liveness.begin(now));
            self.replica.failure = None;
            return;
        };
        self.lifecycle.probed(ProbeResult::Failure, now);
        let phase = self.lifecycle.phase();
        if phase != Phase::Ready && age >= SLOW_START {
            let message = format!("{} is running but not ready: {cause}", self.replica.name);
            let since = self.replica.failure.as_ref().filter(|f| f.reason == FailureReason::NotReady);
            let at = since.map_or_else(now_in_seconds, |failure| failure.at);
            self.replica.failure = Some(Failure { at, ..Failure::new(FailureReason::NotReady, message) });
        }
    }

    /// Records the first time that the replica is ready with its models.
    async fn record_loaded(&mut self) {
        if self.lifecycle.phase() == Phase::Ready && self.loaded == Loaded::No {
            self.loaded = Loaded::Recorded;
            models::mark_loaded(&self.models).await;
        }
    }

    async fn ended(&mut self, run: Run, status: std::io::Result<std::process::ExitStatus>) -> Failure {
        let Run { process, printing, started, .. } = run;
        let age = started.elapsed();
        // Dropping the process kills its descendants, which closes the other ends of its pipes.
        drop(process);
        let _ = tokio::time::timeout(LAST_LINES, printing).await;
        let exit_code = status.as_ref().ok().and_then(process::exit_code);
        Failure { exit_code, ..self.exited(&process::describe(status), age) }
    }

    /// Kills a run that hangs. The run gets no grace period: its probes have failed for long enough to answer earlier
    /// requests, and a hung process would only let the period pass.
    async fn kill_hung(&mut self, run: Run, cause: &str) -> Failure {
        let replica = &self.replica.name;
        tracing::warn!(%replica, cause, "replica hangs: killing and restarting it");
        self.lifecycle.hung();
        self.publish().await;
        let age = run.started.elapsed();
        run.process.kill().await;
        let _ = tokio::time::timeout(LAST_LINES, run.printing).await;
        Failure { reason: FailureReason::Hung, ..self.exited(&format!("{cause} and was killed"), age) }
    }

    /// Returns the failure of a run that ended, with the last lines of its log.
    fn exited(&self, clause: &str, age: Duration) -> Failure {
        let (replica, age) = (&self.replica.name, age.as_secs_f64());
        let mut message = format!("{replica} {clause} after {age:.1} s");
        let lines = self.log.last_lines();
        let explained = loader_error::explain(&lines).unwrap_or(lines);
        if !explained.is_empty() {
            message = format!("{message}: {explained}");
        }
        message = format!("{message} (log: {})", self.log.path().display());
        failed(FailureReason::Exited, message)
    }

    /// Records the failure and waits for the next start.
    async fn back_off(&mut self, mut failure: Failure) {
        let wait = self.lifecycle.ended(self.began.elapsed());
        if failure.reason == FailureReason::Exited && self.lifecycle.is_crash_loop() {
            failure.reason = FailureReason::CrashLoopBackOff;
        }
        if self.lifecycle.is_crash_loop() {
            self.log.set_echo(Echo::Off);
        }
        self.log_failure(&failure, wait);
        match failure.reason {
            FailureReason::Exited
            | FailureReason::CrashLoopBackOff
            | FailureReason::OutOfMemory
            | FailureReason::Hung => {
                self.replica.last_exit = Some(failure.clone());
                self.doubt_models().await;
            }
            FailureReason::StorageFailed
            | FailureReason::NotStarted
            | FailureReason::NotReady
            | FailureReason::NodeNotReady => {}
        }
        self.replica.failure = Some(failure);
        self.replica.endpoints = Endpoints::default();
        self.publish().await;
        let stop = self.stop.clone();
        stop.run_until_cancelled(tokio::time::sleep(wait)).await;
    }

    /// Gives up the downloaded models of a crash loop, which the next start locks again, and removes those that may be
    /// its reason.
    async fn doubt_models(&mut self) {
        if self.lifecycle.is_crash_loop() {
            self.models.clear();
        }
        if self.lifecycle.doubts_model() {
            models::discard_unloaded(&self.spec).await;
        }
    }

    /// Logs a failed run, at most once a minute for the same reason. The snapshot shows every one.
    fn log_failure(&mut self, failure: &Failure, wait: Duration) {
        let now = clock::now();
        let is_known = self
            .logged
            .is_some_and(|(reason, at)| reason == failure.reason && now.saturating_duration_since(at) < LOG_INTERVAL);
        if is_known {
            return;
        }
        self.logged = Some((failure.reason, now));
        let (reason, message) = (failure.reason.label(), &failure.message);
        tracing::info!(reason, %message, wait_s = wait.as_secs_f64(), "replica failed: waiting to restart it");
    }

    /// Ends a run within its grace period: removes the replica from the ready ones in the snapshot, so that gateways
    /// stop using it, lets its requests finish, then sends SIGTERM.
    async fn end(&mut self, mut process: Process) {
        self.lifecycle.stopping();
        self.publish().await;
        let began = clock::now();
        tokio::select! {
            _ = process.wait() => return,
            () = self.let_requests_end() => {}
        }
        let waited = began.elapsed().saturating_sub(self.spec.pre_stop_delay);
        if process.end(self.spec.grace.saturating_sub(waited)).await == Ending::Killed {
            let (replica, grace_s) = (&self.replica.name, self.spec.grace.as_secs_f64());
            tracing::warn!(%replica, grace_s, "replica did not stop within its grace period and was killed");
        }
    }

    /// Waits until gateways send the replica no new requests and, for most of the grace period, until they have no
    /// request at it. Weir's own runtime finishes accepted requests after SIGTERM; many other servers exit at once.
    async fn let_requests_end(&self) {
        tokio::time::sleep(self.spec.pre_stop_delay).await;
        match self.spec.server {
            ServerKind::Weir => {}
            ServerKind::Foreign => {
                let grace = self.spec.grace;
                let longest = grace.saturating_sub(END_RESERVE.min(grace / 2));
                let drained = drained(self.reports.clone(), &self.revision, &self.replica.name);
                // Requests that have not finished by then get the rest of the grace period, as they would on
                // Kubernetes.
                let _ = tokio::time::timeout(longest, drained).await;
            }
        }
    }

    /// Publishes the state of the replica if it has changed.
    async fn publish(&mut self) {
        self.replica.phase = self.lifecycle.phase();
        self.replica.restarts = self.lifecycle.restarts();
        if self.published.as_ref() != Some(&self.replica) {
            self.published = Some(self.replica.clone());
            let changed = Event::Changed(self.revision.clone(), Box::new(self.replica.clone()));
            // An error means that the cluster is gone, as in `run`.
            let _ = self.events.send(changed).await;
        }
    }
}

/// Creates a failure with the current time.
fn failed(reason: FailureReason, message: String) -> Failure {
    Failure { at: now_in_seconds(), ..Failure::new(reason, message) }
}

fn now_in_seconds() -> Option<u64> {
    u64::try_from(Timestamp::now().as_second()).ok()
}

async fn print(log: Log, output: Output) {
    let Output { stdout, stderr } = output;
    tokio::join!(log.clone().follow(stdout), log.follow(stderr));
}
