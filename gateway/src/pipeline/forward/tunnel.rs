//! WebSockets: after a replica's response with status 101 the gateway copies bytes in both directions.

use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, UPGRADE};
use http::{Response, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use weir_serve::{Duplex, Tunnel};

use super::relay::RelayEnd;
use super::request::ProxyRequest;
use crate::body::DownstreamBody;
use crate::clock::{now, until};
use crate::queue::{Outcome, Verdict};
use crate::rates::Meter;
use crate::upstream::{ResponseBody, SwitchedConnection, WEBSOCKET};
use crate::wire::headers;

/// Time for the rest of one direction after the other has ended. Both ends of a WebSocket close after its closing
/// handshake.
const LINGER: Duration = Duration::from_secs(5);

/// Bytes of one direction that the gateway holds at most, beside those in the sockets.
const BUFFER: usize = 8 << 10;

/// End of a tunnel.
enum TunnelEnd {
    /// One side closed its connection, or the client's connection failed.
    Closed,
    /// The replica's connection failed.
    Failed(io::Error),
    /// The deadline of the request passed.
    Late,
}

/// Returns true if the upstream switches protocols. It does so only if the request asked for it.
pub(super) fn is_switched(response: &Response<ResponseBody>) -> bool {
    response.status() == StatusCode::SWITCHING_PROTOCOLS
}

/// Returns the response that switches the client's connection too. The credit is given back at the tunnel's end.
pub(super) fn switched(
    request: &ProxyRequest,
    response: Response<ResponseBody>,
    mut end: RelayEnd,
) -> Response<DownstreamBody> {
    let (mut parts, body) = response.into_parts();
    headers::strip_response(&mut parts.headers);
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(UPGRADE, WEBSOCKET);
    if let RelayEnd::Replica { credit, .. } = &mut end {
        credit.become_tunnel();
    }
    let (deadline, missed, meter) = (request.deadline, request.missed, request.meter.clone());
    if let Some(replica) = body.into_switched() {
        parts.extensions.insert(Tunnel::new(move |client| async move {
            let over = run(client, replica, deadline, meter.as_ref()).await;
            settle(end, &over, missed);
        }));
    }
    Response::from_parts(parts, DownstreamBody::default())
}

/// Copies bytes until one side closes or the deadline passes. Each direction has one buffer of [`BUFFER`] bytes, so
/// that a side that reads slowly slows the other down.
async fn run(
    client: Box<dyn Duplex>,
    replica: SwitchedConnection,
    deadline: Option<Instant>,
    meter: Option<&Meter>,
) -> TunnelEnd {
    let (from_client, to_client) = split(client);
    let (from_replica, to_replica) = split(replica.socket);
    let first = replica.first;
    let (mut upwards, mut downwards) =
        (pin!(pass(Bytes::new(), from_client, to_replica, meter)), pin!(pass(first, from_replica, to_client, meter)));
    tokio::select! {
        ended = downwards.as_mut() => {
            // The client's last bytes, such as its part of the closing handshake.
            let _ = tokio::time::timeout(LINGER, upwards).await;
            end_of(ended)
        }
        ended = upwards.as_mut() => match (ended, tokio::time::timeout(LINGER, downwards).await) {
            (Err(Broken::Write(error)), _) => TunnelEnd::Failed(error),
            (Ok(()) | Err(Broken::Read(_)), ended) => ended.map_or(TunnelEnd::Closed, end_of),
        },
        () = until(deadline) => TunnelEnd::Late,
    }
}

/// Failure of one direction of a tunnel.
enum Broken {
    Read(io::Error),
    Write(io::Error),
}

/// Copies `first` and then all bytes that the sender sends, until the sender closes. Then shuts this direction of the
/// receiver's connection down.
async fn pass<R, W>(first: Bytes, mut from: R, mut to: W, meter: Option<&Meter>) -> Result<(), Broken>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let count = |bytes| meter.iter().for_each(|meter| meter.add_bytes(bytes, now()));
    count(first.len());
    to.write_all(&first).await.map_err(Broken::Write)?;
    let mut buffer = vec![0; BUFFER];
    loop {
        to.flush().await.map_err(Broken::Write)?;
        match from.read(&mut buffer).await {
            Ok(0) => return to.shutdown().await.map_err(Broken::Write),
            Ok(bytes) => {
                count(bytes);
                to.write_all(&buffer[..bytes]).await.map_err(Broken::Write)?;
            }
            Err(error) => {
                // The receiver gets the end in any case; a second failure adds nothing.
                let _ = to.shutdown().await;
                return Err(Broken::Read(error));
            }
        }
    }
}

/// Returns the end of a tunnel whose direction to the client ended like this.
fn end_of(ended: Result<(), Broken>) -> TunnelEnd {
    match ended {
        Err(Broken::Read(error)) => TunnelEnd::Failed(error),
        // The client's connection failed, which says nothing about the replica.
        Ok(()) | Err(Broken::Write(_)) => TunnelEnd::Closed,
    }
}

/// Gives the credit back. The duration says nothing about the replica, because it depends on the client.
fn settle(end: RelayEnd, over: &TunnelEnd, missed: Verdict) {
    let RelayEnd::Replica { credit, .. } = end else {
        return;
    };
    match over {
        TunnelEnd::Closed => credit.settle(Outcome::Abandoned, Verdict::Succeeded),
        TunnelEnd::Late => credit.settle(Outcome::Abandoned, missed),
        TunnelEnd::Failed(error) => {
            credit.log_failure("broken", &format!("the replica broke off a WebSocket: {error}"));
            credit.settle(Outcome::Abandoned, Verdict::Failed);
        }
    }
}
