//! One gateway, and the tasks that run it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use weir_cluster::{Report, Snapshot};

use crate::clock::{now, seconds_since_1970, until};
use crate::context::Context;
use crate::options::Options;
use crate::pipeline::proxy::Proxy;
use crate::port::Port;
use crate::queue::WakeUps;
use crate::state::State;
use crate::{server, telemetry::describe, telemetry::metrics, telemetry::report};

/// One gateway. [`Gateway::follow`], [`Gateway::report`] and [`Gateway::serve`] are its tasks; each runs until it is
/// stopped.
pub struct Gateway {
    context: Arc<Context>,
    proxy: Arc<Proxy>,
    wakes: Arc<WakeUps>,
    reports: watch::Sender<Arc<Report>>,
    started: Instant,
    started_seconds: u64,
}

/// Longest time between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(1);

impl Gateway {
    /// Creates a gateway without routes, which [`Gateway::follow`] adds.
    #[must_use]
    pub fn new(options: Options) -> Arc<Self> {
        let wakes = Arc::<WakeUps>::default();
        let state = State::empty(&options, Arc::clone(&wakes));
        let context = Arc::new(Context::new(options, state));
        Arc::new(Self {
            proxy: Arc::new(Proxy::new(Arc::clone(&context))),
            context,
            wakes,
            reports: watch::Sender::default(),
            started: now(),
            started_seconds: seconds_since_1970(),
        })
    }

    /// Registers the gateway's Prometheus metrics.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        metrics::register(&self.context, registry);
    }

    /// Subscribes to the gateway's reports: one each second, and one at once when a request arrives for a revision
    /// without replicas.
    #[must_use]
    pub fn reports(&self) -> watch::Receiver<Arc<Report>> {
        self.reports.subscribe()
    }

    /// Returns true once the gateway has received a state of the cluster; before, it has no routes.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.context.state.load().snapshot.generation > 0
    }

    /// Describes the current routes, revisions, replicas and queues as JSON, for operators.
    #[must_use]
    pub fn describe(&self) -> String {
        describe::describe(&self.context.state.load())
    }

    /// Applies each new state of the cluster until `stop` or the end of `snapshots`. The last state then stays in use.
    pub async fn follow(self: Arc<Self>, mut snapshots: watch::Receiver<Arc<Snapshot>>, stop: CancellationToken) {
        let has_ready_replica = Arc::new(Notify::new());
        loop {
            let snapshot = snapshots.borrow_and_update().clone();
            let last = self.context.state.load_full();
            let next = last.next(snapshot, &self.context.options, now());
            let handover = next.next_handover();
            next.probe_replicas(&last, &has_ready_replica);
            self.context.state.store(Arc::new(next));
            let changed = async {
                tokio::select! {
                    changed = snapshots.changed() => changed.is_ok(),
                    () = has_ready_replica.notified() => true,
                    () = until(handover) => true,
                }
            };
            if stop.run_until_cancelled(changed).await != Some(true) {
                return;
            }
        }
    }

    /// Publishes reports until `stop`, and then a last one.
    pub async fn report(self: Arc<Self>, stop: CancellationToken) {
        let reporting = async {
            loop {
                self.reports.send_replace(Arc::new(self.current_report()));
                // A report is due after a notification as well as after a timeout.
                let _ = tokio::time::timeout(REPORT_EVERY, self.wakes.reported()).await;
                self.context.state.load().close_idle_connections(now());
            }
        };
        stop.run_until_cancelled(reporting).await;
        self.reports.send_replace(Arc::new(self.current_report()));
    }

    /// Serves the requests of these ports until `stop`. Then the gateway accepts no new connections, and this returns
    /// when all accepted requests are answered. Idle connections are closed within seconds, and mirrored requests are
    /// dropped.
    pub async fn serve(self: Arc<Self>, ports: Vec<Port>, stop: CancellationToken) {
        let serving = ports.into_iter().map(|port| server::serve(Arc::clone(&self.proxy), port, stop.clone()));
        join_all(serving).await;
        self.proxy.drain().await;
    }

    /// Asks clients to use another gateway, while their requests are still served: from now on each HTTP/1.1 response
    /// closes its connection, and gRPC's health service reports that the gateway does not serve.
    pub fn leave(&self) {
        self.context.leaving.cancel();
    }

    fn current_report(&self) -> Report {
        let age = now().saturating_duration_since(self.started);
        report::report(&self.context.state.load(), self.started_seconds, age)
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("name", &self.context.options.name).finish_non_exhaustive()
    }
}
