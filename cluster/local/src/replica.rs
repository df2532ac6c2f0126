//! The task of one replica: brings its model, starts its process, asks whether it is ready, starts it
//! again, ends it.

mod models;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{Endpoints, Failure, FailureReason, Replica, RevisionName};

use crate::life::pulse::{Pulse, Sign, Verdict};
use crate::life::{Answer, Life};
use crate::log::Log;
use crate::ports::{Leased, Pool};
use crate::process::{self, Ending, Output, Process};
use crate::program;
use crate::recipe::Recipe;

/// A start that takes longer is told as a failure, with what the replica answers: most models load
/// faster, and whoever waits for one that does not wants to know why.
const SLOW_START: Duration = Duration::from_secs(10);

/// The time for the last lines after a process ended; they are in the pipe already.
const LAST_LINES: Duration = Duration::from_millis(500);

/// What a replica's task tells.
#[derive(Debug)]
pub(crate) enum Event {
    /// It is like this now.
    Is(RevisionName, Replica),
    /// It ended and will not come back.
    Gone(RevisionName, Arc<str>),
}

/// What a replica's task shares with others.
pub(crate) struct Ties {
    /// Who wants to know what it does.
    pub(crate) events: mpsc::Sender<Event>,
    /// Cancelled when it is to end.
    pub(crate) stop: CancellationToken,
    /// Where its ports come from.
    pub(crate) pool: Pool,
}

/// The task.
pub(crate) struct Task {
    revision: RevisionName,
    recipe: Arc<Recipe>,
    events: mpsc::Sender<Event>,
    stop: CancellationToken,
    pool: Pool,
    log: Log,
    life: Life,
    pulse: Pulse,
    began: Instant,
    replica: Replica,
    told: Option<Replica>,
}

/// A run of the process.
struct Run {
    process: Process,
    printing: AbortOnDropHandle<()>,
    started: Instant,
    /// Nobody else gets them while it lives.
    _ports: Leased,
}

impl Task {
    /// A replica that is not started yet.
    pub(crate) fn new(
        revision: RevisionName,
        replica: Replica,
        recipe: Arc<Recipe>,
        log: Log,
        ties: Ties,
    ) -> Self {
        let Ties { events, stop, pool } = ties;
        Self {
            revision,
            life: Life::new(recipe.probe.patience),
            pulse: Pulse::new(recipe.liveness.period, recipe.liveness.probe.patience),
            recipe,
            events,
            stop,
            pool,
            log,
            began: Instant::now(),
            replica,
            told: None,
        }
    }

    /// Lives until it is stopped.
    pub(crate) async fn run(mut self) {
        while !self.stop.is_cancelled() {
            if let Some(failure) = self.run_once().await {
                self.back_off(failure).await;
            }
        }
        let gone = Event::Gone(self.revision.clone(), self.replica.name.clone());
        // Without a listener the cluster is gone, and there is nobody to tell.
        let _ = self.events.send(gone).await;
    }

    /// One run, from its model's files to its end. `None` when it was stopped.
    async fn run_once(&mut self) -> Option<Failure> {
        let stop = self.stop.clone();
        let recipe = self.recipe.clone();
        let bringing = models::bring(&recipe.models, &recipe.fetch);
        if let Err(because) = stop.run_until_cancelled(bringing).await? {
            return Some(self.cannot_start(FailureReason::StorageFailed, &because));
        }
        match self.start() {
            Ok(run) => self.live(run).await,
            Err(because) => Some(self.cannot_start(FailureReason::NotStarted, &because)),
        }
    }

    fn cannot_start(&self, reason: FailureReason, because: &str) -> Failure {
        let message = format!("{} cannot start: {because}", self.replica.name);
        Failure {
            reason,
            message: message.into(),
        }
    }

    fn start(&mut self) -> Result<Run, String> {
        let leased = self.recipe.ports.assign(&self.pool)?;
        self.replica.endpoints = leased.ports.endpoints();
        self.spawn(leased)
    }

