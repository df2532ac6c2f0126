//! Readiness probes. A starting replica is probed so that requests do not have to wait until the platform reports it
//! ready. A ready replica is probed once, for the capacity that it reports.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{HOST, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use tokio::sync::Notify;

use crate::clock::now;
use crate::upstream::{Channel, Freshness, RequestBody, Upstream, UpstreamRequest};
use crate::wire::headers;
use crate::wire::protocol::Protocol;

/// Interval between probes of a small model: a tenth of the time that such a model takes to load.
const INTERVAL: Duration = Duration::from_millis(50);

/// Time in which small models load. A replica that takes longer has a large model, or never becomes ready.
const SMALL_MODEL: Duration = Duration::from_secs(5);

/// Longest interval between probes. A larger model is probed again after a tenth of the time that it has taken so far:
/// a request that waits for ten seconds or longer does not notice another second.
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the response to a probe.
const TIMEOUT: Duration = Duration::from_secs(1);

const READY: &str = "/v2/health/ready";

/// Probes a replica until it is ready, then notifies `ready`; stops if the replica leaves the cluster. The replica's
/// capacity is passed to `report_capacity`.
pub(crate) async fn probe_until_ready(upstream: Arc<Upstream>, ready: Arc<Notify>, report_capacity: impl Fn(u32)) {
    let since = now();
    let probing = async {
        while !probe(&upstream, &report_capacity).await {
            let elapsed = now().saturating_duration_since(since);
            tokio::time::sleep(interval(elapsed)).await;
        }
    };
    if upstream.lost.run_until_cancelled(probing).await.is_some() {
        upstream.mark_ready();
        ready.notify_one();
    }
}

/// Returns the interval before the next probe of a replica that has not become ready for `elapsed`.
fn interval(elapsed: Duration) -> Duration {
    if elapsed < SMALL_MODEL { INTERVAL } else { (elapsed / 10).min(MAX_INTERVAL) }
}

/// Sends one probe; true if the replica is ready.
async fn probe(upstream: &Arc<Upstream>, report_capacity: &impl Fn(u32)) -> bool {
    let path = PathAndQuery::from_static(READY);
    let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
    let request = || UpstreamRequest::plain(&Method::GET, &path, &headers, RequestBody::empty());
    let exchange = async {
        let response = upstream.send(Protocol::Http, Freshness::New, Channel::Common, request);
        let (head, body) = response.await.ok()?.into_parts();
        // Some servers log an error if the client does not read the whole response.
        body.discard(now()).await;
        Some(head)
    };
    let Ok(Some(head)) = tokio::time::timeout(TIMEOUT, exchange).await else {
        return false;
    };
    let is_ready = head.status.is_success();
    if is_ready && let Some(capacity) = headers::number(&head.headers, &headers::CAPACITY) {
        report_capacity(capacity);
    }
    is_ready
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_replica_that_never_gets_ready_is_soon_probed_once_a_second() {
        let (mut elapsed, mut probes) = (Duration::ZERO, 0);
        while elapsed < Duration::from_secs(60) {
            elapsed += interval(elapsed);
            probes += 1;
        }
        // That is 100 probes in the first five seconds, some in the next five, then one each second.
        assert!((150..=165).contains(&probes), "{probes}");
    }

    proptest! {
        #[test]
        fn intervals_grow_and_delay_by_no_more_than_a_tenth(ms in 0_u64..1_000_000, more in 0_u64..1_000_000) {
            let elapsed = Duration::from_millis(ms);
            let next = interval(elapsed);
            prop_assert!((INTERVAL..=MAX_INTERVAL).contains(&next));
            prop_assert!(next <= INTERVAL.max(elapsed / 10));
            prop_assert!(next <= interval(elapsed + Duration::from_millis(more)));
        }
    }
}
