//! The autoscaler's own law.

use weir_autoscaler::{Decision, Memory, decide};
use weir_cluster::ScalingPolicy;

use super::{Observed, Policy};

/// The function that the autoscaler runs, and its memory.
#[derive(Clone, Debug)]
pub struct WeirPolicy {
    scaling: ScalingPolicy,
    memory: Memory,
    last: Option<Decision>,
}

impl WeirPolicy {
    /// The law with nothing in its memory.
    #[must_use]
    pub fn new(scaling: ScalingPolicy) -> Self {
        Self { scaling, memory: Memory::default(), last: None }
    }

    /// The last decision, with its reason.
    #[must_use]
    pub fn last(&self) -> Option<&Decision> {
        self.last.as_ref()
    }
}

impl Policy for WeirPolicy {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let memory = std::mem::take(&mut self.memory);
        let (memory, decision) = decide(&self.scaling, memory, &observed.sample);
        self.memory = memory;
        self.last.insert(decision).replicas
    }
}
