//! The loop around the control law: watches, decides each second and at once for a wake-up, asks for replicas.

mod leader;
mod scale_requests;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_cluster::{ClusterError, Directory, HeldLease, Lease, Reports, Scale};

use self::leader::Leader;
use crate::Decisions;
use crate::metrics::{self, WakeTimes};

/// The lease under which one process decides.
pub const LEASE: &str = "weir-autoscaler";

/// Reports come each second; nothing is new before the next.
const PERIOD: Duration = Duration::from_secs(1);

/// Longest wait for the answer that the lease is free again; without it the next leader waits until it runs out.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// Time before a lease that could not be had is asked for again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Decides how many replicas each revision has, and asks for them.
pub struct Autoscaler {
    directory: Arc<dyn Directory>,
    reports: Arc<dyn Reports>,
    scale: Arc<dyn Scale>,
    lease: Arc<dyn Lease>,
    decisions: watch::Sender<Arc<Decisions>>,
    wake_times: WakeTimes,
}

impl Autoscaler {
    /// An autoscaler of the revisions that have a scaling policy; it leaves others alone.
    #[must_use]
    pub fn new(
        directory: Arc<dyn Directory>,
        reports: Arc<dyn Reports>,
        scale: Arc<dyn Scale>,
        lease: Arc<dyn Lease>,
    ) -> Self {
        Self { directory, reports, scale, lease, decisions: watch::Sender::default(), wake_times: WakeTimes::default() }
    }

    /// The last decisions, for status, metrics and Events; empty while another process
    /// leads.
    #[must_use]
    pub fn decisions(&self) -> watch::Receiver<Arc<Decisions>> {
        self.decisions.subscribe()
    }

    /// Registers its metrics: of the revisions in [`Self::decisions`].
    pub fn register(&self, registry: &mut Registry) {
        metrics::register(self.decisions(), self.directory.watch(), registry);
        self.wake_times.register(registry);
    }

    /// Registers the price of a GPU for an hour, by which the metrics of GPU time are money.
    pub fn register_price(price: f64, registry: &mut Registry) {
        metrics::register_price(price, registry);
    }

    /// Runs until it is stopped: waits for the lease, leads until it is lost, and waits again.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.lead_once(&stop).await {
                tracing::warn!(%error, "cannot get the autoscaler's lease: replicas stay as they are; retrying");
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
        self.lead(&held, stop).await;
        held.release(RELEASE_LIMIT).await;
        self.decisions.send_replace(Arc::default());
        Ok(())
    }

    async fn lead(&self, held: &HeldLease, stop: &CancellationToken) {
        let leader = Leader::new(self);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = held.lost() => tracing::warn!("lost the autoscaler's lease: another process leads now"),
            () = leader.run() => {
                // What it watches has ended, so the process ends too.
                stop.cancelled().await;
            }
        }
    }
}
