//! The control loop, which reconciles the cluster with the declared services, many at once.
//!
//! ```text
//!   lease ─► leader ─► queue: what is due, service by service ─► work: one service's steps ─► queue
//! ```

mod apply;
mod clock;
mod composed_statuses;
mod deadline;
mod evidence;
mod inputs;
mod kept_status;
mod leader;
mod metrics;
mod observed;
mod publish;
mod queue;
mod retry;
mod state;
mod store;
mod watches;
mod work;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_cluster::{Apply, ClusterError, Directory, Lease, LeaseEnd, Reports};

use crate::source::Source;
use leader::Leader;
use metrics::ReconcileMetrics;

/// Name of the lease under which one process reconciles.
pub const LEASE: &str = "weir-controller";

/// Time before the next attempt to acquire the lease after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Role of this process among those that can reconcile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// Another process reconciles, or none does yet.
    #[default]
    Standby,
    /// This process reconciles, and writes the objects that only one process may write.
    Leading,
}

/// Reconciler of a cluster with the services that a source declares.
pub struct Controller {
    source: Arc<dyn Source>,
    cluster: Arc<dyn Apply>,
    directory: Arc<dyn Directory>,
    reports: Arc<dyn Reports>,
    lease: Arc<dyn Lease>,
    metrics: ReconcileMetrics,
    leadership: watch::Sender<Leadership>,
}

impl Controller {
    /// Returns a controller of the source's services over a cluster.
    #[must_use]
    pub fn new(
        source: Arc<dyn Source>,
        cluster: Arc<dyn Apply>,
        directory: Arc<dyn Directory>,
        reports: Arc<dyn Reports>,
        lease: Arc<dyn Lease>,
    ) -> Self {
        Self {
            metrics: ReconcileMetrics::new(source.watch()),
            source,
            cluster,
            directory,
            reports,
            lease,
            leadership: watch::Sender::default(),
        }
    }

    /// Watches the role of this process.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Registers the controller's metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Runs until `stop`: waits for the lease, reconciles until the lease is lost, and waits again. Workloads keep
    /// running afterwards.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.lead_once(&stop).await {
                tracing::warn!(%error, "cannot get the controller's lease: services stay as they are; retrying");
                stop.run_until_cancelled(tokio::time::sleep(RETRY_DELAY)).await;
            }
        }
    }

    async fn lead_once(&self, stop: &CancellationToken) -> Result<(), ClusterError> {
        let acquired = stop.run_until_cancelled(self.lease.acquire(LEASE));
        let Some(held) = acquired.await.transpose()? else {
            return Ok(());
        };
        tracing::info!("this process is the controller's leader");
        self.leadership.send_replace(Leadership::Leading);
        match held.lead(Leader::new(self).run(), stop).await {
            LeaseEnd::Stopped => {}
            LeaseEnd::Lost => tracing::warn!("lost the controller's lease: another process reconciles now"),
        }
        self.leadership.send_replace(Leadership::Standby);
        self.metrics.stand_by();
        held.release().await;
        Ok(())
    }
}
