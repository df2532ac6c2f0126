//! Asks replicas that are starting whether they are ready, so that nobody waits for the platform to
//! find out; and those that are ready how much they take at once.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{HOST, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use tokio::sync::Notify;
use weir_cluster::{Phase, ReadyCall, Replica};

use crate::clock::now;
use crate::headers;
use crate::protocol::Protocol;
use crate::queue::RevisionQueue;
use crate::state::State;
use crate::upstream::RequestBody;
use crate::upstream::UpstreamRequest;
use crate::upstream::{Freshness, Upstream};

/// Pause between two questions: a tenth of what a small model takes to load.
const PAUSE: Duration = Duration::from_millis(50);

/// Small models are loaded by then. What is not is large, or never says that it is ready.
const SMALL: Duration = Duration::from_secs(5);

/// A larger one is asked after a tenth more of the time that it took already, and at least so often: who
/// waits ten seconds and longer does not notice.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time for one answer.
const TIMEOUT: Duration = Duration::from_secs(1);

const READY: &str = "/v2/health/ready";

/// Starts to ask those that were not asked yet. Each task ends with its replica.
pub(crate) fn start(state: &State, before: &State, again: &Arc<Notify>) {
    for (name, queue) in state.changed(before) {
        let Some(revision) = state.snapshot.revision(name) else {
            continue;
        };
        if revision.ready_call != ReadyCall::V2 {
            continue;
        }
        for (upstream, _, _) in queue.replicas() {
            let of = |replica: &&Replica| upstream.is(replica);
            let phase = revision
                .replicas
                .iter()
                .find(of)
                .map(|replica| replica.phase);
            match phase {
                Some(Phase::Starting | Phase::Ready) if upstream.begins_probe() => {
                    tokio::spawn(prove(Arc::clone(queue), upstream, Arc::clone(again)));
                }
                Some(_) | None => {}
            }
        }
    }
}

/// Asks until it is ready.
async fn prove(queue: Arc<RevisionQueue>, upstream: Arc<Upstream>, again: Arc<Notify>) {
    let since = now();
    let asking = async {
        while !ask(&queue, &upstream).await {
            let asked_for = now().saturating_duration_since(since);
            tokio::time::sleep(pause(asked_for)).await;
        }
    };
    if upstream.lost.run_until_cancelled(asking).await.is_some() {
        upstream.prove();
        again.notify_one();
    }
}

/// The pause before the next question to a replica that was asked for so long in vain.
fn pause(asked_for: Duration) -> Duration {
    match asked_for < SMALL {
        true => PAUSE,
        false => (asked_for / 10).min(LONGEST_PAUSE),
    }
}

/// One question: whether the replica is ready. It may say how much it takes at once, too.
async fn ask(queue: &Arc<RevisionQueue>, upstream: &Arc<Upstream>) -> bool {
    let path = PathAndQuery::from_static(READY);
    let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
    let question = || UpstreamRequest::plain(&Method::GET, &path, &headers, RequestBody::empty());
    let asking = async {
        let reply = upstream.send(Protocol::Http, Freshness::New, question);
        let (head, body) = reply.await.ok()?.into_parts();
        // A server whose answer is cut off says so in its log.
        body.discard(now()).await;
        Some(head)
    };
    let Ok(Some(head)) = tokio::time::timeout(TIMEOUT, asking).await else {
        return false;
    };
    let is_ready = head.status.is_success();
    if is_ready && let Some(capacity) = headers::number(&head.headers, &headers::CAPACITY) {
        queue.report_capacity(upstream, capacity);
    }
    is_ready
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_that_never_gets_ready_is_asked_once_a_second_soon() {
        let (mut asked_for, mut questions) = (Duration::ZERO, 0);
        while asked_for < Duration::from_secs(60) {
            asked_for += pause(asked_for);
            questions += 1;
        }
        // 100 in the first five seconds, some in the next five, then one each second.
        assert!((150..=165).contains(&questions), "{questions}");
    }

    proptest! {
        #[test]
        fn pauses_grow_and_cost_no_more_than_a_tenth(ms in 0_u64..1_000_000, more in 0_u64..1_000_000) {
            let asked_for = Duration::from_millis(ms);
            let next = pause(asked_for);
            prop_assert!((PAUSE..=LONGEST_PAUSE).contains(&next));
            prop_assert!(next <= PAUSE.max(asked_for / 10));
            prop_assert!(next <= pause(asked_for + Duration::from_millis(more)));
        }
    }
}
