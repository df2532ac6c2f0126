//! The loop: what is declared, made so, one named step after the other.

mod apply;
mod evidence;
mod inputs;
mod metrics;
mod publish;
mod state;
mod store;
mod validate;
mod watches;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use weir_cluster::{
    Apply, Conflict, Directory, LatestReports, Reports, Routes, ServiceName, Snapshot,
};

use crate::rollout::step;
use crate::validate::{Platform, Validated};
use crate::{
    ControllerError, Declaration, History, Plan, Service, Source, Transition, plan, revise,
};
use inputs::Inputs;
use metrics::{ReadyCounts, ReconcileMetrics};
use state::ServiceState;
use watches::Watches;

/// The longest a cluster or what declares may take for one answer: an API server that needs longer is
/// ill, and the next pass asks again.
const DEADLINE: Duration = Duration::from_secs(10);

/// Makes what is declared so.
pub struct Controller {
    declared: Arc<dyn Source>,
    cluster: Arc<dyn Apply>,
    watches: Watches,
    platform: Platform,
    services: BTreeMap<ServiceName, Box<ServiceState>>,
    claims: Claims,
    progress: ReconcileMetrics,
}

/// All that is known when a pass begins.
struct Observed {
    declaration: Arc<Declaration>,
    snapshot: Arc<Snapshot>,
    reports: Arc<LatestReports>,
    conflicts: Arc<Conflicts>,
    now: u64,
}

/// Hosts that are claimed in vain, by who claims them.
type Conflicts = BTreeMap<ServiceName, Vec<Conflict>>;

/// The conflicts of the routes that were last looked at: to find them takes a look at every host.
#[derive(Default)]
struct Claims {
    of: Arc<Routes>,
    conflicts: Arc<Conflicts>,
}

impl Controller {
    /// A controller of what is declared, over a cluster.
    #[must_use]
    pub fn new<C>(declared: Arc<dyn Source>, cluster: Arc<C>, platform: Platform) -> Self
    where
        C: Apply + Directory + Reports + 'static,
    {
        let watches = Watches {
            declared: declared.watch(),
            snapshot: Directory::watch(&*cluster),
            reports: Reports::watch(&*cluster),
        };
        Self {
            progress: ReconcileMetrics::new(declared.watch()),
            declared,
            cluster,
            watches,
            platform,
            services: BTreeMap::new(),
            claims: Claims::default(),
        }
    }

    /// Registers its metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.progress.register(registry);
    }

    /// Runs until it is told to stop, or nobody declares or runs anything any more. What runs then goes
    /// on.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let observed = self.watches.observed(&mut self.claims, now());
            self.pass(&observed).await;
            tokio::select! {
                () = stop.cancelled() => return,
                going_on = self.watches.changed() => if going_on.is_err() { return },
            }
        }
    }

    async fn pass(&mut self, observed: &Observed) {
        let made = self.make_all(observed).await;
        let forgotten = self.forget_others(observed).await;
        let statuses = self.services.values().map(|state| &*state.status);
        let errors = made + forgotten;
        self.progress.passed(ReadyCounts::of(statuses), errors);
    }

    /// Reconciles every declared service; returns how many failed.
    async fn make_all(&mut self, observed: &Observed) -> u64 {
        let mut errors = 0;
        for service in observed.declaration.services.values() {
            if let Err(error) = self.service(observed, service).await {
                errors += 1;
                tracing::warn!(service = %service.name, "{error}; it is tried again");
            }
        }
        errors
    }

    /// Removes services that are declared no more; returns how many failed.
    async fn forget_others(&mut self, observed: &Observed) -> u64 {
        let gone: Vec<_> = self
            .services
            .keys()
            .filter(|name| !observed.declaration.services.contains_key(name))
            .cloned()
            .collect();
        let mut errors = 0;
        for service in gone {
            if let Err(error) = self.forget(&service).await {
                errors += 1;
                tracing::warn!(%service, "{error}; it is tried again");
            }
        }
        errors
    }

    /// One service, through all steps, unless nothing is new for it.
    async fn service(
        &mut self,
        observed: &Observed,
        service: &Arc<Service>,
    ) -> Result<(), ControllerError> {
        if let Some(state) = self.services.get(&service.name)
            && let Some(rests) = &state.rests
            && rests.is(&Inputs::at(observed, service, state))
        {
            return Ok(());
        }
        let mut state = match self.services.remove(&service.name) {
            Some(state) => state,
            None => Box::new(store::load(&*self.declared, service).await?),
        };
        validate::revalidate(&mut state, service, observed, &self.platform);
        let before = state.history.clone();
        let done = self.make(observed, &mut state).await;
        let told = publish::status(&*self.declared, observed, service, &mut state).await;
        let done = done.and(told);
        let is_still = done.is_ok() && state.history == before && !state.is_timed(observed.now);
        state.rests = is_still.then(|| Inputs::at(observed, service, &state));
        self.services.insert(service.name.clone(), state);
        done
    }

    /// Makes it so, if it can be.
    async fn make(
        &self,
        observed: &Observed,
        state: &mut ServiceState,
    ) -> Result<(), ControllerError> {
        let Some(valid) = state.valid() else {
            return Ok(());
        };
        let (plan, moved) = decide(observed, &valid, state)?;
        store::store(&*self.declared, &valid.service, state).await?;
        if let Some(moved) = moved {
            publish::moved(&*self.declared, &valid.service, &moved).await?;
        }
        apply::apply(&*self.cluster, plan, state).await
    }

    async fn forget(&mut self, service: &ServiceName) -> Result<(), ControllerError> {
        in_time("ending a service", self.cluster.forget(service)).await?;
        in_time("forgetting a service", self.declared.forget(service)).await?;
        self.services.remove(service);
        Ok(())
    }
}

impl Claims {
    /// The conflicts of these routes.
    fn conflicts(&mut self, routes: &Arc<Routes>) -> Arc<Conflicts> {
        if !Arc::ptr_eq(routes, &self.of) {
            let mut conflicts = Conflicts::new();
            for conflict in routes.conflicts() {
                let of_loser = conflicts.entry(conflict.loser.clone()).or_default();
                of_loser.push(conflict);
            }
            self.of = routes.clone();
            self.conflicts = Arc::new(conflicts);
        }
        self.conflicts.clone()
    }
}

impl Observed {
    fn conflicts_of(&self, service: &ServiceName) -> &[Conflict] {
        self.conflicts.get(service).map_or(&[], Vec::as_slice)
    }
}

/// The pure middle: which revisions there are, who takes over from whom, what should run.
fn decide(
    observed: &Observed,
    valid: &Validated,
    state: &mut ServiceState,
) -> Result<(Plan, Option<Transition>), ControllerError> {
    let history = History::clone(&state.history).observed(&observed.snapshot);
    let mut history = revise(valid, &history, observed.now)?.observed(&observed.snapshot);
    let samples = state.window.samples(&history.rollout, &observed.reports);
    let evidence = history.evidence(&observed.snapshot, &samples);
    let (rollout, moved) = step(&history.rollout, &evidence, observed.now);
    history.rollout = rollout;
    let plan = plan(valid, &history, observed.now)?;
    if *state.history != history {
        state.history = Arc::new(history);
    }
    Ok((plan, moved))
}

async fn in_time<T, E: Into<ControllerError>>(
    what: &str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, ControllerError> {
    match tokio::time::timeout(DEADLINE, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(ControllerError::Deadline {
            what: what.to_owned(),
            limit: DEADLINE,
        }),
    }
}

/// Histories outlive the process, so their times are those of the observed.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the shell that owns the controller's clock"
)]
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
