//! Cost of a simulated run, from the prices of normal and spot GPUs.

use weir_simulation::Run;

use crate::args::SimulateArgs;

/// Prices of one GPU per hour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    gpu: Option<f64>,
    spot: Option<f64>,
}

impl Prices {
    pub(super) fn new(args: &SimulateArgs) -> Self {
        Self { gpu: args.gpu_price, spot: args.spot_price }
    }

    /// Returns the cost of a run; `None` if no price is set.
    pub(super) fn cost(self, run: &Run) -> Option<f64> {
        let gpu = self.gpu?;
        let spot = self.spot.unwrap_or(gpu);
        let on_spot = run.spot_time.as_secs_f64();
        let others = (run.replica_time + run.node_time).as_secs_f64() - on_spot;
        Some((others * gpu + on_spot * spot) / 3600.0)
    }
}
