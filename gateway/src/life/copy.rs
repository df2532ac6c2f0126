//! A request's copy on its way to the revision that mirrors the service.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;

use super::call::Call;
use crate::answer::Answer;
use crate::clock::now;
use crate::codec::{self, grpc};
use crate::gateway::Gateway;
use crate::line::Verdict;
use crate::mirror::{Copied, Place, Shadow};
use crate::receive::Held;
use crate::wire::Wire;

/// The longest that a copy may take, the time that a sleeping revision needs to wake up included: common
/// clients give up at 60 s, so no user would see an answer that comes later.
const LONGEST: Duration = Duration::from_secs(60);

/// The most of an answer that is read. No common answer is larger, and one that never ends should not keep
/// its replica until the deadline.
const MAX_READ: usize = 64 << 20;

impl Gateway {
    /// Sends a copy of a request whose body is here. Nobody waits for it.
    pub(super) fn copy(self: &Arc<Self>, shadow: Shadow, call: &Call, held: &Held) {
        let Shadow { line, copies } = shadow;
        if !held.is_whole() {
            return copies.count(Copied::Streamed);
        }
        let place = self.mirrors.place(&copies, held.size());
        let held = held.copied(self.buffers.portion());
        let Some((place, held)) = place.zip(held) else {
            return copies.count(Copied::Dropped);
        };
        let latest = now() + LONGEST;
        let call = call.copied(line, latest);
        let sending = Arc::clone(self).send_copy(call, held, place);
        self.mirrors.spawn(copies, sending);
    }

    async fn send_copy(self: Arc<Self>, call: Call, mut held: Held, place: Place) -> Copied {
        let wire = call.wire;
        let copied = match self.carry(&call, &mut held).await {
            Ok(response) => read(wire, response).await,
            Err(_) => Copied::Failed,
        };
        drop(place);
        copied
    }
}

/// Reads an answer for nobody. Its deadline is that of its request.
async fn read(wire: Wire, response: Response<Answer>) -> Copied {
    let mut verdict = codec::verdict(wire, &response);
    let mut body = response.into_body();
    let mut left = MAX_READ;
    while let Some(frame) = Pin::new(&mut body).frame().await {
        let Ok(frame) = frame else {
            return Copied::Failed;
        };
        if let Some(status) = frame.trailers_ref().and_then(grpc::status) {
            verdict = grpc::verdict(status);
        }
        let size = frame.data_ref().map_or(0, bytes::Bytes::len);
        match left.checked_sub(size) {
            Some(rest) => left = rest,
            None => return Copied::Answered,
        }
    }
    match verdict {
        Verdict::Succeeded => Copied::Answered,
        // As where there is no room for it here.
        Verdict::Refused => Copied::Dropped,
        // gRPC without a status is no answer.
        Verdict::Failed | Verdict::Open => Copied::Failed,
    }
}
