//! Sends copies of requests to the revision that mirrors their service.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;

use super::forward;
use super::request::ProxyRequest;
use crate::body::{BufferedBody, DownstreamBody};
use crate::clock::now;
use crate::codec::{self, grpc};
use crate::context::Context;
use crate::queue::{ClientShare, Verdict};
use crate::router::mirror::{MirrorOutcome, MirrorPermit, MirrorTarget};
use crate::wire::protocol::Protocol;

/// Longest time of a copy, including a cold start. Common clients give up after 60 s, so no user would see a later
/// response.
const MAX_COPY_TIME: Duration = Duration::from_secs(60);

/// Maximum number of bytes of a response that are read. Common responses are smaller, and an endless one should not
/// occupy its replica until the deadline.
const MAX_READ: usize = 64 << 20;

/// Sends a copy of a buffered request in a task of its own.
pub(crate) fn send(context: &Arc<Context>, target: MirrorTarget, request: &ProxyRequest, buffered: &BufferedBody) {
    let MirrorTarget { queue, counts } = target;
    if !buffered.is_whole() {
        return counts.count(MirrorOutcome::Streamed);
    }
    let permit = context.mirrors.try_acquire(&counts, buffered.size());
    let holder = request.limited.map(ClientShare::holder);
    let buffered = buffered.try_clone(context.budget.permit_of(holder));
    let Some((permit, buffered)) = permit.zip(buffered) else {
        return counts.count(MirrorOutcome::Dropped);
    };
    let request = request.mirrored(queue, now() + MAX_COPY_TIME);
    let sending = send_copy(Arc::clone(context), request, buffered, permit);
    context.mirrors.spawn(counts, sending);
}

async fn send_copy(
    context: Arc<Context>,
    request: ProxyRequest,
    mut buffered: BufferedBody,
    permit: MirrorPermit,
) -> MirrorOutcome {
    let protocol = request.protocol;
    let outcome = match forward(&context, &request, &mut buffered).await {
        Ok(response) => read(protocol, response).await,
        Err(error) => counted(super::verdict(&error, request.missed)),
    };
    drop(permit);
    outcome
}

/// Reads a response to its end and returns its outcome. The deadline of the copy limits the time.
async fn read(protocol: Protocol, response: Response<DownstreamBody>) -> MirrorOutcome {
    let mut verdict = codec::verdict(protocol, &response);
    let mut body = response.into_body();
    let mut left = MAX_READ;
    while let Some(frame) = Pin::new(&mut body).frame().await {
        let Ok(frame) = frame else {
            return MirrorOutcome::Failed;
        };
        if let Some(status) = frame.trailers_ref().and_then(grpc::status) {
            verdict = grpc::verdict(status);
        }
        let size = frame.data_ref().map_or(0, bytes::Bytes::len);
        match left.checked_sub(size) {
            Some(rest) => left = rest,
            None => return MirrorOutcome::Answered,
        }
    }
    counted(verdict)
}

/// Returns the outcome of a copy that ended with this verdict.
fn counted(verdict: Verdict) -> MirrorOutcome {
    match verdict {
        Verdict::Succeeded => MirrorOutcome::Answered,
        // Counted like a copy for which no permit was left.
        Verdict::Refused | Verdict::Uncounted => MirrorOutcome::Dropped,
        // A gRPC response without a status is an error.
        Verdict::Failed | Verdict::Open => MirrorOutcome::Failed,
    }
}
