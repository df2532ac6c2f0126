//! Weir's own control law as a policy.

use weir_autoscaler::{Decision, Memory, decide};
use weir_cluster::ScalingPolicy;

use super::{Observed, Policy};

/// The function that the autoscaler runs, with its memory.
#[derive(Clone, Debug)]
pub struct WeirPolicy {
    scaling: ScalingPolicy,
    memory: Memory,
    last: Option<Decision>,
}

impl WeirPolicy {
    /// Creates the law with an empty memory.
    #[must_use]
    pub fn new(scaling: ScalingPolicy) -> Self {
        Self { scaling, memory: Memory::default(), last: None }
    }

    /// Returns the last decision, with its reason.
    #[must_use]
    pub fn last(&self) -> Option<&Decision> {
        self.last.as_ref()
    }
}

impl Policy for WeirPolicy {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let decision = decide(&self.scaling, &mut self.memory, &observed.sample);
        self.last.insert(decision).replicas
    }
}
