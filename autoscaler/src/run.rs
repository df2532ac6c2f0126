//! The loop around the law: watches, decides each second and at once for a wake-up, asks for replicas.

mod leader;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_cluster::{Directory, Held, Lease, Reports, RevisionName, Scale};

use self::leader::Leader;
use crate::{Decision, Policies, metrics};

/// The lease under which one process decides.
pub const LEASE: &str = "weir-autoscaler";

/// The last decision on each revision. Clones share the decisions: the whole is told each second.
pub type Decisions = BTreeMap<RevisionName, Arc<Decision>>;

/// Reports come each second; nothing is new before the next.
const PERIOD: Duration = Duration::from_secs(1);

/// Whoever grants leases needs a moment to come back.
const AGAIN: Duration = Duration::from_secs(1);

/// Decides how many replicas each revision has, and asks for them.
pub struct Autoscaler {
    directory: Arc<dyn Directory>,
    reports: Arc<dyn Reports>,
    scale: Arc<dyn Scale>,
    lease: Arc<dyn Lease>,
    policies: watch::Receiver<Arc<Policies>>,
    decisions: watch::Sender<Arc<Decisions>>,
}

impl Autoscaler {
    /// It decides on the revisions that have a policy and leaves others alone.
    #[must_use]
    pub fn new(
        directory: Arc<dyn Directory>,
        reports: Arc<dyn Reports>,
        scale: Arc<dyn Scale>,
        lease: Arc<dyn Lease>,
        policies: watch::Receiver<Arc<Policies>>,
    ) -> Self {
        Self {
            directory,
            reports,
            scale,
            lease,
            policies,
            decisions: watch::Sender::default(),
        }
    }

    /// What was decided last and why, for status, metrics and Events; empty while another process
    /// leads.
    #[must_use]
    pub fn decisions(&self) -> watch::Receiver<Arc<Decisions>> {
        self.decisions.subscribe()
    }

    /// Registers its metrics: of the revisions in [`Self::decisions`].
    pub fn register(&self, registry: &mut Registry) {
        let policies = self.policies.clone();
        let snapshots = self.directory.watch();
        metrics::register(self.decisions(), policies, snapshots, registry);
    }

    /// Runs until it is stopped: waits for the lease, leads until it is lost, and waits again.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Some(Err(error)) = stop.run_until_cancelled(self.turn(&stop)).await {
                tracing::warn!(%error, "no lease for scaling");
                stop.run_until_cancelled(tokio::time::sleep(AGAIN)).await;
            }
        }
    }

    async fn turn(&self, stop: &CancellationToken) -> Result<(), weir_cluster::ClusterError> {
        let held = self.lease.acquire(LEASE).await?;
        tracing::info!("leading: this process scales");
        self.lead(held, stop).await;
        self.decisions.send_replace(Arc::default());
        Ok(())
    }

    async fn lead(&self, held: Held, stop: &CancellationToken) {
        let leader = Leader::new(self);
        tokio::select! {
            biased;
            () = held.lost() => tracing::warn!("another process scales now"),
            () = leader.run() => {
                // What it watches has ended, so the process ends too.
                stop.cancelled().await;
            }
        }
    }
}
