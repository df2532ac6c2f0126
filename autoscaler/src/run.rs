//! The loop around the control law: decides every second and at once for a wake-up, and scales the revisions.

mod leader;
mod scale_requests;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_cluster::{ClusterError, Directory, Lease, LeaseEnd, Reports, Scale};

use self::leader::Leader;
use crate::Decisions;
use crate::metrics::{self, WakeTimes};

/// Name of the lease whose holder decides.
pub const LEASE: &str = "weir-autoscaler";

/// Interval of decisions. Gateways report every second, so there is nothing new before.
const PERIOD: Duration = Duration::from_secs(1);

/// Pause before another attempt to acquire the lease.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Decides how many replicas each revision should have, and scales it.
pub struct Autoscaler {
    directory: Arc<dyn Directory>,
    reports: Arc<dyn Reports>,
    scale: Arc<dyn Scale>,
    lease: Arc<dyn Lease>,
    decisions: watch::Sender<Arc<Decisions>>,
    wake_times: WakeTimes,
}

impl Autoscaler {
    /// Creates an autoscaler. It scales only revisions with a scaling policy.
    #[must_use]
    pub fn new(
        directory: Arc<dyn Directory>,
        reports: Arc<dyn Reports>,
        scale: Arc<dyn Scale>,
        lease: Arc<dyn Lease>,
    ) -> Self {
        Self { directory, reports, scale, lease, decisions: watch::Sender::default(), wake_times: WakeTimes::default() }
    }

    /// Returns the latest decisions, for status, metrics and Events; empty while another process leads.
    #[must_use]
    pub fn decisions(&self) -> watch::Receiver<Arc<Decisions>> {
        self.decisions.subscribe()
    }

    /// Registers the metrics of the revisions in [`Self::decisions`].
    pub fn register(&self, registry: &mut Registry) {
        metrics::register(self.decisions(), self.directory.watch(), registry);
        self.wake_times.register(registry);
    }

    /// Registers the price of a GPU per hour as a metric, from which dashboards compute costs.
    pub fn register_price(price: f64, registry: &mut Registry) {
        metrics::register_price(price, registry);
    }

    /// Runs until `stop` is cancelled: waits for the lease, leads until it is lost, and waits again.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.lead_once(&stop).await {
                tracing::warn!(%error, "cannot acquire the autoscaler's lease, so replicas stay as they are; retrying");
                stop.run_until_cancelled(tokio::time::sleep(RETRY_DELAY)).await;
            }
        }
    }

    async fn lead_once(&self, stop: &CancellationToken) -> Result<(), ClusterError> {
        let acquired = stop.run_until_cancelled(self.lease.acquire(LEASE));
        let Some(held) = acquired.await.transpose()? else {
            return Ok(());
        };
        tracing::info!("this process is the autoscaler's leader");
        match held.lead(Leader::new(self).run(), stop).await {
            LeaseEnd::Stopped => {}
            LeaseEnd::Lost => tracing::warn!("lost the autoscaler's lease; another process leads now"),
        }
        held.release().await;
        self.decisions.send_replace(Arc::default());
        Ok(())
    }
}
