//! The controller's state of one service.

use std::sync::Arc;

use weir_cluster::{Applied, Desired};

use super::evidence::Window;
use super::inputs::Inputs;
use super::kept_status::KeptStatus;
use crate::declaration::DeclaredService;
use crate::history::History;
use crate::plan::Plan;
use crate::status::Refusal;
use crate::turns::Part;

/// Seconds until a refused plan is sent again: soon for who waits, and few requests where many are refused.
const ASK_AGAIN: u64 = 20;

/// The controller's state of one service.
#[derive(Default)]
pub(super) struct ServiceState {
    /// Identity of the declared object; `None` outside Kubernetes.
    pub(super) uid: Option<String>,
    pub(super) history: Arc<History>,
    /// The history that the source stored last.
    pub(super) stored: Option<Arc<History>>,
    pub(super) window: Window,
    pub(super) plan: Option<Plan>,
    /// The last state sent to the cluster, and its answer.
    pub(super) sent: Option<(Desired, Result<Applied, Refusal>)>,
    /// Time of that, in seconds since 1970.
    pub(super) sent_at: u64,
    /// Why the last plan was not stored, sent or answered, as a clause.
    pub(super) unavailable: Option<String>,
    /// Part in the rolling of a changed runtime.
    pub(super) part: Part,
    /// Inputs of the last reconciliation.
    pub(super) seen: Option<Inputs>,
    /// True when equal inputs would change nothing, at any time.
    pub(super) is_settled: bool,
    /// The status published last.
    pub(super) status: KeptStatus,
}

impl ServiceState {
    /// False where the object of its name is another: that of this state was deleted.
    pub(super) fn is_of(&self, declared: &DeclaredService) -> bool {
        self.uid == declared.service.metadata().uid
    }

    /// Reports whether the plan may change with time alone: during a rollout, the rollback window, and while replicas are held.
    pub(super) fn is_timed(&self, now: u64) -> bool {
        let rollout = &self.history.rollout;
        rollout.candidate.is_some() || rollout.keeps_previous(now) || rollout.holds(now).next().is_some()
    }

    /// Tells if a plan that was refused is to be sent again: nothing shows when what stood in its way is gone, such as another
    /// owner's object of its name.
    pub(super) fn asks_again(&self, now: u64) -> bool {
        let is_refused = matches!(&self.sent, Some((_, Err(Refusal::Never(_)))));
        is_refused && now >= self.sent_at.saturating_add(ASK_AGAIN)
    }

    /// The cluster's answer to the last plan; the error says why it refused.
    pub(super) fn applied(&self) -> Result<Option<Applied>, &Refusal> {
        match &self.sent {
            Some((_, Ok(applied))) => Ok(Some(*applied)),
            Some((_, Err(refusal))) => Err(refusal),
            None => Ok(None),
        }
    }
}
