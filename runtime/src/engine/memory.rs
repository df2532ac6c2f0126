//! Memory of a model version by its parts.

use crate::backend::{Overlap, RunMemory};

/// Memory of a model version in bytes. `None` stands for parts that the backend does not count, or that no run before
/// readiness has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelMemory {
    /// Weights on all devices, with every copy.
    pub weights: Option<u64>,
    /// The most that runs of the largest batch allocate at once, with all instances running.
    pub workspace: Option<u64>,
    /// Inputs of the batches in flight: of two per instance if a batch is started while another runs.
    pub inputs: Option<u64>,
    /// Captured runs of all instances (CUDA graphs).
    pub graphs: Option<u64>,
}

impl ModelMemory {
    /// Returns the parts with their label values.
    pub(crate) fn parts(self) -> [(&'static str, Option<u64>); 4] {
        [("weights", self.weights), ("workspace", self.workspace), ("inputs", self.inputs), ("graphs", self.graphs)]
    }

    /// Adds an instance that had this memory before readiness.
    pub(super) fn add(&mut self, run: RunMemory, overlap: Overlap) {
        let batches = match overlap {
            Overlap::None => 1,
            Overlap::OneAhead => 2,
        };
        let sum = |part: Option<u64>, bytes: u64| Some(part.unwrap_or(0).saturating_add(bytes));
        self.workspace = sum(self.workspace, run.workspace);
        self.inputs = sum(self.inputs, run.inputs.saturating_mul(batches));
        self.graphs = sum(self.graphs, run.graphs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_add_up_and_a_batch_ahead_has_inputs_too() {
        let mut memory = ModelMemory::default();
        memory.add(RunMemory { workspace: 100, inputs: 8, graphs: 30 }, Overlap::None);
        memory.add(RunMemory { workspace: 50, inputs: 4, graphs: 0 }, Overlap::OneAhead);
        let expected = ModelMemory { weights: None, workspace: Some(150), inputs: Some(16), graphs: Some(30) };
        assert_eq!(memory, expected);
    }
}
