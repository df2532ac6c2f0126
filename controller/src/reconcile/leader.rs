//! Loop of the process that holds the lease.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use weir_cluster::ServiceName;

use super::Controller;
use super::clock::Clock;
use super::composed_statuses::ComposedStatuses;
use super::deadline::in_time_for_all;
use super::metrics::ReadyCounts;
use super::observed::{ConflictCache, Observed};
use super::queue::Queue;
use super::watches::Watches;
use super::work::{Access, Outcome, Task};
use crate::declaration::DeclaredService;
use crate::source::Source;

/// Concurrent reconciliations: enough to hide the latency of answers, and a tenth of the requests that an API server
/// allows one client at once by default.
const AT_ONCE: usize = 16;

/// Shortest time between two rounds, so that changes close together, as when many services start, are handled in one
/// round. No request waits for it.
const PAUSE: Duration = Duration::from_millis(10);

/// Reconciler that runs while this process holds the lease.
pub(super) struct Leader<'a> {
    controller: &'a Controller,
    access: Access,
    watches: Watches,
    clock: Clock,
    queue: Queue,
    under_way: FuturesUnordered<BoxFuture<'static, Outcome>>,
    /// Reconciliations that failed since the metrics were last updated.
    errors: u64,
}

impl<'a> Leader<'a> {
    pub(super) fn new(controller: &'a Controller) -> Self {
        let watches = Watches {
            declaration: controller.source.watch(),
            snapshot: controller.directory.watch(),
            reports: controller.reports.watch(),
            conflicts: ConflictCache::default(),
            source: controller.source.clone(),
        };
        Self {
            access: Access {
                source: controller.source.clone(),
                cluster: controller.cluster.clone(),
                statuses: ComposedStatuses::default(),
            },
            controller,
            watches,
            clock: Clock::start(),
            queue: Queue::default(),
            under_way: FuturesUnordered::new(),
            errors: 0,
        }
    }

    /// Runs until its watches end.
    pub(super) async fn run(mut self) {
        prepare(&*self.controller.source).await;
        let first = self.watches.observed(self.clock.now());
        self.queue.adopt(found(&first));
        loop {
            let observed = Arc::new(self.watches.observed(self.clock.now()));
            self.begin_due(&observed);
            self.record();
            self.collect_for(PAUSE).await;
            tokio::select! {
                Some(outcome) = self.under_way.next() => self.take(outcome),
                changed = self.watches.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Begins the services that are due, up to [`AT_ONCE`].
    fn begin_due(&mut self, observed: &Arc<Observed>) {
        for name in self.queue.undeclared(observed) {
            self.begin(observed, &name, None);
        }
        self.queue.give_turns(observed);
        for (name, declared) in &observed.declaration.services {
            let is_due = self.queue.is_due(name, declared, observed.now, |seen, state| {
                seen.are(observed, declared, state.applied().unwrap_or_default())
            });
            if is_due {
                self.begin(observed, name, Some(declared.clone()));
            }
        }
    }

    fn begin(&mut self, observed: &Arc<Observed>, name: &ServiceName, declared: Option<DeclaredService>) {
        if self.under_way.len() >= AT_ONCE {
            return;
        }
        let task = Task {
            service: name.clone(),
            observed: observed.clone(),
            declared,
            turn: self.queue.turn(name, observed.now),
            state: self.queue.begin(name),
        };
        self.under_way.push(Box::pin(task.run(self.access.clone())));
    }

    /// Handles the tasks that end within this time.
    async fn collect_for(&mut self, time: Duration) {
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return,
                Some(outcome) = self.under_way.next() => self.take(outcome),
            }
        }
    }

    fn take(&mut self, outcome: Outcome) {
        if let Err(error) = &outcome.result {
            self.errors += 1;
            let again = self.queue.delay_after(&outcome.service);
            tracing::warn!(service = %outcome.service, "{error}; retrying in {again:?}");
        }
        self.queue.end(outcome, self.clock.now());
    }

    fn record(&mut self) {
        let counts = ReadyCounts::of(self.queue.readiness());
        let errors = std::mem::take(&mut self.errors);
        let metrics = &self.controller.metrics;
        metrics.record(counts, errors, self.queue.loop_state());
    }
}

/// Loads all stored histories together. If that fails, each service loads its own.
async fn prepare(source: &dyn Source) {
    if let Err(error) = in_time_for_all("loading all histories", source.prepare()).await {
        tracing::warn!(%error, "cannot load all histories at once; loading them one by one");
    }
}

/// Returns the services that run, or have a route, when this process begins. The loop removes those that are no longer
/// declared.
fn found(observed: &Observed) -> BTreeSet<ServiceName> {
    let revisions = observed.snapshot.revisions.keys();
    let running = revisions.map(|name| name.service().clone());
    let routed = observed.snapshot.routes.as_slice().iter();
    running.chain(routed.map(|route| route.service.clone())).collect()
}
