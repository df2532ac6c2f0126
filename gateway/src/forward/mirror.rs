//! A request's copy on its way to the revision that mirrors the service.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;

use super::request::ProxyRequest;
use crate::body::BufferedBody;
use crate::body::DownstreamBody;
use crate::clock::now;
use crate::codec::{self, grpc};
use crate::gateway::Gateway;
use crate::mirror::{MirrorOutcome, MirrorPermit, MirrorTarget};
use crate::protocol::Protocol;
use crate::queue::Verdict;

/// The longest that a copy may take, the time that a sleeping revision needs to wake up included: common
/// clients give up at 60 s, so no user would see an answer that comes later.
const LONGEST: Duration = Duration::from_secs(60);

/// The most of an answer that is read. No common answer is larger, and one that never ends should not keep
/// its replica until the deadline.
const MAX_READ: usize = 64 << 20;

impl Gateway {
    /// Sends a copy of a request whose body is here. Nobody waits for it.
    pub(crate) fn mirror(
        self: &Arc<Self>,
        mirror_target: MirrorTarget,
        request: &ProxyRequest,
        buffered: &BufferedBody,
    ) {
        let MirrorTarget { queue, counts } = mirror_target;
        if !buffered.is_whole() {
            return counts.count(MirrorOutcome::Streamed);
        }
        let permit = self.mirrors.try_acquire(&counts, buffered.size());
        let buffered = buffered.try_clone(self.buffers.permit());
        let Some((permit, buffered)) = permit.zip(buffered) else {
            return counts.count(MirrorOutcome::Dropped);
        };
        let latest = now() + LONGEST;
        let request = request.copied(queue, latest);
        let sending = Arc::clone(self).send_mirrored(request, buffered, permit);
        self.mirrors.spawn(counts, sending);
    }

    async fn send_mirrored(
        self: Arc<Self>,
        request: ProxyRequest,
        mut buffered: BufferedBody,
        permit: MirrorPermit,
    ) -> MirrorOutcome {
        let protocol = request.protocol;
        let outcome = match self.forward(&request, &mut buffered).await {
            Ok(response) => read(protocol, response).await,
            Err(_) => MirrorOutcome::Failed,
        };
        drop(permit);
        outcome
    }
}

/// Reads an answer for nobody. Its deadline is that of its request.
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
    match verdict {
        Verdict::Succeeded => MirrorOutcome::Answered,
        // As where there is no room for it here.
        Verdict::Refused => MirrorOutcome::Dropped,
        // gRPC without a status is no answer.
        Verdict::Failed | Verdict::Open => MirrorOutcome::Failed,
    }
}
