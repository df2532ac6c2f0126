//! One revision and its replicas.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Failure, Outlook, Phase, Replica};
use crate::{Identity, OtherAutoscaler, ReadyCall, RevisionName, ScalingPolicy, Workload};

/// Protocol of the connections to a revision's replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Connections without encryption, to whatever answers.
    Plain,
    /// TLS with certificates of both sides. The one of a replica names its revision.
    Tls,
}

/// A revision with its replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Name of the revision.
    pub name: RevisionName,
    /// Hash of everything that shapes the replicas' pods: a workload with an equal hash needs no new revision.
    pub identity: Identity,
    /// Requested number of replicas.
    pub desired: u32,
    /// Maximum concurrent requests per replica; `None`: the replica reports it, or the gateway finds it by measurement.
    pub concurrency: Option<NonZeroU32>,
    /// Bounds and targets for the autoscaler; `None`: the autoscaler leaves the number of replicas alone.
    pub scaling: Option<Arc<ScalingPolicy>>,
    /// Third-party autoscaler that sets the number of replicas; `scaling` is then the part left to Weir's autoscaler.
    /// None if only Weir's autoscaler sets the number.
    pub scaled_by: Option<OtherAutoscaler>,
    /// Number of GPUs per replica, where a part of a GPU such as a MIG slice counts as one; 0 if the platform does not
    /// count them.
    pub gpus: u32,
    /// Call that shows whether a replica is ready.
    pub ready_call: ReadyCall,
    /// Protocol of the connections to the replicas.
    pub transport: Transport,
    /// Fields of the pod template that have no effect on this platform, for a condition.
    pub ignored_fields: Vec<&'static str>,
    /// Replicas of the revision, terminating ones included.
    pub replicas: Vec<Replica>,
    /// Last cause that the revision was not ready; None once a replica is ready.
    pub failure: Option<Failure>,
    /// Outlook reported by the controller, for a gateway that does not see failures of replicas; `None` if the outlook
    /// follows from the replicas.
    pub reported_outlook: Option<Outlook>,
    /// Reason why requested replicas are missing, even if other replicas are ready: no node fits them, a quota refuses
    /// them, or their node does not respond.
    pub unplaced: Option<Failure>,
    /// GPUs that replicas share with other pods without isolation, as far as their nodes show it.
    pub shared_gpus: BTreeSet<SharedGpu>,
}

impl Revision {
    /// Creates a revision that has no replicas yet.
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
            transport: Transport::Plain,
            ignored_fields: Vec::new(),
            replicas: Vec::new(),
            failure: None,
            reported_outlook: None,
            unplaced: None,
            shared_gpus: BTreeSet::new(),
        }
    }

    /// Iterates over the replicas that accept requests.
    pub fn ready(&self) -> impl Iterator<Item = &Replica> {
        self.in_phase(Phase::Ready)
    }

    /// Iterates over the replicas in this phase.
    pub fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &Replica> {
        let in_phase = move |replica: &&Replica| replica.phase == phase;
        self.replicas.iter().filter(in_phase)
    }

    /// Returns what requests can expect of the revision while no replica is ready.
    #[must_use]
    pub fn outlook(&self) -> Outlook {
        self.reported_outlook.unwrap_or_else(|| Outlook::of(&self.replicas))
    }

    /// Returns the latest unexpected exit of a replica's program; `None` if there was none.
    #[must_use]
    pub fn last_exit(&self) -> Option<&Failure> {
        let counted = self.replicas.iter().filter(|replica| replica.phase.is_counted());
        counted.filter_map(|replica| replica.last_exit.as_ref()).max_by_key(|exit| exit.at)
    }

    /// Returns true if the revision is scaled to zero: no replica runs or should run, so a request has to start one.
    #[must_use]
    pub fn is_at_zero(&self) -> bool {
        self.desired == 0 && !self.replicas.iter().any(|r| r.phase.is_counted())
    }
}

/// The GPUs of a node that a replica shares with other pods without isolation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedGpu {
    /// Name of the node.
    pub node: Arc<str>,
    /// Way in which the pods share a GPU.
    pub sharing: GpuSharing,
    /// Number of pods among which each GPU is divided; `None` if the node does not say it.
    pub pods: Option<u32>,
}

/// Way in which pods share a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuSharing {
    /// The pods run in turn, and any of them may use all memory of the GPU.
    TimeSlicing,
    /// The pods run at the same time through NVIDIA's Multi-Process Service, which divides the memory.
    Mps,
    /// The way is not known, because only the name of the resource shows that the GPU is shared.
    Unknown,
}
