//! Pooled HTTP/1.1 connections.
//!
//! Whoever uses a connection also drives it: request, response and socket are worked on in one task, and
//! no other has to be woken on the way. A connection in the pool is driven by nobody; whether it still
//! lives is looked at when it is taken.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http::Request;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use weir_cluster::Address;

use super::dial::{Stream, dial};
use super::{Fault, FaultKind, Freshness, Reply, Upstream};
use crate::outgoing::Outgoing;

/// Idle connections kept for one replica: as many as a busy replica has in flight.
const MAX_IDLE: usize = 256;

/// Common servers close idle connections after a minute; long before that nobody needs them.
const IDLE: Duration = Duration::from_secs(20);

/// The idle connections of one replica, the one used last at the end.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<(Instant, Line)>>);

/// A connection that carries at most one request.
struct Line {
    sender: SendRequest<Outgoing>,
    /// Gone once the connection has ended: a request that it did not come to take is answered with an
    /// error only when it is dropped.
    driver: Option<Pin<Box<Connection<TokioIo<Stream>, Outgoing>>>>,
}

/// A connection whose response is still being read.
pub(crate) struct Carrier {
    line: Line,
    upstream: Arc<Upstream>,
}

impl Pool {
    fn take(&self) -> Option<Line> {
        loop {
            let (_, mut line) = self.0.lock().pop()?;
            if line.is_ready() {
                return Some(line);
            }
        }
    }

    fn put(&self, line: Line, now: Instant) {
        let mut idle = self.0.lock();
        if idle.len() < MAX_IDLE {
            idle.push((now, line));
        }
    }

    /// Closes those that were idle for long.
    pub(crate) fn trim(&self, now: Instant) {
        let mut idle = self.0.lock();
        let fresh = idle
            .iter()
            .position(|(since, _)| now.saturating_duration_since(*since) < IDLE);
        let old = fresh.unwrap_or(idle.len());
        let old: Vec<_> = idle.drain(..old).collect();
        // Closing takes a system call each.
        drop(idle);
        drop(old);
    }

    fn clear(&self) {
        let old = std::mem::take(&mut *self.0.lock());
        drop(old);
    }
}

/// Sends a request and waits for the head of its answer. A connection from the pool may have been closed
/// by its peer just now; the fault says so.
pub(super) async fn send(
    upstream: &Arc<Upstream>,
    address: &Address,
    freshness: Freshness,
    request: Request<Outgoing>,
) -> Result<Reply, Fault> {
    let pooled = match freshness {
        Freshness::Any => upstream.plain.take(),
        Freshness::New => None,
    };
    match pooled {
        Some(line) => {
            let sent = line.carry(upstream, FaultKind::Stale, request).await;
            // The others of its age are no better.
            sent.inspect_err(|_| upstream.plain.clear())
        }
        None => {
            // Apart: most requests find a connection, and need not carry what making one needs.
            let line = Box::pin(Line::open(address)).await?;
            line.carry(upstream, FaultKind::Broken, request).await
        }
    }
}

impl Line {
    async fn open(address: &Address) -> Result<Self, Fault> {
        let stream = dial(address).await?;
        let handshake = Builder::new().handshake(TokioIo::new(stream));
        let (sender, driver) = handshake
            .await
            .map_err(|error| Fault::of(FaultKind::Unreached, &error))?;
        Ok(Self {
            sender,
            driver: Some(Box::pin(driver)),
        })
    }

    async fn carry(
        mut self,
        upstream: &Arc<Upstream>,
        fault: FaultKind,
        request: Request<Outgoing>,
    ) -> Result<Reply, Fault> {
        let mut answer = pin!(self.sender.send_request(request));
        let answer = poll_fn(|context| {
            self.drive(context);
            answer.as_mut().poll(context)
        });
        let response = answer.await.map_err(|error| Fault::of(fault, &error))?;
        let carrier = Carrier {
            line: self,
            upstream: Arc::clone(upstream),
        };
        Ok(Reply {
            response,
            carrier: Some(carrier),
        })
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && let Poll::Ready(ended) = driver.as_mut().poll(context)
        {
            self.driver = None;
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection to a replica ended early");
            }
        }
    }

    /// Whether it can take a request.
    fn is_ready(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }
}

impl Carrier {
    /// Moves bytes of the response from the socket towards its body.
    pub(crate) fn drive(&mut self, context: &mut Context<'_>) {
        self.line.drive(context);
    }

    /// The response was read to its end: the connection goes back to the pool if it can be used again.
    pub(crate) fn finish(mut self, now: Instant) {
        if self.line.is_ready() && !self.upstream.lost.is_cancelled() {
            self.upstream.plain.put(self.line, now);
        }
    }
}
