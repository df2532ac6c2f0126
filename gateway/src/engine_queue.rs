//! The queues inside engines. A server that generates text accepts more requests than it works on, and its metrics show
//! how many of them wait. The autoscaler counts these like requests that wait in the gateway.

mod scan;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use http::header::{HOST, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use weir_cluster::Activity;

use crate::clock::now;
use crate::upstream::{Channel, Freshness, RequestBody, ResponseBody, Upstream, UpstreamRequest};
use crate::wire::protocol::Protocol;
use scan::Scan;

/// Path of the metrics: on the port for requests, where vLLM, SGLang and Text Generation Inference have them, or on the
/// port of the replica's metrics.
const PATH: &str = "/metrics";

/// Longest time to read the metrics, the same as between two reports.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum size in bytes of a page of metrics. vLLM's pages have some hundred KiB.
const MAX_PAGE: usize = 4 << 20;

/// Time since which requests of a revision have been waiting inside its replicas without interruption.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EngineWait {
    /// Time at which requests began to wait, and the number of the revision's responses up to then; `None` while none
    /// waits.
    since: Option<(Instant, u64)>,
}

/// Requests that a report counts as waiting inside replicas.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inside {
    pub(crate) waiting: u32,
    /// Wait of the oldest queued request.
    pub(crate) wait: Duration,
}

impl Inside {
    /// Returns the part of a report's activity that comes from the queues inside engines.
    pub(crate) fn between(activity: &Activity, reported: &Activity) -> Self {
        let waiting = reported.queued.saturating_sub(activity.queued);
        Self { waiting, wait: Duration::from_micros(reported.oldest_us) }
    }
}

/// Replicas whose metrics are read for the number of requests that wait inside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engines {
    /// All replicas, because the revision generates text.
    All,
    /// Replicas with a metrics port of their own that do not report their capacity. No request waits inside a replica
    /// that reports its capacity, because it never gets more requests than that; the metrics of `weir-runtime` count
    /// requests that it gathers for a batch as pending.
    WithMetricsPort,
}

impl Engines {
    fn has(self, replica: &Upstream) -> bool {
        match self {
            Self::All => true,
            Self::WithMetricsPort => replica.metrics.is_some() && !replica.reports_capacity(),
        }
    }
}

/// Returns the number of requests of one gateway that wait inside these replicas, and reads the metrics of those that
/// have requests for the next report. Each reading is a task that ends within [`TIMEOUT`].
pub(crate) fn waiting<'a>(replicas: impl Iterator<Item = &'a Arc<Upstream>>, engines: Engines, gateways: u32) -> u32 {
    let (mut sum, at) = (0_u32, now());
    for replica in replicas.filter(|replica| engines.has(replica)) {
        let requests = replica.load.get().requests;
        sum = sum.saturating_add(replica.engine_queue.share(requests, gateways));
        if requests > 0 && replica.engine_queue.begins_reading(at) {
            tokio::spawn(read(Arc::clone(replica)));
        }
    }
    sum
}

async fn read(replica: Arc<Upstream>) {
    let found = tokio::time::timeout(TIMEOUT, page(&replica)).await;
    if let Some(server) = &replica.metrics {
        // Each reading opens a connection, because a server may close an idle one at any time.
        server.http1_pool.clear();
    }
    replica.engine_queue.has_read(found.unwrap_or(None), now());
}

/// Reads a page of metrics, and returns the number of waiting requests; `None` without such a page.
async fn page(replica: &Arc<Upstream>) -> Option<u32> {
    let path = PathAndQuery::from_static(PATH);
    let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
    let request = || UpstreamRequest::plain(&Method::GET, &path, &headers, RequestBody::empty());
    let server = replica.metrics.as_ref().unwrap_or(replica);
    let (head, mut body) =
        server.send(Protocol::Http, Freshness::New, Channel::Common, request).await.ok()?.into_parts();
    if !head.status.is_success() {
        return None;
    }
    let (mut scan, mut size) = (Scan::default(), 0);
    while size < MAX_PAGE
        && let Some(frame) = next(&mut body).await
    {
        let data = frame?;
        size += data.len();
        scan.push(&data);
    }
    scan.finish()
}

