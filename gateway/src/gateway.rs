//! A gateway: its parts, and the tasks that its owner runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_cluster::{Report, Snapshot};
use weir_ops::byte_budget::ByteBudget;

use crate::clock::{now, seconds_since_1970, until};
use crate::metrics;
use crate::mirror::Mirrors;
use crate::options::Options;
use crate::state::State;
use crate::upstream::probe;
use crate::{describe, report, server};

/// One gateway. [`Gateway::follow`], [`Gateway::report`] and [`Gateway::serve`] are its tasks; each runs
/// until it is stopped.
pub struct Gateway {
    pub(crate) options: Options,
    pub(crate) state: ArcSwap<State>,
    pub(crate) buffers: ByteBudget,
    pub(crate) requests: metrics::Requests,
    pub(crate) mirrors: Mirrors,
    /// Batches under way.
    pub(crate) batches: TaskTracker,
    /// Cancelled once no new connections are taken.
    pub(crate) ending: CancellationToken,
    /// Told when a request meets a revision at zero.
    pulse: Arc<Notify>,
    reports: watch::Sender<Arc<Report>>,
    since: Instant,
    since_1970: u64,
}

/// A report at least so often.
const REPORT_EVERY: Duration = Duration::from_secs(1);

impl Gateway {
    /// A gateway that knows of nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Arc<Self> {
        let pulse = Arc::new(Notify::new());
        Arc::new(Self {
            state: ArcSwap::from_pointee(State::empty(&options, Arc::clone(&pulse))),
            buffers: ByteBudget::new(options.all_buffers),
            requests: metrics::Requests::default(),
            mirrors: Mirrors::new(options.all_buffers),
            batches: TaskTracker::new(),
            ending: CancellationToken::new(),
            pulse,
            reports: watch::Sender::default(),
            since: now(),
            since_1970: seconds_since_1970(),
            options,
        })
    }

    /// Registers its metrics.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        metrics::register(self, registry);
    }

    /// Its latest report, and every change: each second, and at once when a request meets a revision at
    /// zero.
    #[must_use]
    pub fn reports(&self) -> watch::Receiver<Arc<Report>> {
        self.reports.subscribe()
    }

    /// Whether it has seen a state of the cluster: before that every request would be told that its
    /// service does not exist.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state.load().snapshot.generation > 0
    }

    /// Routes, revisions, replicas and queues as they are now, as JSON for people.
    #[must_use]
    pub fn describe(&self) -> String {
        describe::describe(&self.state.load())
    }

    /// Follows the state of the cluster.
    pub async fn follow(
        self: Arc<Self>,
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        stop: CancellationToken,
    ) {
        let again = Arc::new(Notify::new());
        loop {
            let snapshot = snapshots.borrow_and_update().clone();
            let last = self.state.load_full();
            let next = last.next(snapshot, &self.options, now());
            let handover = next.next_handover();
            probe::start(&next, &last, &again);
            self.state.store(Arc::new(next));
            let changed = async {
                tokio::select! {
                    changed = snapshots.changed() => changed.is_ok(),
                    () = again.notified() => true,
                    () = until(handover) => true,
                }
            };
            match stop.run_until_cancelled(changed).await {
                Some(true) => {}
                // Without a cluster, what was last known stays.
                Some(false) | None => return,
            }
        }
    }

    /// Makes reports.
    pub async fn report(self: Arc<Self>, stop: CancellationToken) {
        let reporting = async {
            loop {
                self.reports.send_replace(Arc::new(self.current_report()));
                // Either is a reason to report.
                let _ = tokio::time::timeout(REPORT_EVERY, self.pulse.notified()).await;
                self.trim();
            }
        };
        stop.run_until_cancelled(reporting).await;
        self.reports.send_replace(Arc::new(self.current_report()));
    }

    /// Serves requests until `stop`; then takes no new connections, and returns when all that was asked
    /// is answered. Connections on which nothing is asked end within seconds. Copies for a revision that
    /// mirrors a service are dropped then.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        server::serve(Arc::clone(&self), listener, stop).await;
        // Those whose members all left end as soon as they notice.
        self.batches.close();
        self.batches.wait().await;
        self.mirrors.end().await;
    }

    fn current_report(&self) -> Report {
        let age = now().saturating_duration_since(self.since);
        report::report(&self.state.load(), self.since_1970, age)
    }

    /// Closes connections to replicas that nobody needed for long.
    fn trim(&self) {
        let (state, now) = (self.state.load(), now());
        for queue in state.routes.queues.values() {
            for (upstream, _, _) in queue.replicas() {
                upstream.http1_pool.trim(now);
            }
        }
        for peer in &state.peers {
            peer.http1_pool.trim(now);
        }
    }
}
