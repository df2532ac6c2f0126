//! Asks replicas that are starting whether they are ready, so that nobody waits for the platform to
//! find out; and those that are ready how much they take at once.

use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::{HeaderValue, Request};
use tokio::sync::Notify;
use weir_cluster::{Phase, ReadyCall, Replica};

use crate::headers;
use crate::line::Line;
use crate::outgoing::Outgoing;
use crate::upstream::{Freshness, Upstream};
use crate::view::View;
use crate::wire::Wire;

/// Pause between two questions: a tenth of what a small model takes to load.
const PAUSE: Duration = Duration::from_millis(50);

/// Time for one answer.
const TIMEOUT: Duration = Duration::from_secs(1);

const READY: &str = "/v2/health/ready";

/// Starts to ask those that were not asked yet. Each task ends with its replica.
pub(crate) fn start(view: &View, again: &Arc<Notify>) {
    for (name, line) in &view.lines {
        let Some(revision) = view.snapshot.revision(name) else {
            continue;
        };
        if revision.ready_call != ReadyCall::V2 {
            continue;
        }
        for (upstream, _, _) in line.replicas() {
            let of = |replica: &&Replica| upstream.is(replica);
            let phase = revision
                .replicas
                .iter()
                .find(of)
                .map(|replica| replica.phase);
            match phase {
                Some(Phase::Starting | Phase::Ready) if upstream.begins_probe() => {
                    tokio::spawn(prove(Arc::clone(line), upstream, Arc::clone(again)));
                }
                Some(_) | None => {}
            }
        }
    }
}

/// Asks until it is ready.
async fn prove(line: Arc<Line>, upstream: Arc<Upstream>, again: Arc<Notify>) {
    let asking = async {
        while !ask(&line, &upstream).await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    if upstream.lost.run_until_cancelled(asking).await.is_some() {
        upstream.prove();
        again.notify_one();
    }
}

/// One question: whether the replica is ready. It may say how much it takes at once, too.
async fn ask(line: &Arc<Line>, upstream: &Arc<Upstream>) -> bool {
    let mut request = Request::new(Outgoing::empty());
    *request.uri_mut() = http::Uri::from_static(READY);
    let host = HeaderValue::from_static("localhost");
    request.headers_mut().insert(HOST, host);
    let answer =
        tokio::time::timeout(TIMEOUT, upstream.send(Wire::Http, Freshness::New, request)).await;
    let Ok(Ok(reply)) = answer else {
        return false;
    };
    let is_ready = reply.status().is_success();
    if is_ready && let Some(capacity) = headers::number(reply.headers(), &headers::CAPACITY) {
        line.report_capacity(upstream, capacity);
    }
    is_ready
}
