//! What the loop knows of one service.

use std::sync::Arc;

use weir_cluster::{Applied, Desired};
use weir_crds::InferenceServiceStatus;

use super::evidence::Window;
use super::inputs::Inputs;
use crate::plan::is_held;
use crate::validate::{Validated, ValidationErrors};
use crate::{History, Plan, Runtimes, Service};

/// What the loop knows of one service.
#[derive(Default)]
pub(super) struct ServiceState {
    /// What was last checked, and against which runtimes.
    pub(super) checked: Option<(Arc<Service>, Arc<Runtimes>)>,
    /// What came of it.
    pub(super) valid: Option<Result<Arc<Validated>, ValidationErrors>>,
    pub(super) history: Arc<History>,
    /// The history that was last kept elsewhere.
    pub(super) kept: Option<Arc<History>>,
    pub(super) window: Window,
    /// What should run.
    pub(super) plan: Option<Plan>,
    /// What the cluster was last told, and what it said.
    pub(super) told: Option<(Desired, Result<Applied, String>)>,
    /// What the last pass saw, if it came to rest: nothing but another sight would change anything.
    pub(super) rests: Option<Inputs>,
    /// What was last reported.
    pub(super) status: Arc<InferenceServiceStatus>,
}

impl ServiceState {
    /// The service, if it can be served.
    pub(super) fn valid(&self) -> Option<Arc<Validated>> {
        self.valid.as_ref()?.as_ref().ok().cloned()
    }

    /// Whether what is planned may change with time alone: a rollout moves by its evidence, and what was
    /// replaced is held for a while.
    pub(super) fn is_timed(&self, now: u64) -> bool {
        let rollout = &self.history.rollout;
        let former = rollout.previous.as_ref();
        rollout.candidate.is_some() || former.is_some_and(|former| is_held(former, now))
    }

    /// What became of the last plan.
    pub(super) fn applied(&self) -> Result<Option<Applied>, &str> {
        match &self.told {
            Some((_, Ok(applied))) => Ok(Some(*applied)),
            Some((_, Err(because))) => Err(because),
            None => Ok(None),
        }
    }
}
