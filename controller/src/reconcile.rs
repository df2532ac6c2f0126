//! The control loop: reconciles the cluster with the declared services, one named step after the other.

mod apply;
mod deadline;
mod evidence;
mod inputs;
mod metrics;
mod observed;
mod publish;
mod state;
mod store;
mod watches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use weir_cluster::{Apply, Directory, Reports, ServiceName};

use crate::declaration::DeclaredService;
use crate::error::ControllerError;
use crate::history::{History, revise};
use crate::plan::{Plan, plan};
use crate::rollout::{Transition, step};
use crate::service::Service;
use crate::source::Source;
use crate::validate::Validated;
use deadline::in_time;
use inputs::Inputs;
use metrics::{ReadyCounts, ReconcileMetrics};
use observed::{ConflictCache, Observed};
use state::ServiceState;
use watches::Watches;

/// Reconciles a cluster with the services that a source declares.
pub struct Controller {
    source: Arc<dyn Source>,
    cluster: Arc<dyn Apply>,
    watches: Watches,
    services: BTreeMap<ServiceName, Box<ServiceState>>,
    metrics: ReconcileMetrics,
}

impl Controller {
    /// A controller of the source's services over a cluster.
    #[must_use]
    pub fn new<C>(source: Arc<dyn Source>, cluster: Arc<C>) -> Self
    where
        C: Apply + Directory + Reports + 'static,
    {
        let watches = Watches {
            declaration: source.watch(),
            snapshot: Directory::watch(&*cluster),
            reports: Reports::watch(&*cluster),
            conflicts: ConflictCache::default(),
        };
        Self {
            metrics: ReconcileMetrics::new(source.watch()),
            source,
            cluster,
            watches,
            services: BTreeMap::new(),
        }
    }

    /// Registers the controller's metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Runs until `stop`, or until source or cluster is gone. Workloads keep running afterwards.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let observed = self.watches.observed(now());
            self.reconcile_all(&observed).await;
            tokio::select! {
                () = stop.cancelled() => return,
                changed = self.watches.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn reconcile_all(&mut self, observed: &Observed) {
        let errors =
            self.reconcile_declared(observed).await + self.remove_undeclared(observed).await;
        let statuses = self.services.values().map(|state| &*state.status);
        self.metrics.record(ReadyCounts::of(statuses), errors);
    }

    /// Reconciles every declared service; the number of failures.
    async fn reconcile_declared(&mut self, observed: &Observed) -> u64 {
        let mut errors = 0;
        for (name, declared) in &observed.declaration.services {
            if let Err(error) = self.reconcile(observed, declared).await {
                errors += 1;
                tracing::warn!(service = %name, "{error}; retrying");
            }
        }
        errors
    }

    /// Removes every service that is no longer declared; the number of failures.
    async fn remove_undeclared(&mut self, observed: &Observed) -> u64 {
        let declared = &observed.declaration.services;
        let undeclared = self.services.keys();
        let undeclared: Vec<_> = undeclared
            .filter(|name| !declared.contains_key(*name))
            .cloned()
            .collect();
        let mut errors = 0;
        for service in undeclared {
            if let Err(error) = self.remove(&service).await {
                errors += 1;
                tracing::warn!(%service, "{error}; retrying");
            }
        }
        errors
    }

    /// Runs all steps for one service, unless its inputs are unchanged.
    async fn reconcile(
        &mut self,
        observed: &Observed,
        declared: &DeclaredService,
    ) -> Result<(), ControllerError> {
        let service = &declared.service;
        let inputs = |state: &ServiceState| {
            let applied = state.applied().unwrap_or_default();
            Inputs::of(observed, declared, applied)
        };
        if let Some(state) = self.services.get(&service.name)
            && let Some(settled) = &state.settled
            && settled.is(&inputs(state))
        {
            return Ok(());
        }
        let mut state = self.take_state(service).await?;
        let before = state.history.clone();
        let made = match declared.validated() {
            Some(validated) => self.make(observed, validated, &mut state).await,
            None => Ok(()),
        };
        let published = publish::status(&*self.source, observed, declared, &mut state).await;
        let done = made.and(published);
        let is_settled = done.is_ok() && state.history == before && !state.is_timed(observed.now);
        state.settled = is_settled.then(|| inputs(&state));
        self.services.insert(service.name.clone(), state);
        done
    }

    /// Takes the state of a service out of the map, or loads it for a new service.
    async fn take_state(
        &mut self,
        service: &Service,
    ) -> Result<Box<ServiceState>, ControllerError> {
        match self.services.remove(&service.name) {
            Some(state) => Ok(state),
            None => Ok(Box::new(store::load(&*self.source, service).await?)),
        }
    }

    /// Decides what should run and applies it.
    async fn make(
        &self,
        observed: &Observed,
        validated: &Validated,
        state: &mut ServiceState,
    ) -> Result<(), ControllerError> {
        let (plan, transition) = decide(observed, validated, state)?;
        store::store(&*self.source, &validated.service, state).await?;
        if let Some(transition) = transition {
            publish::transition(&*self.source, &validated.service, &transition).await?;
        }
        apply::apply(&*self.cluster, plan, state).await
    }

    async fn remove(&mut self, service: &ServiceName) -> Result<(), ControllerError> {
        in_time("deleting the service", self.cluster.forget(service)).await?;
        in_time("deleting the history", self.source.forget(service)).await?;
        self.services.remove(service);
        Ok(())
    }
}

/// The pure middle: assigns revisions, steps the rollout, and plans what should run.
fn decide(
    observed: &Observed,
    validated: &Validated,
    state: &mut ServiceState,
) -> Result<(Plan, Option<Transition>), ControllerError> {
    let history = History::clone(&state.history).observed(&observed.snapshot);
    let history = revise(validated, &history, observed.now)?;
    let mut history = history.observed(&observed.snapshot);
    let samples = state.window.samples(&history.rollout, &observed.reports);
    let evidence = history.evidence(&observed.snapshot, &samples);
    let (rollout, transition) = step(&history.rollout, &evidence, observed.now);
    history.rollout = rollout;
    let plan = plan(validated, &history, observed.now)?;
    if *state.history != history {
        state.history = Arc::new(history);
    }
    Ok((plan, transition))
}

/// Seconds since 1970, as histories outlive the process.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the shell that owns the controller's clock"
)]
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