    fn spawn(&self, leased: Leased) -> Result<Run, String> {
        let command = self.recipe.invocation(leased.ports);
        let directory = self.recipe.directory.as_deref();
        if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
            return Err(format!("there is no directory {}", directory.display()));
        }
        let search = command.env.get("PATH").map_or("", String::as_str);
        let program = program::find(&command.program, directory, search)?;
        let started = Process::start(&program, &command.args, &command.env, directory);
        let (process, output) = started.map_err(|error| error.to_string())?;
        self.log.begin();
        Ok(Run {
            process,
            printing: AbortOnDropHandle::new(tokio::spawn(print(self.log.clone(), output))),
            started: Instant::now(),
            _ports: leased,
        })
    }

    /// Follows a run to its end. The answer is why it ended by itself; `None` when it was stopped.
    async fn live(&mut self, mut run: Run) -> Option<Failure> {
        self.life.started();
        self.pulse.started();
        self.tell().await;
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            status = run.process.wait() => return Some(self.ended(run, status).await),
            because = self.ask_on(run.started) => return Some(self.give_up(run, &because).await),
        }
        self.end(run.process).await;
        None
    }

    /// Asks whether it is ready, and whether it lives, until it hangs. The answer is a clause that says how
    /// it does.
    async fn ask_on(&mut self, started: Instant) -> String {
        let endpoints = self.replica.endpoints.clone();
        loop {
            let answer = self.recipe.probe.ask(&endpoints).await;
            self.note(answer, started.elapsed());
            self.tell().await;
            if let Some(because) = self.feel_pulse(&endpoints).await {
                return because;
            }
            tokio::time::sleep(self.life.ask_again()).await;
        }
    }

    /// Asks whether it lives, if it is time to. Why it does not, if so.
    async fn feel_pulse(&mut self, endpoints: &Endpoints) -> Option<String> {
        if !self.pulse.is_due(self.began.elapsed()) {
            return None;
        }
        let answer = self.recipe.liveness.probe.ask(endpoints).await;
        let sign = match answer {
            Ok(()) => Sign::Life,
            Err(_) => Sign::Nothing,
        };
        match self.pulse.answered(sign, self.began.elapsed()) {
            Verdict::Alive => None,
            Verdict::Hung(silence) => Some(format!(
                "gave no sign of life for {:.0} s ({})",
                silence.as_secs_f64(),
                answer.err().unwrap_or_default()
            )),
        }
    }

    fn note(&mut self, answer: Result<(), String>, age: Duration) {
        let now = self.began.elapsed();
        let Err(because) = answer else {
            self.life.answered(Answer::Ready, now);
            self.pulse.ready(now);
            self.replica.failure = None;
            return;
        };
        self.life.answered(Answer::NotReady, now);
        let phase = self.life.phase();
        if phase != weir_cluster::Phase::Ready && age >= SLOW_START {
            let message = format!("{} runs and is not ready: {because}", self.replica.name);
            self.replica.failure = Some(Failure {
                reason: FailureReason::NotReady,
                message: message.into(),
            });
        }
    }

    async fn ended(
        &mut self,
        run: Run,
        status: std::io::Result<std::process::ExitStatus>,
    ) -> Failure {
        let Run {
            process,
            printing,
            started,
            ..
        } = run;
        let age = started.elapsed();
        // With the process goes what it started, and with that the other ends of its pipes.
        drop(process);
        let _ = tokio::time::timeout(LAST_LINES, printing).await;
        self.exited(&process::describe(status), age)
    }

    /// Ends a run that hangs, as one that is stopped is ended.
    async fn give_up(&mut self, run: Run, because: &str) -> Failure {
        let (replica, grace_s) = (&self.replica.name, self.recipe.grace.as_secs_f64());
        tracing::warn!(%replica, because, grace_s, "replica hangs: it is ended and started again");
        self.life.hangs();
        self.tell().await;
        let age = run.started.elapsed();
        let ending = run.process.end(self.recipe.grace).await;
        let _ = tokio::time::timeout(LAST_LINES, run.printing).await;
        let ended = match ending {
            Ending::ByItself => "ended",
            Ending::Killed => "killed",
        };
        self.exited(&format!("{because} and was {ended}"), age)
    }

    /// A run's end, told in a clause, with the last that it said.
    fn exited(&self, clause: &str, age: Duration) -> Failure {
        let (replica, age) = (&self.replica.name, age.as_secs_f64());
        let mut message = format!("{replica} {clause} after {age:.1} s");
        let words = self.log.last_words();
        if !words.is_empty() {
            message = format!("{message}: {words}");
        }
        message = format!("{message} (log: {})", self.log.path().display());
        Failure {
            reason: FailureReason::Exited,
            message: message.into(),
        }
    }

    /// Waits for the next start.
    async fn back_off(&mut self, mut failure: Failure) {
        let wait = self.life.ended(self.began.elapsed());
        if failure.reason == FailureReason::Exited && self.life.is_crash_loop() {
            failure.reason = FailureReason::CrashLoopBackOff;
        }
        let (reason, message) = (failure.reason.label(), &failure.message);
        // Whoever follows the cluster is told by its snapshot.
        tracing::info!(reason, %message, wait_s = wait.as_secs_f64(), "replica waits to start again");
        self.replica.failure = Some(failure);
        self.replica.endpoints = Endpoints::default();
        self.tell().await;
        let stop = self.stop.clone();
        stop.run_until_cancelled(tokio::time::sleep(wait)).await;
    }

    /// Gateways learn that it leaves; then it has its time to finish.
    async fn end(&mut self, mut process: Process) {
        self.life.stopping();
        self.tell().await;
        let early = tokio::time::timeout(self.recipe.notice, process.wait()).await;
        if early.is_err() && process.end(self.recipe.grace).await == Ending::Killed {
            let (replica, grace_s) = (&self.replica.name, self.recipe.grace.as_secs_f64());
            tracing::warn!(%replica, grace_s, "replica did not end in its time and was killed");
        }
    }

    /// Tells the cluster, unless it knows.
    async fn tell(&mut self) {
        self.replica.phase = self.life.phase();
        self.replica.restarts = self.life.restarts();
        if self.told.as_ref() != Some(&self.replica) {
            self.told = Some(self.replica.clone());
            let is = Event::Is(self.revision.clone(), self.replica.clone());
            // As in `run`.
            let _ = self.events.send(is).await;
        }
    }
}

async fn print(log: Log, output: Output) {
    let Output { stdout, stderr } = output;
    tokio::join!(log.clone().follow(stdout), log.follow(stderr));
}
