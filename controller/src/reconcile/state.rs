//! State that the controller keeps for one service.

use std::sync::Arc;

use weir_cluster::{Applied, Desired};

use super::evidence::Window;
use super::inputs::Inputs;
use super::kept_status::KeptStatus;
use crate::declaration::DeclaredService;
use crate::history::History;
use crate::plan::Plan;
use crate::status::Refusal;
use crate::turns::RollRole;

/// Seconds until a refused plan is sent again. A user who has removed the obstacle waits at most this long, and many
/// refused plans together still cause few requests.
const ASK_AGAIN: u64 = 20;

/// State that the controller keeps for one service.
#[derive(Default)]
pub(super) struct ServiceState {
    /// UID of the declared object; None outside Kubernetes.
    pub(super) uid: Option<String>,
    pub(super) history: Arc<History>,
    /// History that the source stored last; None for a new service.
    pub(super) stored: Option<Arc<History>>,
    pub(super) window: Window,
    pub(super) plan: Option<Plan>,
    /// Last state sent to the cluster, with the answer; None before the first answer.
    pub(super) sent: Option<(Desired, Result<Applied, Refusal>)>,
    /// Time at which that state was sent, in seconds since 1970.
    pub(super) sent_at: u64,
    /// Reason why the last plan was not stored, sent or answered, as a clause; None if it was answered.
    pub(super) unavailable: Option<String>,
    /// Role of the service in the rolling update of a changed runtime.
    pub(super) role: RollRole,
    /// Inputs of the last reconciliation; None before the first.
    pub(super) seen: Option<Inputs>,
    /// True if equal inputs would change nothing at any time.
    pub(super) is_settled: bool,
    /// Status that was last published.
    pub(super) status: KeptStatus,
}

impl ServiceState {
    /// Returns false if the declared object is a new one of the same name: the object of this state was deleted.
    pub(super) fn is_of(&self, declared: &DeclaredService) -> bool {
        self.uid == declared.service.metadata().uid
    }

    /// Returns true if the plan may change with time alone: during a rollout, in the rollback window, and while
    /// replicas are held.
    pub(super) fn is_timed(&self, now: u64) -> bool {
        let rollout = &self.history.rollout;
        let grows = self.history.canaries.iter().any(|canary| canary.progress.hold(now).is_some());
        grows || rollout.candidate.is_some() || rollout.keeps_previous(now) || rollout.holds(now).next().is_some()
    }

    /// Returns true if a refused plan must be sent again. No event shows that the obstacle is gone, such as another
    /// owner's object of the same name.
    pub(super) fn asks_again(&self, now: u64) -> bool {
        let is_refused = matches!(&self.sent, Some((_, Err(Refusal::Never(_)))));
        is_refused && now >= self.sent_at.saturating_add(ASK_AGAIN)
    }

    /// Returns the cluster's answer to the last plan; the error says why it was refused.
    pub(super) fn applied(&self) -> Result<Option<Applied>, &Refusal> {
        match &self.sent {
            Some((_, Ok(applied))) => Ok(Some(*applied)),
            Some((_, Err(refusal))) => Err(refusal),
            None => Ok(None),
        }
    }
}
