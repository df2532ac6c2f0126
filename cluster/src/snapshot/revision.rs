//! One revision, as it runs.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Failure, Phase, Replica};
use crate::{Identity, OtherAutoscaler, ReadyCall, RevisionName, ScalingPolicy, Workload};

/// A revision with its replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Name of the revision.
    pub name: RevisionName,
    /// Hash of what shapes its replicas: an equal one needs no new revision.
    pub identity: Identity,
    /// Number of replicas that were asked for.
    pub desired: u32,
    /// Requests a replica takes at once; unset: the replica says so itself, or it is found out.
    pub concurrency: Option<NonZeroU32>,
    /// Bounds and targets for the autoscaler; unset: it leaves the number of replicas alone.
    pub scaling: Option<Arc<ScalingPolicy>>,
    /// Autoscaler of others that sets its replicas; `scaling` is what it leaves to Weir's.
    pub scaled_by: Option<OtherAutoscaler>,
    /// GPUs of each replica, parts of one included; 0 where the platform does not count them.
    pub gpus: u32,
    /// The way in which a replica is found ready.
    pub ready_call: ReadyCall,
    /// Fields of its pod that have no effect on this platform, for a condition.
    pub ignored_fields: Vec<&'static str>,
    /// Its replicas, those included that are about to be stopped.
    pub replicas: Vec<Replica>,
    /// Last cause of its not being ready. Cleared when a replica becomes ready.
    pub failure: Option<Failure>,
    /// Cause of replicas that were asked for not coming, whatever the others do: no node takes them, a quota refuses
    /// them, or their node does not answer.
    pub unplaced: Option<Failure>,
}

impl Revision {
    /// A revision without replicas yet.
    #[must_use]
    pub fn new(workload: &Workload, desired: u32) -> Self {
        Self {
            name: workload.revision.clone(),
            identity: workload.identity(),
            desired,
            concurrency: workload.concurrency,
            scaling: workload.scaling.clone(),
            scaled_by: None,
            gpus: 0,
            ready_call: workload.ready_call.unwrap_or(ReadyCall::V2),
            ignored_fields: Vec::new(),
            replicas: Vec::new(),
            failure: None,
            unplaced: None,
        }
    }

    /// The replicas that take requests.
    pub fn ready(&self) -> impl Iterator<Item = &Replica> {
        self.in_phase(Phase::Ready)
    }

    /// The replicas in this phase.
    pub fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &Replica> {
        let in_phase = move |replica: &&Replica| replica.phase == phase;
        self.replicas.iter().filter(in_phase)
    }

    /// Whether it sleeps: no replica runs or is asked for, so a request has to wake it.
    #[must_use]
    pub fn is_at_zero(&self) -> bool {
        self.desired == 0 && !self.replicas.iter().any(|r| r.phase.is_counted())
    }
}