/// Returns the next data of a body: `None` at its end, and `Some(None)` if the body broke off.
async fn next(body: &mut ResponseBody) -> Option<Option<bytes::Bytes>> {
    loop {
        match poll_fn(|context| body.poll_frame(context)).await? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Some(data));
                }
            }
            Err(_) => return Some(None),
        }
    }
}

impl EngineWait {
    /// Returns the report's activity for a revision with `waiting` requests inside its replicas. They count as queued
    /// instead of in flight. The oldest of them is assumed to have waited for as long as the replicas need to answer
    /// the queue.
    pub(crate) fn counted(&mut self, activity: &Arc<Activity>, waiting: u32, now: Instant) -> Arc<Activity> {
        let waiting = waiting.min(activity.in_flight);
        let answered = activity.succeeded + activity.failed;
        if waiting == 0 {
            self.since = None;
            return Arc::clone(activity);
        }
        let (since, before) = *self.since.get_or_insert((now, answered));
        let wait = longest_wait(waiting, now.saturating_duration_since(since), answered.saturating_sub(before));
        with_waiting(activity, waiting, wait)
    }
}

/// Returns a report's activity in which `waiting` of the requests in flight count as queued. The oldest of them has
/// waited for `wait`.
pub(crate) fn with_waiting(activity: &Arc<Activity>, waiting: u32, wait: Duration) -> Arc<Activity> {
    let waiting = waiting.min(activity.in_flight);
    if waiting == 0 {
        return Arc::clone(activity);
    }
    let mut counted = Activity::clone(activity);
    counted.queued = counted.queued.saturating_add(waiting);
    counted.in_flight -= waiting;
    counted.oldest_us = counted.oldest_us.max(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
    Arc::new(counted)
}

/// Returns the wait of the last of `waiting` requests in a queue that has not been empty for `busy`, in which the
/// replicas gave `answered` answers. Nothing has waited longer than the queue has existed.
fn longest_wait(waiting: u32, busy: Duration, answered: u64) -> Duration {
    if answered == 0 {
        return busy;
    }
    let interval = busy.as_secs_f64() / answered as f64;
    busy.min(Duration::from_secs_f64(interval * f64::from(waiting)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_the_length_of_the_queue_and_the_rate() {
        let seconds = Duration::from_secs;
        assert_eq!(longest_wait(5, seconds(30), 0), seconds(30));
        // Ten answers a second work off five requests in half a second, however long the queue has existed.
        assert_eq!(longest_wait(5, seconds(30), 300), Duration::from_millis(500));
        assert_eq!(longest_wait(1000, seconds(30), 300), seconds(30));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "times are compared; tests need a first one")]
    fn waiting_requests_count_as_queued() {
        let (mut wait, start) = (EngineWait::default(), Instant::now());
        let activity = |in_flight, succeeded| {
            Arc::new(Activity { in_flight, succeeded, queued: 2, oldest_us: 1000, ..Activity::default() })
        };
        let first = wait.counted(&activity(100, 50), 40, start);
        assert_eq!((first.queued, first.in_flight, first.oldest_us), (42, 60, 1000));
        let later = wait.counted(&activity(100, 70), 40, start + Duration::from_secs(4));
        assert_eq!((later.queued, later.in_flight, later.oldest_us), (42, 60, 4_000_000));
        // No more can wait inside the replicas than the gateway has sent.
        let few = wait.counted(&activity(3, 450), 40, start + Duration::from_secs(4));
        assert_eq!((few.queued, few.in_flight, few.oldest_us), (5, 0, 30_000));
        let none = activity(3, 450);
        assert!(Arc::ptr_eq(&wait.counted(&none, 0, start), &none));
        assert!(wait.since.is_none());
    }
}
