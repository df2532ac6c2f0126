//! One connection, from its first byte to its end.
//!
//! ```text
//!   TLS handshake ─► sniff ─┬─► HTTP/2 ───► close
//!                           └─► HTTP/1.1 ─► close, or a tunnel after status 101
//!                                │    ▲
//!                           idle └────┘ first bytes of the next request
//! ```
//!
//! Most connections are idle most of the time: an idle HTTP/1.1 connection holds its socket and little else.

mod http1;
mod http2;
mod idle;
mod refusal;
mod rewind;
mod sniff;
#[cfg(feature = "tls")]
pub mod tls;
mod turns;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::{HttpService, Service, service_fn};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::body::timed::TimedBody;
use crate::http_port::{Http1Use, HttpPort};
use crate::traffic::{GRACE, Traffic};
use http1::{Http1Connection, Http1Limits};
use refusal::HeadSearch;
use rewind::Rewind;
use sniff::{HttpVersion, WaitLimits, sniff};
use turns::InTurns;

/// The error type that hyper's services and bodies convert into.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl HttpPort {
    /// Serves one connection until it ends. `service` handles each request: in the connection's task over HTTP/1.1, in
    /// a task of its own over HTTP/2. `traffic` is that of the TCP socket, which is below `stream` if `stream` is TLS.
    pub async fn serve<I, S, B>(&self, stream: I, service: S, traffic: &Arc<Traffic>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>, Future: Send + 'static, Error: Into<BoxError>> + Unpin,
        B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let mut stream = Rewind::of(stream);
        let deadline = self.head_deadline();
        let limits = WaitLimits { deadline: self.protocol_deadline(), stop: self.stop() };
        let version = sniff(&mut stream, limits, HttpVersion::of).await;
        // The futures are boxed, so that an idle HTTP/1.1 connection reserves no memory for the other cases.
        match (version, self.options().http1) {
            (None, _) => Box::pin(close_idle(stream)).await,
            (Some(HttpVersion::Http2), _) => Box::pin(http2::serve(stream, service, traffic, self)).await,
            (Some(HttpVersion::Http1), Http1Use::Refused(sentence)) => {
                self.log_refusal("http1", &"a client sent HTTP/1.1 to a port for HTTP/2");
                Box::pin(refusal::send(stream, refusal::http1(sentence))).await;
            }
            (Some(HttpVersion::Http1), Http1Use::Served { max_head, read_at_once }) => {
                let limits = Http1Limits { max_head, read_at_once };
                let service = InTurns { service, traffic: Arc::clone(traffic) };
                serve_http1(Http1Connection { stream, service, deadline, limits }, traffic, self).await;
            }
        }
    }

    /// Serves one connection like [`serve`](Self::serve). Reading a request body fails if the client stalls or sends
    /// too slowly.
    pub async fn serve_timed<I, A, F, B>(&self, stream: I, answer: A, traffic: &Arc<Traffic>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        A: Fn(Request<TimedBody<Incoming>>) -> F + Unpin,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let upload = self.options().connections.upload();
        let service = service_fn(|request: Request<Incoming>| {
            let exchange = traffic.begin();
            let answered = answer(request.map(|body| TimedBody::whole(body, upload)));
            async move { Ok::<_, Infallible>(exchange.track(answered.await)) }
        });
        self.serve(stream, service, traffic).await;
    }
}

/// Serves HTTP/1.1. Alternates between hyper, for requests, and a wait for the next request that keeps only the socket.
async fn serve_http1<I, S>(mut connection: Http1Connection<I, S>, traffic: &Arc<Traffic>, port: &HttpPort)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, Error: Into<BoxError>> + Unpin,
    S::ResBody: Body<Error: Into<BoxError>> + 'static,
{
    loop {
        let max_head = connection.limits.max_head;
        let limits = WaitLimits { deadline: connection.deadline, stop: port.stop() };
        let mut head = HeadSearch::new(max_head);
        let size = sniff(&mut connection.stream, limits, |begin| head.size(begin)).await;
        if let Some((cause, answer)) = size.and_then(|size| size.refusal(max_head)) {
            port.log_refusal(cause, &"the request's head is too long");
            return Box::pin(refusal::send(connection.stream, answer)).await;
        }
        let Some(idle) = Box::pin(http1::serve(connection, traffic, port)).await else {
            return;
        };
        connection = idle;
        let limits = WaitLimits { deadline: connection.deadline, stop: port.stop() };
        let begun = sniff(&mut connection.stream, limits, |read| (!read.is_empty()).then_some(()));
        if begun.await.is_none() {
            return Box::pin(close_idle(connection.stream)).await;
        }
    }
}

/// Closes a connection that has no open requests.
async fn close_idle<I: AsyncRead + AsyncWrite + Unpin>(mut stream: Rewind<I>) {
    match tokio::time::timeout(GRACE, stream.shutdown()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "closing an idle connection failed"),
        Err(_) => tracing::debug!("closing an idle connection timed out"),
    }
}

#[cfg(test)]
mod tests;
