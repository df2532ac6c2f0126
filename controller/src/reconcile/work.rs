//! Steps for one service, from its declaration to its status.

use std::sync::Arc;

use weir_cluster::{Apply, FailureReport, ServiceName};

use super::apply;
use super::composed_statuses::{ComposedStatuses, components};
use super::deadline::in_time;
use super::inputs::Inputs;
use super::observed::Observed;
use super::publish;
use super::state::ServiceState;
use super::store;
use crate::declaration::DeclaredService;
use crate::error::ControllerError;
use crate::history::{History, revise};
use crate::manifest::validate::Validated;
use crate::plan::{Plan, plan};
use crate::rollout::{Evidence, Transition, step};
use crate::source::{Propagation, Source};
use crate::turns::{self, Follow, RollRole};

/// Source of InferenceServices and cluster, shared by the tasks of all services.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) source: Arc<dyn Source>,
    pub(super) cluster: Arc<dyn Apply>,
    pub(super) statuses: ComposedStatuses,
}

/// Reconciliation of one service.
pub(super) struct Task {
    pub(super) service: ServiceName,
    pub(super) observed: Arc<Observed>,
    /// Service as declared; None removes it.
    pub(super) declared: Option<DeclaredService>,
    /// State of the service; None if it must be loaded.
    pub(super) state: Option<Box<ServiceState>>,
    /// Permission to follow a changed runtime.
    pub(super) turn: Follow,
}

/// Result of a task. A failed task is retried.
pub(super) struct Outcome {
    pub(super) service: ServiceName,
    pub(super) declared: Option<DeclaredService>,
    pub(super) state: Option<Box<ServiceState>>,
    pub(super) result: Result<(), ControllerError>,
}

impl Task {
    pub(super) async fn run(self, access: Access) -> Outcome {
        let Self { service, observed, declared, state, turn } = self;
        let (state, result) = match &declared {
            Some(declared) => access.reconcile(&observed, declared, state, turn).await,
            None => {
                let uid = state.as_ref().and_then(|state| state.uid.clone());
                (state, access.end(&observed, &service, uid.as_deref()).await)
            }
        };
        Outcome { service, declared, state, result }
    }
}

impl Access {
    /// Runs all steps for one service.
    async fn reconcile(
        &self,
        observed: &Observed,
        declared: &DeclaredService,
        state: Option<Box<ServiceState>>,
        turn: Follow,
    ) -> (Option<Box<ServiceState>>, Result<(), ControllerError>) {
        let name = &declared.service.name;
        let mut state = match state {
            Some(state) if state.is_of(declared) => state,
            // Objects of a deleted service must not serve a new service of the same name, unless `kubectl delete
            // --cascade=orphan` left them for it.
            Some(former) => match self.remove(name, former.uid.as_deref()).await {
                Ok(()) => return (None, Ok(())),
                Err(error) => return (Some(former), Err(error)),
            },
            None => {
                let components = components(&observed.declaration, name);
                match store::load(&*self.source, &self.statuses, declared, &components).await {
                    Ok(loaded) => Box::new(loaded),
                    Err(error) => return (None, Err(error)),
                }
            }
        };
        let before = state.history.clone();
        let made = match declared.served(&before) {
            Ok(validated) => self.make(observed, validated, &mut state, turn).await,
            Err(_) => Ok(()),
        };
        state.role = role(observed, declared, &state.history);
        let made = match made {
            Ok(()) => self.report_failures(observed, name).await,
            failed => failed,
        };
        let published = publish::status(&*self.source, &self.statuses, observed, declared, &mut state).await;
        if made.is_err() && state.stored.as_ref() != Some(&state.history) {
            // Another controller may have stored a history, so it is loaded again.
            return (None, made);
        }
        let done = made.and(published);
        let is_drifted = observed.snapshot.drifted.contains(name);
        let is_timed = state.is_timed(observed.now);
        state.is_settled = state.history == before && !is_timed && !is_drifted;
        let applied = state.applied().unwrap_or_default();
        state.seen = Some(Inputs::of(observed, declared, applied));
        (Some(state), done)
    }

    /// Decides what should run, and applies it.
    async fn make(
        &self,
        observed: &Observed,
        validated: &Validated,
        state: &mut ServiceState,
        turn: Follow,
    ) -> Result<(), ControllerError> {
        let (plan, transition) = decide(observed, validated, state, turn)?;
        if let Err(error) = store::store(&*self.source, &validated.service, state).await {
            state.sent_at = observed.now;
            return apply::refused(plan.desired, error, state);
        }
        if let Some(transition) = transition {
            publish::transition(&*self.source, &validated.service, &transition).await?;
        }
        apply::apply(&*self.cluster, plan, observed, state).await
    }

    /// Publishes to gateways which revisions cannot start, and how programs ended.
    async fn report_failures(&self, observed: &Observed, service: &ServiceName) -> Result<(), ControllerError> {
        let revisions = observed.snapshot.revisions_of(service);
        let reports: Vec<_> = revisions.map(|revision| FailureReport::of(revision)).collect();
        in_time("reporting failures", self.cluster.report_failures(&reports)).await
    }

    /// Ends a component or a service that is no longer declared, and updates the status of what is left.
    async fn end(&self, observed: &Observed, service: &ServiceName, uid: Option<&str>) -> Result<(), ControllerError> {
        self.remove(service, uid).await?;
        self.statuses.remove(&*self.source, &observed.declaration, service).await
    }

    /// Ends a service that is no longer declared. If the service was deleted with orphan propagation, its objects are
    /// left in place.
    async fn remove(&self, service: &ServiceName, uid: Option<&str>) -> Result<(), ControllerError> {
        let propagation = self.source.propagation(service, uid);
        match in_time("reading how the service was deleted", propagation).await? {
            Propagation::Background => {
                in_time("deleting the service", self.cluster.forget(service)).await?;
            }
            Propagation::Orphan => {
                in_time("leaving the service", self.cluster.release(service)).await?;
            }
        }
        in_time("deleting the history", self.source.forget(service)).await
    }
}

/// Assigns revisions, advances the rollout, and plans what should run: the pure middle of the loop.
fn decide(
    observed: &Observed,
    validated: &Validated,
    state: &mut ServiceState,
    turn: Follow,
) -> Result<(Plan, Option<Transition>), ControllerError> {
    let history = History::clone(&state.history).begun_by(observed.now);
    let history = history.observed(&observed.snapshot);
    let change = turns::change(validated, &history, &observed.snapshot, turn);
    let history = revise(validated, &history, change, observed.now)?;
    let mut history = history.observed(&observed.snapshot);
    let samples = state.window.samples(&history.rollout, &observed.reports);
    let evidence = Evidence {
        most: validated.predictor.scaling.policy.max,
        watched: state.window.watched(),
        ..history.evidence(&observed.snapshot, &samples)
    };
    let (rollout, transition) = step(&history.rollout, &evidence, observed.now);
    history.rollout = rollout;
    let history = history.with_canary_shares(validated, &observed.snapshot, observed.now);
    state.window.follow(&history.rollout, &observed.reports);
    let plan = plan(validated, &history, observed.now)?;
    if *state.history != history {
        state.history = Arc::new(history);
    }
    Ok((plan, transition))
}

/// Returns the role of a service in the rolling update of a changed runtime. A service with errors has none.
fn role(observed: &Observed, declared: &DeclaredService, history: &History) -> RollRole {
    let served = declared.served(history);
    served.map_or(RollRole::None, |validated| turns::role(validated, history, &observed.snapshot, observed.now))
}
