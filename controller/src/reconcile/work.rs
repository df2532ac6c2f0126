//! The steps for one service, from its declaration to its status.

use std::sync::Arc;

use weir_cluster::{Apply, ServiceName};

use super::apply;
use super::deadline::in_time;
use super::inputs::Inputs;
use super::observed::Observed;
use super::publish;
use super::state::ServiceState;
use super::store;
use crate::declaration::DeclaredService;
use crate::error::ControllerError;
use crate::history::{History, revise};
use crate::plan::{Plan, plan};
use crate::rollout::{Evidence, Transition, step};
use crate::source::{Propagation, Source};
use crate::turns::{self, Follow, Part};
use crate::validate::Validated;

/// The source of InferenceServices and the cluster, which the tasks of all services share.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) source: Arc<dyn Source>,
    pub(super) cluster: Arc<dyn Apply>,
}

/// One pass over one service.
pub(super) struct Task {
    pub(super) service: ServiceName,
    pub(super) observed: Arc<Observed>,
    /// The service as declared; `None` removes it.
    pub(super) declared: Option<DeclaredService>,
    /// State of the service; `None` where it has to be loaded.
    pub(super) state: Option<Box<ServiceState>>,
    /// Leave to follow a changed runtime.
    pub(super) turn: Follow,
}

/// Result of a task. A failed one is tried again.
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
                (state, access.remove(&service, uid.as_deref()).await)
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
            // Nothing of a deleted service serves one that was made anew under its name, unless it was left for that.
            Some(former) => match self.remove(name, former.uid.as_deref()).await {
                Ok(()) => return (None, Ok(())),
                Err(error) => return (Some(former), Err(error)),
            },
            None => match store::load(&*self.source, declared).await {
                Ok(loaded) => Box::new(loaded),
                Err(error) => return (None, Err(error)),
            },
        };
        let before = state.history.clone();
        let made = match declared.served(&before) {
            Ok(validated) => self.make(observed, validated, &mut state, turn).await,
            Err(_) => Ok(()),
        };
        state.part = part(observed, declared, &state.history);
        let published = publish::status(&*self.source, observed, declared, &mut state).await;
        if made.is_err() && state.stored.as_ref() != Some(&state.history) {
            // Another may have stored a history: it is loaded again.
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

    /// Decides what should run and applies it.
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

    /// Ends a service that is no longer declared, or leaves its objects to the next of its name.
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

/// The pure middle: assigns revisions, steps the rollout, and plans what should run.
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
    state.window.follow(&history.rollout, &observed.reports);
    let plan = plan(validated, &history, observed.now)?;
    if *state.history != history {
        state.history = Arc::new(history);
    }
    Ok((plan, transition))
}

/// The part of a service in the rolling of a changed runtime. One with errors follows nothing.
fn part(observed: &Observed, declared: &DeclaredService, history: &History) -> Part {
    let served = declared.served(history);
    served.map_or(Part::None, |validated| turns::part(validated, history, &observed.snapshot, observed.now))
}
